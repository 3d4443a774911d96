package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// marked are notations of one number with characters that people copy together with numbers: invisible marks, special spaces and dashes, full-width characters.
var marked = []string{
	"13712345678", "\u202a13712345678\u202c", "\u202b13712345678\u202c", "\u202d13712345678\u202e", "\u2066+86\u00a0137 1234 5678\u2069", "\u2067137\u200b12345678\u2068",
	"\u200e137\u00a01234\u00a05678", "137\u20111234\u20115678", "１３７１２３４５６７８", "＋８６（１３７）１２３４－５６７８", "137.1234.5678", "(137)1234-5678",
	"[137] 1234 5678", "+86 (137) 1234.5678", "137\u30001234\u30005678", "\ufeff13712345678", "0086-137-1234-5678", "\u202a+8613712345678\u202c", "+\u202a8613712345678\u202c",
}

const markedNumber = "+8613712345678"

// Each interface reads each notation as the same number, and each filter finds this number. The protocol of Kannel has its own test.
func TestEachInterfaceAcceptsNumbersWithInvisibleMarks(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	form := append([]string{"Content-Type", apptest.FormType}, acme...)
	b.AddSender(map[string]any{"sender_no": "phone"})
	b.Expect(200, "", "POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "apprise", "preset": "apprise", "company_no": "acme"})
	must := func(_ int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	post := func(path string, body map[string]any) {
		b.Expect(200, "", "POST", path, body, acme...)
	}
	ways := map[string]func(number, text string){ // each of them sends text to number
		"send": func(number, text string) {
			post("/api/v1/sms/send", map[string]any{"phone_number": number, "content": text})
		},
		"send batch": func(number, text string) {
			post(apptest.BatchPath, map[string]any{"messages": []any{map[string]any{"phone_number": number, "content": text}}})
		},
		"inbound": func(number, text string) {
			post("/api/v1/inbound/apprise", map[string]any{"version": "1.0", "title": "", "message": text, "type": "success", "phone_number": number})
		},
		"batch": func(number, text string) {
			list := apptest.Form("file", "list.csv", "phone\n\""+number+"\"\n", "name", "n", "content", text, "auto_confirm", "true")
			b.Expect(200, "", "POST", "/api/v1/batches", list, form...)
			must(b.App.Batches.Check(t.Context()))
			must(b.App.Batches.Feed(t.Context()))
		},
		"SMSGate": func(number, text string) {
			if a := b.Call("POST", "/smsgate/3rdparty/v1/messages", map[string]any{"phoneNumbers": []string{number}, "message": text}, acme...); a.Status != 202 {
				t.Errorf("SMSGate: %s", a.Raw)
			}
		},
	}
	searches := map[string]string{ // each of them finds number
		"tasks": "/api/v1/sms/tasks?phone_number=", "received": "/api/v1/received?phone_number=", "default contents": "/api/v1/admin/default-sms?phone_number=",
		"contacts": "/api/v1/admin/contacts?company_no=acme&q=",
	}
	for i, number := range marked {
		text := fmt.Sprint("text ", i)
		for way, send := range ways {
			send(number, text+way)
			if n := b.Count("SELECT count(*) FROM messages WHERE recipient = $1 AND content = $2", markedNumber, text+way); n != 1 {
				t.Errorf("%s: %+q made %d tasks", way, number, n)
			}
		}
		b.Exec("TRUNCATE default_contents, contacts, erasures, received_messages CASCADE")
		b.Expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": number, "content": "x", "company_no": "acme"})
		b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{map[string]any{"user_id": "u", "phone": number}}}, acme...)
		b.Expect(200, "", "POST", "/api/v1/contacts/import", apptest.Form("file", "list.csv", "user_id,phone\nof-list,\""+number+"\"\n"), form...)
		must(b.App.Contacts.Import(t.Context()))
		b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "phone", "messages": []any{map[string]any{"from": number, "content": text}}})
		post("/api/v1/contacts/erasures", map[string]any{"phone": number})
		for table, column := range map[string]string{"default_contents": "recipient", "contacts": "phone", "received_messages": "phone_number", "erasures": "asked_recipients[1]"} {
			if n := b.Count("SELECT count(*) FROM "+table+" WHERE "+column+" <> $1", markedNumber) + b.Count("SELECT (count(*) = 0)::int FROM "+table); n != 0 {
				t.Errorf("%s: %+q is stored otherwise", table, number)
			}
		}
		for list, path := range searches {
			if a := b.Expect(200, "", "GET", path+url.QueryEscape(number), nil); strings.Contains(a.Raw, `"items":[]`) {
				t.Errorf("%s: %+q is not found", list, number)
			}
		}
		filter := map[string]any{"status": 0, "phone_number": number, "company_no": "acme"}
		plan := apptest.Decode[api.TaskJobPlan](t, b.Expect(200, "", "POST", "/api/v1/admin/task-jobs", map[string]any{"action": "cancel", "filter": filter}))
		if plan.Count < int64(len(ways)) {
			t.Errorf("job: %+q: %d tasks", number, plan.Count)
		}
	}
}
