package queue_test

import (
	"context"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/apptest"
	"lksms/internal/history"
	"lksms/internal/setting"
)

func statistics(b *apptest.Bundle) api.Statistics {
	b.T.Helper()
	return apptest.Decode[api.Statistics](b.T, b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil))
}

// counted computes the statistics from all rows of tasks.
func counted(b *apptest.Bundle) (s api.Statistics) {
	b.T.Helper()
	if err := b.DB.QueryRow(b.T.Context(), `SELECT count(*) FILTER (WHERE status = 0 AND retry_count = 0),
		count(*) FILTER (WHERE status = 0 AND retry_count > 0), count(*) FILTER (WHERE status = 1),
		count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3) FROM tasks`).Scan(
		&s.PendingNewTasks, &s.PendingRetryTasks, &s.ProcessingTasks, &s.SuccessTasks, &s.FailedTasks); err != nil {
		b.T.Fatal(err)
	}
	return s
}

// The oldest waiting task is the one that has been due longest, wherever it stands in the order.
func TestTheOldestWaitingTaskIsFoundWhereverItIs(t *testing.T) {
	for name, waiting := range map[string]string{
		"a retry behind new tasks of priority 0": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 0, 1, 1, 0, now() - interval '1 hour')`,
		"a task with a later rank": `
			('new', 1, 0, 0, 0, 1, now() - interval '1 minute'), ('old', 1, 0, 0, 0, 9, now() - interval '1 hour')`,
		"a task of another priority": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
		"a task in another pool": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 77, 0, 0, 0, 0, now() - interval '1 hour')`,
		"a task that is not queued yet, in another pool": `
			('new', 1, 0, NULL, 0, NULL, now() - interval '1 minute'), ('later', 76, 0, NULL, 0, NULL, now() + interval '1 hour'),
			('old', 77, 0, NULL, 0, NULL, now() - interval '1 hour')`,
		"no scheduled task": `
			('later', 1, 0, NULL, 0, NULL, now() + interval '2 hours'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			if age := oldest(b); age != 0 {
				t.Errorf("%v s without a task", age)
			}
			b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, created_at, pool_id, priority, lane, retry_count, rank, due_at)
				SELECT v.task_id, '', '', 'x', now() - interval '1 day', v.pool_id, v.priority, v.lane::smallint, v.retry_count, v.rank::double precision, v.due_at
				FROM (VALUES ` + waiting + `) AS v (task_id, pool_id, priority, lane, retry_count, rank, due_at)`)
			if age := oldest(b); age < 3600 || age > 4200 {
				t.Errorf("%v s, want an hour", age)
			}
			b.Exec("UPDATE tasks SET status = 4 WHERE task_id = 'old'")
			if age := oldest(b); age > 1200 {
				t.Errorf("%v s when the oldest is gone", age)
			}
		})
	}
}

// oldest reads the age of the oldest waiting task from /metrics.
func oldest(b *apptest.Bundle) (seconds float64) {
	b.T.Helper()
	match := regexp.MustCompile(`(?m)^lksms_queue_oldest_pending_seconds (.+)$`).FindStringSubmatch(b.Expect(200, "", "GET", "/metrics", nil).Raw)
	if match == nil {
		b.T.Fatal("no age in the metrics")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.T.Fatal(err)
	}
	return seconds
}

// The statistics are exact after any change of waiting tasks, even by hand, and before and after folding.
func TestS0_13_StatisticsEqualTheRows(t *testing.T) {
	b := apptest.New(t)
	counts := history.New(b.App.DB, setting.New(b.App.DB), prometheus.NewRegistry())
	fold := func() {
		t.Helper()
		if _, err := counts.Fold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	same := func(what string) {
		t.Helper()
		if got, want := statistics(b), counted(b); got != want {
			t.Errorf("after %s: %+v, the rows say %+v", what, got, want)
		}
	}
	for _, sql := range []string{
		"INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT 't' || i, '', '', 'x' FROM generate_series(1, 100) i",
		"UPDATE tasks SET status = 2 WHERE task_id < 't3'",
		"UPDATE tasks SET content = 'y'",
		"UPDATE tasks SET retry_count = 1, status = 0 WHERE task_id > 't8'",
		"DELETE FROM tasks WHERE task_id LIKE '%5' AND status = 0",
		"DELETE FROM tasks WHERE false",
	} {
		b.Exec(sql)
		same(sql)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				b.Submit("x")
				for _, claimed := range b.Claim("app", 3) {
					b.Report(claimed.TaskID, "app", 2, apptest.Report{"lease_id": claimed.LeaseID})
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
	same("concurrent work")
	fold()
	fold()
	same("folding")
	if n := b.Count("SELECT count(*) FROM task_count_changes"); n != 1 {
		t.Errorf("%d rows are left after folding", n)
	}
	if err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		_, err := dbq.New(b.App.DB).TaskCountFold(ctx)
		return err
	}); err != nil {
		t.Error(err)
	}
	same("folding what is folded")
}
