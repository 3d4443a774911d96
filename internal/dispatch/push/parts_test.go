package push_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/testkit/apptest"
)

const bound = "/api/v1/admin/senders/bound"

// newAnswering starts a server with the sender "bound", whose carrier answers as `answers` says.
func newAnswering(t *testing.T, answers func(m simulated.Message) simulated.Answer, more map[string]any) (*apptest.Bundle, apptest.Carrier) {
	t.Helper()
	return apptest.NewBound(t, "smpp", simulated.Options{Answer: answers}, more)
}

// ofParts returns a text of n parts.
func ofParts(n int) string { return strings.Repeat("🎉", 33*n) }

func awaitSeen(t *testing.T, c apptest.Carrier, n int) {
	t.Helper()
	apptest.Eventually(t, fmt.Sprintf("the carrier got %d parts", n), func() bool { return len(c.Seen()) >= n })
}

// C1: the rest of a long message is sent even if its time ends: the lease is renewed, and nothing is sent again.
func TestLeaseCoversTheRestOfALongMessage(t *testing.T) {
	for name, answer := range map[string]func(m simulated.Message) simulated.Answer{
		"slow": func(simulated.Message) simulated.Answer { return simulated.Answer{Delay: 1500 * time.Millisecond} },
		"throttled": func(m simulated.Message) simulated.Answer {
			if m.Nth > 1 && m.Nth < 7 {
				return simulated.Answer{Status: uint32(smpp.RThrottled)}
			}
			return simulated.Answer{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := newAnswering(t, answer, map[string]any{"response_seconds": 20}) // an answer without a time limit near its delay
			b.Expect(200, "", "PATCH", bound, map[string]any{"lease_seconds": 4})
			id := b.Submit(ofParts(5))
			apptest.Eventually(t, "the lease is renewed", func() bool {
				return b.Count("SELECT count(*) FROM queue WHERE lease_until > now() + interval '10 seconds'") == 1
			})
			apptest.Eventually(t, "the message is sent", func() bool {
				if n := b.Recover(); n != 0 {
					t.Fatalf("%d leases expired", n)
				}
				return b.Task(id).Status == api.TaskStatus(queue.Success)
			})
			want := 5
			if name == "throttled" {
				want = 10
			}
			if n := len(c.Seen()); n != want {
				t.Errorf("the carrier got %d parts, want %d", n, want)
			}
		})
	}
}

// C1: a message that was begun is sent to its end, even if its sender or company is switched off or its sender is changed.
func TestBegunMessageIsSentToItsEnd(t *testing.T) {
	for name, change := range map[string]func(b *apptest.Bundle, c apptest.Carrier){
		"company off": func(b *apptest.Bundle, _ apptest.Carrier) {
			b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"status": "off"})
		},
		"sender off": func(b *apptest.Bundle, _ apptest.Carrier) {
			b.Expect(200, "", "PATCH", bound, map[string]any{"status": "off"})
		},
		"name": func(b *apptest.Bundle, _ apptest.Carrier) {
			b.Expect(200, "", "PATCH", bound, map[string]any{"name": "other"})
		},
		"config": func(b *apptest.Bundle, c apptest.Carrier) {
			b.Expect(200, "", "PATCH", bound, map[string]any{"config": apptest.CarrierConfig("smpp", c, map[string]any{"window": 3})})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, c := newAnswering(t, func(simulated.Message) simulated.Answer { return simulated.Answer{Delay: 900 * time.Millisecond} }, nil)
			b.Expect(200, "", "PATCH", bound, map[string]any{"on_unclear": "fail"})
			id := b.Submit(ofParts(4))
			awaitSeen(t, c, 1)
			change(b, c)
			b.AwaitStatus(id, queue.Success)
			if n := len(c.Seen()); n != 4 {
				t.Errorf("the carrier got %d parts, want 4", n)
			}
			binds := map[string]int{"config": 2}[name]
			apptest.Eventually(t, "the links are those of the last configuration", func() bool { accepted, _ := c.Binds(); return accepted == max(binds, 1) })
		})
	}
}

// C1: a message of which the carrier took some parts is not sent again, whatever happens to the others, and it is charged: the person has these parts.
func TestMessageThatTheCarrierHasInPartIsNotSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer simulated.Answer
		result string
		stored string // the answer of the part that the carrier did not take
	}{
		"refused":     {simulated.Answer{Status: uint32(smpp.RInvDstAdr)}, "the carrier took 1 of 3 parts, then: the carrier answered ESME_RINVDSTADR", "0x0000000b ESME_RINVDSTADR"},
		"cut":         {simulated.Answer{Cut: true}, "结果不明，不再重发: the carrier took 1 of 3 parts, then: the carrier did not answer: the link was closed", ""},
		"no answer":   {simulated.Answer{Silent: true}, "结果不明，不再重发: the carrier took 1 of 3 parts, then: the carrier did not answer: no answer in time", ""},
		"for a while": {simulated.Answer{Status: uint32(smpp.RSysErr)}, "the carrier took 1 of 3 parts, then: the carrier answered ESME_RSYSERR", "0x00000008 ESME_RSYSERR"},
	} {
		t.Run(name, func(t *testing.T) {
			carrier := apptest.NewCarrier(t, "smpp", simulated.Options{Answer: func(m simulated.Message) simulated.Answer {
				if m.Nth == 2 {
					return c.answer
				}
				return simulated.Answer{}
			}})
			b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
			b.AddSender(map[string]any{"sender_no": "bound", "kind": "smpp", "balance": 100, "config": apptest.CarrierConfig("smpp", carrier, nil)})
			b.App.Pusher.Start()
			id := b.Submit(ofParts(3))
			b.AwaitStatus(id, queue.Failed)
			if got := *b.Task(id).Result; got != c.result {
				t.Errorf("the result is %q", got)
			}
			if got := apptest.Scan[string](b, "SELECT coalesce(string_agg(request_data->>'answer', '|'), '') FROM report_logs WHERE task_id = $1", id); got != strings.TrimSuffix("ESME_ROK 1, then: "+c.stored, ", then: ") {
				t.Errorf("the stored answer is %q", got)
			}
			if balance := *b.GetSender("bound").Balance; balance != 97 {
				t.Errorf("the balance is %d, want 97", balance)
			}
			b.AwaitStatus(b.Submit("x"), queue.Success)
			if n := len(carrier.Seen()); n != 3 {
				t.Errorf("the carrier got %d parts, want 3", n)
			}
		})
	}
}

// C1: a carrier can omit the number of a part.
func TestPartsWithoutANumberAreSent(t *testing.T) {
	b, _ := newAnswering(t, func(m simulated.Message) simulated.Answer { return simulated.Answer{ID: map[int]string{2: " "}[m.Nth]} }, nil)
	b.AwaitStatus(b.Submit(ofParts(3)), queue.Success)
	if n := b.Count("SELECT count(*) FROM deliveries WHERE provider_no IN ('1', '3')"); n != 2 {
		t.Errorf("%d numbers, want 2", n)
	}
}

// C1: messages that give up leave their time to the others, and a claim takes no more messages than can be sent soon.
func TestPaceLosesNoTime(t *testing.T) {
	b, c := newAnswering(t, nil, map[string]any{"per_second": 2, "window": 100})
	b.Expect(200, "", "PATCH", bound, map[string]any{"lease_seconds": 12})
	began := time.Now()
	for i := range 24 {
		b.Submit(fmt.Sprint("x", i))
	}
	awaitSeen(t, c, 2)
	b.Expect(200, "", "PATCH", bound, map[string]any{"status": "off"})
	apptest.Eventually(t, "no link is open", func() bool { _, open := c.Binds(); return open == 0 })
	b.Expect(200, "", "PATCH", bound, map[string]any{"status": "on"})
	apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 24 })
	if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
		t.Errorf("24 messages took %s", took)
	}
	if n := b.Count("SELECT count(*) FROM send_logs"); n > 40 {
		t.Errorf("%d claims of messages", n)
	}
}

// C1: messages that were not sent yet are not leased: if the server is lost, they are not lost with it.
func TestClaimTakesOnlyMessagesThatAreSentAtOnce(t *testing.T) {
	b, c := newAnswering(t, func(simulated.Message) simulated.Answer { return simulated.Answer{Delay: time.Second} }, map[string]any{"window": 3})
	for i := range 10 {
		b.Submit(fmt.Sprint("x", i))
	}
	awaitSeen(t, c, 3)
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 1"); n > 3 {
		t.Errorf("%d messages are leased, want at most 3", n)
	}
}

// C1: one slow answer does not stop the other messages of a window.
func TestSlowAnswerDoesNotStopTheWindow(t *testing.T) {
	slow := func(m simulated.Message) simulated.Answer {
		if m.Nth == 1 {
			return simulated.Answer{Delay: 10 * time.Minute}
		}
		return simulated.Answer{}
	}
	b, c := newAnswering(t, slow, map[string]any{"window": 100, "response_seconds": 600})
	b.Expect(200, "", "PATCH", bound, map[string]any{"lease_seconds": 1200})
	b.SubmitMany("x", 200, nil)
	apptest.Eventually(t, "all messages but the slow one are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 199 })
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 1"); n != 1 || len(c.Seen()) != 200 {
		t.Errorf("%d messages are leased, and the carrier got %d, want 1 and 200", n, len(c.Seen()))
	}
	c.Cut()
}

// C1: only trouble with the link ends with a bind. Otherwise a probe ends it.
func TestABindClosesTheBreakerOnlyAfterTroubleOfLinks(t *testing.T) {
	b, c := newAnswering(t, func(simulated.Message) simulated.Answer { return simulated.Answer{Status: uint32(smpp.RInvSrcAdr)} }, nil)
	b.Submit("x")
	b.AwaitOpenBreaker("bound")
	accepted, _ := c.Binds()
	c.Cut()
	apptest.Eventually(t, "the link is open again", func() bool { now, open := c.Binds(); return now > accepted && open == 1 })
	apptest.Eventually(t, "a probe failed", func() bool { return b.Count("SELECT count(*) FROM sender_states WHERE openings > 1") == 1 })
	if n := b.Count("SELECT count(*) FROM events WHERE event = 'sender.recovered'"); n != 0 {
		t.Errorf("the sender recovered %d times", n)
	}
}

// C1: a test of the sender says why it failed.
func TestTestsOfCarriersSayWhyTheyFailed(t *testing.T) {
	var status atomic.Uint32
	b, c := newAnswering(t, func(simulated.Message) simulated.Answer { return simulated.Answer{Status: status.Load()} }, nil)
	b.Expect(200, "", "PATCH", bound, map[string]any{"status": "off"})
	try := func() api.SenderTested {
		return apptest.Decode[api.SenderTested](t, b.Expect(200, "", "POST", bound+"/test", map[string]any{"phone_number": "13900139000", "content": "test"}))
	}
	status.Store(uint32(smpp.RThrottled))
	if got := try(); got.Outcome != api.OutcomeTrouble || got.Code == nil || *got.Code != "ESME_RTHROTTLED" ||
		got.Answer == nil || !strings.HasSuffix(*got.Answer, " ESME_RTHROTTLED") {
		t.Errorf("throttled: %+v", got)
	}
	b.Expect(200, "", "PATCH", bound, map[string]any{"config": apptest.CarrierConfig("smpp", c, map[string]any{"host": "127.0.0.1", "port": 1})})
	if got := try(); got.Error == nil || *got.Error != "no link to the carrier is open: the provider could not be reached" {
		t.Errorf("closed port: %+v", got.Error)
	}
}

// C1: a test with a wrong password says so, and tries it once.
func TestTestWithAWrongPasswordSaysSo(t *testing.T) {
	b, _ := apptest.NewBound(t, "smpp", simulated.Options{Secret: "other"}, nil)
	b.Expect(200, "", "PATCH", bound, map[string]any{"status": "off"})
	began := time.Now()
	got := apptest.Decode[api.SenderTested](t, b.Expect(200, "", "POST", bound+"/test", map[string]any{"phone_number": "13900139000", "content": "test"}))
	if got.Error == nil || *got.Error != "no link to the carrier is open: the carrier refused the bind: ESME_RINVPASWD" {
		t.Errorf("the error is %v", got.Error)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the test took %s", took)
	}
}

// C1: messages that a carrier throttles until their time ends show its answer, and the sender is paused.
func TestThrottledAnswersAreShown(t *testing.T) {
	b, _ := newAnswering(t, func(simulated.Message) simulated.Answer { return simulated.Answer{Status: uint32(smpp.RThrottled)} }, nil)
	b.Expect(200, "", "PATCH", bound, map[string]any{"lease_seconds": 4})
	id := b.Submit("x")
	if pause := b.AwaitOpenBreaker("bound"); pause.Reason != "ESME_RTHROTTLED: the carrier answered ESME_RTHROTTLED" {
		t.Errorf("paused by %q", pause.Reason)
	}
	answers := apptest.Decode[[]api.SenderAnswer](t, b.Expect(200, "", "GET", bound+"/answers", nil))
	if !slices.ContainsFunc(answers, func(a api.SenderAnswer) bool { return a.Code != nil && *a.Code == "ESME_RTHROTTLED" }) {
		t.Errorf("the answers are %+v", answers)
	}
	apptest.Eventually(t, "the lease is returned", func() bool { return slices.Contains(b.Effects(id), "released troubled") })
}
