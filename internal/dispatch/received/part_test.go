package received_test

import (
	"strings"
	"testing"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/received"
	"lksms/internal/testkit/apptest"
)

// takePart hands over a part of a long message of two parts as a carrier.
func takePart(b *apptest.Bundle, m received.Message, nth int, text string) {
	b.T.Helper()
	part := provider.Part{Reference: 7, Total: 2, Nth: nth, Alphabet: "latin1", Octets: []byte(text)}
	if err := b.App.Received.TakePart(b.T.Context(), "app", m, part); err != nil {
		b.T.Errorf("part %d of %+v: %v", nth, m, err)
	}
}

// contents returns the contents of the stored messages, the oldest first.
func contents(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, "SELECT coalesce(string_agg(content, '|' ORDER BY id), '') FROM received_messages")
}

// joinExpired stores the messages whose parts did not arrive within an hour.
func joinExpired(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec("UPDATE received_parts SET created_at = created_at - interval '61 minutes'")
	if _, err := b.App.Received.JoinExpired(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// C1: a carrier repeats a part whose answer is lost, before and after the message is stored.
func TestRepeatedPartIsNoSecondMessage(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	m := received.Message{From: person, To: "10690001"}
	for _, nth := range []int{1, 1, 2, 2, 1} {
		takePart(b, m, nth, []string{"first ", "second"}[nth-1])
	}
	joinExpired(b)
	if got := contents(b); got != "first second" {
		t.Errorf("stored %q", got)
	}
	// The phone uses the same reference for another message.
	takePart(b, m, 2, "two")
	takePart(b, m, 1, "one ")
	if got := contents(b); got != "first second|one two" {
		t.Errorf("stored %q", got)
	}
	// After two hours, the same parts are a new message, whether or not the sweep has deleted the identities.
	b.Exec("DELETE FROM received_messages")
	b.Exec("UPDATE received_part_identities SET created_at = created_at - interval '121 minutes'")
	takePart(b, m, 2, "two")
	if n, err := b.App.Received.DeleteExpired(t.Context()); n != 3 || err != nil {
		t.Errorf("deleted %d identities, want 3: %v", n, err)
	}
	takePart(b, m, 1, "one ")
	if got := contents(b); got != "one two" {
		t.Errorf("stored %q", got)
	}
}

// C1: a carrier repeats what is not stored. Therefore each part is stored, in a form that the tables can store.
func TestPartsAreStoredWhateverTheyContain(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	for _, m := range []received.Message{
		{From: "caf\xe9", To: "\xff"}, {From: "\x00 13800138000 \x00", To: "1\x00"}, {From: strings.Repeat("长", 49) + " x", To: strings.Repeat("9", 90)}, {},
	} {
		m.Raw = "\x00\xff"
		takePart(b, m, 1, "first ")
		takePart(b, m, 2, "second")
		takePart(b, m, 2, "later")
	}
	takePart(b, received.Message{From: person}, 1, "a")
	if err := b.App.Received.TakePart(t.Context(), "app", received.Message{From: person}, provider.Part{Reference: 7, Total: 2, Nth: 2, Alphabet: "unknown", Octets: []byte("b\xe9")}); err != nil {
		t.Error(err)
	}
	joinExpired(b)
	joinExpired(b)
	if got := contents(b); got != strings.Repeat("first second|", 4)+"abé"+strings.Repeat("|[…]later", 4) {
		t.Errorf("stored %q", got)
	}
	if n := b.Count("SELECT count(*) FROM received_parts"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}

// S4.10: an erasure deletes the waiting parts of a person. It leaves the parts of other people and of other companies.
func TestErasureDeletesWaitingParts(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	ofAcme := b.AddCompany("acme", 1)
	own, other := received.Message{From: "8613712345678"}, received.Message{From: "+8613712340000"}
	takePart(b, own, 1, "secret of the person")
	takePart(b, other, 1, "of another")
	for i, headers := range [][]string{ofAcme, nil} {
		b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": person}, headers...)
		b.RunErasures()
		if n, want := b.Count("SELECT count(*) FROM received_parts"), 2-i; n != want {
			t.Errorf("%d parts are left after erasure %d, want %d", n, i, want)
		}
	}
	takePart(b, own, 1, "secret of the person") // the carrier repeats it
	joinExpired(b)
	if got := contents(b); got != "of another[…]" {
		t.Errorf("stored %q", got)
	}
}

// S4.10: a part of an answer to a task belongs to the company of the task.
func TestErasureDeletesWaitingPartsOfAnswers(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "app", "inbox_company_no": "acme"})
	b.Submit("what now?") // to +8613800138000, of the company default
	b.Claim("app", 1)
	takePart(b, received.Message{From: "+8613800138000"}, 1, "secret of the person")
	b.ExpireLeases()
	b.Recover()
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "+8613800138000"})
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM received_parts"); n != 0 {
		t.Errorf("%d parts are left", n)
	}
}
