package batch_test

import (
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// A country is removed after the check of a row and before the row becomes a task. The row is held and not rejected, because the removal can be undone.
func TestRowsToRemovedCountriesAreHeld(t *testing.T) {
	for _, path := range []string{"companies/default", "channels/sms"} {
		for _, senderNo := range []string{"", "app"} {
			t.Run(path+" "+senderNo, func(t *testing.T) {
				b := apptest.New(t)
				b.AddCountry("CN", "86", nil)
				b.AddCountry("SG", "65", nil)
				b.Claim("app", 1) // registers the app
				fields := []string{"content", "hello"}
				if senderNo != "" {
					fields = append(fields, "sender_no", senderNo)
				}
				at := checked(b, "phone_number\n13800138000\n", fields...)
				b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, map[string]any{"countries": []string{"SG"}})
				get(b, at, "confirm")
				feed(b)
				expect(b, get(b, at), "running", "1 rows, 1 valid, 1 waiting")
				if got := b.Claim("app", 10); len(got) != 0 {
					t.Errorf("claimed %v", got)
				}
				b.Expect(200, "", "PATCH", "/api/v1/admin/"+path, map[string]any{"countries": []string{"SG", "CN"}})
				if got := b.Claim("app", 10); len(got) != 1 {
					t.Errorf("claimed %v", got)
				}
			})
		}
	}
}

// A company forbids shared senders, and its routes serve only one country. Its batches to this country can be sent, because no switch holds all of their
// messages.
func TestABatchIsNotHeldIfOneCountryHasRoutes(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	acme := b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "shared", "is_shared": true})
	b.AddSender(map[string]any{"sender_no": "own", "is_shared": false})
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"uses_shared_senders": false})
	at := createJSON(b, map[string]any{"name": "n", "content": "x", "rows": []any{map[string]any{"phone_number": "13800138000"}}}, acme...)
	check(b)
	heldBy := func() string {
		t.Helper()
		return fmt.Sprint(*get(b, at).HeldBy)
	}
	if got := heldBy(); got != "[{acme shared_senders}]" {
		t.Errorf("without routes, the batch is held by %s", got)
	}
	if e := get(b, at).Estimate; e.EarliestEnd != nil {
		t.Errorf("the batch is held, and ends at %s", e.EarliestEnd)
	}
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "own", "message_type": "marketing", "country_no": "CN"})
	if got := heldBy(); got != "[{acme shared_senders}]" {
		t.Errorf("with a route of another type, the batch is held by %s", got)
	}
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "own", "country_no": "CN"})
	if got := heldBy(); got != "[]" {
		t.Errorf("with a route to its country, the batch is held by %s", got)
	}
	if e := get(b, at).Estimate; e.EarliestEnd == nil {
		t.Error("the batch is not held, and has no end")
	}
}

// A batch is held and has no predicted end if all of its rows go to countries that are off. A batch of which a part can be sent is not held.
func TestABatchIsHeldByItsCountries(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	b.AddSender(map[string]any{"sender_no": "app"})
	b.Claim("app", 1)
	rows := func(numbers ...string) (all []any) {
		for _, number := range numbers {
			all = append(all, map[string]any{"phone_number": number})
		}
		return all
	}
	one := createJSON(b, map[string]any{"name": "one", "content": "x", "rows": rows("13800138000", "13800138001")})
	both := createJSON(b, map[string]any{"name": "both", "content": "x", "rows": rows("13800138000", "+6591234567")})
	check(b)
	expect := func(when, at, heldBy string, hasEnd bool) {
		t.Helper()
		got := get(b, at)
		if text := fmt.Sprint(*got.HeldBy); text != heldBy {
			t.Errorf("%s, %s is held by %s, want %s", when, got.Name, text, heldBy)
		}
		if hasEnd != (got.Estimate.EarliestEnd != nil) {
			t.Errorf("%s, %s ends at %v", when, got.Name, got.Estimate.EarliestEnd)
		}
	}
	expect("at first", one, "[]", true)
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "off"})
	expect("without CN", one, "[{CN country}]", false)
	expect("without CN", both, "[]", false) // no sender sends to CN
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"countries_off": []string{"SG"}})
	expect("without CN and SG", both, "[{CN country} {SG channel_country}]", false)
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "on"})
	expect("with CN again", one, "[]", true)
}

// Some rows of a batch were sent, and a switch holds all remaining rows. The batch is then held by this switch, waits for a sender, and has no predicted end.
// The preview of a remaining row names the same switch. If a switch holds only a part of the remaining rows, the batch is not held, but also has no predicted
// end.
func TestABatchIsHeldByTheCountryOfItsRemainingRows(t *testing.T) {
	for _, senderNo := range []string{"", "app"} {
		t.Run(senderNo, func(t *testing.T) {
			b := apptest.New(t)
			b.AddCountry("CN", "86", nil)
			b.AddCountry("DE", "49", nil)
			b.AddSender(map[string]any{"sender_no": "app"})
			b.Exec("UPDATE sender_states SET seen_at = now()")
			fields := []string{"content", "hello", "auto_confirm", "true"}
			if senderNo != "" {
				fields = append(fields, "sender_no", senderNo)
			}
			at := checked(b, numbers(10)+germans(10), fields...)
			feed(b)
			explain := func(when, heldBy, waits, costs string, hasEnd bool) {
				t.Helper()
				got := get(b, at)
				reason, e := "", got.Estimate
				if got.WaitsFor != nil {
					reason = string(got.WaitsFor.Reason)
				}
				if text := fmt.Sprint(*got.HeldBy); text != heldBy || reason != waits || costsOf(e.Costs) != costs {
					t.Errorf("%s: held by %s, waits for %q, costs %s; want %s, %q, %s", when, text, reason, costsOf(e.Costs), heldBy, waits, costs)
				}
				if (e.EarliestEnd != nil) != hasEnd || e.LikelyEnd != nil && !hasEnd {
					t.Errorf("%s: ends at %v, likely at %v", when, e.EarliestEnd, e.LikelyEnd)
				}
			}
			explain("at first", "[]", "", "app:20", true)
			b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries_off": []string{"DE"}})
			explain("without DE", "[]", "", "app:10", false)
			for _, task := range b.Take("app", 10) {
				b.Report(task.TaskID, "app", 2, nil)
			}
			feed(b)
			expect(b, get(b, at), "running", "20 rows, 20 valid, 10 waiting, 10 success")
			explain("after the rows to CN", "[{DE company_country}]", "no_sender", "", false)
			preview := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", at+"/preview?row=12", nil))
			if preview.Code != nil || preview.HeldBy == nil || fmt.Sprint(*preview.HeldBy) != "[{DE company_country}]" {
				t.Errorf("preview %+v", preview)
			}
			b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"countries_off": []string{}})
			explain("with DE again", "[]", "", "app:10", true)
		})
	}
}

// If a company forbids shared senders, the estimate does not count on them. This applies with routes to other countries and without routes.
func TestAnEstimateIgnoresForbiddenSharedSenders(t *testing.T) {
	b := apptest.New(t)
	b.AddCountry("CN", "86", nil)
	b.AddCountry("SG", "65", nil)
	acme := b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "shared", "is_shared": true})
	b.AddSender(map[string]any{"sender_no": "own", "is_shared": false})
	b.Exec("UPDATE sender_states SET seen_at = now()")
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"uses_shared_senders": false})
	rows := []any{map[string]any{"phone_number": "13800138000"}, map[string]any{"phone_number": "+6591234567"}}
	one := createJSON(b, map[string]any{"name": "one", "content": "x", "rows": rows[1:], "auto_confirm": true}, acme...)
	both := createJSON(b, map[string]any{"name": "both", "content": "x", "rows": rows, "auto_confirm": true}, acme...)
	check(b)
	feed(b)
	expect := func(when, at, heldBy, waits, costs string) {
		t.Helper()
		got := get(b, at)
		reason := ""
		if got.WaitsFor != nil {
			reason = string(got.WaitsFor.Reason)
		}
		if text := fmt.Sprint(*got.HeldBy); text != heldBy || reason != waits || costsOf(got.Estimate.Costs) != costs {
			t.Errorf("%s, %s is held by %s, waits for %q, costs %s; want %s, %q, %s", when, got.Name, text, reason, costsOf(got.Estimate.Costs), heldBy, waits, costs)
		}
		if end := got.Estimate.EarliestEnd; end != nil {
			t.Errorf("%s, %s ends at %v", when, got.Name, end)
		}
	}
	expect("without routes", one, "[{acme shared_senders}]", "no_sender", "")
	expect("without routes", both, "[{acme shared_senders}]", "no_sender", "")
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "own", "country_no": "CN"})
	expect("with a route to CN", one, "[{acme shared_senders}]", "no_sender", "")
	expect("with a route to CN", both, "[]", "", "own:1")
}
