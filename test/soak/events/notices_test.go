package events

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
	"lksms/test/soak/invariants"
	"lksms/test/soak/load"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// notified inserts two notifications. The first notification has two messages: a was sent, b failed, and b was then requeued and sent. A person cancelled the
// second notification just after its only message, c, had ended. So both notifications ended twice.
const notified = `
INSERT INTO announcements (id, payload, user_ids) VALUES (1, '{}', '{p,q}');
INSERT INTO notifications (id, company_id, channel_id, biz_type, biz_id, submitted_by, announcement_id, ended_as) OVERRIDING SYSTEM VALUE
	VALUES (1, 1, 1, 77, 1, 'u', 1, NULL), (2, 1, 1, 77, 2, 'u', 1, 3);
INSERT INTO renderings (id, title, content, notification_id) OVERRIDING SYSTEM VALUE VALUES (1, 't', 'c', 1), (2, 't', 'c', 2);
INSERT INTO messages (task_id, submitted_by, phone_number, recipient, content, company_id, pool_id, message_type, priority, segments, user_id, rendering_id)
	VALUES ('a', 'u', '1', '+1', 'a', 1, 1, 1, 5, 1, 'p', 1), ('b', 'u', '2', '+2', 'b', 1, 1, 1, 5, 1, 'q', 1), ('c', 'u', '1', '+1', 'c', 1, 1, 1, 5, 1, 'p', 2);
INSERT INTO report_logs (id, task_id, company_id, app_id, lease_id, event, status, effect, outcome, retry_count) VALUES
	(1, 'a', 1, 'app', 1, 'reported', 2, 'success', 2, 0),
	(2, 'b', 1, 'app', 2, 'reported', 3, 'failed', NULL, 0),
	(3, 'b', 1, NULL, NULL, 'requeued', NULL, 'requeued', NULL, NULL),
	(4, 'b', 1, 'app', 3, 'reported', 2, 'success', 2, 0),
	(5, 'c', 1, 'app', 4, 'reported', 2, 'success', 2, 0);
INSERT INTO feed (id, company_id, submitted_by, type, task_id, log_id, at) VALUES
	(10, 1, 'u', 'message.sent', 'a', 1, now()),
	(20, 1, 'u', 'message.failed', 'b', 2, now()),
	(40, 1, 'u', 'message.sent', 'b', 4, now()),
	(60, 1, 'u', 'message.sent', 'c', 5, now());
INSERT INTO feed (id, company_id, submitted_by, type, at, data)
	SELECT x.id, 1, 'u', 'notification.finished', now(), jsonb_build_object('notification_id', x.n, 'status', x.status, 'counts', jsonb_build_object(
		'people', x.people, 'success', x.success, 'failed', x.people - x.success, 'cancelled', 0))
	FROM (VALUES (30, 1, 5, 2, 1), (50, 1, 1, 2, 2), (70, 2, 1, 1, 1), (80, 2, 3, 1, 1)) x (id, n, status, people, success);
`

func TestNotificationInvariantsFindViolations(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	again := func(id, notification string) string {
		return "INSERT INTO feed (id, company_id, submitted_by, type, at, data) SELECT " + id + ", 1, 'u', type, at, data FROM feed WHERE id = " + notification
	}
	for what, c := range map[string]struct{ sql, found, order string }{
		"nothing":  {"SELECT", "", ""},
		"no event": {"DELETE FROM feed WHERE id IN (30, 50)", "notification 1 is 1 and has no event", ""},
		"no event of the cancellation by a person":        {"DELETE FROM feed WHERE id = 80", "notification 2 is 3 and has last event 70", ""},
		"no event of the end after a requeue":             {"DELETE FROM feed WHERE id = 50", "notification 1 is 1 and has last event 30", "notification 1, event 30"},
		"an event twice":                                  {again("51", "50"), "event 51 of notification 1 is one too many", ""},
		"an event twice before the requeue":               {again("31", "30"), "event 31 of notification 1 is one too many", ""},
		"the event of the cancellation by a person twice": {again("81", "80"), "event 80 of notification 2 is one too many", ""},
		"an event before the last message":                {"UPDATE feed SET id = 15 WHERE id = 30", "event 50 of notification 1 is one too many", "notification 1, event 15"},
		"an event while a requeued message waits":         {"UPDATE feed SET data = jsonb_set(data, '{counts,failed}', '0') WHERE id = 30", "event 30 of notification 1 counts too few people", ""},
		"wrong figures":                                   {"UPDATE feed SET data = jsonb_set(data, '{counts,success}', '1') WHERE id = 50", "notification 1 is 1 and has last event 50", ""},
		"an event of no notification":                     {again("90", "80") + "; UPDATE feed SET data = jsonb_set(data, '{notification_id}', '9') WHERE id = 90", "event 90 of no notification", ""},
	} {
		t.Run(what, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), notified+c.sql); err != nil {
				t.Fatal(err)
			}
			if err := invariants.CopyHistory(t.Context(), conn, load.NewHistory(), &load.Provider{}); err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{c.found, c.order} {
				v, err := noticeInvariants[i].Check(t.Context(), conn)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(v.Samples, "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
					t.Errorf("%s: found %q, want %q", v.Name, got, want)
				}
			}
		})
	}
}
