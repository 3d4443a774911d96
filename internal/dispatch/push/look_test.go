package push_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// After a claim, an operator can switch off, pause or cancel the sender, batch, company, channel or country, take the way to the sender away, or block the
// recipients. A call that has begun then finishes, but the other messages of the claim are not sent. Their leases are returned, and their tasks cost nothing.
func TestMessagesHeldAfterTheClaimAreNotSent(t *testing.T) {
	patch := func(path string, body map[string]any) func(*apptest.Bundle, string) {
		return func(b *apptest.Bundle, _ string) { b.Expect(200, "", "PATCH", path, body) }
	}
	for name, hold := range map[string]func(b *apptest.Bundle, batch string){
		"sender":  patch("/api/v1/admin/senders/pushed", map[string]any{"status": "off"}),
		"company": patch("/api/v1/admin/companies/default", map[string]any{"status": "off"}),
		"channel": patch("/api/v1/admin/channels/sms", map[string]any{"status": "off"}),
		"country": patch("/api/v1/admin/countries/CN", map[string]any{"status": "off"}),
		"breaker": func(b *apptest.Bundle, _ string) {
			b.Exec("UPDATE sender_states SET openings = 1, rest_until = now() + interval '1 hour', rest_reason = 'another server was refused'")
		},
		"hours": patch("/api/v1/admin/senders/pushed", map[string]any{"time_zone": "UTC", "hours": fmt.Sprintf("%s-%s",
			time.Now().UTC().Add(2*time.Hour).Format("15:04"), time.Now().UTC().Add(3*time.Hour).Format("15:04"))}),
		"not shared": patch("/api/v1/admin/senders/pushed", map[string]any{"is_shared": false}),
		"blocked": func(b *apptest.Bundle, _ string) {
			for i := range 3 {
				b.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": fmt.Sprint("1380013800", i), "scope": "all"})
			}
		},
		"batch paused":    func(b *apptest.Bundle, batch string) { b.Expect(200, "", "POST", batch+"/pause", nil) },
		"batch cancelled": func(b *apptest.Bundle, batch string) { b.Expect(200, "", "POST", batch+"/cancel", nil) },
		"batch cancelled while it was paused": func(b *apptest.Bundle, batch string) {
			b.Expect(200, "", "POST", batch+"/pause", nil)
			b.Expect(200, "", "POST", batch+"/cancel", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := apptest.NewPushing(t, map[string]any{"status": "off", "balance": 10})
			b.AddCountry("CN", "86", nil)
			config := p.SenderConfig()
			config["atOnce"] = 1
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
			batch := apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", "/api/v1/batches", map[string]any{
				"name": "x", "content": "hello", "auto_confirm": true,
				"rows": []map[string]string{{"phone_number": "13800138000"}, {"phone_number": "13800138001"}, {"phone_number": "13800138002"}},
			}))
			if _, err := b.App.Batches.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := b.App.Batches.Feed(t.Context()); err != nil {
				t.Fatal(err)
			}
			called, goOn := make(chan struct{}), make(chan struct{})
			open := sync.OnceFunc(func() { close(goOn) })
			defer open() // if the test fails early, the provider must not wait
			begun := sync.OnceFunc(func() { close(called) })
			p.Does(func(w http.ResponseWriter, _ *http.Request) {
				begun()
				<-goOn
				<-time.After(150 * time.Millisecond) // the last check is then older than recheckInterval
				_, _ = io.WriteString(w, `{"code":"0"}`)
			})
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
			<-called
			hold(b, fmt.Sprint("/api/v1/batches/", batch.BatchID))
			open()
			apptest.Eventually(t, "two leases are given back", func() bool {
				return b.Count("SELECT count(DISTINCT task_id) FROM report_logs WHERE effect = 'untried'") == 2
			})
			switch name { // the worker itself must hold or cancel these tasks, without the sweep
			case "batch paused":
				apptest.Eventually(t, "both are held", func() bool {
					return b.Count("SELECT count(*) FROM queue WHERE due_at = held_due_at()") == 2
				})
			case "batch cancelled", "batch cancelled while it was paused":
				apptest.Eventually(t, "both are cancelled", func() bool {
					return b.Count("SELECT count(*) FROM report_logs WHERE event = 'cancelled' AND request_data ->> 'by' = 'system:batches'") == 2
				})
			}
			if n := b.Count("SELECT count(*) FROM report_logs WHERE effect = 'untried'"); n > 2 && strings.HasPrefix(name, "batch") {
				t.Errorf("%d leases were given back", n)
			}
			if n := b.Count("SELECT count(*) FROM queue WHERE retry_count > 0"); n != 0 {
				t.Errorf("%d attempts were counted", n)
			}
			if n := len(p.Seen()); n != 1 {
				t.Errorf("the provider was called %d times", n)
			}
			if n := b.Count("SELECT count(*) FROM tasks WHERE status = 2"); n != 1 {
				t.Errorf("%d messages were sent", n)
			}
			apptest.Eventually(t, "what was not sent costs nothing", func() bool { return *b.GetSender("pushed").Balance == 9 })
		})
	}
}

// pauseWhenClaimed pauses a batch while a claim of one of its tasks runs. A claim that begins later returns no task of the batch. The function returned resumes
// usual claims.
func pauseWhenClaimed(b *apptest.Bundle, batchID int64) (end func()) {
	b.Exec(fmt.Sprintf(`CREATE FUNCTION pause_batch() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			UPDATE batches SET status = 'paused', is_held = true WHERE id = %d AND status = 'running';
			RETURN NULL;
		END $$`, batchID))
	b.Exec(fmt.Sprintf(`CREATE TRIGGER pause_batch AFTER UPDATE ON queue FOR EACH ROW
		WHEN (NEW.batch_id = %d AND OLD.lease_until IS NULL AND NEW.lease_until IS NOT NULL) EXECUTE FUNCTION pause_batch()`, batchID))
	return func() { b.Exec("DROP TRIGGER pause_batch ON queue") }
}

// If a probe message is held, the probe ends at once. The next message is sent immediately and does not wait for the end of the probe's lease.
func TestProbeEndsAtOnceIfItsMessageIsHeld(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	batch := apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", "/api/v1/batches", map[string]any{
		"name": "x", "content": "hello", "auto_confirm": true, "rows": []map[string]string{{"phone_number": "13800138000"}},
	}))
	if _, err := b.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	pauseWhenClaimed(b, batch.BatchID)                                    // the sweep has not held the task of the batch yet
	b.Exec("UPDATE senders SET status = 'on' WHERE sender_no = 'pushed'") // the breaker stays half open
	b.Exec("UPDATE sender_states SET openings = 1, rest_until = now() - interval '1 second', rest_reason = 'was refused'")
	apptest.Eventually(t, "the probe is given back", func() bool { return b.Count("SELECT count(*) FROM report_logs WHERE effect = 'untried'") > 0 })
	id := b.SubmitBody(map[string]any{"phone_number": "13900139000", "content": "code", "message_type": "verification"}).TaskID // claimed first
	apptest.Eventually(t, "another message is sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2 AND task_id = '"+id+"'") == 1 })
	if n := len(p.Seen()); n != 1 {
		t.Errorf("the provider was called %d times", n)
	}
}

// A claim contains messages of two batches, and one of the batches is paused. Only messages of the paused batch are held, even before the sweep runs. After
// this batch is resumed, its messages are sent.
func TestPausedBatchHoldsOnlyItsOwnMessages(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	acme := b.AddCompany("acme", 1)
	rows := []map[string]string{{"phone_number": "13800138000"}, {"phone_number": "13800138001"}, {"phone_number": "13800138002"}}
	body := map[string]any{"name": "x", "content": "hello", "auto_confirm": true, "rows": rows}
	paused := apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", "/api/v1/batches", body))
	b.Expect(200, "", "POST", "/api/v1/batches", body, acme...)
	if _, err := b.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := pauseWhenClaimed(b, paused.BatchID) // the same state as after a server that died before it held the tasks
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
	apptest.Eventually(t, "three are held and the others sent", func() bool {
		return b.Count("SELECT count(*) FROM queue WHERE due_at = held_due_at()") == 3 && b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 3
	})
	if n := len(p.Seen()); n != 3 {
		t.Errorf("the provider was called %d times", n)
	}
	if n := b.Count("SELECT count(*) FROM queue q WHERE q.batch_id <> $1", paused.BatchID); n != 0 {
		t.Errorf("%d messages of the other company wait", n)
	}
	end()
	b.Expect(200, "", "POST", fmt.Sprint("/api/v1/batches/", paused.BatchID, "/resume"), nil)
	apptest.Eventually(t, "all are sent", func() bool {
		_, err := b.App.Queue.Queue(t.Context())
		return err == nil && b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 6
	})
}

// A check that fails slowly is not repeated at once for each other message. The leases of the other messages are returned soon.
func TestFailedCheckIsNotRepeatedAtOnce(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	config := p.SenderConfig()
	config["atOnce"] = 1
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	b.SubmitMany("x", 6, nil)
	called, goOn := make(chan struct{}), make(chan struct{})
	open := sync.OnceFunc(func() { close(goOn) })
	defer open() // if the test fails early, the provider must not wait
	begun := sync.OnceFunc(func() { close(called) })
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		begun()
		<-goOn
		<-time.After(150 * time.Millisecond) // the last check is then older than recheckInterval
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
	<-called
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE batches"); err != nil { // among the statements of the worker, only the check reads this table
		t.Fatal(err)
	}
	open()
	began := time.Now()
	apptest.Eventually(t, "five leases are given back", func() bool {
		return b.Count("SELECT count(DISTINCT task_id) FROM report_logs WHERE effect = 'untried'") == 5
	})
	if took := time.Since(began); took > 5*time.Second { // one check takes up to two seconds
		t.Errorf("the leases were given back after %s", took)
	}
}
