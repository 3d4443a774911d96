package sweep

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"lksms/internal/pgtest"
	"lksms/internal/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T, url string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func TestASweepEndsSoonAfterItsLockIsLost(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := open(t, url)
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	s, err := New(db, slog.New(slog.DiscardHandler), Job{
		Name: "long", Interval: 10 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
			select {
			case started <- struct{}{}:
			default:
				return 0, nil // a later run
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return 0, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer func() { _ = s.Stop() }()
	<-started
	const kill = `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()`
	if _, err := db.Exec(t.Context(), kill); err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-ended:
		if !errors.Is(cause, postgres.ErrLockLost) {
			t.Errorf("the sweep ended because of %v", cause)
		}
	case <-time.After(10 * time.Second):
		t.Error("the sweep goes on without its lock")
	}
}

func TestTwoServersNeverRunAJobAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	var running, most, runs atomic.Int32
	job := Job{Name: "job", Interval: 20 * time.Millisecond, Run: func(context.Context) (int, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond) // the work
		running.Add(-1)
		runs.Add(1)
		return 0, nil
	}}
	for range 2 {
		s, err := New(open(t, url), slog.New(slog.DiscardHandler), job)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	for deadline := time.Now().Add(15 * time.Second); runs.Load() < 20; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d runs", runs.Load())
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d runs at the same time", most.Load())
	}
}

func TestStopEndsARunningJob(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	s, err := New(open(t, pgtest.New(t)), slog.New(slog.DiscardHandler), Job{
		Name: "endless", Interval: 10 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
			started <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	<-started
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
