package setting_test

import (
	"fmt"
	"testing"

	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// Concurrent changes of the same settings wait for each other in a fixed order.
func TestConcurrentChangesOfSettingsDoNotDeadlock(t *testing.T) {
	b := apptest.New(t)
	apptest.Together(4, func(i int) {
		for n := range 10 {
			value := (i + n) % 10
			b.Expect(200, "", "PUT", "/api/v1/admin/settings", fmt.Sprintf(
				`{"sms":{"priority_verification":%[1]d,"priority_notification":%[1]d,"priority_marketing":%[1]d},"queue":{"priority_max_wait_seconds":%[1]d}}`, value))
		}
	})
	// Each change starts from the value that the previous change set, and the first change from the default.
	if n := b.Count(`SELECT count(*) FROM (
			SELECT before -> 'value' AS was, lag(after -> 'value') OVER (PARTITION BY entity_key ORDER BY id) AS earlier FROM audit WHERE entity = 'setting'
		) c WHERE was <> earlier`); n > 0 {
		t.Errorf("%d changes have another value before than the last one set", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'setting' AND action <> 'changed'"); n > 0 {
		t.Errorf("%d settings were created", n)
	}
	if n := b.Count("SELECT count(*) FROM settings WHERE updated_by IS NULL"); n > 0 {
		t.Errorf("%d defaults are stored", n)
	}
}

// The wait of a more urgent level cannot become shorter than the wait of a less urgent level, whichever of the two levels changes. A wait of 0 turns its level
// off.
func TestTheWaitOfAMoreUrgentLevelCannotBeShorter(t *testing.T) {
	b := apptest.New(t)
	put := func(status int, field, body string) {
		t.Helper()
		got := b.Call("PUT", "/api/v1/admin/settings", `{"monitoring":`+body+`}`)
		if got.Status != status || got.Fields() != field {
			t.Errorf("%s: %s", body, got.Raw)
		}
	}
	put(422, "monitoring.wait_warning_seconds", `{"wait_warning_seconds":601}`)
	put(422, "monitoring.wait_critical_seconds", `{"wait_critical_seconds":299}`)
	put(422, "monitoring.wait_emergency_seconds", `{"wait_emergency_seconds":599}`)
	put(200, "", `{"wait_critical_seconds":0}`)
	put(200, "", `{"wait_warning_seconds":1800}`)
	put(422, "monitoring.wait_warning_seconds", `{"wait_warning_seconds":1801}`)
	put(200, "", `{"wait_warning_seconds":2,"wait_critical_seconds":2,"wait_emergency_seconds":2}`)
	put(200, "", `{"time_zone":"UTC"}`)
}

// Two concurrent changes also keep the order.
func TestConcurrentChangesKeepTheOrderOfWaits(t *testing.T) {
	b := apptest.New(t)
	for range 10 {
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", `{"monitoring":{"wait_warning_seconds":300,"wait_critical_seconds":600}}`)
		var status [2]int
		apptest.Together(2, func(i int) {
			body := []string{`{"monitoring":{"wait_warning_seconds":500}}`, `{"monitoring":{"wait_critical_seconds":400}}`}[i]
			status[i] = b.Call("PUT", "/api/v1/admin/settings", body).Status
		})
		if status != [2]int{200, 422} && status != [2]int{422, 200} {
			t.Errorf("%v", status)
		}
	}
}
