package app_test

import (
	"context"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/platform/migrate"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// pair starts a primary, a synchronous standby, and a server with the addresses of both.
func pair(t *testing.T) (b *apptest.Bundle, primary, standby *pgtest.Node) {
	t.Helper()
	primary = pgtest.NewPrimary(t)
	if _, err := migrate.Up(t.Context(), pgtest.URL(primary), nil); err != nil {
		t.Fatal(err)
	}
	standby = primary.Standby()
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()", "postgres")
	b = apptest.Open(t, apptest.DefaultRules, func(o *app.Options) { o.DatabaseURL = pgtest.URL(primary, standby) })
	return b, primary, standby
}

// submits repeats a submission until it succeeds, like a caller that gets 503.
func submits(b *apptest.Bundle, text string) string {
	b.T.Helper()
	var id string
	apptest.Eventually(b.T, "a submission succeeds", func() bool {
		a := b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": text, "use_template": false})
		if a.Status == 200 {
			id = apptest.Decode[struct {
				TaskID string `json:"task_id"`
			}](b.T, a).TaskID
		} else if a.Status != 503 {
			b.T.Fatalf("%d: %s", a.Status, a.Raw)
		}
		return id != ""
	})
	return id
}

// S4.6: when the primary dies and a standby is promoted, the server uses the new primary, and all accepted messages still exist.
func TestAServerFindsTheStandbyThatWasPromoted(t *testing.T) {
	t.Parallel()
	b, primary, standby := pair(t)
	before := submits(b, "before")
	lock, err := b.App.DB.TryLock(t.Context(), "age-tasks")
	if err != nil || lock == nil {
		t.Fatalf("%v, %v", lock, err)
	}
	while, cancel := lock.While(t.Context())
	defer cancel()
	primary.Kill()
	standby.Exec("ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()", "postgres")
	standby.Promote()
	after := submits(b, "after")
	for _, id := range []string{before, after} {
		b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil)
	}
	select {
	case <-while.Done():
	case <-time.After(time.Minute):
		t.Error("the lock of the dead primary is not lost")
	}
	_ = lock.Unlock(t.Context())
	if _, err := migrate.Up(t.Context(), b.Options.DatabaseURL, nil); err != nil {
		t.Errorf("migrate: %v", err)
	}

	// The old primary returns as a standby. In the URL it precedes the new primary.
	standby.Stop()
	primary.Demote(standby)
	standby.Start()
	submits(b, "behind a standby")
}

// A primary that hangs, or whose machine vanished, closes no connection. Requests on existing connections wait only until another host accepts writes, not
// until their time limit. The hosts of a URL keep their order, but new connections skip the host that hangs.
func TestAServerSwitchesFromAPrimaryThatHangs(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewPrimary(t)
	if _, err := migrate.Up(t.Context(), pgtest.URL(primary), nil); err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby()
	b := apptest.Open(t, apptest.DefaultRules, func(o *app.Options) { o.DatabaseURL = pgtest.URL(primary, standby) })
	submits(b, "before")
	primary.Freeze()
	answered := make(chan int, 20)
	for range cap(answered) {
		go func() {
			answered <- b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "during", "use_template": false}).Status
		}()
	}
	for n := range cap(answered) {
		if status := <-answered; status != 503 && status != 200 {
			t.Errorf("%d", status)
		}
		if n == 0 { // the server has searched for another primary and found no primary
			standby.Promote()
		}
	}
	began := time.Now()
	submits(b, "after")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the new primary was found after %s", took)
	}
}

// The connections of a server can lead to a PostgreSQL that still answers but no longer accepts writes.
func TestAServerSwitchesFromAPrimaryThatIsReadOnly(t *testing.T) {
	t.Parallel()
	b, primary, standby := pair(t)
	id := submits(b, "before")
	primary.Exec("ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()", "postgres")
	standby.Exec("ALTER SYSTEM SET synchronous_standby_names = ''; SELECT pg_reload_conf()", "postgres")
	standby.Promote()
	primary.Exec("ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()", "postgres")
	refused := 0
	apptest.Eventually(t, "a submission succeeds", func() bool {
		a := b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "after", "use_template": false})
		if a.Status != 200 {
			refused++
		}
		return a.Status == 200
	})
	if refused > 1 {
		t.Errorf("%d submissions were refused before the new primary was found", refused)
	}
	b.Expect(200, "", "GET", "/api/v1/sms/task/"+id, nil)
	var isOld bool
	if err := b.App.DB.QueryRow(context.Background(), "SELECT current_setting('default_transaction_read_only')::boolean").Scan(&isOld); err != nil || isOld {
		t.Errorf("the server still uses the old primary: %v, %v", isOld, err)
	}
}
