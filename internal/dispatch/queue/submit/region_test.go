package submit_test

import (
	"net/url"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

const send = "/api/v1/sms/send"

// A foreign number without a country code must not be sent to a number in China. Without a region, it is refused, and the error contains the number as the
// server read it.
func TestNumberWithoutACountryCodeBelongsToTheDefaultRegion(t *testing.T) {
	b := apptest.New(t)
	shop := b.AddCompany("shop", 1)
	body := func(number string, region any) map[string]any {
		m := map[string]any{"phone_number": number, "content": "x"}
		if region != nil {
			m["default_region"] = region
		}
		return m
	}
	submit := func(number string, region any) api.Submitted {
		t.Helper()
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", send, body(number, region), shop...))
	}
	readAs := func(made api.Submitted, e164, region string) {
		t.Helper()
		if made.Recipient == nil || *made.Recipient != e164 || made.Region == nil || *made.Region != region {
			t.Errorf("read as %v in %v, want %s in %s", made.Recipient, made.Region, e164, region)
		}
	}
	if a := b.Expect(422, "request.invalid", "POST", send, body("081234567890", nil), shop...); a.Fields() != "phone_number" {
		t.Errorf("refused for %s", a.Fields())
	}
	if a := b.Expect(422, "request.invalid", "POST", send, body("081234567890", "XX"), shop...); a.Fields() != "default_region" {
		t.Errorf("refused for %s", a.Fields())
	}
	readAs(submit("13800138000", nil), "+8613800138000", "CN")
	readAs(submit("081234567890", "ID"), "+6281234567890", "ID")

	b.Expect(422, "request.invalid", "PATCH", "/api/v1/admin/companies/shop", `{"default_region":"XX"}`)
	company := apptest.Decode[api.Company](t, b.Expect(200, "", "PATCH", "/api/v1/admin/companies/shop", `{"default_region":"ID"}`))
	if company.DefaultRegion != "ID" {
		t.Errorf("the company has the region %q", company.DefaultRegion)
	}
	if n := b.Count(`SELECT count(*) FROM audit WHERE entity = 'company' AND after->>'default_region' = 'ID'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	readAs(submit("0812-3456-7891", nil), "+6281234567891", "ID")
	readAs(submit("(310) 555-1234", "US"), "+13105551234", "US")
	b.Expect(422, "request.invalid", "POST", send, body("13800138000", nil), shop...) // not a valid number of Indonesia
	readAs(submit("+8613800138000", nil), "+8613800138000", "CN")

	many := apptest.Decode[api.SentBatch](t, b.Expect(200, "", "POST", "/api/v1/sms/send-batch",
		map[string]any{"messages": []any{body("081234567892", nil), body("13800138000", nil), body("3105551234", "US")}}, shop...))
	if many.Accepted != 2 || *many.Items[0].Region != "ID" || many.Items[1].Error == nil || *many.Items[2].Recipient != "+13105551234" {
		t.Errorf("of many: %+v", many)
	}
	// Filters of the company read numbers in the same way as submissions.
	list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?phone_number=081234567891", nil, shop...))
	if len(list.Items) != 1 {
		t.Errorf("the filter finds %d tasks", len(list.Items))
	}
	// The sender receives numbers in a form that it can read without a region.
	numbers := map[string]bool{}
	for _, task := range b.Claim("app", 20) {
		numbers[task.PhoneNumber] = true
	}
	for _, want := range []string{"+6281234567890", "+6281234567891", "+6281234567892", "+13105551234", "13800138000", "+8613800138000"} {
		if !numbers[want] {
			t.Errorf("no claim has %s: %v", want, numbers)
		}
	}
}

// Requests accept every number in the form that responses show.
func TestShortNumbersAreAcceptedAsTheyAreShown(t *testing.T) {
	b := apptest.New(t)
	for _, number := range []string{"+376312345", "+299221234"} {
		made := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", send, map[string]any{"phone_number": number, "content": "x"}))
		if made.Recipient == nil || *made.Recipient != number {
			t.Errorf("%s is read as %v", number, made.Recipient)
		}
		list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?phone_number="+url.QueryEscape(number), nil))
		if len(list.Items) != 1 || list.Items[0].PhoneNumber != number {
			t.Errorf("the filter finds %+v", list.Items)
		}
		if claimed := b.Claim("app", 1); len(claimed) != 1 || claimed[0].PhoneNumber != number {
			t.Errorf("the claim has %+v", claimed)
		}
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "x"})
		b.PutContacts(map[string]any{"user_id": number[1:], "phone": number})
	}
}

// All interfaces ignore the punctuation that people and programs write around numbers. The error for other characters contains the wrong character.
func TestPunctuationAroundANumberIsIgnored(t *testing.T) {
	b := apptest.New(t)
	for _, number := range []string{"\u202a13800138000\u202c", "１３８００１３８０００", "13800138000.0", "138.0013.8000", "(+86) 138\u20110013\u20118000", "\u00a013800138000\u200b"} {
		made := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", send, map[string]any{"phone_number": number, "content": "x"}))
		if made.Recipient == nil || *made.Recipient != "+8613800138000" {
			t.Errorf("%q is read as %v", number, made.Recipient)
		}
		if task := b.Task(made.TaskID); task.PhoneNumber != "+8613800138000" && task.PhoneNumber != "138.0013.8000" {
			t.Errorf("%q is stored as %q", number, task.PhoneNumber)
		}
		list := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?phone_number="+url.QueryEscape(number), nil))
		if len(list.Items) == 0 {
			t.Errorf("a filter by %q finds nothing", number)
		}
	}
	a := b.Expect(422, "request.invalid", "POST", send, map[string]any{"phone_number": "138☃00138000", "content": "x"})
	if len(a.Body.Error.Fields) != 1 || a.Body.Error.Fields[0].Message != "has a character that is no part of a phone number (code and position): U+2603 (4)" {
		t.Errorf("refused with %+v", a.Body.Error.Fields)
	}
}
