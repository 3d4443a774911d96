package batch_test

import (
	"fmt"
	"testing"

	"lksms/internal/testkit/apptest"
)

// If a country is removed after a row was checked and before it becomes a task, the row is held and not rejected, because the removal can be undone.
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

// If the routes of a company without shared senders serve only one country, the batches of the company can be sent to this country. No switch then holds all
// of their messages.
func TestRoutesToOneCountryDoNotHoldABatch(t *testing.T) {
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

// A batch is held if all of its rows go to countries that are off, and has no predicted end. A batch that can be sent in part is not held.
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
	expect := func(when, at, want string) {
		t.Helper()
		got := get(b, at)
		if text := fmt.Sprint(*got.HeldBy); text != want {
			t.Errorf("%s, %s is held by %s, want %s", when, got.Name, text, want)
		}
		if isHeld := want != "[]"; isHeld != (got.Estimate.EarliestEnd == nil) {
			t.Errorf("%s, %s ends at %v", when, got.Name, got.Estimate.EarliestEnd)
		}
	}
	expect("at first", one, "[]")
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "off"})
	expect("without CN", one, "[{CN country}]")
	expect("without CN", both, "[]")
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"countries_off": []string{"SG"}})
	expect("without CN and SG", both, "[{CN country} {SG channel_country}]")
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/CN", map[string]any{"status": "on"})
	expect("with CN again", one, "[]")
}
