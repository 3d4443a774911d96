package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/testkit/pgtest"
)

// bySweep are the roles of the test jobs. One server at a time runs a job with these roles.
var bySweep = servers.Roles{servers.Sweep}

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
	s, err := New(db, servers.All(), slog.New(slog.DiscardHandler), prometheus.NewRegistry(), Job{
		Roles: bySweep, Name: "age-tasks", Interval: 10 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
			select {
			case started <- struct{}{}:
			default:
				return 0, nil // later runs do nothing
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
		WHERE l.relation = 'lock_age_tasks'::regclass AND l.granted AND d.datname = current_database()`
	if _, err := db.Exec(t.Context(), kill); err != nil {
		t.Fatal(err)
	}
	select {
	case cause := <-ended:
		if !errors.Is(cause, postgres.ErrLockLost) {
			t.Errorf("the sweep ended because of %v", cause)
		}
	case <-time.After(time.Minute):
		t.Error("the sweep continues without its lock")
	}
}

func TestTwoServersNeverRunAJobAtTheSameTime(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	var running, maxRunning, runs atomic.Int32
	job := Job{Roles: bySweep, Name: "age-tasks", Interval: 20 * time.Millisecond, Run: func(context.Context) (int, error) {
		if n := running.Add(1); n > maxRunning.Load() {
			maxRunning.Store(n)
		}
		time.Sleep(5 * time.Millisecond) // simulates work
		running.Add(-1)
		runs.Add(1)
		return 0, nil
	}}
	for range 2 {
		s, err := New(open(t, url), servers.All(), slog.New(slog.DiscardHandler), prometheus.NewRegistry(), job)
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
	if maxRunning.Load() != 1 {
		t.Errorf("%d runs at the same time", maxRunning.Load())
	}
}

func TestStopEndsARunningJob(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	s, err := New(open(t, pgtest.New(t)), servers.All(), slog.New(slog.DiscardHandler), prometheus.NewRegistry(), Job{
		Roles: bySweep, Name: "age-tasks", Interval: 10 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
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

// exported returns the values of a metric, by the name of the sweep.
func exported(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "sweep" {
					all[label.GetValue()] = metric.GetGauge().GetValue()
				}
			}
		}
	}
	return all
}

// The exported time does not change for a job that fails, hangs, cannot get its lock, or runs on another server. A run that leaves work to the next run is
// successful.
func TestTheTimeOfTheLastSuccessfulRunOfEachJobIsExported(t *testing.T) {
	t.Parallel()
	const name = "lksms_sweep_last_success_timestamp_seconds"
	url := pgtest.New(t)
	db := open(t, url)
	for _, name := range []string{"good", "elsewhere", "fails", "hangs", "catches_up"} {
		if _, err := db.Exec(t.Context(), "CREATE TABLE lock_"+name+" ()"); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := db.TryLock(t.Context(), "elsewhere")
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	defer func() { _ = lock.Unlock(context.Background()) }()
	var failed, hung atomic.Int32
	good := func(context.Context) (int, error) { return 0, nil }
	registry := prometheus.NewRegistry()
	const often = 10 * time.Millisecond
	s, err := New(open(t, url), servers.All(), slog.New(slog.DiscardHandler), registry,
		Job{Roles: bySweep, Name: "good", Interval: often, Run: good},
		Job{Name: "of-each", Interval: often, Run: good},
		Job{Roles: bySweep, Name: "elsewhere", Interval: often, Run: good},
		Job{Roles: bySweep, Name: "fails", Interval: often, Run: func(context.Context) (int, error) {
			failed.Add(1)
			return 1, errors.New("no")
		}},
		Job{Roles: bySweep, Name: "hangs", Interval: often, Limit: 50 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			hung.Add(1)
			return 0, ctx.Err()
		}},
		Job{Roles: bySweep, Name: "catches-up", Interval: often, Limit: 50 * time.Millisecond, Run: func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 1, fmt.Errorf("fold: %w", ctx.Err())
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	before := exported(t, registry, name)
	if now := float64(time.Now().Unix()); len(before) != 6 || before["fails"] < now-60 {
		t.Fatalf("at the start: %v", before)
	}
	if patience := exported(t, registry, "lksms_sweep_patience_seconds"); patience["good"] < 300 || patience["hangs"] > 1 {
		t.Errorf("the patience is %v", patience)
	}
	s.Start()
	defer func() { _ = s.Stop() }()
	var after map[string]float64
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(often) {
		after = exported(t, registry, name)
		if after["good"] > before["good"] && after["of-each"] > before["of-each"] && after["catches-up"] > before["catches-up"] && failed.Load() >= 2 && hung.Load() >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("before: %v, after: %v, failed %d times, hung %d times", before, after, failed.Load(), hung.Load())
		}
	}
	for _, name := range []string{"fails", "hangs", "elsewhere"} {
		if after[name] != before[name] {
			t.Errorf("%s has a good run", name)
		}
	}
}

// A panic ends only the current run, and is logged as an error with its stack.
func TestAJobThatPanicsRunsAgain(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	again := make(chan struct{})
	var runs atomic.Int32
	s, err := New(open(t, pgtest.New(t)), servers.All(), slog.New(slog.NewTextHandler(&logged, nil)), prometheus.NewRegistry(), Job{
		Roles: bySweep, Name: "age-tasks", Interval: 10 * time.Millisecond, Run: func(context.Context) (int, error) {
			switch runs.Add(1) {
			case 1:
				panic("a row that is not understood")
			case 2:
				close(again)
			}
			return 0, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	<-again
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sweep failed", "sweep=age-tasks", "a row that is not understood", "TestAJobThatPanicsRunsAgain"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %q: %s", want, logged.String())
		}
	}
}
