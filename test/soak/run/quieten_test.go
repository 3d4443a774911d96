package run

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
	"lksms/test/soak/check/checktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestOnlyWorkThatCouldProgressCountsAsLeftOver(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const (
		waits   = "UPDATE queue SET due_at = now() + interval '1 hour' WHERE task_id = 'a'; UPDATE queue SET lease_until = now() + interval '1 minute' WHERE task_id = 'b';"
		resting = "UPDATE queue SET due_at = now(); INSERT INTO routes (pool_id, sender_id) VALUES (1, 1);" +
			"INSERT INTO sender_states (sender_id, rest_until) VALUES (1, now() + interval '2 hours') ON CONFLICT (sender_id) DO UPDATE SET rest_until = excluded.rest_until;"
	)
	for what, c := range map[string]struct {
		sql    string
		doable string        // expected part of leftOver.doable; empty: no work could progress
		latest time.Duration // time until the last wait ends
		reason string        // expected part of the reason of this wait
	}{
		"a task that is due":                       {"UPDATE queue SET lease_until = now() + interval '1 minute' WHERE task_id = 'b'", "task a", time.Minute, "held by app"},
		"a lease that ran out":                     {waits + "UPDATE queue SET lease_until = now() WHERE task_id = 'b'", "task b", time.Hour, "due later"},
		"tasks that wait legitimately":             {waits, "", time.Hour, "due later"},
		"tasks whose only sender is paused":        {waits + resting, "", 2 * time.Hour, "its senders are paused"},
		"tasks with one sender that is not paused": {waits + resting + "INSERT INTO senders (id, sender_no, name) VALUES (2, 'x', 'x'); INSERT INTO sender_states (sender_id) VALUES (2) ON CONFLICT DO NOTHING; INSERT INTO routes (pool_id, sender_id) VALUES (1, 2)", "task a", time.Minute, "held"},
		"a planned notification":                   {"DELETE FROM queue; INSERT INTO announcements (id, payload, user_ids) VALUES (1, '{}', '{}'); INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, submitted_by, announcement_id, next_run_at) VALUES (1, 1, 77, 1, 'u', 1, now() + interval '1 hour')", "", 0, ""},
		"a notification that is due":               {"DELETE FROM queue; INSERT INTO announcements (id, payload, user_ids) VALUES (1, '{}', '{}'); INSERT INTO notifications (company_id, channel_id, biz_type, biz_id, submitted_by, announcement_id, next_run_at) VALUES (1, 1, 77, 1, 'u', 1, now())", "notifications", 0, ""},
		"nothing left":                             {"DELETE FROM queue", "", 0, ""},
	} {
		t.Run(what, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), checktest.Sound+";"+c.sql); err != nil {
				t.Fatal(err)
			}
			l, err := left(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(l.doable, c.doable) || (c.doable == "") != (l.doable == "") {
				t.Errorf("could progress: %q, want %q", l.doable, c.doable)
			}
			if l.latest != c.latest || !strings.Contains(l.reason, c.reason) {
				t.Errorf("waits for %s (%s), want %s (%s)", l.latest, l.reason, c.latest, c.reason)
			}
		})
	}
}
