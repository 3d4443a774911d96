package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/testkit/apptest"
)

// addSims adds the sender "phone" with SIMs.
func addSims(b *apptest.Bundle, sims ...map[string]any) {
	b.T.Helper()
	b.AddSender(map[string]any{"sender_no": "phone"})
	putSims(b, sims...)
}

func putSims(b *apptest.Bundle, sims ...map[string]any) []api.Sim {
	b.T.Helper()
	return apptest.Decode[[]api.Sim](b.T, b.Expect(200, "", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": append([]map[string]any{}, sims...)}))
}

// usage returns the usage of the SIMs of "phone": "slot: segments today, segments this month, recipients this month".
func usage(b *apptest.Bundle) string {
	b.T.Helper()
	var all []string
	for _, s := range apptest.Decode[[]api.Sim](b.T, b.Expect(200, "", "GET", "/api/v1/admin/senders/phone/sims", nil)) {
		used := ""
		if s.IsUsedUp {
			used = " used up"
		}
		all = append(all, fmt.Sprintf("%d: %d %d %d%s", s.Slot, s.Used.Day, s.Used.Month, s.Used.Recipients, used))
	}
	return strings.Join(all, ", ")
}

func number(n int) string { return fmt.Sprintf("+86138001380%02d", n) }

// submitTo submits one message to each of the numbers.
func submitTo(b *apptest.Bundle, numbers ...int) {
	b.T.Helper()
	for _, n := range numbers {
		b.SubmitBody(map[string]any{"phone_number": number(n), "content": "x"})
	}
}

// simsOf returns the last two digits of the recipient and the SIM of each task: "01/2". Without a SIM: "01/-".
func simsOf(tasks []api.ClaimedTask) string {
	var all []string
	for _, t := range tasks {
		sim := "-"
		if t.Sim != nil {
			sim = fmt.Sprint(*t.Sim)
		}
		all = append(all, t.PhoneNumber[len(t.PhoneNumber)-2:]+"/"+sim)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// R8: a recipient counts once a month for its SIM. When the recipients of a SIM are used up, messages to new recipients use the next SIM. A known recipient
// keeps its SIM, and messages to known recipients are sent before messages for which no SIM has room.
func TestNewRecipientsUseTheNextSimAfterTheRecipientLimitOfASim(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "recipients_per_month": 2}, map[string]any{"slot": 2, "recipients_per_month": 1}, map[string]any{"slot": 3, "is_on": false})
	submitTo(b, 1, 1, 2, 3, 4, 5, 1, 3)
	if got := simsOf(b.Take("phone", 10)); got != "01/1 01/1 01/1 02/1 03/2 03/2" {
		t.Errorf("first claim: %s", got)
	}
	if got := usage(b); got != "1: 4 4 2 used up, 2: 2 2 1 used up, 3: 0 0 0" {
		t.Errorf("usage %s", got)
	}
	if got := simsOf(b.Take("phone", 10)); got != "" {
		t.Errorf("second claim: %s", got)
	}
	submitTo(b, 3, 2)
	if got := simsOf(b.Take("phone", 1)); got != "03/2" {
		t.Errorf("a known recipient waits behind new ones: %s", got)
	}
	putSims(b, map[string]any{"slot": 1, "recipients_per_month": 2}, map[string]any{"slot": 2, "recipients_per_month": 1}, map[string]any{"slot": 3, "per_day": 1})
	if got := simsOf(b.Take("phone", 10)); got != "02/1 04/3" {
		t.Errorf("with a third SIM: %s", got)
	}
	events := b.Timeline(b.ListIDs("status=1")[0])
	if sim := events[len(events)-1].Sim; sim == nil {
		t.Error("the timeline shows no SIM")
	}
}

// R8: the limits of segments are exact. If a message does not fit, a smaller message behind it is sent.
func TestSegmentsOfSimsAreLimited(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "per_day": 3}, map[string]any{"slot": 2, "per_month": 2})
	long := strings.Repeat("x", 161) // two segments
	for i := range 4 {
		b.SubmitBody(map[string]any{"phone_number": number(i), "content": long})
	}
	submitTo(b, 7, 8)
	if got := simsOf(b.Take("phone", 10)); got != "00/1 01/2 07/1" {
		t.Errorf("claimed %s", got)
	}
	if got := usage(b); got != "1: 3 3 2 used up, 2: 2 2 1 used up" {
		t.Errorf("usage %s", got)
	}
	if s := b.GetSender("phone"); s.IsReady {
		t.Error("a sender is ready although its SIMs are used up")
	}
	why := b.Explain(b.ListIDs("status=0")[0]).Senders[0].Why
	if why == nil || *why != "no_quota" {
		t.Errorf("explained with %v", why)
	}
}

// R8: if the SIMs of a sender have too little room for the waiting tasks, its rivals receive its share of the tasks.
func TestASenderWithoutASimForTheWaitingTasksDoesNotStopItsRivals(t *testing.T) {
	for name, sims := range map[string][]map[string]any{
		"segments":   {{"slot": 1, "per_day": 1}},
		"recipients": {{"slot": 1, "recipients_per_month": 1}, {"slot": 2, "per_day": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			addSims(b, sims...)
			b.AddSender(map[string]any{"sender_no": "rival"})
			acme := b.AddCompany("acme", 1)
			for _, sender := range []string{"phone", "rival"} {
				b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": sender})
			}
			long := strings.Repeat("x", 161) // two segments
			if name == "recipients" {        // the first SIM knows its only recipient
				b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number(0), "content": long}, acme...)
				b.Take("phone", 1)
			}
			for n := range 40 {
				b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number(n + 1), "content": long}, acme...)
			}
			taken := 0
			for range 8 {
				if got := simsOf(b.Take("phone", 20)); got != "" {
					t.Fatalf("the phone claimed %s", got)
				}
				taken += len(b.Take("rival", 20))
			}
			if taken != 40 {
				t.Errorf("the rival claimed %d of 40 tasks", taken)
			}
		})
	}
}

// R2, R8: a conversation keeps its SIM while the SIM has room. This is the SIM that received the last message of the person or, if the person sent none, the
// SIM that sent the last message to the person.
func TestAConversationKeepsItsSim(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1}, map[string]any{"slot": 2})
	receive := func(n, sim int) {
		b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "phone", "messages": []any{map[string]any{"from": number(n), "content": "hi", "sim": sim}}})
	}
	receive(1, 2)
	submitTo(b, 1, 2)
	if got := simsOf(b.Take("phone", 10)); got != "01/2 02/-" {
		t.Errorf("without limits: %s", got)
	}
	putSims(b, map[string]any{"slot": 1, "per_day": 1}, map[string]any{"slot": 2, "per_day": 4})
	receive(3, 2)
	submitTo(b, 1, 3, 2)
	if got := simsOf(b.Take("phone", 10)); got != "01/2 02/1 03/2" {
		t.Errorf("with limits: %s", got)
	}
	submitTo(b, 2)
	if got := simsOf(b.Take("phone", 10)); got != "02/2" {
		t.Errorf("after its SIM is used up: %s", got)
	}
	receive(2, 1)
	putSims(b, map[string]any{"slot": 1, "per_day": 10}, map[string]any{"slot": 2, "per_day": 10})
	submitTo(b, 1, 2)
	if got := simsOf(b.Take("phone", 10)); got != "01/2 02/1" {
		t.Errorf("after another message: %s", got)
	}
	b.Exec("UPDATE received_messages SET created_at = now() - interval '31 days'")
	b.Exec("UPDATE sim_recipients SET last_at = now() - interval '31 days', month = month - interval '2 months'")
	submitTo(b, 1)
	if got := simsOf(b.Take("phone", 10)); got != "01/1" {
		t.Errorf("after a month: %s", got)
	}
	if _, err := b.App.Queue.DeleteExpiredSimRecipients(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Exec("UPDATE sim_recipients SET last_at = now() - interval '33 days'")
	if n, err := b.App.Queue.DeleteExpiredSimRecipients(t.Context()); n == 0 || err != nil || b.Count("SELECT count(*) FROM sim_recipients") != 0 {
		t.Errorf("deleted %d rows, %v", n, err)
	}
}

// R8: a lease that comes back unsent gives back its segments and its recipient, unless another message to the recipient was sent.
func TestAnUnsentMessageNoLongerCountsAgainstItsSim(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "per_day": 10, "recipients_per_month": 2})
	submitTo(b, 1, 1, 2)
	leases := b.Take("phone", 3)
	if got := usage(b); got != "1: 3 3 2 used up" {
		t.Fatalf("after the claim: %s", got)
	}
	var unused []queue.Unused
	isKept := false
	for _, l := range leases {
		if l.PhoneNumber == number(1) && !isKept {
			isKept = true
			continue
		}
		unused = append(unused, queue.Unused{TaskID: l.TaskID, LeaseID: l.LeaseID})
	}
	for range 2 {
		if _, err := b.App.Queue.Release(t.Context(), "phone", unused); err != nil {
			t.Fatal(err)
		}
	}
	if got := usage(b); got != "1: 1 1 1" {
		t.Errorf("after the release: %s", got)
	}
	b.SubmitBody(map[string]any{"phone_number": number(3), "content": "x"})
	b.Exec("UPDATE queue SET due_at = now() WHERE lease_until IS NULL")
	again := takeToStart(b, "phone", 10, 600)
	if len(again) != 2 {
		t.Errorf("claimed again: %s", simsOf(again))
	}
	b.Exec("UPDATE queue SET lease_until = now(), start_until = now() WHERE start_until = lease_until")
	b.Recover()
	if got := usage(b); got != "1: 1 1 1" {
		t.Errorf("after leases that were never started: %s", got)
	}
}

// R2, R8: a lease that ends without a sent message does not move its conversation to another SIM.
func TestAReleasedLeaseDoesNotMoveItsConversation(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "per_day": 10}, map[string]any{"slot": 2, "per_day": 10})
	claimThrough := func(slot int) []api.ClaimedTask {
		t.Helper()
		other := map[int]int{1: 2, 2: 1}[slot]
		putSims(b, map[string]any{"slot": slot, "per_day": 10}, map[string]any{"slot": other, "is_on": false})
		submitTo(b, 1)
		leases := b.Take("phone", 10)
		if got, want := simsOf(leases[:min(1, len(leases))]), fmt.Sprint("01/", slot); got != want {
			t.Fatalf("claimed %s, want %s", got, want)
		}
		return leases
	}
	expect := func(want string) {
		t.Helper()
		putSims(b, map[string]any{"slot": 1, "per_day": 10}, map[string]any{"slot": 2, "per_day": 10})
		b.Exec("UPDATE queue SET due_at = now() WHERE lease_until IS NULL")
		leases := b.Take("phone", 10)
		if got := simsOf(leases); got != want {
			t.Errorf("claimed %s, want %s", got, want)
		}
		for _, l := range leases {
			b.Report(l.TaskID, "phone", 2, nil)
		}
	}
	release := func(leases []api.ClaimedTask) {
		t.Helper()
		for _, l := range leases {
			if _, err := b.App.Queue.Release(t.Context(), "phone", []queue.Unused{{TaskID: l.TaskID, LeaseID: l.LeaseID}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Report(claimThrough(1)[0].TaskID, "phone", 2, nil)
	release(claimThrough(2)) // the first message through this SIM
	expect("01/1")
	b.Report(claimThrough(2)[0].TaskID, "phone", 2, nil)
	b.Report(claimThrough(1)[0].TaskID, "phone", 2, nil)
	release(claimThrough(2)) // not the first one
	expect("01/1")

	submitTo(b, 1)
	release(claimThrough(2)[:1]) // one of two messages
	expect("01/2")
}

// R8: the view sender_standings reads the SIMs of a sender once.
func TestTheViewOfSendersReadsTheSimsOfASenderOnce(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "per_day": 3})
	if left := b.Count("SELECT segments_left FROM sender_standings WHERE sender_no = 'phone' AND is_available"); left != 3 {
		t.Errorf("%d segments left", left)
	}
	b.Exec("CREATE SEQUENCE calls")
	b.Exec(`CREATE OR REPLACE FUNCTION sims_room(of_sender bigint, at timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE AS
		'BEGIN PERFORM nextval(''calls''); RETURN 7; END'`)
	if left := b.Count("SELECT segments_left FROM sender_standings WHERE sender_no = 'phone' AND is_available"); left != 7 {
		t.Errorf("%d segments left", left)
	}
	if calls := b.Count("SELECT last_value FROM calls WHERE is_called"); calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// R8: two servers never take one message, one segment or one recipient too many.
func TestSimsAreExactWithSeveralServers(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "per_day": 17, "recipients_per_month": 5}, map[string]any{"slot": 2, "per_day": 40, "recipients_per_month": 3})
	var numbers []int
	for i := range 60 {
		numbers = append(numbers, i%12)
	}
	submitTo(b, numbers...)
	second := apptest.Another(b)
	var wg sync.WaitGroup
	for i := range 4 {
		of := []*queue.Service{b.App.Queue, second.Queue}[i%2]
		wg.Go(func() {
			for range 12 {
				leases, err := of.Claim(t.Context(), claim.Request{SenderNo: "phone", Limit: 3})
				if err != nil {
					t.Error(err)
					return
				}
				if i == 3 && len(leases) > 0 {
					_, err = of.Release(t.Context(), "phone", []queue.Unused{{TaskID: leases[0].TaskID, LeaseID: leases[0].LeaseID}})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for slot, limits := range map[int][2]int{1: {17, 5}, 2: {40, 3}} {
		segments := b.Count("SELECT coalesce(sum(lease_segments), 0) FROM queue WHERE lease_until IS NOT NULL AND lease_sim = $1", slot)
		recipients := b.Count("SELECT count(DISTINCT recipient) FROM queue WHERE lease_until IS NOT NULL AND lease_sim = $1", slot)
		if segments > limits[0] || recipients > limits[1] {
			t.Errorf("SIM %d has %d segments to %d recipients", slot, segments, recipients)
		}
		if got := b.Count("SELECT month_used FROM sim_usages WHERE slot = $1", slot); got != segments {
			t.Errorf("SIM %d counts %d segments, has %d", slot, got, segments)
		}
		if got := b.Count("SELECT recipients_used FROM sim_usages WHERE slot = $1", slot); got != recipients {
			t.Errorf("SIM %d counts %d recipients, has %d", slot, got, recipients)
		}
	}
	if n := b.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL AND lease_sim IS NULL"); n > 0 {
		t.Errorf("%d leases without a SIM", n)
	}
}

// R8: the days and months of SIMs begin in the sender's time zone. A recipient counts again in the next month.
func TestSimsCountMonthsInTheTimeZoneOfTheSender(t *testing.T) {
	b := apptest.NewWithClock(t)
	b.Exec("UPDATE clock.hand SET ahead = date_trunc('month', now(), 'Pacific/Auckland') + interval '1 month 1 hour' - now()") // in Auckland a new month, in UTC still the old one
	addSims(b, map[string]any{"slot": 1, "recipients_per_month": 1}, map[string]any{"slot": 2, "recipients_per_month": 5})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"time_zone": "UTC"})
	submitTo(b, 1)
	if got := simsOf(b.Take("phone", 10)); got != "01/1" {
		t.Fatalf("first month: %s", got)
	}
	b.Exec("UPDATE clock.hand SET ahead = ahead + interval '2 days'") // a new month in UTC
	submitTo(b, 2, 1)
	if got := simsOf(b.Take("phone", 10)); got != "01/1 02/2" && got != "01/2 02/1" {
		t.Fatalf("next month: %s", got)
	}
	if got := b.Count("SELECT sum(recipients_used) FROM sim_usages"); got != 2 {
		t.Errorf("%d recipients", got)
	}
}

// R8: driven senders have no SIMs, and each slot has one SIM.
func TestSimsOfASenderAreValidatedAndReplaced(t *testing.T) {
	b := apptest.New(t)
	addSims(b, map[string]any{"slot": 1, "phone_number": "+8613800138000", "per_month": 10})
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []any{map[string]any{"slot": 2}, map[string]any{"slot": 2}}})
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []any{map[string]any{"slot": 11}}})
	b.Expect(404, "sender.not_found", "PUT", "/api/v1/admin/senders/none/sims", map[string]any{"sims": []any{}})
	b.Expect(404, "sender.not_found", "GET", "/api/v1/admin/senders/none/sims", nil)
	b.AddSender(map[string]any{"sender_no": "driven", "kind": "log"})
	b.Expect(409, "sender.is_driven", "PUT", "/api/v1/admin/senders/driven/sims", map[string]any{"sims": []any{}})
	if got := putSims(b); len(got) != 0 || b.Count("SELECT count(*) FROM senders WHERE has_sims") != 0 {
		t.Errorf("after the removal: %+v", got)
	}
	submitTo(b, 1)
	if got := simsOf(b.Take("phone", 10)); got != "01/-" {
		t.Errorf("without SIMs: %s", got)
	}
	putSims(b, map[string]any{"slot": 1})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/phone", map[string]any{"kind": "log"})
	if n := b.Count("SELECT (SELECT count(*) FROM sender_sims) + (SELECT count(*) FROM senders WHERE has_sims)"); n != 0 {
		t.Errorf("a driven sender keeps its SIMs")
	}
}

// R8: the erasure of a person deletes what the SIMs know about the person, but not their counts.
func TestErasureDeletesTheRecipientsOfSims(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	addSims(b, map[string]any{"slot": 1, "recipients_per_month": 5})
	submitTo(b, 1, 2, 3)
	b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number(2), "content": "x"}, acme...)
	for _, l := range b.Take("phone", 4) {
		b.Report(l.TaskID, "phone", 2, nil)
	}
	eraseNumber := func(n int, want string) {
		b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": number(n)})
		apptest.Eventually(t, "the erasure has ended", func() bool {
			if _, err := b.App.Erasures.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b.Count("SELECT count(*) FROM erasures WHERE finished_at IS NULL") == 0
		})
		got := apptest.Scan[string](b, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM generate_series(1, 3) n JOIN sim_recipients k ON k.recipient_hash = sha256(convert_to('+86138001380' || lpad(n::text, 2, '0'), 'UTF8'))")
		if got != want {
			t.Errorf("after the erasure of %d, the SIM knows %s, want %s", n, got, want)
		}
	}
	eraseNumber(1, "2 3")
	eraseNumber(2, "2 3") // another company has sent to the number
	if got := usage(b); got != "1: 4 4 3" {
		t.Errorf("usage %s", got)
	}
}
