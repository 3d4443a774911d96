// Package push drives the senders that LKSMS pushes to. A driven sender claims, sends and reports as an app does, through the same methods,
// under the same leases, limits and retries.
package push

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/outbound"
	"lksms/internal/postgres"
	"lksms/internal/push/driver"
	"lksms/internal/queue"
	"lksms/internal/queue/claim"
	"lksms/internal/receipt"
	"lksms/internal/sender"
)

const (
	lookEvery  = 2 * time.Second // for senders that are new, changed or gone
	claimWait  = 3 * time.Second // of one claim; what is queued on this server ends it at once
	pauseMost  = 5 * time.Second // after a claim that failed, and between reports that do
	leaseSpare = 2 * time.Second // of a lease, to report in
)

// Pusher drives senders.
type Pusher struct {
	db       *postgres.DB
	q        *dbq.Queries
	tasks    *queue.Service
	receipts *receipt.Service
	configs  *sender.Configs
	out      outbound.Policy
	log      *slog.Logger

	changed  chan struct{} // a look is due at once
	stopping chan struct{} // closed: nothing more is claimed
	stop     sync.Once
	sending  context.Context // ends when what is under way has to end
	cut      context.CancelFunc
	workers  sync.WaitGroup
}

// New returns a Pusher.
func New(db *postgres.DB, tasks *queue.Service, receipts *receipt.Service, configs *sender.Configs, out outbound.Policy, log *slog.Logger) *Pusher {
	sending, cut := context.WithCancel(context.Background())
	return &Pusher{
		db: db, q: dbq.New(db), tasks: tasks, receipts: receipts, configs: configs, out: out, log: log,
		changed: make(chan struct{}, 1), stopping: make(chan struct{}), sending: sending, cut: cut,
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
			w = &worker{p: p, senderNo: row.SenderNo}
			driven[row.SenderNo] = w
		}
		now := w.now.Load()
		if now == nil || now.row.Version != row.Version {
			now = p.prepare(row)
		}
		w.now.Store(&way{row, now.driver, circuitOf(row.Openings, row.RestSeconds)}) // what was learnt of it changes all the time
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

// worker drives a sender, in the way that it is to be driven now. There is one for each as long as the server runs: a second could
// still be using the configuration of before.
type worker struct {
	p        *Pusher
	senderNo string
	now      atomic.Pointer[way] // nil: not at all

	fruitless int // batches in a row in which nothing got through; only for run
}

// way is how a version of a sender is driven.
type way struct {
	row     dbq.SendersDrivenRow
	driver  driver.Driver // nil where its configuration cannot be used
	circuit circuit
}

// prepare makes ready to drive; a sender whose configuration cannot be used is not driven, which the log tells.
func (p *Pusher) prepare(row dbq.SendersDrivenRow) *way {
	log := p.log.With("sender_no", row.SenderNo)
	opened, err := p.configs.Open(row.Kind, row.SenderNo, row.Config)
	w := &way{row: row, circuit: circuitOf(row.Openings, row.RestSeconds)}
	if err == nil {
		w.driver, err = driver.New(row.Kind, opened.Driver, driver.Tools{Outbound: p.out, Log: log, Token: (&tokens{p, row.SenderNo, sha256.Sum256(opened.Driver)}).get})
	}
	if err != nil {
		log.Error("sender cannot be driven", "error", err)
		w.driver = nil
	}
	return w
}

func (w *worker) run() {
	for !w.p.isStopping() {
		now := w.now.Load()
		if now == nil || now.driver == nil {
			w.p.pause(lookEvery)
			continue
		}
		if rest := now.circuit.rest(); rest > 0 {
			w.p.pause(min(rest, time.Second))
			continue
		}
		limit := now.most()
		if now.circuit.openings > 0 {
			limit = 1
		}
		ctx, cancel := context.WithTimeout(w.p.sending, claimWait+10*time.Second)
		rows, err := w.p.tasks.ClaimOrWait(ctx, claim.Request{AppID: w.senderNo, Limit: limit, InOneCall: now.isOneCall()}, claimWait)
		cancel()
		switch {
		case err != nil:
			w.p.log.Warn("driven sender could not claim", "sender_no", w.senderNo, "error", err)
			w.p.pause(pauseMost)
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

// isOneCall says that a claim is sent in one call, because its interval counts calls.
func (w *way) isOneCall() bool { return w.row.IntervalMs > 0 && driver.Merges(w.row.Kind) }

// most is how many tasks to claim at once: with an interval, as many as may be sent in a second.
func (w *way) most() int {
	most := driver.Batch(w.row.Kind)
	if w.row.IntervalMs > 0 && !w.isOneCall() {
		most = min(most, max(1, int(1000/w.row.IntervalMs)))
	}
	return most
}

// latest is how the sender is to be driven by now; nil if that cannot be found out, or not at all.
func (w *worker) latest(ctx context.Context) *way {
	rows, err := w.p.q.SendersDriven(ctx)
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if row.SenderNo == w.senderNo {
			latest := w.p.prepare(row)
			w.now.Store(latest)
			return latest
		}
	}
	return nil
}
