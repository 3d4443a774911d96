package mobile_test

import (
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// sims returns the SIMs of a sender: "slot number limit".
func (s *server) sims(senderNo string) string {
	s.T.Helper()
	all := ""
	for _, sim := range apptest.Decode[[]api.Sim](s.T, s.Expect(200, "", "GET", "/api/v1/admin/senders/"+senderNo+"/sims", nil)) {
		all += fmt.Sprint(sim.Slot)
		if sim.PhoneNumber != nil {
			all += " " + *sim.PhoneNumber
		}
		if sim.RecipientsPerMonth != nil {
			all += fmt.Sprint(" limited to ", *sim.RecipientsPerMonth)
		}
		all += ";"
	}
	return all
}

// R8: the cards that a phone reports become SIMs of its sender. They never change what an administrator set. Each message names its SIM.
func TestAPhoneReportsItsSims(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	if got := s.sims("phone"); got != "1;" { // the app masks the number
		t.Errorf("after the start: %s", got)
	}
	s.Expect(200, "", "PUT", "/api/v1/admin/senders/phone/sims", map[string]any{"sims": []any{map[string]any{"slot": 1, "recipients_per_month": 1}}})
	cards := []map[string]any{
		{"slotIndex": 0, "simNumber": 1, "phoneNumber": "+8613900139000"}, {"slotIndex": 1, "simNumber": 2, "phoneNumber": "+8613900139002"},
		{"slotIndex": 1, "simNumber": 2}, {"slotIndex": 7}, {"simNumber": 11, "phoneNumber": nil},
	}
	for range 2 {
		p.must(204, "PATCH", "/device", p.bearer(), map[string]any{"id": p.info.ID, "simCards": cards})
	}
	if got := s.sims("phone"); got != "1 +8613900139000 limited to 1;2 +8613900139002;" {
		t.Errorf("after another report: %s", got)
	}
	for i, want := range []int{1, 1, 2} {
		s.SubmitBody(map[string]any{"phone_number": fmt.Sprint("+861380013800", i/2), "content": "x"})
		p.pull()
		id := p.order[len(p.order)-1]
		if sim := p.known[id].SimNumber; sim == nil || *sim != want {
			t.Errorf("message %d is sent with SIM %v, want %d", i, sim, want)
		}
		p.sendPending()
	}
}

// R2, R8: a phone that was paired for one SIM sends through this SIM, and a phone without limits chooses the SIM of a new conversation.
func TestAPhoneWithoutLimitsChoosesItsSim(t *testing.T) {
	s := newServer(t)
	p := s.newPhone("phone")
	s.Submit("x")
	p.pull()
	if sim := p.known[p.only()].SimNumber; sim != nil {
		t.Errorf("the message is sent with SIM %d", *sim)
	}
	s.AddSender(map[string]any{"sender_no": "second"})
	next := newPhone(t, s.client, s.address)
	next.signInByCode(s.pair("second", map[string]any{"sim_number": 2}).Code)
	next.must(204, "PATCH", "/device", next.bearer(), map[string]any{"id": next.info.ID, "simCards": []map[string]any{{"simNumber": 1}, {"simNumber": 2}}})
	if got := s.sims("second"); got != "2;" {
		t.Errorf("SIMs %s", got)
	}
}
