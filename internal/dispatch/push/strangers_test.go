package push_test

import (
	"fmt"
	"testing"

	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/stranger"
)

// C5: other implementations receive what a sender sends to them in each form of long messages, and what they deliver is in the inbox.
func TestStrangersServeASender(t *testing.T) {
	for _, other := range stranger.All() {
		for _, form := range []string{"udh8", "udh16", "sar", "payload"} {
			t.Run(other.Name+" "+form, func(t *testing.T) {
				b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
				all := stranger.Texts()
				next, port := other.Server(t, all)
				b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_content_notification": 1024, "max_segments_notification": 15})
				b.AddSender(map[string]any{"sender_no": "bound", "kind": "smpp", "config": map[string]any{
					"host": "127.0.0.1", "port": port, "system_id": "lksms", "password": stranger.Password, "long_messages": form,
				}})
				b.App.Pusher.Start()
				if l := next(); !l.Done {
					t.Fatalf("%+v", l)
				}
				count := map[string]int{}
				for i, text := range all {
					b.SubmitBody(map[string]any{"phone_number": fmt.Sprintf("1380013%04d", i), "content": text})
					count[text] = 1
				}
				for range all {
					l := next()
					if l.Text == nil {
						t.Fatalf("%+v", l)
					}
					if count[*l.Text]--; count[*l.Text] < 0 {
						t.Errorf("%q did not arrive as it was sent", *l.Text)
					}
				}
				apptest.Eventually(t, "all messages are sent", func() bool { return b.Count("SELECT count(*) FROM report_logs WHERE outcome = 2") == len(all) })
				// The four forms of a text are four messages, unless they arrive in one second.
				if n := b.Count("SELECT count(DISTINCT content) FROM received_messages WHERE content = ANY ($1)", all); n != len(all) {
					t.Errorf("%d received texts, want %d", n, len(all))
				}
				if n := b.Count("SELECT count(*) FROM received_messages WHERE content <> ALL ($1)", all) + b.Count("SELECT count(*) FROM received_parts"); n != 0 {
					t.Errorf("%d messages or parts are wrong", n)
				}
				b.App.Close()
			})
		}
	}
}
