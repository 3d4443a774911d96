package sender_test

import (
	"context"
	"math"
	"net/url"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/sender"
	"lksms/internal/testkit/apptest"
)

func TestSendersAreFoundByAPartOfTheirNumberOrName(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	for no, name := range map[string]string{"phone_1": "Desk 100%", "phone_2": "前台手机", "Acme-SMS": "Account", "z": "phone of Zoe"} {
		b.AddSender(map[string]any{"sender_no": no, "name": name})
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone_2", map[string]any{"status": "off"})
	b.AddRoute("acme", "phone_1", 1)
	for _, c := range []struct {
		query, want string // want: sender numbers in alphabetical order
		headers     []string
	}{
		{"q=phone", "phone_1 phone_2 z", nil},
		{"q=PHONE_", "phone_1 phone_2", nil},
		{"q=hone", "phone_1 phone_2 z", nil},
		{"q=acme-s", "Acme-SMS", nil},
		{"q=手机", "phone_2", nil},
		{"q=" + url.QueryEscape("%"), "phone_1", nil},
		{"q=_", "phone_1 phone_2", nil},
		{"q=" + url.QueryEscape(`\`), "", nil},
		{"q=phone&status=off", "phone_2", nil},
		{"q=nobody", "", nil},
		{"q=phone", "phone_1", reader},
	} {
		for _, limit := range []string{"1", "100"} {
			found := map[string]bool{}
			for cursor := ""; ; {
				page := apptest.Decode[api.SenderPage](t, b.Expect(200, "", "GET", "/api/v1/admin/senders?limit="+limit+"&"+c.query+cursor, nil, c.headers...))
				for _, s := range page.Items {
					found[s.SenderNo] = true
				}
				if page.NextCursor == nil {
					break
				}
				cursor = "&cursor=" + *page.NextCursor
			}
			want := strings.Fields(c.want)
			for _, no := range want {
				if !found[no] {
					t.Errorf("%s in pages of %s lacks %s", c.query, limit, no)
				}
			}
			if len(found) != len(want) {
				t.Errorf("%s in pages of %s finds %v, want %v", c.query, limit, found, want)
			}
		}
	}
	for _, q := range []string{"", strings.Repeat("x", 101), "%00"} {
		if a := b.Expect(422, "request.invalid", "GET", "/api/v1/admin/senders?q="+q, nil); a.Fields() != "q" {
			t.Errorf("%q: fields %q", q, a.Fields())
		}
	}
}

// A search of ten thousand senders reads each table at most about twice, and only a few rows if it quickly finds a full page.
func TestASearchOfSendersReadsABoundedNumberOfRows(t *testing.T) {
	b := apptest.New(t)
	b.Exec(`ALTER TABLE senders DISABLE TRIGGER audited;
		WITH made AS (INSERT INTO senders (sender_no, name) SELECT 'sender-' || i, 'Phone ' || i FROM generate_series(1, 10000) i RETURNING id)
		INSERT INTO sender_states (sender_id) SELECT id FROM made;
		ANALYZE senders; ANALYZE sender_states`)
	read := func(ctx context.Context) (n int, err error) { // returns the number of rows that this connection has read in all tables since its last report of statistics
		err = b.App.DB.QueryRow(ctx, "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables").Scan(&n)
		return n, err
	}
	for _, c := range []struct {
		part string
		most int // maximum number of rows
	}{{"nobody", 11_000}, {"phone", 500}, {"sender-777", 70_000}} {
		for range 7 { // PostgreSQL considers a generic plan after five executions
			err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
				before, err := read(ctx)
				if err != nil {
					return err
				}
				if _, err := b.App.Senders.List(ctx, sender.Filter{Part: &c.part}, math.MaxInt64, 21); err != nil {
					return err
				}
				n, err := read(ctx)
				if n -= before; n > c.most {
					t.Errorf("%s: %d rows were read", c.part, n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
