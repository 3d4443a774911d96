package push

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// batch contains the claimed tasks and their messages.
type batch struct {
	rows     []claim.Lease
	messages []provider.Message
	last     []bool    // by row: true if an unclear outcome makes the task fail
	claimed  time.Time // when the claim ended, by the clock of this process
	leaseEnd time.Time // calls must end before this time (clock of this process): see read
	left     *remaining
	version  int64 // version of the sender when the tasks were claimed
	circuit  circuit
}

// These are the reasons for returning leases.
const (
	becauseUnread  = "the message could not be read"
	becauseChanged = "the sender was disabled, or its configuration cannot be used"
	becausePaused  = "the sender is paused"
	becauseProbing = "a probe with another message comes first"
	becauseStopped = "the server stopped before this message was sent"
	becauseLate    = "the time of the batch ended before this message was sent"
	becauseExpired = "the message expired, or quiet hours began, before it was sent"
)

// deliver sends claimed tasks and reports each outcome as soon as it is known. It returns the leases of tasks that were not tried or that the sender could
// not send. An unclear outcome is not reported, so the task is retried only after its lease expires. But if on_unclear is fail, or if the provider has a part
// of the message, deliver reports the failure. It calls stored after it has stored outcomes.
func (w *worker) deliver(current *setup, rows []claim.Lease, stored func([]answer)) {
	b, err := w.read(rows)
	if err != nil {
		w.p.log.Error("claimed tasks could not be read", "sender_no", w.senderNo, "error", err)
		w.release(b, unused(rows, becauseUnread))
		return
	}
	ctx, cancel := context.WithTimeout(w.p.sending, max(time.Until(b.leaseEnd)-leaseSpare, time.Second))
	defer cancel()
	if b.version != current.row.Version { // the sender was changed after the last refresh
		if current = w.latest(ctx); current == nil || current.driver == nil {
			w.release(b, unused(rows, becauseChanged))
			return
		}
	}
	w.setCircuit(current.row.Version, b.circuit)
	if b.circuit.pause() > 0 {
		w.release(b, unused(rows, becausePaused))
		return
	}
	if b.circuit.openings > 0 {
		if !w.probe(ctx, b.circuit.openings, time.Until(b.leaseEnd)) {
			w.release(b, unused(rows, becauseProbing))
			w.p.sleep(time.Second)
			return
		}
		w.release(b, unused(b.rows[1:], becauseProbing))
		b.rows, b.messages = b.rows[:1], b.messages[:1]
	}
	b.left = newRemaining(b)
	left := w.send(ctx, &setup{current.row, current.driver, current.links, b.circuit}, b, stored)
	w.release(b, left)
	w.followBatches(b, left)
	if slices.ContainsFunc(left, func(u queue.Unused) bool { return u.Reason == becauseUnknown }) {
		w.p.sleep(time.Second)
	}
}

// read reads the messages of claimed tasks.
func (w *worker) read(rows []claim.Lease) (batch, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.p.sending, maxBackoff)
	defer cancel()
	b := batch{rows: rows, claimed: began, leaseEnd: began.Add(maxBackoff)}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.TaskID
	}
	found, err := w.p.q.TaskOutgoing(ctx, pushq.TaskOutgoingParams{SenderNo: w.senderNo, TaskIds: ids})
	if err != nil {
		return b, fmt.Errorf("read outgoing tasks: %w", err)
	}
	grace, err := w.p.queue.ReportGrace(ctx)
	if err != nil {
		return b, fmt.Errorf("read settings: %w", err)
	}
	byID := make(map[string]pushq.TaskOutgoingRow, len(found))
	var leaseEnds, reportEnds []time.Time
	for _, f := range found {
		byID[f.TaskID] = f
		end := began.Add(time.Duration(f.LeaseSeconds * float64(time.Second)))
		// After a message expires, or quiet hours begin, no other sender can claim its task. A call that began earlier can therefore finish, and its outcome counts.
		if f.SecondsLeft > f.LeaseSeconds {
			leaseEnds = append(leaseEnds, end)
		} else {
			reportEnds = append(reportEnds, end.Add(grace))
		}
		b.version, b.circuit = f.Version, circuitOf(f.Openings, f.PauseSeconds)
	}
	rows = slices.DeleteFunc(slices.Clone(rows), func(row claim.Lease) bool { // a row is missing if its task has ended meanwhile
		_, isThere := byID[row.TaskID]
		return !isThere
	})
	if len(rows) == 0 {
		return b, errors.New("every lease has ended")
	}
	if len(leaseEnds) == 0 {
		leaseEnds = reportEnds
	}
	b.rows, b.leaseEnd = rows, slices.MaxFunc(leaseEnds, time.Time.Compare)
	b.messages, b.last = make([]provider.Message, len(rows)), make([]bool, len(rows))
	for i, row := range rows {
		f := byID[row.TaskID]
		m := messageOf(row, f, began)
		if f.RenderingID != 0 {
			m.Group, m.Title, m.Content, m.TemplateID = f.RenderingID, f.Title, handed(row, f.Content), f.TemplateID
			m.Params, m.Page, m.HTML = f.Params, f.Page, f.Html
			values := f.ContactValues
			if row.Values != nil {
				values = row.Values
			}
			if values != nil {
				own, err := placeholder.Text{Title: f.Title, Content: f.Content, HTML: f.Html, Params: f.Params}.ForContact(values)
				if err != nil {
					return b, err
				}
				m.Group, m.Title, m.Content, m.HTML, m.Params = 0, own.Title, handed(row, own.Content), own.HTML, own.Params
			}
		}
		b.messages[i], b.last[i] = m, f.FailsUnclear
	}
	return b, nil
}

// messageOf returns the message of a claimed task without the fields of its rendering. f was read after readAt.
func messageOf(row claim.Lease, f pushq.TaskOutgoingRow, readAt time.Time) provider.Message {
	m := provider.Message{
		TaskID: row.TaskID, Attempt: row.Attempt, LeaseID: row.LeaseID, EnteredAt: f.EnteredAt, Recipient: f.Recipient, CompanyNo: f.CompanyNo, UserID: f.UserID,
		Content: row.Content, Sign: row.Sign, Traceparent: optional.Value(row.Traceparent), IsOfBatch: row.BatchID != nil, IsSensitive: row.Sealed != nil,
	}
	if !math.IsInf(f.SecondsLeft, 1) {
		m.ValidUntil = readAt.Add(time.Duration(f.SecondsLeft * float64(time.Second)))
	}
	return m
}

// handed returns the text that the provider receives for a message with a rendering. The content of a claimed task contains only the beginning of this text.
func handed(row claim.Lease, content string) string {
	content = segment.Unsigned(row.Sign, content)
	if row.SignMode != claim.SignInText {
		return content
	}
	return segment.Signed(row.Sign, content)
}

// answer contains the outcome of one message of a batch.
type answer struct {
	i       int // index in the batch
	outcome provider.Outcome
}

// send sends a batch, reports the outcomes and updates the circuit breaker. It returns the leases of messages without a reported outcome.
func (w *worker) send(ctx context.Context, current *setup, b batch, stored func([]answer)) []queue.Unused {
	outcomes := make(chan answer, len(b.rows))
	var t tally
	var latest latest
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for k := range outcomes {
			results := []answer{k}
			for len(outcomes) > 0 {
				results = append(results, <-outcomes)
			}
			var settled []answer
			for _, k := range results {
				t.count(k.outcome)
				latest.add(b.rows[k.i].TaskID, k.outcome)
				if k.outcome.Trouble {
					b.left.tried(k.i, k.outcome)
					continue
				}
				settled = append(settled, k)
			}
			b.left.settled(settled)
			w.report(current, b, settled)
			stored(results)
		}
	}()
	rests, cut := context.WithCancel(w.p.sending)
	defer cut()
	if current.links != nil { // only drivers with links can have begun a message that needs more time
		go w.renew(rests, b.left, cut)
	}
	recheck := newRecheck(w, b, rests)
	for _, row := range b.rows {
		w.rechecks.Store(row.LeaseID, recheck)
	}
	current.driver.Send(ctx, b.messages, func(i int, o provider.Outcome) { outcomes <- answer{i, o} })
	for _, row := range b.rows {
		w.rechecks.Delete(row.LeaseID)
	}
	cut()
	close(outcomes)
	<-reported

	concluding, cancel := context.WithTimeout(context.WithoutCancel(w.p.sending), maxBackoff)
	defer cancel()
	w.p.keep(concluding, w.senderNo, latest)
	w.updateBreaker(concluding, current, t) // other servers must read the pause before the leases are returned
	reason := becauseLate
	switch {
	case t.failure != nil && t.failure.Trouble:
		reason = becausePaused
	case w.p.sending.Err() != nil:
		reason = becauseStopped
	}
	var all []queue.Unused
	for i := range b.rows {
		if u, is := b.left.leases[i]; is {
			switch until := b.messages[i].ValidUntil; {
			case u.Tried:
			case !until.IsZero() && time.Now().After(until):
				u.Reason = becauseExpired
			default:
				u.Reason = cmp.Or(recheck.stoppedBy(u.TaskID), reason)
			}
			all = append(all, u)
		}
	}
	return all
}

// unused returns the leases of rows as untried leases, with a reason.
func unused(rows []claim.Lease, reason string) []queue.Unused {
	all := make([]queue.Unused, len(rows))
	for i, row := range rows {
		all[i] = queue.Unused{TaskID: row.TaskID, LeaseID: row.LeaseID, Reason: reason}
	}
	return all
}

// release returns leases to the queue. It ignores an empty list.
func (w *worker) release(b batch, leases []queue.Unused) {
	if len(leases) == 0 {
		return
	}
	for i := range leases {
		leases[i].Reason, leases[i].Answer = postgres.Text(leases[i].Reason), postgres.Text(leases[i].Answer)
	}
	w.repeatUntilDone(b, len(leases), func(ctx context.Context) error {
		_, err := w.p.queue.Release(ctx, w.senderNo, leases)
		return err
	})
}

// report stores outcomes. It records unclear outcomes, and it reports every outcome that ends the attempt.
func (w *worker) report(current *setup, b batch, all []answer) {
	var reports []queue.Report
	var unclear []queue.Unclear
	for _, k := range all {
		o, row := k.outcome, b.rows[k.i]
		// A text of a provider can contain bytes that PostgreSQL cannot store. Without postgres.Text, PostgreSQL would reject the report, and the
		// message would be sent again.
		o.ProviderNo, o.Code, o.Error, o.Answer = postgres.Text(o.ProviderNo), postgres.Text(o.Code), postgres.Text(o.Error), postgres.Text(o.Answer)
		if o.Unknown {
			unclear = append(unclear, queue.Unclear{
				TaskID: row.TaskID, LeaseID: row.LeaseID, Recipient: b.messages[k.i].Recipient, Error: o.Error, Answer: o.Answer,
			})
			if !b.last[k.i] && !o.InPart {
				continue
			}
			o.Permanent, o.Error = true, result.UnclearFrom+o.Error
		}
		reports = append(reports, current.reportOf(row, o))
	}
	if len(unclear) > 0 {
		w.repeatUntilDone(b, len(unclear), func(ctx context.Context) error { return w.p.queue.RecordUnclear(ctx, w.senderNo, unclear) })
	}
	if len(reports) > 0 {
		left := reports
		w.repeatUntilDone(b, len(reports), func(ctx context.Context) (err error) {
			if left, err = w.reportAll(ctx, left); err == nil {
				w.p.receipts.MatchSent(ctx, w.senderNo, reports)
			}
			return err
		})
	}
}

// repeatUntilDone repeats a database action until the action succeeds or the leases expire.
func (w *worker) repeatUntilDone(b batch, leases int, act func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.p.sending), max(time.Until(b.end()), leaseSpare))
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, maxBackoff) {
		err := act(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.p.log.Error("outcomes could not be reported before the leases expired", "sender_no", w.senderNo, "leases", leases, "error", err)
			return
		case <-w.p.sending.Done():
			cancel() // Stop has cancelled the calls: no further attempt
		case <-time.After(wait):
		}
	}
}

// reportAll reports outcomes. It logs each report that failed with an unexpected error. It returns the reports that can be repeated because the
// database was unavailable, with the error.
func (w *worker) reportAll(ctx context.Context, reports []queue.Report) (left []queue.Report, err error) {
	outcomes, err := w.p.queue.ReportAll(ctx, reports)
	if err != nil {
		return reports, err
	}
	for i, o := range outcomes {
		switch known := new(fault.Error); {
		case o.Err == nil || errors.As(o.Err, &known):
		case postgres.IsUnavailable(o.Err):
			left, err = append(left, reports[i]), o.Err
		default:
			w.p.log.ErrorContext(ctx, "an outcome could not be reported", "task_id", reports[i].TaskID, "error", o.Err)
		}
	}
	return left, err
}

// reportOf returns the report for the outcome of a claimed task.
func (w *setup) reportOf(row claim.Lease, o provider.Outcome) queue.Report {
	r := queue.Report{TaskID: row.TaskID, SenderNo: w.row.SenderNo, LeaseID: &row.LeaseID, Status: queue.Success, ProviderNo: o.ProviderNo, InPart: o.InPart, IsHidden: true}
	raw := map[string]any{"task_id": row.TaskID, "app_id": w.row.SenderNo, "lease_id": row.LeaseID, "status": queue.Success}
	for name, value := range map[string]string{"provider_no": o.ProviderNo, "answer": o.Answer} {
		if value != "" {
			raw[name] = value
		}
	}
	if w.row.RetryMinutes != nil {
		maxRetries := len(w.row.RetryMinutes)
		r.MaxRetries = &maxRetries
	}
	if !o.OK {
		r.Status, r.ShouldRetry, r.ErrorMessage, r.Refund = queue.Failed, !o.Permanent, &o.Error, o.Permanent && !o.Unknown && !o.InPart
		raw["status"], raw["should_retry"], raw["error_code"], raw["error_message"] = queue.Failed, r.ShouldRetry, o.Code, o.Error
		if o.RetryAfter > 0 {
			r.RetryAfter = &o.RetryAfter
		} else if n := int(row.Attempt) - 1; n < len(w.row.RetryMinutes) {
			wait := time.Duration(w.row.RetryMinutes[n]) * time.Minute
			r.RetryAfter = &wait
		}
	}
	r.Raw, _ = json.Marshal(raw) // cannot fail for texts and numbers
	return r
}
