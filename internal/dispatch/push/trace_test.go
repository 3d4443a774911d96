package push_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/testkit/apptest"
)

// C4: while they are recorded, the PDUs of a link can be read. They contain neither texts nor passwords nor whole numbers, and remain after the end.
func TestPDUsOfALinkCanBeRead(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		const password, text, number = "hush-hush", "your code is 424242", "13800138000"
		b, c := apptest.NewBound(t, kind.name, simulated.Options{Secret: password, Answer: func(simulated.Message) simulated.Answer {
			return simulated.Answer{ID: "77", Receipts: []simulated.Receipt{{Stat: simulated.Delivered, Err: "000"}}}
		}}, map[string]any{kind.secret: password})
		path := "/api/v1/admin/senders/bound/trace"
		read := func() api.SenderTrace { return apptest.Decode[api.SenderTrace](t, b.Expect(200, "", "GET", path, nil)) }
		apptest.Eventually(t, "the link is open", func() bool { _, open := c.Binds(); return open == 1 })
		if trace := read(); trace.TracedUntil != nil || len(trace.Pdus) != 0 {
			t.Errorf("a trace without a request: %+v", trace)
		}
		b.Expect(200, "", "PUT", path, map[string]any{"minutes": 10})
		// The link is opened again, so that the trace contains the bind.
		has := func(command string) bool {
			return slices.ContainsFunc(read().Pdus, func(p api.SenderPDU) bool { return strings.EqualFold(p.Command, command) })
		}
		bind, submit, deliver := "bind_transceiver", "submit_sm", "deliver_sm"
		if kind.name == "cmpp" {
			bind, submit, deliver = "CMPP_CONNECT", "CMPP_SUBMIT", "CMPP_DELIVER"
		}
		apptest.Eventually(t, "the bind is recorded", func() bool { c.Cut(); return has(bind) })
		b.AwaitStatus(b.SubmitBody(map[string]any{"phone_number": number, "content": text}).TaskID, queue.Success)
		apptest.Eventually(t, "the message and its receipt are recorded", func() bool { return has(submit) && has(submit+"_resp") && has(deliver) })
		// Another configuration has another link, and the recording goes on.
		before := len(read().Pdus)
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/bound", map[string]any{"config": apptest.CarrierConfig(kind.name, c, map[string]any{kind.secret: password, "window": 5})})
		apptest.Eventually(t, "the new link is recorded", func() bool {
			_, open := c.Binds()
			pdus := read().Pdus
			return open == 1 && len(pdus) > before && strings.EqualFold(pdus[len(pdus)-1].Command, bind+"_resp")
		})
		b.Expect(200, "", "PUT", path, map[string]any{"minutes": 0})
		trace := read()
		all, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{password, "424242", "code is", number} {
			if strings.Contains(string(all), secret) {
				t.Errorf("the trace contains %q: %s", secret, all)
			}
		}
		for _, want := range []string{"138****8000", "77", "DELIVRD"} {
			if !strings.Contains(string(all), want) {
				t.Errorf("the trace does not contain %q: %s", want, all)
			}
		}
		if !slices.IsSortedFunc(trace.Pdus, func(a, b api.SenderPDU) int { return a.At.Compare(b.At) }) {
			t.Error("the PDUs are not in their order")
		}
		// Another recording discards the PDUs of the one before, although this server still has them.
		b.Expect(200, "", "PUT", path, map[string]any{"minutes": 10})
		apptest.Eventually(t, "another message is recorded", func() bool {
			b.AwaitStatus(b.SubmitBody(map[string]any{"phone_number": number, "content": text}).TaskID, queue.Success)
			return has(submit)
		})
		if has(bind) {
			t.Error("the trace contains PDUs of the recording before")
		}
		b.Expect(200, "", "PUT", path, map[string]any{"minutes": 0})
		trace = read()
		b.App.Pusher.Stop(t.Context())
		if after := read(); len(after.Pdus) < len(trace.Pdus) {
			t.Errorf("%d PDUs after the stop, %d before", len(after.Pdus), len(trace.Pdus))
		}
	})
}

// C4: a sender without links cannot be traced, and the fault says so.
func TestOnlyLinksAreTraced(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "plain", "kind": "log"})
	b.Expect(409, "sender.not_linked", "PUT", "/api/v1/admin/senders/plain/trace", map[string]any{"minutes": 10})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/plain", map[string]any{"status": "off"})
	b.Exec("INSERT INTO sender_links (sender_id, nth, held_by, host, held_until) SELECT id, 1, 'p', 'h', now() FROM senders WHERE sender_no = 'plain'") // of an earlier time
	b.Expect(409, "sender.not_linked", "PUT", "/api/v1/admin/senders/plain/trace", map[string]any{"minutes": 10})
	b.Expect(200, "", "PUT", "/api/v1/admin/senders/plain/trace", map[string]any{"minutes": 0})
	b.Expect(404, "sender.not_found", "PUT", "/api/v1/admin/senders/nobody/trace", map[string]any{"minutes": 10})
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/senders/plain/trace", map[string]any{"minutes": 61})
}
