package verification_test

import (
	"strings"
	"testing"
)

// V5: each start, end and refusal is counted once, and the time to approval is measured.
func TestMetricsCountStartsEndsAndRefusals(t *testing.T) {
	b := newServer(t)
	approved := start(b, nil)
	_, code := received(b)
	b.Expect(429, "recipient.limited", "POST", path+"/"+approved.VerificationID+"/resend", nil)
	check(b, approved.VerificationID, wrong(code))
	check(b, approved.VerificationID, code)
	check(b, approved.VerificationID, code)
	b.Expect(429, "recipient.limited", "POST", path, request(nil))
	b.Expect(422, "request.invalid", "POST", path, request(map[string]any{"phone_number": "1"}))
	exhausted := start(b, map[string]any{"purpose": "exhausted"})
	_, code = received(b)
	for range 6 {
		check(b, exhausted.VerificationID, wrong(code))
	}
	cancelled := start(b, map[string]any{"purpose": "cancelled"})
	b.Expect(200, "", "POST", path+"/"+cancelled.VerificationID+"/cancel", nil)
	start(b, map[string]any{"purpose": "replaced"})
	allowMore(b)
	start(b, map[string]any{"purpose": "replaced"})
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second' WHERE status = 'pending'")
	for range 2 {
		if _, err := b.App.Verifications.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := b.Expect(200, "", "GET", "/metrics", nil).Raw
	for _, line := range []string{
		"lksms_verifications_started_total 5", `lksms_verifications_ended_total{outcome="approved"} 1`, `lksms_verifications_ended_total{outcome="exhausted"} 1`,
		`lksms_verifications_ended_total{outcome="cancelled"} 2`, `lksms_verifications_ended_total{outcome="expired"} 1`,
		`lksms_verifications_refused_total{reason="recipient.limited"} 2`, `lksms_verifications_refused_total{reason="request.invalid"} 1`,
		"lksms_verification_approval_seconds_count 1",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// The timeline of a cancelled code names the user who cancelled it.
func TestTimelineOfACodeNamesTheUserWhoCancelledIt(t *testing.T) {
	b := newServer(t)
	one := start(b, nil)
	b.Expect(200, "", "POST", path+"/"+one.VerificationID+"/cancel", nil, b.AddUser("bob", "submit", nil)...)
	for _, e := range b.Timeline(one.TaskID) {
		if e.Event == "cancelled" && (e.By == nil || *e.By != "bob") {
			t.Errorf("cancelled by %v", e.By)
		}
	}
	if got := b.Task(one.TaskID).Status; got != 4 /* CANCELLED */ {
		t.Errorf("the task has the status %d", got)
	}
}
