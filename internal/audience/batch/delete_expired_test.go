package batch_test

import (
	"context"
	"testing"

	"lksms/internal/testkit/apptest"
)

func TestABatchIsDeletedWithItsRowsAfterBatchDays(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "tenant", "name": "tenant"})
	checked(b, numbers(1), "content", "x")
	b.Exec("UPDATE batches SET company_id = (SELECT c.id FROM companies c WHERE c.company_no = 'tenant')")
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/tenant", nil)

	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	feed(b)
	b.Exec("DELETE FROM report_logs")
	b.Exec("DELETE FROM messages")
	if got := rows(b, at, ""); got != "2 +8613800000000 \"hello\" task\n3 +8613800000001 \"hello\" task" {
		t.Errorf("rows of deleted tasks:\n%s", got)
	}
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 success")
	running := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"batch_days": 30}})
	deleteExpired := func(want int) {
		t.Helper()
		if n, err := b.App.Batches.DeleteExpired(t.Context()); n != want || err != nil {
			t.Errorf("deleted %d, want %d, %v", n, want, err)
		}
	}
	deleteExpired(0)
	b.Exec("UPDATE batches SET checked_at = now() - interval '31 days', ended_at = CASE WHEN ended_at IS NOT NULL THEN now() - interval '31 days' END")
	deleteExpired(2)
	get(b, running)
	if n := b.Count("SELECT count(*) FROM batch_rows"); n != 2 {
		t.Errorf("%d rows are left", n)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/tenant", nil)
}

// The batches of a partition are dropped together after all of them have ended. A batch that runs for a long time delays the drop only for a limited time.
func TestBatchesAreDroppedByPartition(t *testing.T) {
	b := apptest.New(t)
	left := func(when, want string) {
		t.Helper()
		if _, err := b.App.Batches.DeleteExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := apptest.Scan[string](b, `SELECT coalesce(string_agg(place || ':' || n, ' ' ORDER BY place), '') || ', batches ' || (SELECT count(*) FROM batches)
			FROM (SELECT replace(tableoid::regclass::text, 'batch_rows_', '') AS place, count(*) AS n FROM batch_rows GROUP BY 1) x`)
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"batch_days": 30}})
	checked(b, numbers(1), "content", "before")
	b.NextNumberPartitions()
	checked(b, numbers(2), "content", "ready")
	checked(b, numbers(3), "content", "ready")
	b.NextNumberPartitions()
	sent := checked(b, numbers(4), "content", "hello", "auto_confirm", "true")
	feed(b)
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	feed(b)
	expect(b, get(b, sent), "finished", "4 rows, 4 valid, 4 success")
	if got := rows(b, sent, "?limit=1"); got != "2 +8613800000000 \"hello\" success task" {
		t.Errorf("rows: %s", got)
	}
	running := checked(b, numbers(5), "content", "hello", "auto_confirm", "true")
	b.NextNumberPartitions()
	checked(b, numbers(2), "content", "ready")
	checked(b, numbers(4), "content", "ready")
	b.NextNumberPartitions()
	left("at first", "20000:5 40000:9 60000:6 default:1, batches 7")
	older := func(days string) {
		t.Helper()
		b.Exec("UPDATE batches SET checked_at = now() - $1::interval, ended_at = CASE WHEN ended_at IS NOT NULL THEN now() - $1::interval END", days)
		b.Exec("UPDATE number_partitions SET left_at = now() - $1::interval WHERE left_at IS NOT NULL", days)
	}
	older("31 days")
	left("a batch that runs holds its partition, and not the next one", "40000:9, batches 2")
	older("39 days")
	left("it holds others for a week and the width of a partition", "40000:5, batches 1")
	get(b, running)
	b.Expect(200, "", "POST", running+"/cancel", nil)
	feed(b)
	older("31 days")
	left("all are over", ", batches 0")
	if n := b.Count("SELECT count(*) FROM number_partitions WHERE parent = 'batch_rows' AND first_number IN (20000, 40000, 60000)"); n != 0 {
		t.Errorf("%d partitions are left", n)
	}
}

// If a batch runs again while its partition is about to be dropped, the whole partition is kept.
func TestABatchThatRunsAgainKeepsItsPartition(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"batch_days": 30}})
	checked(b, numbers(1), "content", "before")
	b.NextNumberPartitions()
	checked(b, numbers(2), "content", "ready")
	checked(b, numbers(2), "content", "ready")
	b.NextNumberPartitions()
	b.Exec("UPDATE batches SET checked_at = now() - interval '31 days' WHERE id >= 20000")
	b.Exec("UPDATE number_partitions SET left_at = now() - interval '31 days' WHERE left_at IS NOT NULL")
	other, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.WithoutCancel(t.Context())) // this does nothing if the transaction has ended
	if _, err := other.Exec(t.Context(), "UPDATE batches SET checked_at = now() WHERE id = 20000"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.App.Batches.DeleteExpired(t.Context())
		done <- err
	}()
	apptest.Eventually(t, "the drop waits for the batch", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%batch_partition_drop%'") > 0
	})
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE batch_id >= 20000"); n != 4 {
		t.Errorf("the partition has %d rows", n)
	}
}
