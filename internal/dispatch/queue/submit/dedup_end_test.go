package submit_test

import (
	"testing"
	"time"

	"lksms/internal/testkit/apptest"
)

// A dedup key becomes free after the configured number of days, and not earlier. The key of a waiting task is kept. Without the setting, all keys are kept.
func TestDedupKeyExpiresAfterTheConfiguredDays(t *testing.T) {
	b := apptest.New(t)
	message := func(key string, more map[string]any) string {
		t.Helper()
		body := map[string]any{"phone_number": apptest.Phone, "content": "x", "dedup_key": key}
		for name, value := range more {
			body[name] = value
		}
		return b.SubmitBody(body).TaskID
	}
	over, young := message("over", nil), message("young", nil)
	for range 2 {
		b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	}
	waiting := message("waiting", map[string]any{"expect_send_time": time.Now().AddDate(0, 1, 0)})
	b.Exec("UPDATE dedup_keys SET made_on = made_on - CASE WHEN dedup_key = 'young' THEN 7 ELSE 8 END")
	expect := func(want int) {
		t.Helper()
		if n, err := b.App.Submissions.DeleteExpired(t.Context()); n != want || err != nil {
			t.Errorf("deleted %d, want %d, %v", n, want, err)
		}
	}
	expect(0)
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"dedup_keep_days": 7}})
	expect(1)
	expect(0)
	if again := message("over", nil); again == over {
		t.Error("the key of the first task is still in use")
	}
	if again := message("young", nil); again != young {
		t.Error("a key ended too early")
	}
	if again := message("waiting", nil); again != waiting {
		t.Error("the key of a task that waits ended")
	}
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+waiting+"/cancel", nil)
	expect(1)
}
