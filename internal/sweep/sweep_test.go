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

func TestOneServerAtATimeRunsAJob(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	first, second := locker{open(t, url)}, locker{open(t, url)}
	held, err := first.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if both, err := second.Lock(t.Context(), "job"); err == nil {
		t.Errorf("both servers hold the lock; unlock of the second: %v", both.Unlock(t.Context()))
	} else if !errors.Is(err, errElsewhere) {
		t.Error(err)
	}
	other, err := second.Lock(t.Context(), "another job")
	if err != nil {
		t.Errorf("another job: %v", err)
	} else if err := other.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := second.Lock(t.Context(), "job")
	if err != nil {
		t.Fatalf("after the unlock: %v", err)
	}
	if err := again.Unlock(t.Context()); err != nil {
		t.Error(err)
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
