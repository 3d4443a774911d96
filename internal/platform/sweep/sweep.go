// Package sweep schedules periodic work. The work itself belongs to the domain packages.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
)

// Job is one kind of periodic work. Run must be bounded and safe to repeat at any time. It returns the number of processed items.
type Job struct {
	Roles    servers.Roles // one server with one of these roles runs the job at a time; empty: every server runs the job
	Name     string
	Interval time.Duration
	Routine  bool          // successful runs are not logged
	AtStart  bool          // the job runs when the schedule starts, and then after each interval
	Limit    time.Duration // maximum duration of one run; 0: runLimit
	Run      func(ctx context.Context) (int, error)
}

// isOfEachServer reports whether every server runs the job.
func (j Job) isOfEachServer() bool { return len(j.Roles) == 0 }

// stopLimit is the time that a stopping server waits for its cancelled jobs.
const stopLimit = 3 * time.Second

// runLimit is the maximum duration of one run of a job without a Limit.
const runLimit = 5 * time.Minute

// limit returns the maximum duration of one run.
func (j Job) limit() time.Duration { return cmp.Or(j.Limit, runLimit) }

// patience returns the maximum normal time between successful runs: the limit of one run, and two intervals. If no run succeeded for longer, the job hangs or
// its runs fail.
func (j Job) patience() time.Duration { return j.limit() + 2*j.Interval }

// scope returns the value of the label scope: "server" if every server runs the job, and "cluster" if one server runs the job for all.
func (j Job) scope() string {
	if j.isOfEachServer() {
		return "server"
	}
	return "cluster"
}

// Sweeper runs jobs on a schedule. A job runs on one server of a database at a time, unless every server runs the job.
type Sweeper struct {
	scheduler gocron.Scheduler
	db        *postgres.DB
	log       *slog.Logger
	succeeded *prometheus.GaugeVec
	cancel    context.CancelFunc
}

// New returns a Sweeper with the jobs that belong to roles. Call Start to start the schedule.
func New(db *postgres.DB, roles servers.Roles, log *slog.Logger, metrics prometheus.Registerer, jobs ...Job) (*Sweeper, error) {
	scheduler, err := gocron.NewScheduler(gocron.WithStopTimeout(stopLimit))
	if err != nil {
		return nil, fmt.Errorf("create scheduler: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sweeper{scheduler: scheduler, db: db, log: log, cancel: cancel, succeeded: promauto.With(metrics).NewGaugeVec(prometheus.GaugeOpts{
		Name: "lksms_sweep_last_success_timestamp_seconds",
		Help: "Unix time of the last successful run of a sweep on this server, or the start of the server. Another server may run sweeps of the scope cluster.",
	}, []string{"sweep", "scope"})}
	patience := promauto.With(metrics).NewGaugeVec(prometheus.GaugeOpts{
		Name: "lksms_sweep_patience_seconds", Help: "Maximum time without a successful run of a sweep: the limit of one run, and two intervals.",
	}, []string{"sweep", "scope"})
	for _, job := range jobs {
		if !job.isOfEachServer() && !roles.Has(job.Roles...) {
			continue
		}
		s.succeeded.WithLabelValues(job.Name, job.scope()).SetToCurrentTime() // the metric must also exist for a job that never succeeds
		patience.WithLabelValues(job.Name, job.scope()).Set(job.patience().Seconds())
		options := []gocron.JobOption{gocron.WithName(job.Name), gocron.WithSingletonMode(gocron.LimitModeReschedule)}
		if job.AtStart {
			options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
		}
		_, err := scheduler.NewJob(
			gocron.DurationJob(job.Interval),
			gocron.NewTask(func() { s.runOnce(ctx, job) }),
			options...,
		)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("schedule %s: %w", job.Name, err)
		}
	}
	return s, nil
}

// runOnce runs a job now. It does nothing if another server runs the job.
func (s *Sweeper) runOnce(ctx context.Context, job Job) {
	if job.isOfEachServer() {
		s.run(ctx, job)
		return
	}
	lock, err := s.db.TryLock(ctx, job.Name)
	if err != nil {
		// The level is debug, because this happens many times a second while the database is unreachable. The metric of the last successful run shows the failure.
		s.log.Debug("sweep not started", "sweep", job.Name, "error", err)
		return
	}
	if lock == nil {
		return
	}
	defer func() {
		if err := lock.Unlock(ctx); err != nil {
			s.log.Debug("sweep not unlocked", "sweep", job.Name, "error", err) // the lock ends with its connection
		}
	}()
	locked, cancel := lock.While(ctx)
	defer cancel()
	s.run(locked, job)
}

// run runs a job, and records a successful run. It logs failures, and the successful runs that processed something unless the job is Routine.
func (s *Sweeper) run(ctx context.Context, job Job) {
	ctx, cancel := context.WithTimeout(ctx, job.limit())
	defer cancel()
	n, err := safely(ctx, job)
	switch {
	case errors.Is(context.Cause(ctx), postgres.ErrLockLost):
		s.log.Warn("sweep ended early: another server may run it now", "sweep", job.Name, "done", n, "error", context.Cause(ctx))
	case errors.Is(err, context.Canceled): // the server is stopping
	case n > 0 && errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded): // the job has more work than fits into one run
		s.succeeded.WithLabelValues(job.Name, job.scope()).SetToCurrentTime()
		s.log.Warn("sweep reached its time limit and continues in its next run", "sweep", job.Name, "done", n, "error", err)
	case err != nil:
		s.log.Error("sweep failed", "sweep", job.Name, "done", n, "error", err)
	default:
		s.succeeded.WithLabelValues(job.Name, job.scope()).SetToCurrentTime()
		if n > 0 && !job.Routine {
			s.log.Info("swept", "sweep", job.Name, "done", n)
		}
	}
}

func safely(ctx context.Context, job Job) (n int, err error) {
	defer Recovered(&err)
	return job.Run(ctx)
}

// Recovered returns a panic of the calling function as its error. The function must defer the call. A row that causes a panic must not end the server, which
// would process the row again after each restart, nor the run, in which other rows wait.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Start starts the schedule. A job with AtStart runs at once, any other job after its first interval.
func (s *Sweeper) Start() { s.scheduler.Start() }

// Stop cancels the running jobs and waits for them.
func (s *Sweeper) Stop() error {
	s.cancel()
	if err := s.scheduler.Shutdown(); err != nil {
		return fmt.Errorf("stop sweeps: %w", err)
	}
	return nil
}
