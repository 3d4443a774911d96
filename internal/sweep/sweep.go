// Package sweep owns the schedule of periodic work. The work itself belongs to the domain packages.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"lksms/internal/postgres"
)

// Job is one kind of periodic work. Run must be bounded and safe to repeat at any time; it returns how much it did.
type Job struct {
	Name     string
	Interval time.Duration
	Routine  bool // successful runs are not logged
	Run      func(ctx context.Context) (int, error)
}

// runLimit bounds one run of a job.
const runLimit = 5 * time.Minute

// Sweeper runs jobs on a schedule, each job on one server of a database at a time.
type Sweeper struct {
	scheduler gocron.Scheduler
	log       *slog.Logger
	cancel    context.CancelFunc
}

// New returns a Sweeper of jobs. Start starts it.
func New(db *postgres.DB, log *slog.Logger, jobs ...Job) (*Sweeper, error) {
	scheduler, err := gocron.NewScheduler(
		gocron.WithDistributedLocker(locker{db.Pool}),
		gocron.WithStopTimeout(time.Second),
	)
	if err != nil {
		return nil, fmt.Errorf("create scheduler: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sweeper{scheduler: scheduler, log: log, cancel: cancel}
	for _, job := range jobs {
		_, err := scheduler.NewJob(
			gocron.DurationJob(job.Interval),
			gocron.NewTask(func() { s.RunOnce(ctx, job) }),
			gocron.WithName(job.Name),
			gocron.WithSingletonMode(gocron.LimitModeReschedule),
		)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("schedule %s: %w", job.Name, err)
		}
	}
	return s, nil
}

// RunOnce runs a job now. It logs failures, and runs that did something unless the job is routine.
func (s *Sweeper) RunOnce(ctx context.Context, job Job) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	n, err := job.Run(ctx)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		s.log.Error("sweep failed", "sweep", job.Name, "done", n, "error", err)
	case n > 0 && !job.Routine:
		s.log.Info("swept", "sweep", job.Name, "done", n)
	}
}

// Start starts the schedule. Each job first runs after its interval.
func (s *Sweeper) Start() { s.scheduler.Start() }

// Stop cancels the running jobs and waits for them.
func (s *Sweeper) Stop() error {
	s.cancel()
	if err := s.scheduler.Shutdown(); err != nil {
		return fmt.Errorf("stop sweeps: %w", err)
	}
	return nil
}

// locker lets one server at a time run a job: it holds an advisory lock while the job runs. The lock belongs to the
// session, so that it is released if the server dies.
type locker struct{ pool *pgxpool.Pool }

var errElsewhere = errors.New("another server runs this sweep")

// lockSpace separates these locks from other advisory locks in the database.
const lockSpace = 0x6c6b7377 // "lksw"

// Lock implements gocron.Locker. It does not wait: a job that another server runs now need not run again.
func (l locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	var held bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, hashtext($2))", int32(lockSpace), name).Scan(&held)
	if err == nil && !held {
		err = errElsewhere
	}
	if err != nil {
		conn.Release()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return lock{conn: conn, name: name}, nil
}

type lock struct {
	conn *pgxpool.Conn
	name string
}

// Unlock implements gocron.Lock. If unlocking fails, it closes the session, which releases the lock.
func (l lock) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	defer l.conn.Release()
	if _, err := l.conn.Exec(ctx, "SELECT pg_advisory_unlock($1, hashtext($2))", int32(lockSpace), l.name); err != nil {
		_ = l.conn.Conn().Close(ctx) // the pool drops a closed connection
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}
