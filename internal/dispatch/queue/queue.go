// Package queue owns stored tasks until they end: due times, order, claims, waiting senders, reports, expired leases and receipts. Of all other packages, only
// its subpackages write tasks: submit creates tasks, claim leases tasks, and task cancels and requeues tasks.
package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/dispatchq"
	"lksms/gen/queueq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/line"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
	"lksms/internal/platform/tracing"
)

// These are the states of a task (S0.15). CANCELLED is an addition to the states of S0.15.
const (
	Pending int16 = iota
	Processing
	Success
	Failed
	Cancelled
)

// Service changes and reads tasks. Every method runs in at most one transaction, unless its comment says otherwise.
type Service struct {
	db        *postgres.DB
	q         *queueq.Queries
	inParts   *queueq.Queries // for statements that read tasks by id
	directory *directory.Service
	senders   *sender.Service
	settings  *setting.Service
	reports   *merge.Merger[Report, ended]
	late      *merge.Merger[Report, ended] // the reports that ended no lease
	line      *line.Line
	admit     *admit.Service
	sensitive sensitive.Box
	followed  atomic.Int64 // version of the directory in the last complete run of FollowSwitches; 0: no run yet
	tracer    *tracing.Tracer

	claimed   prometheus.Counter
	reported  *prometheus.CounterVec
	recovered *prometheus.CounterVec
	unreached *prometheus.CounterVec
	polls     prometheus.Histogram
}

// Services contains the services that a Service uses.
type Services struct {
	Directory *directory.Service
	Senders   *sender.Service
	Settings  *setting.Service
	Admit     *admit.Service
	Sensitive sensitive.Box
	Tracer    *tracing.Tracer
}

// New returns a Service whose counters are registered with reg.
func New(db *postgres.DB, uses Services, reg prometheus.Registerer) *Service {
	metrics := promauto.With(reg)
	s := &Service{
		db: db, q: queueq.New(db), inParts: queueq.New(db.InPartitions()), directory: uses.Directory, senders: uses.Senders, settings: uses.Settings,
		tracer: uses.Tracer, admit: uses.Admit, sensitive: uses.Sensitive,
		claimed: metrics.NewCounter(prometheus.CounterOpts{
			Name: "lksms_tasks_claimed_total", Help: "Tasks handed to senders.",
		}),
		reported: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_reports_total", Help: "Reports of senders by what they changed.",
		}, []string{"effect"}),
		recovered: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_tasks_recovered_total", Help: "Expired leases, by the outcome for the task.",
		}, []string{"effect"}),
	}
	s.directory.OnRoutesChanged(s.routesChanged)
	s.directory.OnSwitched(s.Switched)
	s.line = line.New(s.poll, s.readUsage)
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lksms_senders_waiting", Help: "Senders that wait for work at this server.",
	}, func() float64 { return float64(s.Waiting()) })
	s.polls = metrics.NewHistogram(prometheus.HistogramOpts{
		Name:    "lksms_waiting_query_seconds",
		Help:    "Time of polls of the database for the senders that wait at this server. One poll serves all of them.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
	})
	s.unreached = metrics.NewCounterVec(prometheus.CounterOpts{
		Name: "lksms_notification_people_failed_total", Help: "People whom a notification did not reach, by the reason.",
	}, []string{"reason"})
	ofTask := func(r Report) string { return r.TaskID }
	s.reports = NewMerger(s.settle, ofTask)
	s.late = NewMerger(s.settleLate, ofTask)
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "recover-zombie-tasks", Interval: time.Second, Run: s.Recover},
		{Roles: servers.Roles{servers.Sweep}, Name: "queue-due-tasks", Interval: time.Second, Routine: true, Run: s.Queue},
		{Roles: servers.Roles{servers.Sweep}, Name: "expire-tasks", Interval: time.Second, Routine: true, Run: s.Expire},
		{Roles: servers.Roles{servers.Sweep}, Name: "move-quiet-tasks", Interval: time.Second, Routine: true, Run: s.MoveQuiet},
		{Roles: servers.Roles{servers.Sweep}, Name: "follow-switches", Interval: 5 * time.Second, Routine: true, Run: s.FollowSwitches},
		{Roles: servers.Roles{servers.Sweep}, Name: "move-tasks-to-their-routes", Interval: 5 * time.Second, Routine: true, Run: s.Move},
		{Roles: servers.Roles{servers.Sweep}, Name: "age-tasks", Interval: 5 * time.Second, Routine: true, Run: s.Age},
		{Roles: servers.Roles{servers.Sweep}, Name: "close-rank-gaps", Interval: time.Second, Routine: true, Run: s.CloseGaps},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-sim-recipients", Interval: 10 * time.Minute, Run: s.DeleteExpiredSimRecipients},
		{Name: "record-polls", Interval: sender.RecordEvery, Routine: true, Run: s.RecordPolls},
	}
}

// Concurrent requests are merged and written together: one statement and one commit write hundreds of tasks. If a run waits for a lock or for its
// connection, the next run starts after mergePatience.
const (
	maxMerged     = 500
	mergePatience = 50 * time.Millisecond
	mergesAtOnce  = 4
	mergeLimit    = 10 * time.Second
)

// NewMerger returns a Merger for requests that write tasks. The Merger keeps the order of requests with the same key. If key is nil, no order is kept.
func NewMerger[In, Out any](run func(context.Context, []In) ([]Out, error), key func(In) string) *merge.Merger[In, Out] {
	return merge.New(merge.Options[In, Out]{
		Run: run, Hopeless: IsHopeless, Key: key, Most: maxMerged, Patience: mergePatience, AtOnce: mergesAtOnce, Limit: mergeLimit,
	})
}

// IsHopeless reports whether every part of a failed run would fail with the same error. A deadlock is not hopeless: PostgreSQL cancels only one of two
// transactions, so the parts are tried one by one.
func IsHopeless(err error) bool { return postgres.IsUnavailable(err) && !postgres.IsDeadlock(err) }

// Close ends all waits, and returns when the running writes have ended.
func (s *Service) Close() {
	s.StopWaiting()
	s.line.Wait()
	s.reports.Wait()
	s.late.Wait()
}

// Wake wakes senders that wait at this server for tasks. news maps each pool id to the number of new tasks in the pool.
func (s *Service) Wake(news map[int64]int) {
	for pool, n := range news {
		s.line.Wake(pool, n)
	}
}

// CountUnreached adds n to the number of people whom a notification did not reach, for a reason.
func (s *Service) CountUnreached(reason string, n int) {
	s.unreached.WithLabelValues(reason).Add(float64(n))
}

// inBatches repeats a statement until the statement changes fewer rows than batch. It returns the total.
func (s *Service) inBatches(ctx context.Context, act string, batch int64, run func(q *dispatchq.Queries) (int64, error)) (int, error) {
	total := 0
	for {
		var n int64
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			n, err = run(q)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("%s: %w", act, err)
		}
		total += int(n)
		if n < batch {
			return total, nil
		}
	}
}

// sweepBatch is the maximum number of rows that one statement of a sweep changes.
const sweepBatch = 1000
