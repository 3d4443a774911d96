package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/testkit/apptest"
)

// waiting returns a server with three senders that share a pool. Each sender has a limit and an interval. The limit of the sender rival is used up, and rival
// waits, so that the server polls the database.
func waiting(t *testing.T) *apptest.Bundle {
	t.Helper()
	b := apptest.New(t)
	for _, no := range []string{"app", "another", "rival"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false, "interval_ms": 1, "limits": map[string]any{"per_day": 10}})
		b.AddRoute("default", no, 1)
	}
	b.Exec(`UPDATE sender_states st SET day_used = 10, last_taken_at = now() FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'rival'`)
	ended := make(chan error, 1)
	go func() {
		_, err := b.App.Queue.ClaimOrWait(t.Context(), claim.Request{SenderNo: "rival", Limit: 1}, time.Minute)
		ended <- err
	}()
	t.Cleanup(func() {
		b.App.Queue.StopWaiting()
		<-ended
	})
	apptest.Eventually(t, "the rival waits", func() bool { return b.App.Queue.Waiting() == 1 })
	return b
}

// sinceSeen sets the time of the last stored poll of a sender to the given number of seconds ago. Then the sender waits for a moment. sinceSeen returns the
// age of the last stored poll in seconds.
func sinceSeen(b *apptest.Bundle, senderNo string, seconds int) int {
	b.T.Helper()
	b.Exec(fmt.Sprintf("UPDATE sender_states SET seen_at = now() - interval '%d seconds'", seconds))
	leases, err := b.App.Queue.ClaimOrWait(b.T.Context(), claim.Request{SenderNo: senderNo, Limit: 1}, time.Millisecond)
	if err != nil || len(leases) > 0 {
		b.T.Fatal(leases, err)
	}
	return secondsSinceSeen(b, senderNo)
}

func secondsSinceSeen(b *apptest.Bundle, senderNo string) int {
	b.T.Helper()
	return b.Count(`SELECT extract(epoch FROM now() - st.seen_at)::bigint FROM sender_states st JOIN senders s ON s.id = st.sender_id
		WHERE s.sender_no = $1`, senderNo)
}

// A sender whose rivals depend on its polls waits without a claim while no task exists. A sweep stores that the sender waits.
func TestWaitingSenderDoesNotClaimFromEmptyPools(t *testing.T) {
	b := waiting(t)
	apptest.Eventually(t, "the sender waits without a claim", func() bool { return sinceSeen(b, "app", 30) >= 30 })
	stored := 0
	apptest.Eventually(t, "the polls of the two are stored", func() bool { // the rival is stored only after its pools were read again, which happened just before
		n, err := b.App.Queue.RecordPolls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stored += n
		return stored == 2
	})
	if since := secondsSinceSeen(b, "app"); since >= 30 {
		t.Errorf("the last stored poll was %d seconds ago", since)
	}
	if n, err := b.App.Queue.RecordPolls(t.Context()); n != 0 || err != nil {
		t.Errorf("stored polls of %d senders again, %v", n, err)
	}
	// A sender whose interval has ended counts as ready.
	b.Exec("UPDATE sender_states SET seen_at = now() - interval '2 seconds', next_available_at = now() - interval '1 second'")
	stored = 0
	apptest.Eventually(t, "the poll of the rival, which alone waits, is stored", func() bool {
		n, err := b.App.Queue.RecordPolls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stored += n
		return stored > 0
	})
	if stored != 1 {
		t.Errorf("stored polls of %d senders", stored)
	}
}

// If silent_after is too short for the sweep that stores polls, each poll of a sender is a claim, because a claim stores the poll.
func TestSenderClaimsOnEachPollIfItIsSoonSilent(t *testing.T) {
	b := waiting(t)
	apptest.Eventually(t, "the sender waits without a claim", func() bool { return sinceSeen(b, "app", 30) >= 30 })
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", map[string]any{"sender_silent_after_seconds": 19})
	if since := sinceSeen(b, "app", 15); since >= 15 {
		t.Errorf("the last stored poll was %d seconds ago", since)
	}
}

// After a claim that returned tasks, the next poll of the sender claims again at once. It does not wait for tasks.
func TestSenderClaimsAgainAfterItReceivedATask(t *testing.T) {
	b := waiting(t)
	apptest.Eventually(t, "the sender waits without a claim", func() bool { return sinceSeen(b, "app", 30) >= 30 })
	b.Submit("x")
	task := b.Claim("app", 1)
	if len(task) != 1 {
		t.Fatalf("claimed %v", task)
	}
	b.Report(task[0].TaskID, "app", 2, nil)
	apptest.Eventually(t, "another sender waits without a claim", func() bool { return sinceSeen(b, "another", 30) >= 30 })
	if since := sinceSeen(b, "app", 30); since >= 30 {
		t.Error("the sender did not claim again after it had claimed a task")
	}
}

// A sender claimed a task and has not polled since its interval ended. Such a sender is still sending, or has stopped. The sweep must not record the sender
// as ready, because its rivals would wait for the sender.
func TestSweepDoesNotRecordAPollOfAnAbsentSender(t *testing.T) {
	b := waiting(t)
	apptest.Eventually(t, "the sender waits without a claim", func() bool { return sinceSeen(b, "app", 30) >= 30 })
	b.Submit("x")
	if task := b.Claim("app", 1); len(task) != 1 {
		t.Fatalf("claimed %v", task)
	}
	b.Exec(`UPDATE sender_states st SET seen_at = now() - interval '2 seconds', next_available_at = now() - interval '1 second'
		FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'app'`)
	if _, err := b.App.Queue.RecordPolls(t.Context()); err != nil {
		t.Fatal(err)
	}
	if since := secondsSinceSeen(b, "app"); since < 2 {
		t.Errorf("the poll from before the interval was stored after the interval, with the time %d seconds ago", since)
	}
}

// A sender that cannot claim waits until it can, although its pool contains tasks. It does not claim again with each poll.
func TestASenderThatCannotClaimWaits(t *testing.T) {
	for name, c := range map[string]struct{ stop, start func(*apptest.Bundle) }{
		"paused": {
			func(b *apptest.Bundle) {
				b.Exec("UPDATE sender_states SET openings = 1, rest_reason = 'x', rest_until = now() + interval '1 hour', next_available_at = now() + interval '1 hour'")
			},
			func(b *apptest.Bundle) {
				b.Exec("UPDATE sender_states SET openings = 0, rest_reason = NULL, rest_until = NULL, next_available_at = '-infinity'")
			},
		},
		"off":           {patchApp("status", "off"), patchApp("status", "on")},
		"outside hours": {patchApp("hours", hours(2*time.Hour, 3*time.Hour)), patchApp("hours", hours(-time.Hour, 2*time.Hour))},
		"used up":       {patchApp("limits", map[string]any{"per_day": 0}), patchApp("limits", map[string]any{"per_day": 9})},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "app"})
			b.Claim("app", 1) // the server knows the pools of the sender
			c.stop(b)
			b.Submit("x")
			claimed := make(chan int, 1)
			var claims atomic.Int64
			go func() {
				leases, err := b.App.Queue.ClaimOrWait(t.Context(), claim.Request{SenderNo: "app", Limit: 1, StillMay: func(context.Context) error {
					claims.Add(1)
					return nil
				}}, time.Minute)
				if err != nil {
					t.Error(err)
				}
				claimed <- len(leases)
			}()
			before := b.Polls()
			apptest.Eventually(t, "ten polls", func() bool { return b.Polls() >= before+10 })
			if n := claims.Load(); n > 4 {
				t.Errorf("claimed %d times during ten polls", n)
			}
			c.start(b)
			if n := <-claimed; n != 1 {
				t.Errorf("claimed %d tasks", n)
			}
		})
	}
}

// patchApp returns a function that changes a field of the sender app.
func patchApp(field string, value any) func(*apptest.Bundle) {
	return func(b *apptest.Bundle) {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"time_zone": "UTC", field: value})
	}
}
