package apptest

import (
	"fmt"
	"testing"
	"time"

	api "lksms/gen/client"
)

// BetaPhone is the number to which the company beta sends.
const BetaPhone = "13900139000"

// TwoCompanies is a server with the companies acme and beta. Each company has one object of every kind. Two users can read: one the data of acme, the other the
// data of all companies.
type TwoCompanies struct {
	*Bundle
	Acme, Beta, Reader, All []string // headers
	IDs, BetaIDs            map[string]string
}

// NewTwoCompanies starts the server. Every object of beta contains beta in its text or name.
func NewTwoCompanies(t *testing.T) *TwoCompanies {
	t.Helper()
	return FillTwoCompanies(NewWith(t, DefaultRules, WithSecrets))
}

// FillTwoCompanies creates the companies on an empty server.
func FillTwoCompanies(b *Bundle) *TwoCompanies {
	b.T.Helper()
	w := &TwoCompanies{Bundle: b, Acme: b.AddCompany("acme", 1), Beta: b.AddCompany("beta", 1)}
	w.Reader = b.AddUser("reader-of-acme", "read", map[string]any{"company_no": "acme"})
	w.All = b.AddUser("reader", "read", nil)
	for _, no := range []string{"acme", "beta", "both"} {
		b.AddSender(map[string]any{"sender_no": no + "_sender", "balance": 100})
	}
	b.AddSender(map[string]any{"sender_no": "nobody_sender"})
	for _, no := range []string{"acme", "beta"} {
		b.AddRoute(no, no+"_sender", 1)
		b.Expect(200, "", "POST", "/api/v1/admin/routes", map[string]any{"company_no": no, "message_type": "marketing", "sender_no": "both_sender"})
	}
	w.IDs, w.BetaIDs = w.fill("acme", Phone, w.Acme), w.fill("beta", BetaPhone, w.Beta)
	return w
}

// fill creates one object of every kind for a company, and returns their ids.
func (w *TwoCompanies) fill(no, number string, headers []string) map[string]string {
	w.T.Helper()
	ids := map[string]string{}
	send := func(more map[string]any) string {
		body := map[string]any{"phone_number": number, "content": "for " + no, "source": no}
		for k, v := range more {
			body[k] = v
		}
		return Decode[api.Submitted](w.T, w.Expect(200, "", "POST", "/api/v1/sms/send", body, headers...)).TaskID
	}
	ids["task"] = send(nil)
	send(map[string]any{"message_type": "marketing"})
	w.Claim("both_sender", 10)
	answer := Decode[api.ReceivedBatch](w.T, w.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{
		"app_id": "both_sender", "messages": []any{map[string]any{"from": number, "content": "answer for " + no}},
	}))
	ids["received"] = fmt.Sprint(*answer.Items[0].ReceivedID)
	w.Expect(200, "", "POST", "/api/v1/blocks", map[string]any{"phone_number": "13700000099", "scope": "marketing", "reason": "asked " + no}, headers...)
	w.Expect(200, "", "POST", "/api/v1/reply-rules", map[string]any{"match": "exact", "words": []string{"rule of " + no}, "action": "acknowledge"}, headers...)
	w.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{
		map[string]any{"user_id": "of-" + no, "email": no + "@example.com", "dingtalk_name": no},
	}}, headers...)
	for _, tag := range []string{"vip", "tag-of-" + no} {
		w.Expect(200, "", "PUT", "/api/v1/tags/"+tag, nil, headers...)
	}
	w.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": []string{"of-" + no}}, headers...)
	list := Form("file", "list-of-"+no+".csv", "user_id,phone\nwrong,12\n")
	imported := Decode[api.ContactImport](w.T, w.Expect(200, "", "POST", "/api/v1/contacts/import", list, append(headers, "Content-Type", FormType)...))
	ids["import"] = fmt.Sprint(imported.ImportID)
	made := Decode[api.NotificationsMade](w.T, w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1001, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": no}, "user_ids": []string{"of-" + no},
	}, headers...))
	list = Form("file", "list.csv", "phone,of\n"+number+","+no+"\n1,"+no+"\n", "name", no, "content", "for {of}")
	batch := Decode[api.BatchCreated](w.T, w.Expect(200, "", "POST", "/api/v1/batches", list, append([]string{"Content-Type", FormType}, headers...)...))
	ids["batch"] = fmt.Sprint(batch.BatchID)
	if _, err := w.App.Batches.Check(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	ids["notification"] = fmt.Sprint(made.Items[0].NotificationID)
	w.Expect(200, "", "POST", "/api/v1/subscribe-messages", map[string]any{
		"business_type": "b", "business_id": 1, "template_type": no, "receiver_user_id": "of-" + no, "template_id": "x", "data": map[string]any{"k": no},
	}, headers...)
	w.Expect(200, "", "POST", "/api/v1/admin/inbounds", map[string]any{"inbound_no": "inbound-of-" + no, "company_no": no, "preset": "logto"})
	routes := Decode[api.RoutePage](w.T, w.Expect(200, "", "GET", "/api/v1/admin/routes?company_no="+no, nil))
	ids["route"] = fmt.Sprint(routes.Items[0].RouteNo)
	return ids
}

// SetQuiet sets the quiet hours of messages of a type of the default company to a time range relative to now, in the time zone of Chinese numbers.
func (b *Bundle) SetQuiet(messageType string, from, to time.Duration) {
	b.T.Helper()
	local := time.Now().In(time.FixedZone("Asia/Shanghai", 8*3600))
	b.SetHours(messageType, local.Add(from).Format("15:04")+"-"+local.Add(to).Format("15:04"))
}

// SetHours sets the quiet hours of messages of a type of the default company. nil: the default of the server.
func (b *Bundle) SetHours(messageType string, hours any) {
	b.T.Helper()
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"quiet_hours": map[string]any{messageType: hours}}})
}
