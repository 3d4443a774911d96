package received_test

import (
	"net/url"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// inGermany returns a bundle whose company acme has two senders, asks and listens, with an inbox in Germany. send sends a marketing message of acme to a number by
// one of them.
func inGermany(t *testing.T) (b *apptest.Bundle, send func(sender, number string)) {
	t.Helper()
	b = apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"default_region": "DE"})
	for _, no := range []string{"asks", "listens"} {
		b.AddSender(map[string]any{"sender_no": no, "inbox_company_no": "acme"})
		b.AddRoute("acme", no, 1)
	}
	return b, func(sender, number string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": number, "content": "sale", "message_type": "marketing"}, acme...)
		b.Claim(sender, 1)
	}
}

// 8613800138000 is a mobile number of China and a fixed number of Germany.
const inChina, inTraunstein = "+8613800138000", "+498613800138000"

// R3: many networks omit the + of international numbers.
func TestAStopMessageFromANumberWithoutPlusBlocksTheRecipientOfTheSender(t *testing.T) {
	b, send := inGermany(t)
	send("asks", inChina)
	m := one(b, "asks", map[string]any{"from": "8613800138000", "content": "STOP"})
	if m.PhoneNumber != inChina || m.InReplyTo == nil || m.Kind != api.ReceivedOptOut {
		t.Errorf("got %+v", m)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(recipient, ' ') FROM blocks"); got != inChina {
		t.Errorf("blocked are %s", got)
	}
}

func TestANumberWithoutAPlusIsReadAsTheRecipientOfATaskOfTheCompany(t *testing.T) {
	b, send := inGermany(t)
	send("asks", inChina)
	if m := one(b, "listens", message("ok", map[string]any{"from": "8613800138000"})); m.PhoneNumber != inChina || m.InReplyTo != nil || m.CompanyNo != "acme" {
		t.Errorf("a message to another sender: %+v", m)
	}
	if m := one(b, "asks", message("ok", map[string]any{"from": "8613900139000"})); m.PhoneNumber != "+498613900139000" {
		t.Errorf("a message of a stranger: %+v", m)
	}
	if m := one(b, "asks", message("ok", map[string]any{"from": "4915112345678"})); m.PhoneNumber != "+4915112345678" {
		t.Errorf("a message of a stranger with the code of the region: %+v", m)
	}
}

func TestTasksOfTheSenderPrecedeTasksOfTheCompany(t *testing.T) {
	b, send := inGermany(t)
	send("asks", inTraunstein)
	send("listens", inChina)
	for sender, want := range map[string]string{"asks": inTraunstein, "listens": inChina} {
		if m := one(b, sender, message("to "+sender, map[string]any{"from": "8613800138000"})); m.PhoneNumber != want || m.InReplyTo == nil {
			t.Errorf("%s: %+v", sender, m)
		}
	}
	send("asks", "+494915112345678")
	if m := one(b, "asks", message("ok", map[string]any{"from": "4915112345678"})); m.PhoneNumber != "+494915112345678" {
		t.Errorf("a task decides before the code of the region: %+v", m)
	}
}

// A phone can post a message again after its company has sent to another reading of the number.
func TestARepeatIsFoundAfterItsNumberBelongsToAnotherCountry(t *testing.T) {
	b, send := inGermany(t)
	m := message("hello", map[string]any{"from": "8613800138000", "message_no": "1"})
	first := post(b, "asks", m)[0]
	send("asks", inChina)
	if again := post(b, "asks", m)[0]; !*again.Deduplicated || *again.ReceivedID != *first.ReceivedID {
		t.Errorf("%+v, want %+v", again, first)
	}
}

// The list finds a message by the number as the network wrote it, whichever reading applied to it.
func TestTheFilterOfNumbersFindsEachReading(t *testing.T) {
	b, send := inGermany(t)
	send("asks", inChina)
	b.AddUser("clerk", "read", map[string]any{"company_no": "acme"})
	of := func(number string, headers ...string) (found []string) {
		t.Helper()
		path := "/api/v1/received?phone_number=" + url.QueryEscape(number)
		for _, m := range apptest.Decode[api.ReceivedPage](t, b.Expect(200, "", "GET", path, nil, headers...)).Items {
			found = append(found, m.PhoneNumber)
		}
		return found
	}
	one(b, "asks", message("hello", map[string]any{"from": "8613800138000"}))
	one(b, "asks", message("hello", map[string]any{"from": "015112345678"}))
	one(b, "asks", message("hello", map[string]any{"from": "10690"}))
	for number, want := range map[string]string{
		"8613800138000": inChina, inChina: inChina, inTraunstein: "", "015112345678": "+4915112345678", "0151 123 45678": "+4915112345678", "10690": "10690",
	} {
		for name, headers := range map[string][]string{"acme": apptest.Basic("clerk", apptest.UserPassword), "all companies": nil} {
			if got := strings.Join(of(number, headers...), " "); got != want {
				t.Errorf("%s of %s: %q, want %q", number, name, got, want)
			}
		}
	}
}
