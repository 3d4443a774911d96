package push_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/testkit/apptest"
)

// carrierKind is a kind of senders that send through carriers, with its words in tests.
type carrierKind struct {
	name, secret                         string // the secret: a field of the configuration
	throttled, badRecipient, ofTheSender uint32 // statuses
	badRecipientText, ofTheSenderText    string
	wrongSecret                          string
}

var carrierKinds = []carrierKind{
	{
		name: "smpp", secret: "password", throttled: uint32(smpp.RThrottled), badRecipient: uint32(smpp.RInvDstAdr), badRecipientText: "ESME_RINVDSTADR",
		ofTheSender: uint32(smpp.RInvSrcAdr), ofTheSenderText: "ESME_RINVSRCADR: the carrier answered ESME_RINVSRCADR", wrongSecret: "ESME_RINVPASWD",
	},
	{
		name: "cmpp", secret: "shared_secret", throttled: uint32(cmpp.ResultThrottled), badRecipient: uint32(cmpp.ResultBadDestination), badRecipientText: "13 (wrong Dest_terminal_Id)",
		ofTheSender: uint32(cmpp.ResultBadSource), ofTheSenderText: "11: the carrier answered 11 (wrong Msg_src)",
		wrongSecret: "CMPP_CONNECT_RESP: status 3 (authentication failed); the gateway speaks CMPP 3.0",
	},
}

// withEachKind runs a test with each kind of senders that send through carriers.
func withEachKind(t *testing.T, test func(t *testing.T, kind carrierKind)) {
	t.Helper()
	for _, kind := range carrierKinds {
		t.Run(kind.name, func(t *testing.T) { test(t, kind) })
	}
}

// awaitReceipts waits until a condition about receipts is true. It repeats the match: a receipt that arrives at the same moment as a report is matched by the sweep.
func awaitReceipts(t *testing.T, b *apptest.Bundle, what string, condition func() bool) {
	t.Helper()
	apptest.Eventually(t, what, func() bool {
		if _, err := b.App.Receipts.Match(t.Context()); err != nil {
			t.Fatal(err)
		}
		return condition()
	})
}

// C1: a message is sent over SMPP, and its receipt is matched.
func TestMessageIsSentThroughACarrierAndItsReceiptMatched(t *testing.T) {
	b, c := apptest.NewBound(t, "smpp", simulated.Options{Account: "lksms", Secret: "secret", Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "0000A1B2C3D", Receipts: []simulated.Receipt{{ID: "a1b2c3d", Stat: simulated.Delivered, Err: "000"}}}
	}}, nil)
	id := b.Submit("hello €")
	b.AwaitStatus(id, queue.Success)
	m := c.Seen()[0].Body.(*smpp.Message)
	if c.Seen()[0].Text != "hello €" || c.Seen()[0].Account != "lksms" || m.Dest.Number != "8613800138000" || m.Dest.TON != 1 || m.DataCoding != 0 || m.RegisteredDelivery != 1 {
		t.Errorf("the carrier got %+v", m)
	}
	awaitReceipts(t, b, "the receipt is matched", func() bool {
		task := b.Task(id)
		return task.Delivery != nil && *task.Delivery == api.TaskDelivered && *task.DeliveryCode == "DELIVRD 000"
	})
}

// C1: a receipt can arrive before the answer, and carriers write the number in another base.
func TestReceiptBeforeTheAnswerInAnotherBaseIsMatched(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "1A2B3C4D", Delay: 50 * time.Millisecond, Receipts: []simulated.Receipt{{ID: "439041101", Stat: "UNDELIV", Err: "034", Early: true}}}
	}}, map[string]any{"message_ids": "hex_dec"})
	id := b.Submit("x")
	awaitReceipts(t, b, "the receipt is matched", func() bool {
		task := b.Task(id)
		return task.Delivery != nil && *task.Delivery == api.TaskUndelivered && *task.DeliveryCode == "UNDELIV 034"
	})
}

// C1: a receipt matches by a number in another base, if the recipient is the same.
func TestNumberInAnotherBaseIsFoundByItself(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{ID: "1A2B3C4D", Receipts: []simulated.Receipt{{ID: "439041101", Stat: simulated.Delivered, After: 500 * time.Millisecond}}}
	}}, nil)
	id := b.Submit("x")
	awaitReceipts(t, b, "the receipt is matched", func() bool { return b.Task(id).Delivery != nil })
}

// C1, C3: a long message is delivered when all its parts are, in any order.
func TestPartsOfALongMessageHaveOneOutcome(t *testing.T) {
	for _, c := range []struct {
		kind, form string
		parts      int
	}{{"smpp", "udh8", 3}, {"smpp", "udh16", 3}, {"smpp", "sar", 3}, {"smpp", "payload", 1}, {"cmpp", "udh8", 3}, {"cmpp", "udh16", 3}} {
		t.Run(c.kind+" "+c.form, func(t *testing.T) {
			b, carrier := apptest.NewBound(t, c.kind, simulated.Options{Answer: func(m simulated.Message) simulated.Answer {
				r := simulated.Receipt{Stat: simulated.Delivered}
				if m.Nth == 2 {
					r.After = time.Second
				}
				return simulated.Answer{Receipts: []simulated.Receipt{r}}
			}}, map[string]any{"long_messages": c.form})
			text := strings.Repeat("长短信", 60)
			id := b.Submit(text)
			b.AwaitStatus(id, queue.Success)
			var sent string
			for _, m := range carrier.Seen() {
				sent += m.Text
			}
			if n := len(carrier.Seen()); n != c.parts || sent != text {
				t.Fatalf("%d parts, want %d, with %q", n, c.parts, sent)
			}
			if c.parts > 1 {
				awaitReceipts(t, b, "two receipts are matched", func() bool { return b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL") >= 2 })
				if task := b.Task(id); task.Delivery != nil && b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL") == 2 {
					t.Errorf("with two of three parts the message is %s", *task.Delivery)
				}
			}
			awaitReceipts(t, b, "the message is delivered", func() bool {
				task := b.Task(id)
				return task.Delivery != nil && *task.Delivery == api.TaskDelivered
			})
			if n := b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NULL"); n != 0 {
				t.Errorf("%d receipts are not matched", n)
			}
		})
	}
}

// C1, C3: if the carrier takes only some parts of a long message, their receipts match, and the message remains failed.
func TestReceiptsOfPartsDoNotChangeAFailedMessage(t *testing.T) {
	for _, stat := range []string{simulated.Delivered, "UNDELIV"} {
		withEachKind(t, func(t *testing.T, kind carrierKind) {
			b, _ := apptest.NewBound(t, kind.name, simulated.Options{Answer: func(m simulated.Message) simulated.Answer {
				if m.Nth == 3 {
					return simulated.Answer{Status: kind.badRecipient}
				}
				return simulated.Answer{Receipts: []simulated.Receipt{{Stat: stat}}}
			}}, nil)
			id := b.Submit(ofParts(3))
			b.AwaitStatus(id, queue.Failed)
			awaitReceipts(t, b, "both receipts are matched", func() bool { return b.Count("SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL") == 2 })
			if task := b.Task(id); task.Delivery != nil || task.Status != api.TaskStatus(queue.Failed) {
				t.Errorf("with receipts %s of two of three parts, the status is %d and the delivery is %v", stat, task.Status, task.Delivery)
			}
			if effects := b.Effects(id); len(effects) != 1 {
				t.Errorf("the log has %q", effects)
			}
		})
	}
}

// C1, C3: a carrier that asks for fewer messages gets the same message again later. Nothing fails, and the circuit breaker stays closed.
func TestThrottledMessagesAreSentAgainMoreSlowly(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		var throttled atomic.Int64
		b, c := apptest.NewBound(t, kind.name, simulated.Options{Answer: func(simulated.Message) simulated.Answer {
			if throttled.Add(1) <= 3 {
				return simulated.Answer{Status: kind.throttled}
			}
			return simulated.Answer{}
		}}, nil)
		for i := range 5 {
			b.Submit(fmt.Sprint("x", i))
		}
		apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 5 })
		if n := len(c.Seen()); n != 8 {
			t.Errorf("the carrier got %d messages, want 8", n)
		}
		if n := b.Count("SELECT count(*) FROM report_logs WHERE effect <> 'success'"); n != 0 {
			t.Errorf("%d other effects", n)
		}
	})
}

// C1, C3: a link that ends between a message and its answer is unclear: nothing is sent twice under `fail`.
func TestCutLinkIsUnclear(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{Answer: func(m simulated.Message) simulated.Answer { return simulated.Answer{Cut: m.Nth == 1} }}, nil)
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/bound", map[string]any{"on_unclear": "fail"})
		id := b.Submit("x")
		b.AwaitStatus(id, queue.Failed)
		if got := *b.Task(id).Result; !strings.Contains(got, "the carrier did not answer: the link was closed") {
			t.Errorf("the result is %q", got)
		}
		b.AwaitStatus(b.Submit("y"), queue.Success) // over a new link
		if n := len(c.Seen()); n != 2 {
			t.Errorf("the carrier got %d messages, want 2", n)
		}
	})
}

// C1, C3: errors about the message, about the sender, and for a while.
func TestStatusesOfCarriersAreJudged(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		var status atomic.Uint32
		b, c := apptest.NewBound(t, kind.name, simulated.Options{Answer: func(simulated.Message) simulated.Answer { return simulated.Answer{Status: status.Load()} }},
			map[string]any{"statuses": map[string]any{"0xF0": "message"}})
		for s, text := range map[uint32]string{kind.badRecipient: kind.badRecipientText, 0xF0: ""} {
			status.Store(s)
			id := b.Submit("x")
			b.AwaitStatus(id, queue.Failed)
			if got := *b.Task(id).Result; !strings.Contains(got, "the carrier answered "+text) {
				t.Errorf("%#x: the result is %q", s, got)
			}
		}
		if n := len(c.Seen()); n != 2 {
			t.Errorf("the carrier got %d messages, want 2", n)
		}
		status.Store(kind.ofTheSender)
		id := b.Submit("x")
		if pause := b.AwaitOpenBreaker("bound"); pause.Reason != kind.ofTheSenderText {
			t.Errorf("paused by %q", pause.Reason)
		}
		status.Store(0)
		b.AwaitStatus(id, queue.Success)
	})
}

// C1, C3: only one server opens a link, and another one takes it over when it stops.
func TestLinkBelongsToOneServer(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{}, map[string]any{"binds": 2})
		second := apptest.Another(b)
		second.Pusher.Start()
		apptest.Eventually(t, "both links are open", func() bool { _, open := c.Binds(); return open == 2 })
		for i := range 20 {
			b.Submit(fmt.Sprint("x", i))
		}
		apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 20 })
		if accepted, _ := c.Binds(); accepted != 2 {
			t.Errorf("%d binds, want 2", accepted)
		}
		b.App.Pusher.Stop(t.Context())
		apptest.Eventually(t, "the other server opened the links of the first one", func() bool { // at the start, each server can have got one link
			_, open := c.Binds()
			return open == 2 && b.Count("SELECT count(*) FROM sender_links WHERE bound_at IS NOT NULL") == 2
		})
		b.AwaitStatus(b.Submit("y"), queue.Success)
		second.Pusher.Stop(t.Context())
		if n := b.Count("SELECT count(*) FROM sender_links WHERE held_until > clock_timestamp()"); n != 0 {
			t.Errorf("%d links are held", n)
		}
	})
}

// C1, C3: without a bind, the sender is paused with the reason of the carrier, and goes on as soon as the bind is accepted.
func TestRefusedBindPausesTheSender(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{Secret: "other"}, nil)
		b.Submit("x")
		if pause := b.AwaitOpenBreaker("bound"); pause.Reason != "not_bound: no link to the carrier is open: the carrier refused the bind: "+kind.wrongSecret {
			t.Errorf("paused by %q", pause.Reason)
		}
		if n := b.Count("SELECT count(*) FROM report_logs WHERE leased_at IS NOT NULL"); n != 0 {
			t.Errorf("the sender took the message %d times", n)
		}
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/bound", map[string]any{"config": apptest.CarrierConfig(kind.name, c, map[string]any{kind.secret: "other"})})
		apptest.Eventually(t, "it is sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 1 })
		if n := b.Count("SELECT count(*) FROM events WHERE event = 'sender.paused'"); n != 1 {
			t.Errorf("the sender was paused %d times, want once", n)
		}
	})
}

// C1, C3: if the breaker opens at the moment when a link opens, the sender goes on without a message. A breaker that opened for another reason stays open.
func TestSenderWithALinkIsNotPausedForALink(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{}, nil)
		apptest.Eventually(t, "the link is open", func() bool { _, open := c.Binds(); return open == 1 })
		open := func(reason string) {
			b.Exec("UPDATE sender_states SET openings = 1, rest_until = clock_timestamp() + interval '5 minutes', rest_reason = $1", reason)
		}
		open("not_bound: no link to the carrier is open")
		apptest.Eventually(t, "the breaker is closed", func() bool { return b.GetSender("bound").Pause == nil })
		open("refused: the account is empty")
		b.App.Pusher.Refresh()
		c.Cut()
		since := time.Now()
		apptest.Eventually(t, "the link has been open for a renewal", func() bool {
			return b.Count("SELECT count(*) FROM sender_links WHERE bound_at > $1 AND bound_at < clock_timestamp() - interval '2 seconds'", since) == 1
		})
		if pause := b.GetSender("bound").Pause; pause == nil {
			t.Error("the breaker is closed")
		}
	})
}

// C1, C3: messages of people arrive, in parts of any order.
func TestMessagesOfPeopleArriveThroughACarrier(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{}, nil)
		apptest.Eventually(t, "the link is open", func() bool { _, open := c.Binds(); return open == 1 })
		long := strings.Repeat("会议改到下午三点 🎉 ", 20)
		for _, text := range []string{"hello [€]", "你好", long} {
			if err := c.Deliver("8613800138000", "10690001", text); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{"hello [€]", "你好", long} {
			if n := b.Count("SELECT count(*) FROM received_messages WHERE content = $1 AND phone_number = '+8613800138000' AND own_number = '10690001'", text); n != 1 {
				t.Errorf("%q arrived %d times", text, n)
			}
		}
		if n := b.Count("SELECT count(*) FROM received_parts"); n != 0 {
			t.Errorf("%d parts are left", n)
		}
	})
}

// C1: two sessions, one that sends and one that receives, are one link. A test of the sender uses a session of its own, and links are listed.
func TestLinksWithTwoSessionsAreListedAndTested(t *testing.T) {
	b, c := apptest.NewBound(t, "smpp", simulated.Options{Answer: func(simulated.Message) simulated.Answer {
		return simulated.Answer{Receipts: []simulated.Receipt{{Stat: simulated.Delivered}}}
	}}, map[string]any{"bind": "transmitter_receiver", "tlvs": map[string]any{"0x1400": "0x01"}})
	id := b.Submit("x")
	awaitReceipts(t, b, "the receipt is matched", func() bool { return b.Task(id).Delivery != nil })
	if value, _ := c.Seen()[0].Body.(*smpp.Message).TLVs.Get(0x1400); string(value) != "\x01" {
		t.Errorf("the parameter is %x", value)
	}
	var links []api.SenderLink
	apptest.Eventually(t, "the link is listed", func() bool {
		links = apptest.Decode[[]api.SenderLink](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/bound/links", nil))
		return len(links) == 1 && links[0].Sent == 1 && links[0].Received == 1
	})
	if l := links[0]; l.Link != 1 || l.BoundAt == nil || l.Error != nil || l.Host == "" {
		t.Errorf("the link is %+v", l)
	}
	tried := apptest.Decode[api.SenderTested](t, b.Expect(200, "", "POST", "/api/v1/admin/senders/bound/test", map[string]any{"phone_number": "13900139000", "content": "test"}))
	if tried.Outcome != api.OutcomeSent || *tried.ProviderNo != "2" || tried.Request == nil || !strings.Contains(tried.Request.Body, "destination_addr 8613900139000") {
		t.Errorf("the test is %+v", tried)
	}
	if accepted, _ := c.Binds(); accepted != 3 {
		t.Errorf("%d binds, want 3", accepted)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/bound", map[string]any{"status": "off"})
	apptest.Eventually(t, "no link is open", func() bool { _, open := c.Binds(); return open == 0 })
}

// C1, C3: a long message with a missing part is stored after an hour.
func TestMissingPartsOfAMessageAreShown(t *testing.T) {
	withEachKind(t, func(t *testing.T, kind carrierKind) {
		b, c := apptest.NewBound(t, kind.name, simulated.Options{}, nil)
		apptest.Eventually(t, "the link is open", func() bool { _, open := c.Binds(); return open == 1 })
		if err := c.DeliverWithout("8613800138000", "10690001", strings.Repeat("一", 67)+strings.Repeat("二", 67)+strings.Repeat("三", 67), 1); err != nil {
			t.Fatal(err)
		}
		if n, err := b.App.Received.JoinExpired(t.Context()); n != 0 || err != nil {
			t.Errorf("joined %d, %v", n, err)
		}
		b.Exec("UPDATE received_parts SET created_at = created_at - interval '61 minutes'")
		if n, err := b.App.Received.JoinExpired(t.Context()); n != 1 || err != nil {
			t.Errorf("joined %d, %v", n, err)
		}
		if got := apptest.Scan[string](b, "SELECT content FROM received_messages"); got != strings.Repeat("一", 67)+"[…]"+strings.Repeat("三", 67) {
			t.Errorf("stored %s", got)
		}
	})
}

// C1: a link is encrypted, and the certificate of the carrier is checked with its own authority.
func TestLinksAreEncrypted(t *testing.T) {
	authority := httptest.NewTLSServer(nil)
	authority.Close()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}))
	b, c := apptest.NewBound(t, "smpp", simulated.Options{TLS: &tls.Config{Certificates: authority.TLS.Certificates, MinVersion: tls.VersionTLS12}}, map[string]any{"tls": true})
	apptest.Eventually(t, "the link has failed", func() bool { // the first check of a certificate reads the system's authorities
		links := apptest.Decode[[]api.SenderLink](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/bound/links", nil))
		return len(links) == 1 && links[0].Error != nil
	})
	id := b.Submit("x")
	if pause := b.AwaitOpenBreaker("bound"); !strings.HasSuffix(pause.Reason, "the provider's certificate is not trusted") {
		t.Errorf("paused by %q", pause.Reason)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/bound", map[string]any{"config": apptest.CarrierConfig("smpp", c, map[string]any{"tls": true, "tls_ca": certificate})})
	b.AwaitStatus(id, queue.Success)
}
