package app_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/history"
)

func (b *testBundle) statistics() api.Statistics {
	b.t.Helper()
	return decode[api.Statistics](b.t, b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil))
}

// counted is what the statistics should say, by looking at every task.
func (b *testBundle) counted() (s api.Statistics) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), `SELECT count(*) FILTER (WHERE status = 0 AND retry_count = 0),
		count(*) FILTER (WHERE status = 0 AND retry_count > 0), count(*) FILTER (WHERE status = 1),
		count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3) FROM tasks`).Scan(
		&s.PendingNewTasks, &s.PendingRetryTasks, &s.ProcessingTasks, &s.SuccessTasks, &s.FailedTasks); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// The oldest is the one that has been due for longest, wherever it stands in line.
func TestTheAgeOfTheOldestWaitingTaskLooksEverywhere(t *testing.T) {
	for name, waiting := range map[string]string{
		"a retry behind new ones of priority 0": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 0, 1, 1, 0, now() - interval '1 hour')`,
		"one with a later rank": `
			('new', 1, 0, 0, 0, 1, now() - interval '1 minute'), ('old', 1, 0, 0, 0, 9, now() - interval '1 hour')`,
		"one of another priority": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
		"one in another pool": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 77, 0, 0, 0, 0, now() - interval '1 hour')`,
		"one that is not queued yet, in another pool": `
			('new', 1, 0, NULL, 0, NULL, now() - interval '1 minute'), ('later', 76, 0, NULL, 0, NULL, now() + interval '1 hour'),
			('old', 77, 0, NULL, 0, NULL, now() - interval '1 hour')`,
		"none that is scheduled": `
			('later', 1, 0, NULL, 0, NULL, now() + interval '2 hours'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if age := b.oldest(); age != 0 {
				t.Errorf("%v s without a task", age)
			}
			b.exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, created_at, pool_id, priority, lane, retry_count, rank, due_at)
				SELECT v.task_id, '', '', 'x', now() - interval '1 day', v.pool_id, v.priority, v.lane::smallint, v.retry_count, v.rank::double precision, v.due_at
				FROM (VALUES ` + waiting + `) AS v (task_id, pool_id, priority, lane, retry_count, rank, due_at)`)
			if age := b.oldest(); age < 3600 || age > 4200 {
				t.Errorf("%v s, want an hour", age)
			}
			b.exec("UPDATE tasks SET status = 4 WHERE task_id = 'old'")
			if age := b.oldest(); age > 1200 {
				t.Errorf("%v s when the oldest is gone", age)
			}
		})
	}
}

// oldest is what /metrics tells.
func (b *testBundle) oldest() (seconds float64) {
	b.t.Helper()
	match := regexp.MustCompile(`(?m)^lksms_queue_oldest_pending_seconds (.+)$`).FindStringSubmatch(b.expect(200, "", "GET", "/metrics", nil).raw)
	if match == nil {
		b.t.Fatal("no age in the metrics")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return seconds
}

// Whoever changes the states of several senders locks them in one order: the first that is taken holds up all the rest.
func TestTheStatesOfSendersAreLockedInOneOrder(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, b *testBundle) error{
		"fold": func(ctx context.Context, b *testBundle) error { _, err := b.app.Senders.Fold(ctx); return err },
		"seen": func(ctx context.Context, b *testBundle) error { _, err := b.app.Senders.SweepSeen(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.exec("INSERT INTO senders (sender_no, name) SELECT 'app-' || i, 'x' FROM generate_series(1, 50) i")
			b.exec("INSERT INTO sender_states (sender_id) SELECT id FROM senders ORDER BY id DESC")
			b.exec("INSERT INTO sender_changes (sender_no, sent, at) SELECT sender_no, 1, now() FROM senders ORDER BY id DESC")
			for i := range 50 {
				if err := b.app.Senders.Polled(t.Context(), fmt.Sprintf("app-%d", i+1)); err != nil {
					t.Fatal(err)
				}
			}
			holder, err := b.db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Rollback(context.Background())
			if _, err := holder.Exec(t.Context(), "SELECT FROM sender_states ORDER BY sender_id LIMIT 1 FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- change(t.Context(), b) }()
			eventually(t, "it waits", func() bool {
				return b.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
			})
			if n := b.count(`SELECT count(*) FROM (
				SELECT FROM sender_states WHERE sender_id > (SELECT min(sender_id) FROM sender_states) FOR UPDATE SKIP LOCKED) s`); n != 49 {
				t.Errorf("%d of 49 states are free while it waits for the first", n)
			}
			if err := holder.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhoPolledIsNotedLaterWhenTheDatabaseFails(t *testing.T) {
	b := setup(t)
	if err := b.app.Senders.Polled(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.app.Senders.SweepSeen(ended); err == nil {
		t.Fatal("it did not fail")
	}
	if n, err := b.app.Senders.SweepSeen(t.Context()); n != 1 || err != nil {
		t.Errorf("noted %d, %v", n, err)
	}
}

// Whoever changes tasks, and be it by hand, the statistics are exact, folded or not.
func TestS0_13_StatisticsEqualTheRows(t *testing.T) {
	b := setup(t)
	counts := history.New(b.app.DB, prometheus.NewRegistry())
	fold := func() {
		t.Helper()
		if _, err := counts.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	same := func(what string) {
		t.Helper()
		if got, want := b.statistics(), b.counted(); got != want {
			t.Errorf("after %s: %+v, the rows say %+v", what, got, want)
		}
	}
	for _, sql := range []string{
		"INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT 't' || i, '', '', 'x' FROM generate_series(1, 100) i",
		"UPDATE tasks SET status = 2 WHERE task_id < 't3'",
		"UPDATE tasks SET content = 'y'",
		"UPDATE tasks SET retry_count = 1, status = 0 WHERE task_id > 't8'",
		"DELETE FROM tasks WHERE task_id LIKE '%5'",
		"DELETE FROM tasks WHERE false",
		"TRUNCATE tasks",
	} {
		b.exec(sql)
		same(sql)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				b.submit("x")
				for _, claimed := range b.claim("app", 3) {
					b.report(claimed.TaskID, "app", 2, report{"lease_id": claimed.LeaseID})
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			fold()
		}
	})
	all.Wait()
	same("work from several sides")
	fold()
	fold()
	same("folding")
	if n := b.count("SELECT count(*) FROM task_count_changes"); n != 1 {
		t.Errorf("%d rows are left after folding", n)
	}
	if err := b.app.DB.Tx(t.Context(), func(ctx context.Context) error {
		_, err := dbq.New(b.app.DB).TaskCountFold(ctx)
		return err
	}); err != nil {
		t.Error(err)
	}
	same("folding what is folded")
}
