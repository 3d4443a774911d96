package app_test

import (
	"context"
	"sync"
	"testing"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/setting"
	"lksms/internal/stats"

	"github.com/prometheus/client_golang/prometheus"
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

// Whoever changes tasks, and be it by hand, the statistics are exact, folded or not.
func TestS0_13_StatisticsEqualTheRows(t *testing.T) {
	b := setup(t)
	counts := stats.New(b.app.DB, setting.New(b.app.DB), prometheus.NewRegistry())
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
