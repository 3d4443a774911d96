package push_test

import (
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/testkit/apptest"
)

// C3: a message is sent over both versions of CMPP, and its receipt is matched. A receipt that the carrier accepted the message is no delivery.
func TestMessageIsSentOverCMPPAndItsReceiptMatched(t *testing.T) {
	for _, version := range []string{"2.0", "3.0"} {
		t.Run(version, func(t *testing.T) {
			b, c := apptest.NewBound(t, "cmpp", simulated.Options{Account: "lksms", Answer: func(simulated.Message) simulated.Answer {
				return simulated.Answer{ID: "12345678901234567890", Receipts: []simulated.Receipt{{Stat: "ACCEPTD"}, {Stat: "DELIVRD", After: time.Second}}}
			}}, map[string]any{"version": version, "service_id": "MYSERVICE", "extensions": map[string]any{"default": "07"}, "fee_code": "10"})
			id := b.Submit("你好 €")
			b.AwaitStatus(id, queue.Success)
			m := c.Seen()[0]
			s := m.Body.(*cmpp.Submit)
			if m.Text != "你好 €" || m.To != "13800138000" || m.From != "1069000107" || m.Account != "lksms" {
				t.Errorf("the carrier got %+v", m)
			}
			if s.Format != cmpp.FormatUCS2 || s.RegisteredDelivery != 1 || s.ServiceID != "MYSERVICE" || s.FeeUserType != 2 || s.FeeType != "01" || s.FeeCode != "10" ||
				s.Total != 1 || s.Number != 1 || s.UDHI != 0 {
				t.Errorf("the carrier got %+v", s)
			}
			awaitReceipts(t, b, "the first receipt is matched", func() bool { return b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL") == 1 })
			if task := b.Task(id); task.Delivery != nil && b.Count("SELECT count(*) FROM receipts") == 1 {
				t.Errorf("an accepted message is %s", *task.Delivery)
			}
			awaitReceipts(t, b, "the message is delivered", func() bool {
				task := b.Task(id)
				return task.Delivery != nil && *task.Delivery == api.TaskDelivered && *task.DeliveryCode == "DELIVRD"
			})
		})
	}
}

// C3: the end of a message is ValId_Time, in the local time of China.
func TestEndOfAMessageIsItsValidTime(t *testing.T) {
	b, c := apptest.NewBound(t, "cmpp", simulated.Options{}, nil)
	end := time.Now().Add(time.Hour)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "expires_at": end.Format(time.RFC3339)}).TaskID
	b.AwaitStatus(id, queue.Success)
	got := c.Seen()[0].Body.(*cmpp.Submit).ValidTime
	for d := -time.Second; d <= time.Second; d += time.Second {
		if got == cmpp.ValidTime(end.Add(d)) {
			return
		}
	}
	t.Errorf("ValId_Time is %s, want %s", got, cmpp.ValidTime(end))
}

// C3: a message to the extension of a company belongs to this company, although another company wrote to the person later. Other messages belong to the company
// whose message they answer.
func TestRepliesFindTheirCompanyByItsExtension(t *testing.T) {
	b, c := apptest.NewBound(t, "cmpp", simulated.Options{}, map[string]any{"extensions": map[string]any{"acme": "1", "beta": "12", "none": "3"}})
	submit := func(company string) string {
		body := map[string]any{"phone_number": apptest.Phone, "content": "from " + company}
		id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", body, b.AddCompany(company, 1)...)).TaskID
		b.AwaitStatus(id, queue.Success)
		return id
	}
	first, second := submit("acme"), submit("beta")
	if from := c.Seen()[0].From + " " + c.Seen()[1].From; from != "106900011 1069000112" {
		t.Errorf("sent from %s", from)
	}
	long := strings.Repeat("回复", 60)
	for to, want := range map[string][2]string{
		"106900011": {"acme", first}, "1069000119": {"acme", first}, "1069000112": {"beta", second}, "10690001": {"beta", second}, "106900013": {"beta", second},
	} {
		for _, text := range []string{"reply to " + to, to + long} {
			if err := c.Deliver("13800138000", to, text); err != nil {
				t.Fatal(err)
			}
			got := apptest.Scan[string](b, `SELECT c.company_no || ' ' || r.task_id FROM received_messages r JOIN companies c ON c.id = r.company_id
				WHERE r.content = $1 AND r.phone_number = '+8613800138000' AND r.own_number = $2`, text, to)
			if got != want[0]+" "+want[1] {
				t.Errorf("%s: got %s, want %v", to, got, want)
			}
		}
	}
	if err := c.Deliver("13900139000", "106900011", "a first message"); err != nil { // a person to whom nobody wrote
		t.Fatal(err)
	}
	if got := apptest.Scan[string](b, "SELECT c.company_no FROM received_messages r JOIN companies c ON c.id = r.company_id WHERE r.content = 'a first message'"); got != "acme" {
		t.Errorf("the first message belongs to %s", got)
	}
}

// C3: a test of the sender uses a session of its own. A refused result shows its meaning.
func TestCMPPSenderIsTested(t *testing.T) {
	b, c := apptest.NewBound(t, "cmpp", simulated.Options{Answer: func(m simulated.Message) simulated.Answer {
		return simulated.Answer{Status: uint32(m.Nth - 1)}
	}}, map[string]any{"version": "3.0", "country_code": true})
	test := func() api.SenderTested {
		return apptest.Decode[api.SenderTested](t, b.Expect(200, "", "POST", "/api/v1/admin/senders/bound/test", map[string]any{"phone_number": "13900139000", "content": "test"}))
	}
	tried := test()
	if tried.Outcome != api.OutcomeSent || *tried.ProviderNo != "1" || tried.Request == nil || !strings.Contains(tried.Request.Body, "Dest_terminal_Id 8613900139000") {
		t.Errorf("the test is %+v", tried)
	}
	if tried = test(); tried.Outcome != api.OutcomeTrouble || *tried.Code != "1" || *tried.Answer != "1 (wrong structure of the message)" {
		t.Errorf("the test is %+v", tried)
	}
	apptest.Eventually(t, "the link and two tests were accepted", func() bool { accepted, _ := c.Binds(); return accepted == 3 })
}
