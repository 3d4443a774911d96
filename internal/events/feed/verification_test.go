package feed_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// startCode starts a verification for a purpose. It returns the verification, and its code and a wrong code, as the person would enter them.
func startCode(b *apptest.Bundle, purpose string) (v api.VerificationStarted, code, wrong string) {
	b.T.Helper()
	v = apptest.Decode[api.VerificationStarted](b.T, b.Expect(200, "", "POST", "/api/v1/verifications", map[string]any{
		"phone_number": apptest.Phone, "purpose": purpose, "language": "en",
	}))
	tasks := b.Claim("app", 1)
	if len(tasks) != 1 {
		b.T.Fatalf("claimed %+v", tasks)
	}
	b.Report(tasks[0].TaskID, "app", 2, nil)
	for _, word := range strings.FieldsFunc(tasks[0].Content, func(r rune) bool { return r < '0' || r > '9' }) {
		if len(word) == 6 {
			code = word
		}
	}
	n, _ := strconv.Atoi(code[5:])
	return v, code, code[:5] + strconv.Itoa((n+1)%10)
}

// verificationEvents returns the types and data of the events about verifications after a cursor, by the id of the verification. Each verification can have only one.
func verificationEvents(b *apptest.Bundle, after string) (types map[string]string, data map[string]api.VerificationEventData) {
	b.T.Helper()
	sequence(b)
	types, data = map[string]string{}, map[string]api.VerificationEventData{}
	for _, e := range pull(b, after, "&type=verification.approved&type=verification.failed").Items {
		var d api.VerificationEventData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			b.T.Fatal(err)
		}
		if types[d.VerificationID] != "" {
			b.T.Errorf("%s has a second event %s", d.VerificationID, e.Data)
		}
		if strings.Contains(string(e.Data), "digest") || strings.Contains(string(e.Data), "sealed") {
			b.T.Errorf("the event contains the code: %s", e.Data)
		}
		types[d.VerificationID], data[d.VerificationID] = string(e.Type), d
	}
	return types, data
}

// V5: each end of a verification is published once, with its reason.
func TestEachEndOfAVerificationIsPublishedOnce(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	cursor := pull(b, "", "").NextCursor
	want := map[string]string{}
	check := func(status int, reason string, v api.VerificationStarted, code string) {
		t.Helper()
		b.Expect(status, reason, "POST", "/api/v1/verifications/"+v.VerificationID+"/check", map[string]any{"code": code})
	}

	approved, code, _ := startCode(b, "approved")
	check(200, "", approved, code)
	check(409, "verification.approved", approved, code)
	want[approved.VerificationID] = "verification.approved "

	exhausted, _, wrong := startCode(b, "exhausted")
	for range 4 {
		check(200, "", exhausted, wrong)
	}
	check(409, "verification.exhausted", exhausted, wrong)
	check(409, "verification.exhausted", exhausted, wrong)
	want[exhausted.VerificationID] = "verification.failed exhausted"

	cancelled, _, _ := startCode(b, "cancelled")
	b.Expect(200, "", "POST", "/api/v1/verifications/"+cancelled.VerificationID+"/cancel", nil)
	want[cancelled.VerificationID] = "verification.failed cancelled"

	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"verification": map[string]any{"per_minute": 0}})
	replaced, _, _ := startCode(b, "replaced")
	waiting, _, _ := startCode(b, "replaced")
	want[replaced.VerificationID] = "verification.failed replaced"

	late, _, _ := startCode(b, "late")
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second' WHERE verification_id = $1", late.VerificationID)
	startCode(b, "late")
	want[late.VerificationID] = "verification.failed expired"

	expired, _, _ := startCode(b, "expired")
	b.Exec("UPDATE verifications SET expires_at = now() - interval '1 second' WHERE verification_id = $1", expired.VerificationID)
	var sweeps sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			if _, err := b.App.Verifications.Expire(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	sweeps.Wait()
	want[expired.VerificationID] = "verification.failed expired"

	types, data := verificationEvents(b, cursor)
	got := map[string]string{}
	for id, d := range data {
		got[id] = types[id] + " "
		if d.Reason != nil {
			got[id] += string(*d.Reason)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if types[waiting.VerificationID] != "" {
		t.Error("a pending verification has an event")
	}
	d := data[approved.VerificationID]
	if *d.CompanyNo != "default" || *d.Channel != "sms" || *d.PhoneNumber != "+8613800138000" || *d.Purpose != "approved" || d.EndedAt.Before(*d.CreatedAt) ||
		!d.ExpiresAt.Equal(approved.ExpiresAt) || !slices.Equal(*d.TaskIds, []string{approved.TaskID}) {
		t.Errorf("the approved verification has the event %+v", d)
	}
	b.Exec("DELETE FROM verifications")
	if _, data = verificationEvents(b, cursor); data[expired.VerificationID].PhoneNumber != nil || *data[expired.VerificationID].Reason != "expired" {
		t.Errorf("deleted, the event is %+v", data[expired.VerificationID])
	}
}

// V5: an end that is rolled back has no event, and an end without listeners is not recorded.
func TestOnlyCommittedEndsOfVerificationsArePublished(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	startCode(b, "a")
	b.Exec("UPDATE verifications SET status = 'cancelled', ended_at = now(), digest = NULL, sealed = NULL")
	if n := b.Count("SELECT count(*) FROM feed_staged WHERE type LIKE 'verification.%'"); n != 0 {
		t.Errorf("%d events are recorded without listeners", n)
	}
	cursor := pull(b, "", "").NextCursor
	startCode(b, "b")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE verifications SET status = 'cancelled', ended_at = now(), digest = NULL, sealed = NULL WHERE status = 'pending'"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if types, _ := verificationEvents(b, cursor); len(types) != 0 {
		t.Errorf("published are %v", types)
	}
}

// V5: the erasure of a person ends the pending verifications of the person, and the events name no one.
func TestAnErasureEndsPendingVerificationsWithAnEvent(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	cursor := pull(b, "", "").NextCursor
	b.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone})
	pending, _, _ := startCode(b, "pending")
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"user_id": "u1"})
	b.RunErasures()
	types, data := verificationEvents(b, cursor)
	d := data[pending.VerificationID]
	if types[pending.VerificationID] != "verification.failed" || *d.Reason != "cancelled" || d.PhoneNumber != nil {
		t.Errorf("the event %q is %+v", types[pending.VerificationID], d)
	}
}
