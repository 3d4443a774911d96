package receipt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/testkit/apptest"
)

// takeLinked stores what a carrier sent through a link of the sender pushed.
func takeLinked(b *apptest.Bundle, in provider.Incoming) {
	b.T.Helper()
	if err := b.App.Receipts.TakeLinked(b.T.Context(), "pushed", in); err != nil {
		b.T.Errorf("%+v: %v", in, err)
	}
}

// C1: a carrier repeats what is not stored. Therefore everything that it sends is stored, in a form that the tables can store.
func TestReceiptsOfCarriersAreStoredWhateverTheyContain(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	long := strings.Repeat("长", 300)
	for i, r := range []provider.Receipt{
		{Number: "n-1", Recipient: "13800138000", Code: "DELIVRD " + long, State: provider.Delivered},
		{Number: "n-1\x00", Recipient: "13800138000\x00", Code: "DELIVRD \x00", State: provider.OnItsWay},
		{Number: long, Recipient: long, Code: long, State: provider.Undelivered},
		{Number: "n-2\xff", Recipient: "caf\xe9", Code: "\xff", State: provider.Undelivered},
	} {
		takeLinked(b, provider.Incoming{Receipt: &r, Others: []string{"\x00", "a\xff", long}, Raw: fmt.Sprintf("{%q: %d}", "receipt\x00\xff", i)})
	}
	if got := deliveryOf(b, id); got != "delivered" {
		t.Errorf("the delivery is %q", got)
	}
	if n := b.Count("SELECT count(*) FROM receipts"); n != 4 {
		t.Errorf("%d receipts are stored, want 4", n)
	}
	for i, in := range []provider.Incoming{{}, {Receipt: &provider.Receipt{Number: " \t"}, Others: []string{"", "\x00"}}, {Receipt: &provider.Receipt{Number: "\n"}}} {
		in.Raw = fmt.Sprintf(`{"source": "13800138777", "nth": %d}`, i)
		takeLinked(b, in)
	}
	if got := strings.Count(bodiesOf(b, "unreadable=true"), "13800138777"); got != 3 {
		t.Errorf("%d receipts without a number are shown, want 3", got)
	}
	if n := strings.Count(b.Log.String(), "items of a callback could not be read"); n != 3 || strings.Contains(b.Log.String(), "13800138777") {
		t.Errorf("%d receipts without a number are logged, want 3 without phone numbers:\n%s", n, b.Log.String())
	}
	takeLinked(b, provider.Incoming{Receipt: &provider.Receipt{Number: " ", Recipient: "13800138000", State: provider.OnItsWay}, Others: []string{"n-1"}, Raw: "{}"})
	if n := b.Count("SELECT count(*) FROM receipts WHERE provider_no = 'n-1' AND matched_at IS NOT NULL AND code = ''"); n != 1 {
		t.Errorf("%d receipts with a second number are matched, want 1", n)
	}
}

// C1: a receipt that waits for its message has all forms of its number.
func TestReceiptInAnotherBaseWaitsForItsMessage(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "1A2B3C4D", Delay: 300 * time.Millisecond, Receipts: []simulated.Receipt{{ID: "439041101", Stat: "UNDELIV", Err: "034", Early: true}}}
	}}, nil)
	id := b.Submit("x")
	apptest.Eventually(t, "the receipt is matched", func() bool { return deliveryOf(b, id) == "undelivered" })
	if got := apptest.Scan[string](b, "SELECT string_agg(provider_no, ' ') FROM receipts"); got != "1a2b3c4d" {
		t.Errorf("the receipt has the number %s", got)
	}
}

// A receipt of a link is shown with its callback as one that was read. A receipt that cannot be read is shown as such.
func TestACallbackOfALinkIsShownWithItsReceipts(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "1A2B3C4D", Receipts: []simulated.Receipt{{ID: "439041101", Stat: "UNDELIV", Err: "034"}}}
	}}, nil)
	id := b.Submit("x")
	apptest.Eventually(t, "the receipt is matched", func() bool { return deliveryOf(b, id) == "undelivered" })
	newest := func() api.CallbackDetail {
		last := apptest.Decode[api.CallbackPage](t, b.Expect(200, "", "GET", callbacksPath+"?limit=1", nil)).Items[0]
		return apptest.Decode[api.CallbackDetail](t, b.Expect(200, "", "GET", fmt.Sprint(callbacksPath, "/", last.CallbackID), nil))
	}
	c := newest()
	if c.Unread != nil || len(c.Receipts) != 1 || c.Receipts[0].ProviderNo != "1a2b3c4d" || c.Receipts[0].MatchedAt == nil || c.Receipts[0].State != api.ReceiptUndelivered {
		t.Errorf("%+v", c)
	}
	if err := b.App.Receipts.TakeLinked(t.Context(), c.SenderNo, provider.Incoming{Raw: `{"ids":null,"text":"garbage"}`}); err != nil {
		t.Fatal(err)
	}
	if c = newest(); c.Unread == nil || *c.Unread != "request.invalid" || len(c.Receipts) != 0 || !strings.Contains(c.Body, "garbage") {
		t.Errorf("%+v", c)
	}
}

// C1: a receipt gets the message with another form of its number only if the recipient is the same, and only one such message exists.
func TestOtherFormsOfANumberMatchOneMessageOfTheRecipient(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	for i, number := range []string{"own", "hex", "third"} {
		id := b.Submit(number)
		b.AwaitStatus(id, queue.Success)
		b.Exec("UPDATE deliveries SET provider_no = $1 WHERE provider_no = $2", number, fmt.Sprint("n-", i+1))
	}
	for i, c := range []struct {
		number, others, recipient, want string
	}{
		{"own", "hex", "13800138000", "own"},
		{"own", "hex", "13900139000", ""},
		{"none", "hex", "13800138000", "hex"},
		{"none", "hex third", "13800138000", ""},
		{"none", "hex", "13900138000", ""},
		{"none", "hex", "", ""},
		{"none", "other hex", "+8613800138000", "hex"},
	} {
		code := fmt.Sprint("code ", i)
		in := provider.Incoming{Receipt: &provider.Receipt{Number: c.number, Recipient: c.recipient, Code: code}, Others: strings.Fields(c.others), Raw: code}
		takeLinked(b, in)
		takeLinked(b, in) // carriers repeat receipts
		if got := apptest.Scan[string](b, "SELECT coalesce(string_agg(CASE WHEN matched_at IS NULL THEN '' ELSE provider_no END, ','), '-') FROM receipts WHERE code = $1", code); got != c.want {
			t.Errorf("%+v: the receipt got the message %q", c, got)
		}
	}
}

// S4.10: an erasure finds a receipt that waits with another form of the number of its message.
func TestErasureFindsReceiptsByOtherFormsOfTheirNumbers(t *testing.T) {
	b, _ := apptest.NewReceiving(t, nil)
	takeLinked(b, provider.Incoming{
		Receipt: &provider.Receipt{Number: "none", Recipient: "13800138000"}, Others: []string{"n-1"}, Raw: `{"source": "13800138000"}`,
	})
	b.Exec("UPDATE receipts SET look_at = NULL")
	b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) VALUES ('none', 1, 'pushed', 'none', 'none')")
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": "13800138000"})
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM receipts WHERE recipient <> ''") + b.Count("SELECT count(*) FROM callbacks WHERE body LIKE '%13800138000%'"); n != 0 {
		t.Errorf("%d rows contain the person", n)
	}
}

// C1: a number is found as the carrier writes it. It is stored without leading zeros and in lower case.
func TestNumbersOfCarriersAreFoundAsTheyWriteThem(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "00AB00146", Receipts: []simulated.Receipt{{Stat: simulated.Delivered}}}
	}}, nil)
	id := b.Submit("x")
	apptest.Eventually(t, "the receipt is matched", func() bool { return deliveryOf(b, id) == "delivered" })
	for _, path := range []string{"/api/v1/sms/tasks", receiptsPath, callbacksPath} {
		for number, want := range map[string]int{"00AB00146": 1, "AB00146": 1, "ab00146": 1, "AB00147": 0} {
			raw := b.Expect(200, "", "GET", path+"?provider_no="+number, nil).Raw
			if got := strings.Count(raw, `"created_at"`); got != want {
				t.Errorf("%s finds %d items by %s, want %d", path, got, number, want)
			}
		}
	}
}
