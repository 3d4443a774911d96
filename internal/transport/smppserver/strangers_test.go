package smppserver_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/alexedwards/argon2id"

	"lksms/internal/platform/smpp"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/stranger"
)

// C5: the texts that other implementations submit in each form of long messages are the texts of tasks, and received messages arrive as they were sent.
func TestStrangersSubmitThroughTheServer(t *testing.T) {
	for _, other := range stranger.All() {
		t.Run(other.Name, func(t *testing.T) {
			b := setup(t, nil)
			b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"max_content_notification": 1024, "max_segments_notification": 15})
			b.AddSender(map[string]any{"sender_no": "a", "inbox_company_no": "acme"})
			b.AddUser("stranger", "submit", map[string]any{"company_no": "acme"})
			hash, err := argon2id.CreateHash(stranger.Password, argon2id.DefaultParams)
			if err != nil {
				t.Fatal(err)
			}
			b.Exec("INSERT INTO smpp_passwords (user_id, password_hash) SELECT id, $1 FROM users WHERE username = 'stranger'", hash)
			texts := stranger.Texts()
			_, port, _ := net.SplitHostPort(b.App.SMPP.Addresses()[0])
			next := other.Client(t, texts, port)
			if rejected, accepted := next(), next(); rejected.Bind != int(smpp.RInvPaswd) || accepted.Bind != 0 {
				t.Fatalf("binds: %+v, %+v", rejected, accepted)
			}
			if l := next(); !l.Done {
				t.Fatalf("%+v", l)
			}
			arrived := contents(b)
			for _, text := range texts {
				if arrived[text] != 4 {
					t.Errorf("%q arrived %d times, want 4", text, arrived[text])
				}
			}
			for i, text := range texts {
				b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "a", "messages": []any{
					map[string]any{"from": fmt.Sprintf("1380013%04d", i), "to": "10690001", "content": text},
				}})
			}
			if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for range texts {
				l := next()
				if l.Text == nil {
					t.Fatalf("%+v", l)
				}
				got[*l.Text]++
			}
			for _, text := range texts {
				if got[text]--; got[text] < 0 {
					t.Errorf("%q was not received as it was sent", text)
				}
			}
			b.App.SMPP.Stop(t.Context()) // unbinds, so that the stranger ends
		})
	}
}

// contents returns how many tasks have each text.
func contents(b *apptest.Bundle) map[string]int {
	b.T.Helper()
	all := map[string]int{}
	rows, err := b.DB.Query(b.T.Context(), "SELECT content FROM messages")
	if err != nil {
		b.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var content string
		if err := rows.Scan(&content); err != nil {
			b.T.Fatal(err)
		}
		all[content]++
	}
	return all
}
