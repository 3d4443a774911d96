package batch_test

import (
	"testing"

	"lksms/internal/apptest"
)

func TestABatchIsDeletedWithItsRowsAfterTheTimeOfBatches(t *testing.T) {
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
		t.Errorf("rows whose tasks are gone:\n%s", got)
	}
	expect(b, get(b, at), "finished", "2 rows, 2 valid, 2 success")
	running := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"batch_days": 30}})
	forget := func(want int) {
		t.Helper()
		if n, err := b.App.Batches.Forget(t.Context()); n != want || err != nil {
			t.Errorf("deleted %d, want %d, %v", n, want, err)
		}
	}
	forget(0)
	b.Exec("UPDATE batches SET checked_at = now() - interval '31 days', ended_at = CASE WHEN ended_at IS NOT NULL THEN now() - interval '31 days' END")
	forget(2)
	get(b, running)
	if n := b.Count("SELECT count(*) FROM batch_rows"); n != 2 {
		t.Errorf("%d rows are left", n)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/tenant", nil)
}
