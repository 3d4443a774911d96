package callback

import (
	"errors"
	"testing"
	"unicode/utf8"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// isFault reports whether err is a fault, which is an expected result.
func isFault(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected)
}

// FuzzReceipts parses any callback with any configuration of a sender. The result is either receipts that PostgreSQL can store and messages, or a fault.
func FuzzReceipts(f *testing.F) {
	f.Add(false, "data", "id", "state", "code", "to", []byte(`{"data":[{"id":1,"state":"ok","code":"0","to":"13800138000"},{"id":"2"}]}`))
	f.Add(false, "", "0.id", "0.state", "", "", []byte(`[[{"id":"a\u0000","state":true}]]`))
	f.Add(true, "", "id", "state", "code", "to", []byte("id=1&state=ok&code=%ff&to=%00"))
	f.Add(false, "a..b", "1", "1e9", "-1", "", []byte(`{"a":{"":{"b":1e999999}}}`))
	f.Fuzz(func(t *testing.T, isForm bool, list, number, state, code, recipient string, body []byte) {
		c := Config{List: list, Number: number, State: state, Code: code, Recipient: recipient, Delivered: []string{"ok", "true"}}
		if isForm {
			c.Format = "form"
		}
		if recipient != "" {
			c.Received = &Received{From: recipient, Content: code, Time: state, MessageNo: number, Country: list, Offset: "+08:00"}
		}
		read, err := c.Read(body)
		if err != nil {
			if !isFault(err) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		if len(read.Receipts)+len(read.Messages)+read.LeftOut > maxReceipts {
			t.Errorf("%d receipts, %d messages, and %d left out", len(read.Receipts), len(read.Messages), read.LeftOut)
		}
		for _, m := range read.Messages {
			if m.From == "" {
				t.Errorf("a message from nobody: %+v", m)
			}
		}
		for _, r := range read.Receipts {
			for text, most := range map[string]int{r.Number: 200, r.Recipient: 100, r.Code: 100} {
				if !postgres.IsText(text) || utf8.RuneCountInString(text) > most {
					t.Errorf("%q in %+v is too long, or no text for PostgreSQL", text, r)
				}
			}
			if r.Number == "" {
				t.Errorf("a receipt without a message number: %+v", r)
			}
		}
	})
}
