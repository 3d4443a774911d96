package batch_test

import (
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// A list with numbers without a country code needs a region, because such numbers could otherwise belong to strangers in China. The request or the company sets
// the region.
func TestNationalNumbersOfAListUseTheDefaultRegion(t *testing.T) {
	b := apptest.New(t)
	const list = "phone\n081234567890\n\u202a138.0013.8000\u202c\n+376312345\n6281234567891.0\n0812-3456\u2603\n"
	rowsOf := func(at string) []api.BatchRow {
		t.Helper()
		return apptest.Decode[api.BatchRowPage](t, b.Expect(200, "", "GET", at+"/rows", nil)).Items
	}
	compare := func(rows []api.BatchRow, want ...string) {
		t.Helper()
		for i, row := range rows {
			got := row.PhoneNumber
			if row.Code != nil {
				got = "wrong"
			} else if row.Region != nil {
				got += " " + *row.Region
			}
			if len(rows) != len(want) || got != want[i] {
				t.Errorf("row %d of %d is %q, want %q", row.Row, len(rows), got, want[min(i, len(want)-1)])
			}
		}
	}
	compare(rowsOf(checked(b, list, "content", "hello")), "wrong", "+8613800138000 CN", "+376312345 AD", "wrong", "wrong")
	at := checked(b, list, "content", "hello", "default_region", "ID")
	compare(rowsOf(at), "+6281234567890 ID", "wrong", "+376312345 AD", "+6281234567891 ID", "wrong")
	if one := apptest.Decode[api.Batch](t, b.Expect(200, "", "GET", at, nil)); one.DefaultRegion != "ID" {
		t.Errorf("the batch has the region %q", one.DefaultRegion)
	}
	form(b, 422, apptest.Form("file", "list.csv", list, "name", "n", "content", "hello", "default_region", "XX"))
	// Before the confirmation, a batch shows the encoding of its list and whether the encoding is doubtful.
	for encoding, want := range map[string]string{"": "GB18030 true", "Windows-1252": "Windows-1252 false"} {
		one := apptest.Decode[struct {
			Encoding        string
			EncodingWarning *string `json:"encoding_warning"`
		}](t, b.Expect(200, "", "GET", checked(b, "phone,name\n13800138000,M\xFCller\n", "content", "hello {name}", "phone_column", "phone", "encoding", encoding), nil))
		if got := fmt.Sprint(one.Encoding, " ", one.EncodingWarning != nil); got != want {
			t.Errorf("encoding %q: %s, want %s", encoding, got, want)
		}
	}

	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", `{"default_region":"ID"}`)
	compare(rowsOf(checked(b, list, "content", "again")), "+6281234567890 ID", "wrong", "+376312345 AD", "+6281234567891 ID", "wrong")
	b.PutContacts(map[string]any{"user_id": "budi", "phone": "0812 3456 7890"})
	if n := b.Count("SELECT count(*) FROM contacts WHERE phone = '+6281234567890'"); n != 1 {
		t.Error("the number of a contact was not parsed in the region of its company")
	}
}

// Without a confirmation, nobody checks the rows before they are sent. A list with a doubtful encoding therefore needs a confirmation.
func TestAutoConfirmDoesNotConfirmADoubtfulEncoding(t *testing.T) {
	b := apptest.New(t)
	const list = "phone,name\n13800138000,M\xFCller\n13900139000,Gr\xFCn\n"
	for _, c := range []struct{ name, encoding, status string }{
		{"a doubtful encoding", "", "ready false false"},
		{"a named encoding", "Windows-1252", "running true true"},
	} {
		at := checked(b, list, "content", "hello {name}", "phone_column", "phone", "auto_confirm", "true", "encoding", c.encoding)
		one := apptest.Decode[api.Batch](t, b.Expect(200, "", "GET", at, nil))
		if got := fmt.Sprint(one.Status, " ", one.ConfirmedBy != nil, " ", one.EncodingWarning == nil); got != c.status {
			t.Errorf("%s: %s, want %s", c.name, got, c.status)
		}
		if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'batch' AND entity_key = $1 AND after ->> 'is_confirmed' = 'true'", fmt.Sprint(one.BatchID)); (n == 1) != (c.encoding != "") {
			t.Errorf("%s: %d confirmations in the audit", c.name, n)
		}
		if c.encoding == "" {
			b.Expect(200, "", "POST", at+"/confirm", nil)
		}
	}
}
