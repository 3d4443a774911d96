package apptest

import api "lksms/gen/client"

// UserPassword is the password of all users that AddUser adds.
const UserPassword = "a password 密码 of its own"

// AddUser adds a user, and returns the headers for calls as this user.
func (b *Bundle) AddUser(name, role string, more map[string]any) []string {
	b.T.Helper()
	body := map[string]any{"username": name, "password": UserPassword, "role": role}
	for k, v := range more {
		body[k] = v
	}
	b.Expect(200, "", "POST", "/api/v1/admin/users", body)
	return Basic(name, UserPassword)
}

// AddCompany adds a company and a user with the role submit, and returns the headers for calls as the user.
func (b *Bundle) AddCompany(no string, weight float64) []string {
	b.T.Helper()
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no, "weight": weight})
	return b.AddUser("user-of-"+no, "submit", map[string]any{"company_no": no, "top_priority": 0})
}

// AddSender adds a sender. The name of the sender is its number unless body contains a name.
func (b *Bundle) AddSender(body map[string]any) {
	b.T.Helper()
	if body["name"] == nil {
		body["name"] = body["sender_no"]
	}
	if kind := body["kind"]; kind != nil && kind != "app" { // without these values, a new driven sender sends nothing
		for name, value := range map[string]any{"status": "on", "is_shared": true} {
			if _, isSaid := body[name]; !isSaid {
				body[name] = value
			}
		}
	}
	b.Expect(200, "", "POST", "/api/v1/admin/senders", body)
}

// GetSender returns a sender.
func (b *Bundle) GetSender(no string) api.Sender {
	b.T.Helper()
	return Decode[api.Sender](b.T, b.Expect(200, "", "GET", "/api/v1/admin/senders/"+no, nil))
}

// AddRoute adds a route for the message type notification.
func (b *Bundle) AddRoute(company, senderNo string, weight int) api.Route {
	b.T.Helper()
	return Decode[api.Route](b.T, b.Expect(200, "", "POST", "/api/v1/admin/routes",
		map[string]any{"company_no": company, "message_type": "notification", "sender_no": senderNo, "weight": weight}))
}

// AddRouteWith adds a route with these fields. The message type is notification unless fields contains another type.
func (b *Bundle) AddRouteWith(fields map[string]any) api.Route {
	b.T.Helper()
	body := map[string]any{"message_type": "notification"}
	for k, v := range fields {
		body[k] = v
	}
	return Decode[api.Route](b.T, b.Expect(200, "", "POST", "/api/v1/admin/routes", body))
}

// PutContacts adds or changes contacts.
func (b *Bundle) PutContacts(all ...map[string]any) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": all})
}

// AddCountry adds a country. fields contains its optional fields.
func (b *Bundle) AddCountry(no, prefix string, fields map[string]any) {
	b.T.Helper()
	body := map[string]any{"country_no": no, "name": no, "dial_prefix": prefix}
	for k, v := range fields {
		body[k] = v
	}
	b.Expect(200, "", "POST", "/api/v1/admin/countries", body)
}

// PutSMSTemplate sets the template of notifications of business type 3 on the channel sms.
func (b *Bundle) PutSMSTemplate(more map[string]any) {
	b.T.Helper()
	body := map[string]any{"title": "完成", "content": "任务${taskName}执行完成"}
	for k, v := range more {
		body[k] = v
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/sms", body)
}
