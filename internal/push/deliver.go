package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/push/driver"
	"lksms/internal/queue"
	"lksms/internal/queue/claim"
)

// batch is what was claimed and what is sent for it.
type batch struct {
	rows     []claim.Lease
	messages []driver.Message
	last     []bool    // whether an attempt of which nobody knows whether it went out is the last
	leaseEnd time.Time // of the first lease to run out, by the clock of this process
	version  int64     // of the sender, for which it was claimed
	circuit  circuit
}

// unclearFailed begins the result of a task whose sender, or which itself, does not want an unclear attempt to be repeated.
const unclearFailed = "结果不明，不再重发: "

// Why leases are given back.
const (
	becauseUnread  = "the message could not be read"
	becauseChanged = "the sender was switched off, or cannot be used as it is now"
	becauseResting = "the sender rests"
	becauseProbing = "another message is tried first"
	becauseStopped = "the server stopped before its turn came"
	becauseLate    = "the time of the batch was up before its turn came"
)

// deliver sends what was claimed and reports of each message what became of it as soon as that is known. What was not tried is given
// back, and so is what the sender could not send. Of what nobody knows whether it went out, nothing is reported, and the lease runs out
// first, unless on_unclear says that it fails.
func (w *worker) deliver(now *way, rows []claim.Lease) {
	b, err := w.read(rows)
	if err != nil {
		w.p.log.Error("claimed tasks could not be read", "sender_no", w.senderNo, "error", err)
		w.release(b, unused(rows, becauseUnread))
		return
	}
	ctx, cancel := context.WithTimeout(w.p.sending, max(time.Until(b.leaseEnd)-leaseSpare, time.Second))
	defer cancel()
	if b.version != now.row.Version { // changed since the last look
		if now = w.latest(ctx); now == nil || now.driver == nil {
			w.release(b, unused(rows, becauseChanged))
			return
		}
	}
	w.see(now.row.Version, b.circuit)
	if b.circuit.rest() > 0 {
		w.release(b, unused(rows, becauseResting))
		return
	}
	if b.circuit.openings > 0 {
		if !w.probe(ctx, b.circuit.openings, time.Until(b.leaseEnd)) {
			w.release(b, unused(rows, becauseProbing))
			w.p.pause(time.Second)
			return
		}
		w.release(b, unused(rows[1:], becauseProbing))
		b.rows, b.messages = b.rows[:1], b.messages[:1]
	}
	w.release(b, w.send(ctx, &way{now.row, now.driver, b.circuit}, b))
}

// read joins what was claimed with what is to be sent.
func (w *worker) read(rows []claim.Lease) (batch, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.p.sending, pauseMost)
	defer cancel()
	b := batch{rows: rows, leaseEnd: began.Add(pauseMost)}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.TaskID
	}
	found, err := w.p.q.TaskOutgoing(ctx, dbq.TaskOutgoingParams{SenderNo: w.senderNo, TaskIds: ids})
	if err != nil {
		return b, fmt.Errorf("read outgoing tasks: %w", err)
	}
	byID := make(map[string]dbq.TaskOutgoingRow, len(found))
	for i, f := range found {
		byID[f.TaskID] = f
		end := began.Add(time.Duration(f.LeaseSeconds * float64(time.Second)))
		if i == 0 || end.Before(b.leaseEnd) {
			b.leaseEnd = end
		}
		b.version, b.circuit = f.Version, circuitOf(f.Openings, f.RestSeconds)
	}
	b.messages, b.last = make([]driver.Message, len(rows)), make([]bool, len(rows))
	for i, row := range rows {
		f := byID[row.TaskID]
		m := driver.Message{
			TaskID: row.TaskID, Attempt: row.Attempt, Recipient: f.Recipient, UserID: f.UserID, Content: row.Content,
		}
		if f.RenderingID != 0 {
			// What was claimed is the signature and the beginning of the rendering.
			signature := strings.TrimSuffix(row.Content, f.TaskContent)
			m.Group, m.Title, m.Content, m.TemplateID = f.RenderingID, f.Title, signature+f.Content, f.TemplateID
			m.Params, m.Page = f.Params, f.Page
		}
		b.messages[i], b.last[i] = m, f.FailsUnclear
	}
	return b, nil
}

// known is what became of one message of a batch.
type known struct {
	i int
	o driver.Outcome
}

// send sends a batch, reports what becomes known of it, concludes for the circuit breaker, and returns the leases that are left.
func (w *worker) send(ctx context.Context, now *way, b batch) []queue.Unused {
	outcomes := make(chan known, len(b.rows))
	left := make(map[int]queue.Unused, len(b.rows))
	for i, u := range unused(b.rows, "") {
		left[i] = u
	}
	var t tally
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for k := range outcomes {
			those := []known{k}
			for len(outcomes) > 0 {
				those = append(those, <-outcomes)
			}
			var settled []known
			for _, k := range those {
				t.count(k.o)
				if k.o.Trouble {
					left[k.i] = queue.Unused{TaskID: b.rows[k.i].TaskID, LeaseID: b.rows[k.i].LeaseID, Tried: true, Reason: k.o.Error}
					continue
				}
				delete(left, k.i)
				settled = append(settled, k)
			}
			w.report(now, b, settled)
		}
	}()
	now.driver.Send(ctx, b.messages, func(i int, o driver.Outcome) { outcomes <- known{i, o} })
	close(outcomes)
	<-reported

	noting, cancel := context.WithTimeout(context.WithoutCancel(w.p.sending), pauseMost)
	defer cancel()
	w.conclude(noting, now, t) // before the leases are given back: others must know that it rests
	because := becauseLate
	switch {
	case t.failure != nil && t.failure.Trouble:
		because = becauseResting
	case w.p.sending.Err() != nil:
		because = becauseStopped
	}
	var all []queue.Unused
	for i := range b.rows {
		if u, is := left[i]; is {
			if !u.Tried {
				u.Reason = because
			}
			all = append(all, u)
		}
	}
	return all
}

// unused are the leases of rows that were not tried.
func unused(rows []claim.Lease, reason string) []queue.Unused {
	all := make([]queue.Unused, len(rows))
	for i, row := range rows {
		all[i] = queue.Unused{TaskID: row.TaskID, LeaseID: row.LeaseID, Reason: reason}
	}
	return all
}

// release gives leases back.
func (w *worker) release(b batch, leases []queue.Unused) {
	if len(leases) == 0 {
		return
	}
	for i := range leases {
		leases[i].Reason = postgres.Text(leases[i].Reason)
	}
	w.insist(b, len(leases), func(ctx context.Context) error {
		_, err := w.p.tasks.Release(ctx, w.senderNo, leases)
		return err
	})
}

// report says of messages what became of them.
func (w *worker) report(now *way, b batch, all []known) {
	var reports []queue.Report
	unclear := dbq.DeliveryUnclearParams{SenderNo: w.senderNo}
	for _, k := range all {
		o, row := k.o, b.rows[k.i]
		// A provider says what it likes, and what is not reported for that is sent again.
		o.ProviderNo, o.Code, o.Error = postgres.Text(o.ProviderNo), postgres.Text(o.Code), postgres.Text(o.Error)
		if o.Unknown {
			unclear.TaskIds = append(unclear.TaskIds, row.TaskID)
			unclear.LeaseIds = append(unclear.LeaseIds, row.LeaseID)
			unclear.Recipients = append(unclear.Recipients, b.messages[k.i].Recipient)
			unclear.Errors = append(unclear.Errors, o.Error)
			if !b.last[k.i] {
				continue
			}
			o.Permanent, o.Error = true, unclearFailed+o.Error
		}
		reports = append(reports, now.reportOf(row, o))
	}
	if len(unclear.TaskIds) > 0 {
		w.insist(b, len(unclear.TaskIds), func(ctx context.Context) error {
			return postgres.Wrap("keep what is unclear", w.p.q.DeliveryUnclear(ctx, unclear), nil)
		})
	}
	if len(reports) > 0 {
		w.insist(b, len(reports), func(ctx context.Context) error {
			err := w.tell(ctx, reports)
			if err == nil {
				w.p.receipts.MatchSent(ctx, w.senderNo, reports)
			}
			return err
		})
	}
}

// insist tells the database something again and again until it has it or the leases run out.
func (w *worker) insist(b batch, leases int, tell func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.p.sending), max(time.Until(b.leaseEnd), leaseSpare))
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, pauseMost) {
		err := tell(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.p.log.Error("outcomes could not be reported before the leases ran out", "sender_no", w.senderNo, "leases", leases, "error", err)
			return
		case <-w.p.sending.Done():
			cancel() // one last time has been tried
		case <-time.After(wait):
		}
	}
}

func (w *worker) tell(ctx context.Context, reports []queue.Report) error {
	outcomes, err := w.p.tasks.ReportAll(ctx, reports)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		if known := new(fault.Error); o.Err != nil && !errors.As(o.Err, &known) {
			w.p.log.ErrorContext(ctx, "an outcome could not be reported", "task_id", reports[i].TaskID, "error", o.Err)
		}
	}
	return nil
}

func (w *way) reportOf(row claim.Lease, o driver.Outcome) queue.Report {
	r := queue.Report{TaskID: row.TaskID, AppID: w.row.SenderNo, LeaseID: &row.LeaseID, Status: queue.Success, ProviderNo: o.ProviderNo}
	said := map[string]any{"task_id": row.TaskID, "app_id": w.row.SenderNo, "lease_id": row.LeaseID, "status": queue.Success}
	if o.ProviderNo != "" {
		said["provider_no"] = o.ProviderNo
	}
	if w.row.RetryMinutes != nil {
		most := len(w.row.RetryMinutes)
		r.MaxRetries = &most
	}
	if !o.OK {
		r.Status, r.ShouldRetry, r.ErrorMessage, r.Refund = queue.Failed, !o.Permanent, &o.Error, o.Permanent && !o.Unknown
		said["status"], said["should_retry"], said["error_code"], said["error_message"] = queue.Failed, r.ShouldRetry, o.Code, o.Error
		if o.RetryAfter > 0 {
			r.RetryAfter = &o.RetryAfter
		} else if n := int(row.Attempt) - 1; n < len(w.row.RetryMinutes) {
			wait := time.Duration(w.row.RetryMinutes[n]) * time.Minute
			r.RetryAfter = &wait
		}
	}
	r.Raw, _ = json.Marshal(said) // texts and numbers
	return r
}
