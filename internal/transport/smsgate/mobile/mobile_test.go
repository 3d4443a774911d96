package mobile_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/transport/smsgate/mobile"
)

// B16: the simulated phone behaves like the source code of the app.
func TestPhonePairsSendsAndReportsReceipt(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "sign": "ACME"})
	paired := s.pair("phone", map[string]any{})
	if !strings.HasSuffix(paired.Address, "/smsgate/mobile/v1") || paired.Qr != paired.Address+"\n"+paired.Code || len(paired.Code) != 12 {
		t.Errorf("paired %+v", paired)
	}
	if left := time.Until(paired.ExpiresAt); left < 9*time.Minute || left > 11*time.Minute {
		t.Errorf("the code is open for %v", left)
	}
	p := newPhone(t, s.client, s.address)
	p.signInByCode(paired.Code)
	if p.channel != "SSE_ONLY" || p.processing != "FIFO" || p.info.Password != nil {
		t.Errorf("the phone has %s, %s and the password %v", p.channel, p.processing, p.info.Password)
	}
	first, second := s.Submit("one"), s.Submit("two")
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 【ACME】one", "+8613800138000 【ACME】two"}) {
		t.Errorf("the phone sent %q", out)
	}
	for _, id := range []string{first, second} {
		if task := s.Task(id); task.Status != api.TaskSuccess || task.ProcessingAppID == nil || *task.ProcessingAppID != "phone" {
			t.Errorf("the task is %+v", task)
		}
		s.ExpectEffects(id, "reported success")
	}
	p.reports(p.order[0], "Delivered", "")
	p.reports(p.order[1], "Failed", "Delivery result from SC +8613800: 70")
	if task := s.Task(first); task.Delivery == nil || *task.Delivery != api.TaskDelivered {
		t.Errorf("the task is %+v", task)
	}
	if task := s.Task(second); task.Status != api.TaskSuccess || *task.Delivery != api.TaskUndelivered || *task.DeliveryCode != "Delivery result from SC +8613800: 70" {
		t.Errorf("the task is %+v", task)
	}
	if got := p.pull(); len(got) > 0 {
		t.Errorf("the phone received messages again that it has reported: %v", got)
	}
	if !strings.Contains(string(p.must(200, "GET", "/device", "", nil)), `"externalIp":"127.0.0.1"`) {
		t.Error("the response does not contain the address of the app")
	}
}

// If the carrier adds the signature or forbids it, the phone sends the text without a signature.
func TestPhoneSendsTextWithoutSignatureIfCarrierSigns(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "sign": "ACME", "sign_mode": "by_provider"})
	p := newPhone(t, s.client, s.address)
	p.signInByCode(s.pair("phone", map[string]any{}).Code)
	s.Submit("one")
	s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "two", "sign": "Other"})
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 one", "+8613800138000 two"}) {
		t.Errorf("the phone sent %q", out)
	}
	// A repeated pull returns held messages unchanged, because the first response can have been lost.
	s.Submit("held")
	first := p.must(200, "GET", "/message?order=fifo", p.bearer(), nil)
	s.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"sign_mode": "in_text"})
	if again := p.must(200, "GET", "/message?order=fifo", p.bearer(), nil); string(again) != string(first) {
		t.Errorf("first %s, then %s", first, again)
	}
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 held"}) {
		t.Errorf("the phone sent %q", out)
	}
	s.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"sign": nil, "sign_mode": "none"})
	s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "three", "sign": "Other"})
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 three"}) {
		t.Errorf("the phone sent %q", out)
	}
}

func TestPullReturnsHeldMessagesAgain(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.SubmitMany("text", 14, nil)
	lost := p.must(200, "GET", "/message?order=fifo", p.bearer(), nil) // this response does not arrive
	got := p.pull()
	if again := newPhone(t, s.client, s.address).take(lost); !slices.Equal(got, again) || len(got) != 10 {
		t.Fatalf("first %v, then %v", again, got)
	}
	if got := p.must(200, "GET", "/messages", p.bearer(), nil); lineOf(got) != lineOf(lost) {
		t.Errorf("first %s, then %s", lost, got)
	}
	p.pull() // reports all messages as Pending
	for i, id := range p.order {
		if i < 3 {
			p.reports(id, "Sent", "")
		}
	}
	if got := p.pull(); len(got) != 10 || !slices.Equal(got[:7], p.order[3:10]) || len(p.ids()) != 13 {
		t.Errorf("the phone has the messages %v, and the known ids %v", got, p.ids())
	}
	// A message whose lease has expired is returned under another id.
	s.ExpireLeases()
	s.Recover()
	s.Exec("UPDATE queue SET due_at = now() - interval '1 minute'")
	if got := p.pull(); len(got) != 10 || slices.ContainsFunc(got, func(id string) bool { return slices.Contains(p.order[:13], id) }) {
		t.Errorf("the phone is given %v, and knew %v", got, p.order[:13])
	}
	if n := s.Count("SELECT count(*) FROM phone_leases"); n != 10 {
		t.Errorf("%d leases are recorded", n)
	}
}

// If a message were leased for a phone that does not exist, its lease would expire as unclear. The message would fail although no phone sent it.
func TestMessageStaysUnleasedIfPhoneWasReplaced(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "on_unclear": "fail"})
	p := s.registered("phone")
	id := s.Submit("text")
	expectFree := func(why string) {
		t.Helper()
		if n := s.Count("SELECT count(*) FROM queue WHERE task_id = $1 AND lease_id IS NULL AND retry_count = 0", id); n != 1 {
			t.Errorf("%s: the task is leased or counts a retry", why)
		}
		if n := s.Count("SELECT count(*) FROM phone_leases"); n != 0 {
			t.Errorf("%s: %d leases are recorded", why, n)
		}
	}
	s.Exec("ALTER TABLE phone_leases ADD CONSTRAINT broken CHECK (false) NOT VALID")
	p.must(500, "GET", "/message", p.bearer(), nil)
	expectFree("the note failed")
	s.Exec("ALTER TABLE phone_leases DROP CONSTRAINT broken")

	// Another phone is registered while the first phone claims.
	s.Exec(`CREATE FUNCTION replace_phone() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE phones SET device_no = 'next'; RETURN NEW; END $$`)
	s.Exec("CREATE TRIGGER replace_phone AFTER UPDATE OF lease_id ON queue FOR EACH ROW EXECUTE FUNCTION replace_phone()")
	if got := p.pull(); len(got) > 0 {
		t.Errorf("a phone that was replaced is given %v", got)
	}
	expectFree("the phone was replaced")
	s.Exec("DROP TRIGGER replace_phone ON queue")
	if got := p.pull(); len(got) != 1 {
		t.Errorf("the phone is given %v", got)
	}
}

// A ServeMux routes HEAD to the GET handler. A pull without a response body would lease messages that the phone never receives.
func TestHEADRequestClaimsNothing(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.Submit("text")
	p.must(405, "HEAD", "/message", p.bearer(), nil)
	if got := p.pull(); len(got) != 1 {
		t.Errorf("the phone got %v", got)
	}
	if n := s.Count("SELECT count(*) FROM phone_leases"); n != 1 {
		t.Errorf("%d leases", n)
	}
}

func TestMessageRejectedAsExpiredByPhoneIsRetried(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("text")
	p.pull()
	var from, until time.Time
	if err := s.DB.QueryRow(t.Context(), "SELECT updated_at, lease_until FROM queue WHERE task_id = $1", id).Scan(&from, &until); err != nil {
		t.Fatal(err)
	}
	if got := p.known[p.only()]; !got.ValidUntil.Equal(until.Add(-time.Minute).Truncate(time.Millisecond)) || !got.CreatedAt.Equal(from.Truncate(time.Millisecond)) {
		t.Errorf("the message is from %v and valid until %v, and leased from %v until %v", got.CreatedAt, got.ValidUntil, from, until)
	}
	p.clock = time.Hour // the phone was off for this time, or its clock is fast
	if out := p.sendPending(); len(out) > 0 {
		t.Errorf("the phone sent %v", out)
	}
	s.ExpectEffects(id, "released troubled")
	if n := apptest.Scan[int](s.Bundle, "SELECT retry_count FROM queue WHERE task_id = $1", id); n != 0 {
		t.Errorf("the clock of the phone cost %d attempts", n)
	}
	p.clock = 0
	s.endPauses()
	p.pull()
	if out := p.sendPending(); len(out) != 1 || len(p.order) != 2 {
		t.Errorf("the phone sent %v", out)
	}
	s.AwaitStatus(id, 2)
	p.sendState(p.order[0]) // the phone repeats its rejection late
	s.ExpectEffects(id, "released troubled", "reported success")

	// The rejection arrives after the lease has expired: the sweep recovers the message.
	id = s.Submit("text")
	got := p.pull()
	s.ExpireLeases()
	p.reports(got[0], "Failed", "TTL expired")
	s.ExpectEffects(id)
	s.Recover()
	p.sendState(got[0])
	s.ExpectEffects(id, "recovered retry")
}

func TestReportedStatesCanArriveInAnyOrderAndRepeatedly(t *testing.T) {
	s := newServer(t)
	p, other := s.newPhone("phone"), s.newPhone("other")
	id := s.Submit("text")
	p.pull()
	of := p.only()
	p.reports(of, "Processed", "")
	s.ExpectEffects(id)
	p.becomes(of, "Sent", "")
	early := p.stateOf(of)
	p.reports(of, "Delivered", "") // the report of Sent is still in transit
	s.ExpectEffects(id, "reported success", "receipt delivered")
	for range 3 {
		p.must(204, "PATCH", "/message", p.bearer(), []any{early})
		p.sendState(of)
	}
	late := p.stateOf(of)
	late["recipients"] = []any{map[string]any{"phoneNumber": "x", "state": "Failed", "error": "Delivery result: 2"}}
	p.must(204, "PATCH", "/messages", p.bearer(), []any{late, late, early})
	s.ExpectEffects(id, "reported success", "receipt delivered")

	// States of leases that the phone never had are ignored. The response is a success, so that the app does not repeat them.
	second := s.Submit("text")
	other.pull()
	stolen := other.stateOf(other.only())
	stolen["state"], stolen["recipients"] = "Sent", []any{}
	unknown := map[string]any{"id": "aQslD_GefqiYV6RQXdkM6", "state": "Sent", "recipients": []any{map[string]any{"phoneNumber": "x", "state": "Sent"}}}
	none := map[string]any{"id": "task_20261124_01JDABCDEFGHJKMNPQRSTVWXYZ-77", "state": "Delivered", "recipients": []any{}}
	p.must(204, "PATCH", "/message", p.bearer(), []any{stolen, unknown, none})
	s.ExpectEffects(second)
	if task := s.Task(second); task.Status != api.TaskProcessing || task.Delivery != nil {
		t.Errorf("the task is %+v", task)
	}
}

func TestMessageSentAfterLeaseExpiredCountsAsSent(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("text")
	p.pull()
	p.becomes(p.only(), "Sent", "")
	s.ExpireLeases()
	s.Recover()
	p.sendState(p.only())
	s.ExpectEffects(id, "recovered retry", "reported success")
	s.AwaitStatus(id, 2)
}

// A finished task keeps its state.
func TestUnclearMessageStaysFailedAfterLateReceipt(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "on_unclear": "fail"})
	p := s.registered("phone")
	id := s.Submit("text")
	p.pull()
	p.becomes(p.only(), "Sent", "")
	s.ExpireLeases()
	s.Recover()
	s.AwaitStatus(id, 3)
	p.sendState(p.only())
	s.AwaitStatus(id, 3)
	p.reports(p.only(), "Delivered", "")
	if task := s.Task(id); task.Status != api.TaskFailed || task.Delivery == nil || *task.Delivery != api.TaskDelivered {
		t.Errorf("the task is %+v", task)
	}
}

// The phone rejects messages that it receives but cannot send in time. Only a rejection long before valid_until shows that the clock of the phone is fast.
func TestRejectionAfterValidUntilIsNoTroubleOfPhone(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	for name, c := range map[string]struct {
		leaseSeconds, heldSeconds float64
		effect                    string
		openings                  int
	}{
		"after valid_until of a short lease":       {30, 21.5, "released untried", 0},
		"clock error of a short lease":             {30, 15, "released untried", 0},
		"long before valid_until of a short lease": {30, 5, "released troubled", 1},
		"after valid_until of a long lease":        {3600, 3541, "released untried", 0},
		"clock error of a long lease":              {3600, 3500, "released untried", 0},
		"long before valid_until of a long lease":  {3600, 3400, "released troubled", 1},
	} {
		id := s.Submit("text")
		got := p.pull()
		s.Exec("UPDATE queue SET updated_at = now() - make_interval(secs => $1), lease_until = now() + make_interval(secs => $2)", c.heldSeconds, c.leaseSeconds-c.heldSeconds)
		p.reports(got[0], "Failed", "TTL expired")
		s.ExpectEffects(id, c.effect)
		if n := apptest.Scan[int](s.Bundle, "SELECT openings::int FROM sender_states"); n != c.openings {
			t.Errorf("%s: the circuit breaker has opened %d times, want %d", name, n, c.openings)
		}
		if n := apptest.Scan[int](s.Bundle, "SELECT retry_count FROM queue WHERE task_id = $1", id); n != 0 {
			t.Errorf("%s: the rejection cost %d attempts", name, n)
		}
		s.Exec("DELETE FROM queue")
		s.Exec("UPDATE sender_states SET openings = 0, rest_until = NULL, rest_reason = NULL, next_available_at = now()")
	}
}

func TestErrorOfPhoneDecidesWhetherMessageIsRetried(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	for said, want := range map[string]string{
		"TTL expired":                       "released troubled",
		"Can't send message: No SIMs found": "released troubled",
		"Send result: RESULT_ERROR_NO_SERVICE (Failed because service is currently unavailable)": "released troubled",
		"Send result: RESULT_RIL_SIM_ABSENT (x)":                                                 "released troubled",
		"Send result: RESULT_ERROR_GENERIC_FAILURE (Generic failure cause)":                      "reported retry",
		"Send result: Unknown error code: 4711.":                                                 "reported retry",
		"":                                                                                       "reported retry",
		"Send result: RESULT_INVALID_SMS_FORMAT (Failed because the SMS format is not valid)": "reported failed",
		"Send result: RESULT_RIL_ENCODING_ERR (The SMS message was not encoded properly)":     "reported failed",
		"sendSMS: Invalid destinationAddress":                                                 "reported failed",
		"Delivery result: 2":                                                                  "reported success,receipt undelivered",
	} {
		id := s.Submit("one part")
		got := p.pull()
		p.reports(got[0], "Failed", said)
		s.ExpectEffects(id, strings.Split(want, ",")...)
		s.Exec("DELETE FROM queue")
		s.endPauses()
	}
	// One part of a message was sent, and another failed.
	id := s.Submit("long")
	of := p.pull()[0]
	p.reports(of, "Sent", "")
	p.reports(of, "Failed", "Send result: RESULT_ERROR_NO_SERVICE (x)")
	s.ExpectEffects(id, "reported success", "receipt undelivered")
	s.endPauses()
	// The failure of one part is reported, because another part was possibly sent and charged.
	for said, want := range map[string]string{
		"Send result: RESULT_ERROR_NO_SERVICE (x)": "reported retry",
		"Can't send message: No SIMs found":        "released troubled",
		"TTL expired":                              "released troubled",
	} {
		id := s.Submit(strings.Repeat("long ", 40))
		p.reports(p.pull()[0], "Failed", said)
		s.ExpectEffects(id, want)
		if n := s.Count("SELECT count(*) FROM sender_states WHERE rest_until > now()"); n != 1 {
			t.Errorf("the phone is not paused after %q", said)
		}
		s.Exec("DELETE FROM queue")
		s.endPauses()
	}
	id = s.Submit("cancelled")
	p.reports(p.pull()[0], "Cancelled", "")
	s.ExpectEffects(id, "released troubled")
}

// endPauses ends the pauses of all phones. Their circuit breakers become half-open.
func (s *server) endPauses() {
	s.T.Helper()
	s.Exec("UPDATE sender_states SET rest_until = now() - interval '1 second', next_available_at = now() WHERE rest_until IS NOT NULL")
}

func TestFailingPhonePausesAndThenProbesOneMessage(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	pausedFor := func() time.Duration {
		t.Helper()
		return time.Until(apptest.Scan[time.Time](s.Bundle, "SELECT rest_until FROM sender_states WHERE openings > 0")).Round(10 * time.Second)
	}
	s.SubmitMany("text", 30, nil)
	p.clock = time.Hour
	p.pull()
	p.sendPending()
	if got := p.pull(); len(got) > 0 {
		t.Fatalf("a phone that could not send is given %v", got)
	}
	if got := pausedFor(); got != 30*time.Second {
		t.Errorf("the phone is paused for %v after ten troubles in a row", got)
	}
	for range 4 { // one minute, then two, four and eight
		s.endPauses()
		if got := p.pull(); len(got) != 1 {
			t.Fatalf("a phone that could not send tries %v", got)
		}
		p.sendPending()
	}
	if got := pausedFor(); got != 8*time.Minute {
		t.Errorf("the phone is paused for %v after five pauses", got)
	}
	if n := s.Count("SELECT count(*) FROM report_logs WHERE event = 'released'"); n != 14 {
		t.Errorf("%d messages were given back", n)
	}
	s.endPauses()
	p.clock = 0
	s.Exec("UPDATE queue SET due_at = now()")
	p.pull()
	if out := p.sendPending(); len(out) != 1 {
		t.Errorf("the phone sent %v", out)
	}
	if got := p.pull(); len(got) != 10 {
		t.Errorf("a phone that sends again is given %v", got)
	}
	if n := s.Count("SELECT count(*) FROM sender_states WHERE openings = 0 AND rest_until IS NULL"); n != 1 {
		t.Error("a phone that sends again is still paused")
	}
}

// A phone that could not send is not available: its messages go to other senders, and the operator sees the reason.
func TestFailingPhoneIsPausedLikeAnySenderInTrouble(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("text")
	p.reports(p.pull()[0], "Failed", "Can't send message: No SIMs found")
	pause := s.AwaitOpenBreaker("phone")
	if pause.Reason != "Can't send message: No SIMs found" || time.Until(pause.Until) > 31*time.Second {
		t.Errorf("the phone is paused: %+v", pause)
	}
	if e := s.Explain(id); len(e.Senders) != 1 || e.Senders[0].CanTake || e.Senders[0].Why == nil || *e.Senders[0].Why != "paused" {
		t.Errorf("the task is explained by %+v", e.Senders)
	}
	if s.GetSender("phone").IsReady {
		t.Error("a paused phone is ready")
	}
	if n := s.Count("SELECT count(*) FROM events WHERE event = 'sender.paused' AND subject = 'phone'"); n != 1 {
		t.Errorf("%d events", n)
	}
	next := s.registered("phone") // another phone serves the sender
	if sender := s.GetSender("phone"); sender.Pause != nil || !sender.IsReady {
		t.Errorf("the sender of the next phone is paused: %+v", sender.Pause)
	}
	s.Exec("UPDATE queue SET due_at = now()")
	if got := next.pull(); len(got) != 1 {
		t.Errorf("the next phone is given %v", got)
	}
}

func TestBreakerOfPhoneAppliesToEveryClaimAndReportOfItsSender(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.Exec("DELETE FROM sender_sims") // no claim of this sender needs its counters
	s.Exec("UPDATE senders SET has_sims = false")
	s.SubmitMany("text", 3, nil)
	p.reports(p.pull()[0], "Failed", "Can't send message: No SIMs found")
	s.Exec("UPDATE queue SET processing_app_id = NULL, lease_id = NULL, lease_until = NULL")
	if got := s.Take("phone", 10); len(got) > 0 {
		t.Errorf("the paused sender was given %v", got)
	}
	s.endPauses()
	got := s.Take("phone", 10)
	if len(got) != 3 {
		t.Fatalf("after the pause, the sender was given %v", got)
	}
	s.Report(got[0].TaskID, "phone", 3, nil)
	if pause := s.GetSender("phone").Pause; pause == nil {
		t.Error("a FAILED closed the circuit breaker")
	}
	s.Report(got[1].TaskID, "phone", 2, nil)
	s.Report(got[2].TaskID, "phone", 2, nil)
	if pause := s.GetSender("phone").Pause; pause != nil {
		t.Errorf("after a SUCCESS, the circuit breaker is %+v", pause)
	}
	if n := s.Count("SELECT count(*) FROM events WHERE event = 'sender.recovered' AND subject = 'phone'"); n != 1 {
		t.Errorf("%d events", n)
	}
}

func TestMessageNearEndOfLeaseIsNotReturnedAgain(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("text")
	p.pull()
	s.Exec("UPDATE queue SET lease_until = now() + interval '50 seconds', updated_at = now() - interval '5 minutes'")
	if got := p.pull(); len(got) > 0 {
		t.Errorf("the phone is given %v", got)
	}
	s.Exec("UPDATE queue SET updated_at = now() - interval '10 seconds'") // the lease now lasts one minute, so the message is valid until 20 seconds before its end
	if got := p.pull(); len(got) != 1 {
		t.Errorf("the phone is given %v", got)
	}
	p.sendPending()
	s.ExpectEffects(id, "reported success")
}

func TestFailureOfLostLeaseIsNotStoredAsReceipt(t *testing.T) {
	s := newServer(t)
	p, next := s.newPhone("phone"), s.newPhone("next")
	id := s.Submit("text")
	p.pull()
	s.ExpireLeases()
	s.Recover()
	s.Exec("UPDATE queue SET due_at = now() - interval '1 minute'")
	next.pull()
	next.sendPending()
	s.AwaitStatus(id, 2)
	p.reports(p.only(), "Sent", "")
	p.reports(p.only(), "Failed", "Delivery result: 2")
	p.must(204, "PATCH", "/message", p.bearer(), []any{map[string]any{
		"id": p.only(), "state": "Failed", "recipients": []any{map[string]any{"state": "Failed", "error": "Delivery result: 2"}},
	}})
	if task := s.Task(id); task.Delivery != nil || *task.ProcessingAppID != "next" {
		t.Errorf("the task is %+v", task)
	}
}

func TestConcurrentPullsRespectMessageLimitOfPhone(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.SubmitMany("text", 60, nil)
	var all sync.WaitGroup
	for i := range 6 {
		ctx, breakOff := context.WithTimeout(t.Context(), time.Duration(2+5*i)*time.Millisecond) // aborts the pull in the same way as the app
		r, err := http.NewRequestWithContext(ctx, "GET", p.address+"/message", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", p.bearer())
		all.Go(func() {
			defer breakOff()
			if res, err := s.client.Do(r); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	all.Wait()
	if got := p.pull(); len(got) != 10 {
		t.Errorf("the phone has the messages %v", got)
	}
	if n := s.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL"); n != 10 {
		t.Errorf("%d messages are leased", n)
	}
}

func TestPullWaitsForOtherPullOfSamePhone(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.Submit("text")
	s.Exec("UPDATE phones SET pull_until = now() + interval '300 milliseconds'")
	if started := time.Now(); len(p.pull()) != 1 || time.Since(started) < 200*time.Millisecond {
		t.Errorf("after %v, the phone has the messages %v", time.Since(started), p.order)
	}
}

func TestFullOrPausedPhoneDoesNotCountAsPolling(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	phones := mobile.New(s.App.DB, mobile.Services{Queue: s.App.Queue, Senders: s.App.Senders})
	registered, err := phones.Get(t.Context(), p.info.Login)
	if err != nil {
		t.Fatal(err)
	}
	polls := func() int {
		t.Helper()
		s.Exec("UPDATE sender_states SET seen_at = '2020-01-01'")
		if _, err := phones.AwaitMessages(t.Context(), registered, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		n, err := s.App.Senders.SweepSeen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := polls(); n != 1 {
		t.Errorf("a phone that waits polled %d times", n)
	}
	s.SubmitMany("text", 12, nil)
	p.pull()
	polls() // ignores the poll of the pull
	if n := polls(); n != 0 {
		t.Errorf("a full phone polled %d times", n)
	}
	s.Exec("DELETE FROM queue")
	s.Exec("UPDATE sender_states SET rest_until = now() + interval '1 minute', openings = 1")
	if n := polls(); n != 0 {
		t.Errorf("a phone that is paused polled %d times", n)
	}
}

func TestNewStreamOfPhoneEndsPreviousStream(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	old := p.listen()
	p.listen()
	apptest.Eventually(t, "the old stream ends", func() bool {
		select {
		case _, isOpen := <-old:
			return !isOpen
		default:
			return false
		}
	})
}

func TestPairingCodeDoesNotAffectCurrentPhone(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone"})
	p := newPhone(t, s.client, s.address)
	p.signInByCode(s.pair("phone", map[string]any{"sim_number": 1}).Code)
	code := s.pair("phone", map[string]any{"sim_number": 2}).Code
	s.Submit("one")
	p.pull()
	if sim := p.known[p.only()].SimNumber; sim == nil || *sim != 1 {
		t.Errorf("the message is sent with SIM %v", sim)
	}
	next := newPhone(t, s.client, s.address)
	next.signInByCode(code)
	s.Submit("two")
	next.pull()
	if sim := next.known[next.only()].SimNumber; sim == nil || *sim != 2 {
		t.Errorf("the message is sent with SIM %v", sim)
	}
}

func TestPairingCodeRegistersOnlyOnePhone(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone"})
	replaced, code := s.pair("phone", map[string]any{}).Code, s.pair("phone", map[string]any{}).Code
	p, second := newPhone(t, s.client, s.address), newPhone(t, s.client, s.address)
	if status := second.tryCode(replaced); status != 401 {
		t.Errorf("a replaced code is answered with %d", status)
	}
	p.signInByCode(code)
	if status := second.tryCode(code); status != 401 {
		t.Errorf("a used code is answered with %d", status)
	}
	old := s.pair("phone", map[string]any{}).Code
	s.Exec("UPDATE phones SET code_until = now() - interval '1 second'")
	if status := second.tryCode(old); status != 401 {
		t.Errorf("an expired code is answered with %d", status)
	}
	for _, authorization := range []string{"", "Bearer private-token", basic("admin", "x"), "Code"} {
		if status, _ := second.call("POST", "/device", authorization, map[string]any{"name": "x", "simCards": []any{}}); status != 401 {
			t.Errorf("a registration with %q is answered with %d", authorization, status)
		}
	}
	for range 3 {
		second.tryCode("000000000000")
	}
	right := s.pair("phone", map[string]any{}).Code
	if status := second.tryCode(right); status != http.StatusTooManyRequests {
		t.Errorf("after many wrong codes, another code is answered with %d", status)
	}
	p.pull() // a phone with a token does not wait for wrong codes of other phones
	if n := s.Count("SELECT count(*) FROM phones WHERE code_hash = sha256(convert_to($1, 'UTF8'))", right); n != 1 {
		t.Errorf("%d codes are stored as their sums", n)
	}
	if strings.Contains(s.Log.String(), right) || strings.Contains(s.Log.String(), p.info.Token) {
		t.Error("the log has a code or a token")
	}
}

func TestRegistrationReplacesPreviousPhoneOfSender(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.Submit("text")
	p.pull()
	next := s.registered("phone")
	if len(next.order) > 0 {
		t.Errorf("the next phone received messages that the previous phone possibly sent: %v", next.order)
	}
	for _, path := range []string{"/message", "/settings", "/events"} {
		if status, _ := p.call("GET", path, p.bearer(), nil); status != 401 {
			t.Errorf("%s answers the old phone %d", path, status)
		}
	}
	next.must(403, "PATCH", "/device", next.bearer(), map[string]any{"id": p.info.ID})
	if n := s.Count("SELECT count(*) FROM users WHERE username LIKE 'phone-%'"); n != 1 {
		t.Errorf("there are %d users of phones", n)
	}
}

func TestPhoneOfDeletedSenderIsRejected(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	p.must(204, "PATCH", "/device", p.bearer(), map[string]any{"id": p.info.ID})
	s.Expect(200, "", "DELETE", "/api/v1/admin/senders/phone", nil)
	apptest.Eventually(t, "the token is refused", func() bool {
		status, _ := p.call("GET", "/message", p.bearer(), nil)
		if status == 200 {
			t.Fatal("the phone is served")
		}
		return status == 401
	})
	s.Expect(404, "sender.not_found", "GET", "/api/v1/admin/senders/phone", nil)
	if n := s.Count("SELECT count(*) FROM audit WHERE action = 'deleted' AND entity = 'phone' AND entity_key = 'phone'"); n != 1 {
		t.Errorf("%d rows of audit name the sender of the deleted phone", n)
	}
	if n := s.Count("SELECT count(*) FROM users") + s.Count("SELECT count(*) FROM api_keys") + s.Count("SELECT count(*) FROM phones"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestPhoneReceivesOnlyMessagesOfItsRoutes(t *testing.T) {
	s := newServer(t)
	acme, beta := s.AddCompany("acme", 1), s.AddCompany("beta", 1)
	s.AddSender(map[string]any{"sender_no": "phone", "is_shared": false, "sign": "X"})
	s.AddSender(map[string]any{"sender_no": "other"})
	s.AddRoute("acme", "phone", 1)
	s.AddRoute("beta", "other", 1)
	p := s.registered("phone")
	for i, of := range [][]string{acme, beta} {
		s.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": fmt.Sprint("of ", i)}, of...)
	}
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 【X】of 0"}) {
		t.Errorf("the phone sent %q", out)
	}
}

func TestPhoneObeysRateLimitOfSender(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "limits": map[string]any{"per_hour": 3}})
	p := newPhone(t, s.client, s.address)
	p.signInByCode(s.pair("phone", map[string]any{"sim_number": 2}).Code)
	s.SubmitMany("text", 5, nil)
	if got := p.pull(); len(got) != 3 {
		t.Errorf("the phone is given %d messages", len(got))
	}
	if sim := p.known[p.order[0]].SimNumber; sim == nil || *sim != 2 {
		t.Errorf("the message is sent with SIM %v", sim)
	}
	s.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"status": "off", "limits": map[string]any{"per_hour": nil}})
	if got := p.pull(); len(got) != 3 {
		t.Errorf("a phone whose sender is off holds %d messages", len(got))
	}
}

func TestPhoneReceivesEventWhenMessagesWait(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	events := p.listen()
	s.Submit("text")
	select {
	case event := <-events:
		if event != "MessageEnqueued" {
			t.Errorf("the app does not know the event %q", event)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event was received")
	}
	p.pull()
	if out := p.sendPending(); len(out) != 1 {
		t.Errorf("the phone sent %v", out)
	}
	s.registered("phone")
	apptest.Eventually(t, "the stream of the old phone ends", func() bool {
		select {
		case event, isOpen := <-events:
			if isOpen && event != "MessageEnqueued" {
				t.Fatalf("the app does not know the event %q", event)
			}
			return !isOpen
		default:
			return false
		}
	})
}

func TestInvalidReportsOfPhoneAreRejectedOrIgnored(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	id := s.Submit("text")
	p.pull()
	for _, body := range []string{
		``, `{`, `[`, `{}`, `null x`, `"x"`, `[1]`, `[null]`, `[[]]`, `[{"id":7}]`, `[{"id":"x","state":"Sunk"}]`, `[{"state":"Sent"}]`,
		`[{"id":"x","state":"Sent","state":"Failed"}]`, `[{"id":"x\u0000","state":"Sent"}]`, `[{"id":"x","state":"Sent","recipients":{}}]`,
		`[` + strings.Repeat(`{"id":"x","state":"Sent"},`, 100) + `{"id":"x","state":"Sent"}]`, `[{"id":"` + strings.Repeat("x", 70<<10) + `"}]`,
		strings.Repeat("[", 5000),
	} {
		if status, raw := p.call("PATCH", "/message", p.bearer(), body); status < 400 || status >= 500 {
			t.Errorf("%.60s answers %d %s", body, status, raw)
		}
		if status, _ := p.call("POST", "/device", "Code 000000000000", body); status < 400 || status >= 500 {
			t.Errorf("a registration with %.60s is answered with %d", body, status)
		}
	}
	for _, body := range []string{`[]`, `[{"id":"-1","state":"Sent"}]`, `[{"id":"` + id + `-","state":"Sent"}]`, `[{"id":"` + id + `-99999999999999999999","state":"Sent"}]`,
		`[{"id":"` + id + `-7","state":"Sent","recipients":[{"state":"Failed","error":"x"},{"state":"Sent"}],"states":7}]`,
		`[{"id":"` + strings.Repeat("9", 5000) + `-1","state":"Sent"}]`,
	} {
		if status, raw := p.call("PATCH", "/message", p.bearer(), body); status != 204 {
			t.Errorf("%.60s answers %d %s", body, status, raw)
		}
	}
	long := map[string]any{"id": p.only(), "state": "Failed", "recipients": []any{map[string]any{"phoneNumber": "x", "state": "Failed", "error": strings.Repeat("é\U0001F4A9", 5000)}}}
	p.must(204, "PATCH", "/message", p.bearer(), []any{long})
	s.ExpectEffects(id, "reported retry")
	for _, path := range []string{"/nothing", "/logs", ""} {
		if status, _ := p.call("GET", path, p.bearer(), nil); status != 404 {
			t.Errorf("%s answers %d", path, status)
		}
	}
}

func TestOnlyPhonesCanUseMobileAPI(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.AddUser("app", "send", map[string]any{"app_id": "phone"})
	key := apptest.Decode[api.NewKey](t, s.Expect(200, "", "POST", "/api/v1/admin/users/app/keys", map[string]any{"name": "n"})).Key
	s.AddUser("shop", "submit", nil)
	submits := apptest.Decode[api.NewKey](t, s.Expect(200, "", "POST", "/api/v1/admin/users/shop/keys", map[string]any{"name": "n"})).Key
	for authorization, want := range map[string]int{
		"": 401, "Bearer x": 401, "Bearer " + key: 403, "Bearer " + submits: 403, basic(apptest.Username, apptest.Password): 401,
		basic(p.info.Login, p.info.Token): 401,
	} {
		for _, path := range []string{"/message", "/settings", "/webhooks", "/events"} {
			if status, _ := p.call("GET", path, authorization, nil); status != want {
				t.Errorf("%s answers %q with %d, want %d", path, authorization, status, want)
			}
		}
	}
	p.must(403, "PATCH", "/user/password", p.bearer(), map[string]any{"currentPassword": "x", "newPassword": "abcdefghijklmn"})
	p.must(403, "GET", "/user/code", basic(p.info.Login, "x"), nil)
	s.AddSender(map[string]any{"sender_no": "mailer", "channel": "email"})
	s.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/mailer/pairing", map[string]any{})
	s.AddSender(map[string]any{"sender_no": "driven", "kind": "log"})
	s.Expect(409, "sender.is_driven", "POST", "/api/v1/admin/senders/driven/pairing", map[string]any{})
	s.Expect(404, "sender.not_found", "POST", "/api/v1/admin/senders/nobody/pairing", map[string]any{})
	s.Expect(422, "request.invalid", "POST", "/api/v1/admin/senders/phone/pairing", map[string]any{"sim_number": 4})
}

// The app checks validUntil immediately before it sends a message.
func TestMessageOfPhoneIsValidUntilItExpires(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	submit := func() string {
		return s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "expires_at": time.Now().Add(40 * time.Second)}).TaskID
	}
	id := submit()
	p.pull()
	if got, want := p.known[p.only()].ValidUntil, s.Task(id).ExpiresAt.Truncate(time.Millisecond); !got.Equal(want) {
		t.Errorf("valid until %s, expires at %s", got, want)
	}
	s.Exec("UPDATE queue SET expires_at = now() - interval '1 second', lease_until = now() - interval '1 second' WHERE task_id = $1", id)
	if got := p.pull(); len(got) > 0 {
		t.Errorf("an expired message is given again: %v", got)
	}
	p.clock = time.Minute // simulates the passing of time on the phone
	if out := p.sendPending(); len(out) > 0 {
		t.Errorf("the phone sent %v", out)
	}
	s.AwaitStatus(id, 3)
	s.ExpectEffects(id, "released untried", "expired expired")
	if pause := s.GetSender("phone").Pause; pause != nil {
		t.Errorf("the phone is paused, although its report was correct: %+v", pause)
	}

	p.clock = 0
	late := submit()
	p.pull()
	if out := p.sendPending(); len(out) != 1 {
		t.Errorf("the phone sent %v", out)
	}
	s.AwaitStatus(late, 2)
}

func TestPhoneGetsTheTextOfASensitiveMessage(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "sign": "ACME"})
	p := newPhone(t, s.client, s.address)
	p.signInByCode(s.pair("phone", map[string]any{}).Code)
	s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code 493817", "sensitive": true})
	first := p.must(200, "GET", "/message?order=fifo", p.bearer(), nil)
	if again := p.must(200, "GET", "/message?order=fifo", p.bearer(), nil); string(again) != string(first) {
		t.Errorf("first %s, then %s", first, again)
	}
	p.pull()
	if out := p.sendPending(); !slices.Equal(out, []string{"+8613800138000 【ACME】code 493817"}) {
		t.Errorf("the phone sent %q", out)
	}
}

// The errors that the app makes itself contain nothing of the message.
func TestErrorsOfAPhoneAboutASensitiveMessage(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	for said, want := range map[string]string{
		"TTL expired":                               "released troubled: TTL expired",
		"Can't send message: text code Kx7Qz9":      "released troubled: Can't send message: ***",
		"Send result: RESULT_ERROR_NO_SERVICE (x)":  "released troubled: Send result: RESULT_ERROR_NO_SERVICE ***",
		"Send result: RESULT_ERROR_GENERIC_FAILURE": "reported retry: Send result: RESULT_ERROR_GENERIC_FAILURE",
		"Send result: Kx7Qz9":                       "reported retry: ***",
		"Kx7Qz9":                                    "reported retry: ***",
		"Delivery result: 2":                        "reported success: ,receipt undelivered: Delivery result: 2",
		"Delivery result: 22-17":                    "reported success: ,receipt undelivered: Delivery result***",
	} {
		id := s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code Kx7Qz9", "sensitive": true}).TaskID
		p.reports(p.pull()[0], "Failed", said)
		got := apptest.Scan[string](s.Bundle, `SELECT string_agg(concat(l.event, ' ', l.effect, ': ', l.error_message), ',' ORDER BY l.id) FROM report_logs l
			WHERE l.task_id = $1 AND l.event <> 'claimed'`, id)
		if got != want {
			t.Errorf("%s: %s, want %s", said, got, want)
		}
		s.ExpectNowhere("Kx7Qz9")
		s.Exec("DELETE FROM queue")
		s.endPauses()
	}
	// A phone can report errors in fields that the server does not read.
	id := s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code Kx7Qz9", "sensitive": true}).TaskID
	of := p.pull()[0]
	recipients := []any{map[string]any{"state": "Sent", "error": "Kx7Qz9"}, map[string]any{"state": "Sent", "error": "Kx7Qz9"}}
	p.must(204, "PATCH", "/message", p.bearer(), []any{map[string]any{"id": of, "state": "Sent", "recipients": recipients}})
	s.AwaitStatus(id, 2)
	s.ExpectNowhere("Kx7Qz9")
}

// A phone can report for a limited time after quiet hours began. The app rejects a message correctly if the quiet hours have begun before it sends the message.
func TestPhoneReportsShortlyAfterQuietHoursBegin(t *testing.T) {
	s := newServer(t)
	s.AddSender(map[string]any{"sender_no": "phone", "on_unclear": "fail"})
	p := s.registered("phone")
	s.SetQuiet("marketing", 2*time.Minute, 5*time.Hour)
	var ids []string
	for _, content := range []string{"sent", "rejected"} {
		ids = append(ids, s.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": content, "message_type": "marketing"}).TaskID)
	}
	p.pull()
	begins := apptest.Scan[time.Time](s.Bundle, "SELECT max(quiet_from) FROM queue")
	if got := p.known[p.order[1]].ValidUntil; !got.Equal(begins) {
		t.Errorf("valid until %s, quiet from %s", got, begins)
	}
	p.becomes(p.order[0], "Sent", "") // in time, but the report arrives later
	s.Exec("UPDATE queue SET quiet_from = now() - interval '1 second', lease_until = now() - interval '1 second'")
	if n := s.Recover(); n != 0 {
		t.Errorf("recovered %d leases of a phone that can still report", n)
	}
	if got := p.pull(); len(got) > 0 {
		t.Errorf("messages are given again in quiet hours: %v", got)
	}
	p.clock = time.Until(begins) + time.Second // simulates the passing of time on the phone
	p.sendState(p.order[0])
	if out := p.sendPending(); len(out) > 0 {
		t.Errorf("the phone sent %v", out)
	}
	s.ExpectEffects(ids[0], "reported success")
	s.ExpectEffects(ids[1], "released untried")
	if got := s.Task(ids[1]); got.Status != api.TaskPending || got.RetryCount != 0 {
		t.Errorf("the message that was not sent is %+v", got)
	}
	if s := s.GetSender("phone"); s.Pause != nil {
		t.Errorf("the phone is paused, although its report was correct: %+v", s.Pause)
	}
}
