// Package push runs the workers of driven senders. A driven sender claims, sends and reports like an app: the same methods, leases, limits and retries apply.
package push

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"lksms/gen/pushq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/tracing"
)

const (
	refreshEvery = 2 * time.Second  // time between two reads of the driven senders
	claimWait    = 30 * time.Second // maximum wait of a claim; a task or StopClaiming ends the wait earlier
	maxBackoff   = 5 * time.Second  // wait after a failed claim, and maximum wait between two attempts to report
	leaseSpare   = 2 * time.Second  // last part of a lease, reserved for reports
	maxRest      = 10 * time.Minute // maximum time for the rest of a message of which the provider took a part
)

// Pusher runs a worker for each driven sender.
type Pusher struct {
	db          *postgres.DB
	q           *pushq.Queries
	queue       *queue.Service
	submissions *submit.Service
	tasks       *task.Service
	directory   *directory.Service
	receipts    *receipt.Service
	senders     *sender.Service
	configs     *sender.Configs
	out         outbound.Policy
	log         *slog.Logger
	host        string
	process     string // holds the links of this process
	requests    *prometheus.HistogramVec
	tracer      *tracing.Tracer

	changed  chan struct{}   // signals that run must read the senders now
	claiming context.Context // cancelled when workers must claim no further task
	stop     context.CancelFunc
	sending  context.Context // cancelled when calls in progress must end
	cut      context.CancelFunc
	workers  sync.WaitGroup
}

// Services contains the services that a Pusher uses.
type Services struct {
	Queue       *queue.Service
	Submissions *submit.Service
	Tasks       *task.Service
	Directory   *directory.Service
	Receipts    *receipt.Service
	Senders     *sender.Service
	Configs     *sender.Configs
}

// Options configures a Pusher.
type Options struct {
	Host     string
	Outbound outbound.Policy
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Tracer   *tracing.Tracer
}

// New returns a Pusher.
func New(db *postgres.DB, uses Services, o Options) *Pusher {
	claiming, stop := context.WithCancel(context.Background())
	sending, cut := context.WithCancel(context.Background())
	return &Pusher{
		db: db, q: pushq.New(db), queue: uses.Queue, submissions: uses.Submissions, tasks: uses.Tasks, directory: uses.Directory, receipts: uses.Receipts,
		senders: uses.Senders, configs: uses.Configs, out: o.Outbound, log: o.Log, tracer: o.Tracer,
		host: o.Host, process: rand.Text(),
		requests: promauto.With(o.Metrics).NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lksms_driver_request_seconds",
			Help:    "Time of attempts at providers by kind of the driver and by outcome: sent, refused, unclear, trouble. An attempt may be one request for several people.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"kind", "outcome"}),
		changed: make(chan struct{}, 1), claiming: claiming, stop: stop, sending: sending, cut: cut,
	}
}

// Start starts the workers of all enabled senders. The workers run until Stop.
func (p *Pusher) Start() { p.workers.Go(p.run) }

func (p *Pusher) run() {
	driven := map[string]*worker{}
	for {
		p.refresh(driven)
		select {
		case <-p.claiming.Done():
			return
		case <-p.changed:
		case <-time.After(refreshEvery):
		}
	}
}

// Refresh makes the Pusher read the senders now. Call Refresh after each change of a sender.
func (p *Pusher) Refresh() {
	select {
	case p.changed <- struct{}{}:
	default: // a signal is pending already
	}
}

// StopClaiming stops all claims. Each worker still sends and reports the tasks that it has claimed, and then ends.
func (p *Pusher) StopClaiming() { p.stop() }

// Stop ends all workers and returns when they have ended. If ctx ends first, Stop cancels the calls in progress. Their leases then expire, because
// nobody knows whether the messages were sent.
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

// sleep waits for d. It returns earlier if claiming stops.
func (p *Pusher) sleep(d time.Duration) {
	select {
	case <-p.claiming.Done():
	case <-time.After(d):
	}
}

// refresh reads the driven senders. It starts a worker for each new sender and stores the current configuration in the other workers.
func (p *Pusher) refresh(driven map[string]*worker) {
	ctx, cancel := context.WithTimeout(p.sending, refreshEvery)
	defer cancel()
	rows, err := p.q.SendersDriven(ctx, provider.NotBound)
	if err != nil {
		return // the next refresh can succeed; failing claims log the cause
	}
	enabled := map[string]bool{}
	for _, row := range rows {
		enabled[row.SenderNo] = true
		w, known := driven[row.SenderNo]
		if !known {
			w = &worker{p: p, senderNo: row.SenderNo, flight: newFlight()}
			driven[row.SenderNo] = w
		}
		current := w.setup.Load()
		isChanged := current == nil || current.row.Version != row.Version
		if isChanged {
			current = w.prepare(row)
		}
		if isChanged || current.circuit.openings != row.Openings {
			defer w.endWait() // runs after Store
		}
		// The circuit breaker can change although the version does not, so that each row is stored.
		w.setup.Store(&setup{row, current.driver, current.links, circuitOfRow(row)})
		if !known {
			p.workers.Go(w.run)
		}
	}
	for no, w := range driven {
		if !enabled[no] {
			w.setup.Store(nil)
			w.closeLinks()
			w.endWait()
		}
	}
}

// worker sends for one sender, with the current setup. A server never replaces the worker of a sender, because the old worker could still send with the
// previous configuration.
type worker struct {
	p        *Pusher
	senderNo string
	setup    atomic.Pointer[setup]      // nil: the sender is not driven now
	rechecks sync.Map                   // the *recheck of each message that is being sent, by its lease
	enough   atomic.Pointer[time.Timer] // ends the wait of the claim
	flight   *flight                    // messages that are being sent

	preparing sync.Mutex
	prepared  *setup // the last prepared setup; nil: the sender is not driven now. Guarded by preparing
	links     *links // the links of the last driver with links. Guarded by preparing
	config    []byte // the configuration of the last driver. Guarded by preparing

	fruitless atomic.Int64 // consecutive failed batches, counted as in fruitlessMax
}

// setup is one version of a sender, with its driver and circuit breaker.
type setup struct {
	row     pushq.SendersDrivenRow
	driver  driver.Driver // nil: the configuration cannot be used
	links   *links        // nil: the driver has no links
	circuit circuit
}

// prepare returns the setup of a sender. Each configuration has one driver with links: a change of another field, such as the name, does not close the links. If the
// configuration cannot be used, prepare logs the error and returns a setup without a driver.
func (w *worker) prepare(row pushq.SendersDrivenRow) *setup {
	w.preparing.Lock()
	defer w.preparing.Unlock()
	if last := w.prepared; last != nil && last.row.Version == row.Version {
		return &setup{row, last.driver, last.links, circuitOfRow(row)}
	}
	p := w.p
	log := p.log.With("sender_no", row.SenderNo)
	opened, err := p.configs.Open(row.Kind, row.SenderNo, row.Config)
	prepared := &setup{row: row, circuit: circuitOfRow(row)}
	if last := w.prepared; err == nil && last != nil && last.links != nil && last.row.Kind == row.Kind && bytes.Equal(w.config, opened.Driver) {
		prepared.driver, prepared.links, w.prepared = last.driver, last.links, prepared
		return prepared
	}
	w.config = opened.Driver
	if err == nil {
		prepared.driver, err = driver.New(row.Kind, opened.Driver, provider.Tools{
			Outbound: p.out, Log: log, Began: p.began(row.Kind, row.SenderNo), Secrets: []string{opened.Secret}, Token: (&tokens{p, row.SenderNo, sha256.Sum256(opened.Driver)}).get,
			MayBegin: func(ctx context.Context, m provider.Message) bool { return w.recheckOf(m).mayBegin(ctx, m) },
			Take: func(ctx context.Context, in provider.Incoming) error {
				return p.receipts.TakeLinked(ctx, row.SenderNo, in)
			},
			Rest: func(m provider.Message) (context.Context, context.CancelFunc) {
				return context.WithTimeout(w.recheckOf(m).rests, maxRest)
			},
		})
	}
	if err != nil {
		log.Error("sender cannot be driven", "error", err)
		prepared.driver = nil
	}
	if w.links != nil {
		w.links.stop()
	}
	if linked, isLinked := prepared.driver.(driver.Linked); isLinked && p.claiming.Err() == nil {
		prepared.links = p.startLinks(row, linked, w.links)
		w.links = prepared.links
	}
	w.prepared = prepared
	return prepared
}

// closeLinks begins to close the links of the last driver, and returns them. The next prepare makes a new driver.
func (w *worker) closeLinks() *links {
	w.preparing.Lock()
	defer w.preparing.Unlock()
	w.prepared = nil
	if w.links != nil {
		w.links.stop()
	}
	return w.links
}

// began returns a function that measures each attempt of a sender and creates a span for it. The attempt sends a traceparent to the provider only if
// the submission of the message had a traceparent.
func (p *Pusher) began(kind, senderNo string) func(ctx context.Context, m provider.Message) (context.Context, func(provider.Outcome)) {
	return func(ctx context.Context, m provider.Message) (context.Context, func(provider.Outcome)) {
		started := time.Now()
		traced, span := p.tracer.Start(ctx, m.Traceparent, "send", trace.SpanKindClient, attribute.String("lksms.kind", kind),
			attribute.String("lksms.sender_no", senderNo), attribute.String("lksms.task_id", m.TaskID), attribute.Int("lksms.attempt", int(m.Attempt)))
		if m.Traceparent != "" {
			ctx = traced
		}
		return ctx, func(o provider.Outcome) {
			span.SetAttributes(attribute.String("lksms.outcome", o.Kind()))
			if o.Code != "" {
				span.SetAttributes(attribute.String("lksms.code", o.Code))
			}
			if !o.OK {
				span.SetStatus(codes.Error, "")
			}
			span.End()
			if o.IsCall() {
				p.requests.WithLabelValues(kind, o.Kind()).Observe(time.Since(started).Seconds())
			}
		}
	}
}

func (w *worker) run() {
	defer func() { w.closeLinks().close() }()
	defer w.flight.all.Wait()
	for w.p.claiming.Err() == nil {
		current := w.setup.Load()
		if current == nil || current.driver == nil {
			w.p.sleep(refreshEvery)
			continue
		}
		if !current.links.canSend() {
			w.p.sleep(linkPoll)
			continue
		}
		if isOpen, _ := current.links.isOpen(); !isOpen {
			w.awaitLink(current)
			continue
		}
		if current.links != nil && current.circuit.isUnbound {
			w.rebound(current)
			continue
		}
		if pause := current.circuit.pause(); pause > 0 {
			w.p.sleep(min(pause, time.Second))
			continue
		}
		limit := w.flight.room(current, current.maxClaim())
		if limit == 0 {
			w.flight.await(w.p.claiming)
			continue
		}
		if current.circuit.openings > 0 {
			limit = 1
		}
		rows, err := w.claim(claim.Request{SenderNo: w.senderNo, Limit: limit, InOneCall: current.isOneCall()})
		switch {
		case err != nil:
			w.p.log.Warn("driven sender could not claim", "sender_no", w.senderNo, "error", err)
			w.p.sleep(maxBackoff)
		case len(rows) > 0:
			w.begin(current, rows)
		}
	}
}

// awaitLink waits for an open link for boundWait. A sender without one claims nothing, so that other senders take its messages. Then, awaitLink opens the circuit breaker,
// unless another process has an open link.
func (w *worker) awaitLink(current *setup) {
	links := current.links
	for began := time.Now(); time.Since(began) < boundWait; w.p.sleep(linkPoll) {
		isOpen, _ := links.isOpen()
		if current = w.setup.Load(); isOpen || current == nil || current.links != links || !links.canSend() || w.p.claiming.Err() != nil {
			return
		}
		if current.circuit.openings > 0 {
			began = time.Now() // when the breaker closes, another process has opened a link, and stores this with the next renewal
		}
	}
	ctx, cancel := context.WithTimeout(w.p.sending, maxBackoff)
	defer cancel()
	if isBound := w.isBound(ctx, current); !isBound {
		_, failure := links.isOpen()
		w.open(ctx, current, provider.Unbound(failure))
	}
}

// isBound reports whether a link of the sender is open at any process. It returns true if this is unknown.
func (w *worker) isBound(ctx context.Context, current *setup) bool {
	isBound, err := w.p.q.LinksAreBound(ctx, current.row.ID)
	isOpen, _ := current.links.isOpen() // after the statement: a link of this process can have opened meanwhile
	return isBound || isOpen || err != nil
}

// rebound closes the circuit breaker, which opened because no link was open.
func (w *worker) rebound(current *setup) {
	ctx, cancel := context.WithTimeout(w.p.sending, maxBackoff)
	defer cancel()
	w.close(ctx, current, provider.NotBound)
	if latest := w.setup.Load(); latest != nil && latest.circuit.isUnbound {
		w.p.sleep(linkPoll) // it was not closed
	}
}

// claim claims tasks, and waits for tasks at most claimWait. StopClaiming and endWait end the wait. They do not cancel a claim in progress, because this claim
// could have leased tasks.
func (w *worker) claim(c claim.Request) ([]claim.Lease, error) {
	ctx, cancel := context.WithTimeout(w.p.sending, claimWait+10*time.Second)
	defer cancel()
	enough := time.NewTimer(claimWait)
	defer enough.Stop()
	w.enough.Store(enough)
	defer context.AfterFunc(w.p.claiming, func() { enough.Reset(0) })()
	return w.p.queue.ClaimUntil(ctx, c, enough.C)
}

// endWait ends the wait of the current claim, so that the next claim uses the current setup.
func (w *worker) endWait() {
	if enough := w.enough.Load(); enough != nil {
		enough.Reset(0)
	}
}

// isOneCall reports whether a claim is limited to messages of one call. The result is true if the sender has an interval and its driver merges messages,
// because the interval counts calls.
func (w *setup) isOneCall() bool { return w.row.IntervalMs > 0 && driver.Merges(w.row.Kind) }

// maxClaim returns the maximum number of tasks per claim. With an interval, this is the number of messages that can be sent in one second.
func (w *setup) maxClaim() int {
	limit := driver.MaxBatch(w.row.Kind)
	if linked, isLinked := w.driver.(driver.Linked); isLinked {
		limit = min(limit, linked.Batch())
	}
	if w.row.IntervalMs > 0 && !w.isOneCall() {
		limit = min(limit, max(1, int(1000/w.row.IntervalMs)))
	}
	return limit
}

// latest reads the setup of the sender from the database. It returns nil if the sender is no longer driven or cannot be read.
func (w *worker) latest(ctx context.Context) *setup {
	rows, err := w.p.q.SendersDriven(ctx, provider.NotBound)
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if row.SenderNo == w.senderNo {
			prepared := w.prepare(row)
			w.setup.Store(prepared)
			return prepared
		}
	}
	return nil
}
