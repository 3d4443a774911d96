// Package notify tells people of business events, and drives the senders that LKSMS pushes to. A driven sender claims, sends and
// reports as an app does, through the same methods, under the same leases, limits and retries.
package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"lksms/gen/dbq"
	"lksms/internal/driver"
	"lksms/internal/fault"
	"lksms/internal/outbound"
	"lksms/internal/postgres"
	"lksms/internal/secret"
	"lksms/internal/task"
)

const (
	lookEvery  = 2 * time.Second // for senders that are new, changed or gone
	claimWait  = 3 * time.Second // of one claim; what is queued on this server ends it at once
	pauseMost  = 5 * time.Second // after a claim that failed, and between reports that do
	openFor    = 30 * time.Second
	troubles   = 5 // batches in a row in which nothing got through
	leaseSpare = 2 * time.Second
)

// LeaseSeconds is how long a driven sender holds a task unless it says otherwise: much longer than a provider is waited for.
const LeaseSeconds = 120

// Pusher drives senders.
type Pusher struct {
	*Configs
	db    *postgres.DB
	tasks *task.Service
	out   outbound.Policy
	log   *slog.Logger

	changed  chan struct{} // a look is due at once
	stopping chan struct{} // closed: nothing more is claimed
	stop     sync.Once
	sending  context.Context // ends when what is under way has to end
	cut      context.CancelFunc
	workers  sync.WaitGroup
}

// NewPusher returns a Pusher.
func NewPusher(db *postgres.DB, tasks *task.Service, box *secret.Box, out outbound.Policy, log *slog.Logger) *Pusher {
	sending, cut := context.WithCancel(context.Background())
	return &Pusher{
		Configs: NewConfigs(db, box), db: db, tasks: tasks, out: out, log: log, changed: make(chan struct{}, 1), stopping: make(chan struct{}), sending: sending, cut: cut,
	}
}

// Start drives every sender that is on until Stop.
func (p *Pusher) Start() { p.workers.Go(p.run) }

func (p *Pusher) run() {
	driven := map[string]*worker{}
	for {
		p.look(driven)
		select {
		case <-p.stopping:
			return
		case <-p.changed:
		case <-time.After(lookEvery):
		}
	}
}

// Changed says that a sender was added or changed on this server, which need not wait for the next look.
func (p *Pusher) Changed() {
	select {
	case p.changed <- struct{}{}:
	default: // that is known already
	}
}

// StopClaiming makes workers end when they have sent and reported what they hold.
func (p *Pusher) StopClaiming() { p.stop.Do(func() { close(p.stopping) }) }

// Stop ends all workers. When ctx ends, so does what is under way: its leases are left to run out, because nobody knows
// whether the messages went out.
func (p *Pusher) Stop(ctx context.Context) {
	p.StopClaiming()
	finished := make(chan struct{})
	go func() {
		p.workers.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		p.cut()
		<-finished
	}
	p.cut()
}

// pause waits for d, or until nothing more is to be claimed.
func (p *Pusher) pause(d time.Duration) {
	select {
	case <-p.stopping:
	case <-time.After(d):
	}
}

// look starts a worker for every sender that has none, and tells the others how their senders are driven now.
func (p *Pusher) look(driven map[string]*worker) {
	ctx, cancel := context.WithTimeout(p.sending, lookEvery)
	defer cancel()
	rows, err := p.q.SendersDriven(ctx)
	if err != nil {
		return // the next look may tell; claims say what is wrong
	}
	on := map[string]bool{}
	for _, row := range rows {
		on[row.SenderNo] = true
		w, known := driven[row.SenderNo]
		if !known {
			w = &worker{Pusher: p, senderNo: row.SenderNo}
			driven[row.SenderNo] = w
		}
		now := w.now.Load()
		if now == nil || now.row.Version != row.Version {
			now = p.prepare(row)
		}
		w.now.Store(&way{row, now.driver, now.breaker}) // what was learnt of it changes all the time
		if !known {
			p.workers.Go(w.run)
		}
	}
	for no, w := range driven {
		if !on[no] {
			w.now.Store(nil)
		}
	}
}

// worker drives a sender, in the way that it is to be driven now. There is one for each as long as the server runs: of two, one
// might send in the way of yesterday.
type worker struct {
	*Pusher
	senderNo string
	now      atomic.Pointer[way] // nil: not at all
}

// way is how a version of a sender is driven.
type way struct {
	row     dbq.SendersDrivenRow
	driver  driver.Driver // nil where its configuration cannot be used
	breaker *gobreaker.CircuitBreaker[struct{}]
}

// prepare makes ready to drive; a sender whose configuration cannot be used is not driven, which the log tells.
func (p *Pusher) prepare(row dbq.SendersDrivenRow) *way {
	log := p.log.With("sender_no", row.SenderNo)
	opened, err := p.open(row.Kind, row.SenderNo, row.Config)
	w := &way{row: row}
	if err == nil {
		w.driver, err = driver.New(row.Kind, opened.driver, driver.Tools{Outbound: p.out, Log: log, Token: (&tokens{p, row.SenderNo}).get})
	}
	if err != nil {
		log.Error("sender cannot be driven", "error", err)
		w.driver = nil
	}
	w.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: row.SenderNo, Timeout: openFor, ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= troubles },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			log.Warn("provider "+to.String(), "was", from.String())
		},
	})
	return w
}

func (w *worker) run() {
	for !w.isStopping() {
		now := w.now.Load()
		if now == nil || now.driver == nil {
			w.pause(lookEvery)
			continue
		}
		limit := now.most()
		switch now.breaker.State() {
		case gobreaker.StateOpen:
			w.rest()
			w.pause(time.Second)
			continue
		case gobreaker.StateHalfOpen:
			limit = 1
		case gobreaker.StateClosed:
		}
		ctx, cancel := context.WithTimeout(w.sending, claimWait+10*time.Second)
		rows, err := w.tasks.ClaimOrWait(ctx, w.senderNo, limit, claimWait)
		cancel()
		switch {
		case err != nil:
			w.log.Warn("driven sender could not claim", "sender_no", w.senderNo, "error", err)
			w.pause(pauseMost)
		case len(rows) > 0:
			w.deliver(now, rows)
		}
	}
}

func (p *Pusher) isStopping() bool {
	select {
	case <-p.stopping:
		return true
	default:
		return false
	}
}

// most is how many tasks to claim at once: with an interval, as many as may be sent in a second.
func (w *way) most() int {
	most := driver.Batch(w.row.Kind)
	if w.row.IntervalMs > 0 {
		most = min(most, max(1, int(1000/w.row.IntervalMs)))
	}
	return most
}

// rest gives the sender's share to the others while its breaker is open.
func (w *worker) rest() {
	ctx, cancel := context.WithTimeout(w.sending, pauseMost)
	defer cancel()
	if err := w.q.SenderRest(ctx, dbq.SenderRestParams{SenderNo: w.senderNo, Seconds: 2}); err != nil {
		w.log.Warn("driven sender could not rest", "sender_no", w.senderNo, "error", err)
	}
}

var errNothingThrough = errors.New("nothing got through")

// deliver sends what was claimed and reports it. Of what nobody knows whether it went out, nothing is reported: the lease
// runs out first.
func (w *worker) deliver(now *way, rows []dbq.TaskClaimRow) {
	until := time.Until(rows[0].LeaseUntil) - leaseSpare
	ctx, cancel := context.WithTimeout(w.sending, max(until, time.Second))
	defer cancel()
	messages, version, err := w.messages(ctx, rows)
	if err != nil {
		w.log.Error("claimed tasks could not be read", "sender_no", w.senderNo, "error", err)
		return
	}
	if version != now.row.Version { // changed since the last look
		if latest := w.latest(ctx); latest != nil && latest.driver != nil {
			now = latest
		}
	}
	var outcomes []driver.Outcome
	_, _ = now.breaker.Execute(func() (struct{}, error) {
		outcomes = now.driver.Send(ctx, messages)
		for _, o := range outcomes {
			if o.OK || o.Permanent {
				return struct{}{}, nil
			}
		}
		return struct{}{}, errNothingThrough
	})
	if outcomes == nil {
		return // the breaker opened meanwhile
	}
	w.report(now, rows, messages, outcomes)
}

// latest is how the sender is to be driven by now; nil if that cannot be found out, or not at all.
func (w *worker) latest(ctx context.Context) *way {
	rows, err := w.q.SendersDriven(ctx)
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if row.SenderNo == w.senderNo {
			latest := w.prepare(row)
			w.now.Store(latest)
			return latest
		}
	}
	return nil
}

// messages joins what was claimed with what is to be sent, and gives the version of the sender that they are for.
func (w *worker) messages(ctx context.Context, rows []dbq.TaskClaimRow) ([]driver.Message, int64, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.TaskID
	}
	found, err := w.q.TaskOutgoing(ctx, dbq.TaskOutgoingParams{SenderNo: w.senderNo, TaskIds: ids})
	if err != nil {
		return nil, 0, fmt.Errorf("read outgoing tasks: %w", err)
	}
	var version int64
	byID := make(map[string]dbq.TaskOutgoingRow, len(found))
	for _, f := range found {
		byID[f.TaskID], version = f, f.Version
	}
	messages := make([]driver.Message, len(rows))
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
		messages[i] = m
	}
	return messages, version, nil
}

// report says of each message what became of it, again and again until the database has it or the leases run out.
func (w *worker) report(now *way, rows []dbq.TaskClaimRow, messages []driver.Message, outcomes []driver.Outcome) {
	var reports []task.Report
	unclear := dbq.DeliveryUnclearParams{SenderNo: w.senderNo}
	for i, o := range outcomes {
		// A provider says what it likes, and what is not reported for that is sent again.
		o.ProviderNo, o.Code, o.Error = postgres.Text(o.ProviderNo), postgres.Text(o.Code), postgres.Text(o.Error)
		if o.Unknown {
			unclear.TaskIds = append(unclear.TaskIds, rows[i].TaskID)
			unclear.LeaseIds = append(unclear.LeaseIds, rows[i].LeaseID)
			unclear.Recipients = append(unclear.Recipients, messages[i].Recipient)
			unclear.Errors = append(unclear.Errors, o.Error)
			continue
		}
		reports = append(reports, now.reportOf(rows[i], o))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.sending), max(time.Until(rows[0].LeaseUntil), leaseSpare))
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, pauseMost) {
		err := w.tell(ctx, reports, unclear)
		if err == nil {
			w.matchSent(ctx, w.senderNo, reports)
			return
		}
		select {
		case <-ctx.Done():
			w.log.Error("outcomes could not be reported before the leases ran out", "sender_no", w.senderNo,
				"reports", len(reports), "error", err)
			return
		case <-w.sending.Done():
			cancel() // one last time has been tried
		case <-time.After(wait):
		}
	}
}

func (w *worker) tell(ctx context.Context, reports []task.Report, unclear dbq.DeliveryUnclearParams) error {
	if len(reports) > 0 {
		outcomes, err := w.tasks.ReportAll(ctx, reports)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			if known := new(fault.Error); o.Err != nil && !errors.As(o.Err, &known) {
				w.log.ErrorContext(ctx, "an outcome could not be reported", "task_id", reports[i].TaskID, "error", o.Err)
			}
		}
	}
	if len(unclear.TaskIds) > 0 {
		return postgres.Wrap("keep what is unclear", w.q.DeliveryUnclear(ctx, unclear), nil)
	}
	return nil
}

func (w *way) reportOf(row dbq.TaskClaimRow, o driver.Outcome) task.Report {
	r := task.Report{TaskID: row.TaskID, AppID: w.row.SenderNo, LeaseID: &row.LeaseID, Status: task.Success, ProviderNo: o.ProviderNo}
	said := map[string]any{"task_id": row.TaskID, "app_id": w.row.SenderNo, "lease_id": row.LeaseID, "status": task.Success}
	if o.ProviderNo != "" {
		said["provider_no"] = o.ProviderNo
	}
	if w.row.RetryMinutes != nil {
		most := len(w.row.RetryMinutes)
		r.MaxRetries = &most
	}
	if !o.OK {
		r.Status, r.ShouldRetry, r.ErrorMessage = task.Failed, !o.Permanent, &o.Error
		said["status"], said["should_retry"], said["error_code"], said["error_message"] = task.Failed, r.ShouldRetry, o.Code, o.Error
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
