package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/app"
)

const userPassword = "a password 密码 of its own"

// user adds a user and returns the headers with which it calls.
func (b *testBundle) user(name, role string, more map[string]any) []string {
	b.t.Helper()
	body := map[string]any{"username": name, "password": userPassword, "role": role}
	for k, v := range more {
		body[k] = v
	}
	b.expect(200, "", "POST", "/api/v1/admin/users", body)
	return basic(name, userPassword)
}

// operation is what each kind of caller may do with one operation of the contract, written by hand.
type operation struct {
	method, path, body string
	roles              string // beside admin; "public" for everybody
}

var operations = map[string]operation{
	"sendSms":                    {"POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, "submit"},
	"getTask":                    {"GET", "/api/v1/sms/task/t", "", "submit read"},
	"cancelTask":                 {"POST", "/api/v1/sms/task/t/cancel", "", "submit"},
	"getTaskTimeline":            {"GET", "/api/v1/sms/task/t/timeline", "", "submit read"},
	"listTasks":                  {"GET", "/api/v1/sms/tasks", "", "submit read"},
	"claimTasks":                 {"GET", "/api/v1/sms/tasks/pending?app_id=a", "", "send"},
	"sendSmsBatch":               {"POST", "/api/v1/sms/send-batch", `{"messages":[{"phone_number":"13800138000","content":"x"}]}`, "submit"},
	"claimTasksNow":              {"POST", "/api/v1/sms/tasks/claim", `{"app_id":"a","limit":1000}`, "send"},
	"reportTasks":                {"POST", "/api/v1/sms/report-batch", `{"reports":[{"task_id":"t","app_id":"a","status":2}]}`, "send"},
	"reportTask":                 {"POST", "/api/v1/sms/report", `{"task_id":"t","app_id":"a","status":2}`, "send"},
	"appClaimTasks":              {"GET", "/app/api/v1/sms/tasks/pending?app_id=a", "", "send"},
	"appReportTask":              {"POST", "/app/api/v1/sms/report", `{"task_id":"t","app_id":"a","status":2}`, "send"},
	"appTaskStatistics":          {"GET", "/app/api/v1/admin/task-statistics", "", "send"},
	"createTemplate":             {"POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"c"}`, ""},
	"listTemplates":              {"GET", "/api/v1/admin/template", "", ""},
	"getTemplate":                {"GET", "/api/v1/admin/template/9", "", ""},
	"updateTemplate":             {"PATCH", "/api/v1/admin/template/9", `{"is_active":true}`, ""},
	"deleteTemplate":             {"DELETE", "/api/v1/admin/template/9", "", ""},
	"createDefaultContent":       {"POST", "/api/v1/admin/default-sms", `{"phone_number":"13800138000","content":"c"}`, ""},
	"listDefaultContents":        {"GET", "/api/v1/admin/default-sms", "", ""},
	"getDefaultContent":          {"GET", "/api/v1/admin/default-sms/9", "", ""},
	"updateDefaultContent":       {"PATCH", "/api/v1/admin/default-sms/9", `{"content":"c"}`, ""},
	"deleteDefaultContent":       {"DELETE", "/api/v1/admin/default-sms/9", "", ""},
	"resetDefaultContent":        {"POST", "/api/v1/admin/default-sms/9/reset", "", ""},
	"createUser":                 {"POST", "/api/v1/admin/users", `{"username":"someone","role":"read"}`, ""},
	"listUsers":                  {"GET", "/api/v1/admin/users", "", ""},
	"getUser":                    {"GET", "/api/v1/admin/users/nobody", "", ""},
	"updateUser":                 {"PATCH", "/api/v1/admin/users/nobody", `{"role":"read"}`, ""},
	"createKey":                  {"POST", "/api/v1/admin/users/nobody/keys", `{"name":"n"}`, ""},
	"listKeys":                   {"GET", "/api/v1/admin/users/nobody/keys", "", ""},
	"deleteKey":                  {"DELETE", "/api/v1/admin/users/nobody/keys/9", "", ""},
	"createCompany":              {"POST", "/api/v1/admin/companies", `{"company_no":"x y","name":""}`, ""},
	"listCompanies":              {"GET", "/api/v1/admin/companies", "", "read"},
	"getCompany":                 {"GET", "/api/v1/admin/companies/nobody", "", "read"},
	"updateCompany":              {"PATCH", "/api/v1/admin/companies/nobody", `{"weight":2}`, ""},
	"deleteCompany":              {"DELETE", "/api/v1/admin/companies/nobody", "", ""},
	"createChannel":              {"POST", "/api/v1/admin/channels", `{"channel":"x y","name":""}`, ""},
	"listChannels":               {"GET", "/api/v1/admin/channels", "", "read"},
	"getChannel":                 {"GET", "/api/v1/admin/channels/nobody", "", "read"},
	"updateChannel":              {"PATCH", "/api/v1/admin/channels/nobody", `{"name":"n"}`, ""},
	"deleteChannel":              {"DELETE", "/api/v1/admin/channels/nobody", "", ""},
	"createCountry":              {"POST", "/api/v1/admin/countries", `{"country_no":"x y","name":"","dial_prefix":""}`, ""},
	"listCountries":              {"GET", "/api/v1/admin/countries", "", "read"},
	"getCountry":                 {"GET", "/api/v1/admin/countries/nobody", "", "read"},
	"updateCountry":              {"PATCH", "/api/v1/admin/countries/nobody", `{"name":"n"}`, ""},
	"deleteCountry":              {"DELETE", "/api/v1/admin/countries/nobody", "", ""},
	"createSender":               {"POST", "/api/v1/admin/senders", `{"sender_no":"","name":""}`, ""},
	"listSenders":                {"GET", "/api/v1/admin/senders", "", "read"},
	"getSender":                  {"GET", "/api/v1/admin/senders/nobody", "", "read"},
	"updateSender":               {"PATCH", "/api/v1/admin/senders/nobody", `{"name":"n"}`, ""},
	"deleteSender":               {"DELETE", "/api/v1/admin/senders/nobody", "", ""},
	"createRoute":                {"POST", "/api/v1/admin/routes", `{"company_no":"x y","message_type":"x","sender_no":""}`, ""},
	"listRoutes":                 {"GET", "/api/v1/admin/routes", "", "read"},
	"getRoute":                   {"GET", "/api/v1/admin/routes/9", "", "read"},
	"updateRoute":                {"PATCH", "/api/v1/admin/routes/9", `{"weight":2}`, ""},
	"deleteRoute":                {"DELETE", "/api/v1/admin/routes/9", "", ""},
	"changeBalance":              {"POST", "/api/v1/admin/senders/nobody/balance", `{"change":1}`, ""},
	"listLedger":                 {"GET", "/api/v1/admin/senders/nobody/ledger", "", "read"},
	"getSettings":                {"GET", "/api/v1/admin/settings", "", "read"},
	"putSettings":                {"PUT", "/api/v1/admin/settings", `{"queue":{"priority_max_wait_seconds":3600}}`, ""},
	"getSettingsCategory":        {"GET", "/api/v1/admin/settings/sms", "", "read"},
	"putSettingsCategory":        {"PUT", "/api/v1/admin/settings/sms", `{"priority_marketing":8}`, ""},
	"listEvents":                 {"GET", "/api/v1/admin/events", "", "read"},
	"createNotifications":        {"POST", "/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"]}`, "submit"},
	"listNotifications":          {"GET", "/api/v1/notifications", "", "submit read"},
	"deleteNotifications":        {"DELETE", "/api/v1/notifications?biz_type=0&biz_ids=99", "", "submit"},
	"getNotification":            {"GET", "/api/v1/notifications/99", "", "submit read"},
	"endNotifications":           {"POST", "/api/v1/notifications/status", `{"biz_type":0,"biz_ids":[99],"status":3}`, "submit"},
	"takeEvent":                  {"POST", "/api/v1/notifications/events", `{"event":"task_created","task_id":1,"channels":["oa"]}`, "submit"},
	"sendOnce":                   {"POST", "/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":{}}`, "submit"},
	"listOnce":                   {"GET", "/api/v1/subscribe-messages", "", "submit read"},
	"onceStatistics":             {"GET", "/api/v1/subscribe-messages/statistics", "", "submit read"},
	"putContacts":                {"PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"u"}]}`, "submit"},
	"listContacts":               {"GET", "/api/v1/admin/contacts", "", "submit read"},
	"getContact":                 {"GET", "/api/v1/admin/contacts/nobody", "", "submit read"},
	"deleteContact":              {"DELETE", "/api/v1/admin/contacts/nobody", "", "submit"},
	"takeCallback":               {"POST", "/api/v1/callbacks/nobody", `{}`, "callback"},
	"listNotificationTemplates":  {"GET", "/api/v1/admin/notification-templates", "", "read"},
	"putNotificationTemplate":    {"PUT", "/api/v1/admin/notification-templates/99/oa", `{"title":"t","content":"c"}`, ""},
	"deleteNotificationTemplate": {"DELETE", "/api/v1/admin/notification-templates/98/oa", "", ""},
	"explainTask":                {"GET", "/api/v1/sms/task/task_x/explain", "", "submit read"},
	"recoverTasks":               {"POST", "/api/v1/admin/recover-zombie-tasks", "", ""},
	"taskStatistics":             {"GET", "/api/v1/admin/task-statistics", "", "read"},
	"taskStatusInfo":             {"GET", "/api/v1/admin/task-status-info", "", "submit send read"},
	"health":                     {"GET", "/health", "", "public"},
	"ready":                      {"GET", "/ready", "", "public"},
}

func TestEveryOperationAsEveryKindOfCaller(t *testing.T) {
	b := setup(t)
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.call("GET", "/openapi.json", nil).raw), &contract); err != nil {
		t.Fatal(err)
	}
	for path, methods := range contract.Paths {
		for method, raw := range methods {
			var o struct{ OperationID string }
			if method != "parameters" && json.Unmarshal(raw, &o) == nil {
				if _, ok := operations[o.OperationID]; !ok {
					t.Errorf("%s %s (%s) is in the contract and not in this table", method, path, o.OperationID)
				}
			}
		}
	}
	callers := map[string][]string{"": {"Authorization", ""}, "admin": nil, "wrong": basic("r-read", "not the password")}
	for _, role := range []string{"submit", "send", "read"} {
		callers[role] = b.user("r-"+role, role, nil)
	}
	callers["other admin"] = b.user("r-admin", "admin", nil)
	callers["disabled"] = b.user("r-disabled", "admin", nil)
	b.expect(200, "", "PATCH", "/api/v1/admin/users/r-disabled", `{"is_disabled":true}`)
	for id, o := range operations {
		for role, headers := range callers {
			if role == "wrong" && id != "listTasks" { // one wrong password is enough; more would have to wait
				continue
			}
			var body any
			if o.body != "" {
				body = o.body
			}
			a := b.call(o.method, o.path, body, headers...)
			got := "in"
			switch a.status {
			case 401, 403:
				got = fmt.Sprint(a.status)
			}
			want := "in"
			switch {
			case o.roles == "callback": // who proves to be the provider, whoever that is
				want = "403"
			case o.roles == "public" || strings.HasSuffix(role, "admin") || slices.Contains(strings.Fields(o.roles), role):
			case role == "" || role == "wrong" || role == "disabled":
				want = "401"
			default:
				want = "403"
			}
			if role == "disabled" && a.status == 429 { // it has tried often enough by now
				got = "401"
			}
			if got != want {
				t.Errorf("%s as %q: %s, want %s: %s", id, role, got, want, a.raw)
			}
		}
	}
}

func TestASubmitUserSeesOnlyItsOwnTasks(t *testing.T) {
	b := setup(t)
	mine, other := b.user("mine", "submit", nil), b.user("other", "submit", nil)
	send := func(headers []string) string {
		return decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, headers...)).TaskID
	}
	own, theirs, admins := send(mine), send(other), b.submit("x")
	b.expect(200, "", "GET", "/api/v1/sms/task/"+own, nil, mine...)
	b.expect(200, "", "GET", "/api/v1/sms/task/"+own+"/timeline", nil, mine...)
	for _, id := range []string{theirs, admins} {
		b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id, nil, mine...)
		b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id+"/timeline", nil, mine...)
		b.expect(404, "task.not_found", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, mine...)
	}
	page := decode[api.TaskPage](t, b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, mine...))
	if len(page.Items) != 1 || page.Items[0].TaskID != own {
		t.Errorf("listed %+v", page.Items)
	}
	b.expect(200, "", "POST", "/api/v1/sms/task/"+own+"/cancel", nil, mine...)
	if page := decode[api.TaskPage](t, b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, b.user("reader", "read", nil)...)); len(page.Items) != 3 {
		t.Errorf("a reader sees %d tasks, want 3", len(page.Items))
	}
}

// What a user submitted before it was moved is its former company's.
func TestASubmitUserThatIsMovedSeesNothingOfItsFormerCompany(t *testing.T) {
	b, _, _ := weChatting(t)
	b.expect(200, "", "POST", "/api/v1/admin/companies", `{"company_no":"new","name":"new"}`)
	user := b.user("mover", "submit", nil)
	id := decode[api.Submitted](t, b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, user...)).TaskID
	made := decode[api.NotificationsMade](t, b.expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"u1"},
	}, user...)).Items[0]
	b.expect(200, "", "POST", "/api/v1/subscribe-messages", booking(nil), user...)
	b.notificationBecomes(made.NotificationID, api.NotificationSuccess)

	lists := []string{
		"/api/v1/sms/tasks", "/api/v1/sms/tasks?phone_number=" + phone, "/api/v1/notifications", fmt.Sprint("/api/v1/notifications?status=", api.NotificationSuccess),
		"/api/v1/subscribe-messages", "/api/v1/subscribe-messages/statistics",
	}
	sees := func(want bool) {
		t.Helper()
		for _, path := range lists {
			page := decode[struct{ Items []any }](t, b.expect(200, "", "GET", path, nil, user...))
			if got := len(page.Items) > 0; got != want {
				t.Errorf("%s shows %v", path, page.Items)
			}
		}
	}
	sees(true)
	b.expect(200, "", "PATCH", "/api/v1/admin/users/mover", `{"company_no":"new"}`)
	sees(false)
	for _, path := range []string{"", "/timeline", "/explain"} {
		b.expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+id+path, nil, user...)
	}
	b.expect(404, "task.not_found", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, user...)
	b.expect(404, "notification.not_found", "GET", fmt.Sprint("/api/v1/notifications/", made.NotificationID), nil, user...)
	if got := b.task(id).Status; got != 0 {
		t.Errorf("its former task is %d", got)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/users/mover", `{"company_no":"default"}`)
	sees(true)
}

func TestABoundSenderIsOneApp(t *testing.T) {
	b := setup(t)
	bound := b.user("phone", "send", map[string]any{"app_id": "app_1"})
	id := b.submit("x")
	for _, prefix := range []string{"", "/app"} {
		b.expect(403, "auth.other_app", "GET", prefix+"/api/v1/sms/tasks/pending?app_id=app_2", nil, bound...)
		b.expect(403, "auth.other_app", "POST", prefix+"/api/v1/sms/report", reportBody(id, "app_2", 2, nil), bound...)
	}
	if n := b.count("SELECT count(*) FROM send_logs") + b.count("SELECT count(*) FROM report_logs"); n != 0 {
		t.Errorf("it left %d rows as another app", n)
	}
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=app_1", nil, bound...)
	b.expect(200, "", "POST", "/api/v1/sms/report", reportBody(id, "app_1", 2, nil), bound...)
	// Unbound, it may be any.
	b.expect(200, "", "PATCH", "/api/v1/admin/users/phone", `{"app_id":""}`)
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=app_2", nil, bound...)
}

func TestUsers(t *testing.T) {
	b := setup(t)
	headers := b.user("系统 a", "submit", nil)
	got := decode[api.User](t, b.expect(200, "", "GET", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", nil))
	if got.Username != "系统 a" || got.Role != "submit" || got.AppID != nil || got.IsDisabled {
		t.Errorf("got %+v", got)
	}
	b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, headers...)
	// Each change is in force at once.
	b.expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"role":"send","app_id":"a"}`)
	b.expect(403, "auth.forbidden", "GET", "/api/v1/sms/tasks", nil, headers...)
	b.expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"password":"another password"}`)
	b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, headers...)
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, basic("系统 a", "another password")...)
	b.expect(200, "", "PATCH", "/api/v1/admin/users/%E7%B3%BB%E7%BB%9F%20a", `{"is_disabled":true}`)
	b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, basic("系统 a", "another password")...)

	b.expect(409, "user.exists", "POST", "/api/v1/admin/users", `{"username":"系统 a","role":"read"}`)
	b.expect(409, "user.exists", "POST", "/api/v1/admin/users", map[string]any{"username": username, "role": "read"})
	b.expect(404, "user.not_found", "PATCH", "/api/v1/admin/users/nobody", `{"role":"read"}`)
	for body, field := range map[string]string{
		`{"username":"a:b","role":"read"}`:                                                  "username",
		`{"username":"","role":"read"}`:                                                     "username",
		`{"username":"n","role":"king"}`:                                                    "role",
		`{"username":"n","role":"read","password":"short"}`:                                 "password",
		`{"username":"n","role":"read","app_id":"a"}`:                                       "app_id",
		`{"username":"n","role":"read","password":"lksms_` + strings.Repeat("A", 43) + `"}`: "password",
		`{"username":"n"}`:                                                                  "role",
		`{"username":"n","role":"read","password":"a\u0000bbbbbbbbbbbbbb"}`:                 "password",
	} {
		if a := b.expect(422, "request.invalid", "POST", "/api/v1/admin/users", body); a.fields() != field {
			t.Errorf("%s: fields %q, want %q", body, a.fields(), field)
		}
	}
	hash := scan[string](b, "SELECT password_hash FROM users")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("kept as %.40s", hash)
	}
	if list := decode[api.UserPage](t, b.expect(200, "", "GET", "/api/v1/admin/users?limit=1", nil)); len(list.Items) != 1 {
		t.Errorf("listed %+v", list)
	}
}

// Send and admin users reach every company, so a company that is named for one would promise what does not hold.
func TestACompanyIsRefusedWhereItWouldNotBind(t *testing.T) {
	b := setup(t)
	acme := b.company("acme", 1)
	const path = "/api/v1/admin/users"
	refused := func(method, path, body string) {
		t.Helper()
		if a := b.expect(422, "request.invalid", method, path, body); a.fields() != "company_no" || !strings.Contains(a.raw, "submit or read") {
			t.Errorf("%s %s: %s", method, body, a.raw)
		}
	}
	expect := func(name, role, companyNo string, seesAll bool) {
		t.Helper()
		u := decode[api.User](t, b.expect(200, "", "GET", path+"/"+name, nil))
		if string(u.Role) != role || u.CompanyNo != companyNo || u.AllCompanies != seesAll {
			t.Errorf("%s is %+v", name, u)
		}
	}
	for _, role := range []string{"send", "admin"} {
		name := "new-" + role
		for _, company := range []string{"acme", "default"} {
			refused("POST", path, fmt.Sprintf(`{"username":%q,"role":%q,"company_no":%q}`, name, role, company))
		}
		b.user(name, role, nil)
		refused("PATCH", path+"/"+name, `{"company_no":"acme"}`)
		refused("PATCH", path+"/user-of-acme", fmt.Sprintf(`{"role":%q}`, role))
		refused("PATCH", path+"/user-of-acme", fmt.Sprintf(`{"role":%q,"company_no":"acme"}`, role))
		expect(name, role, "default", role == "admin")
		expect("user-of-acme", "submit", "acme", false)
	}
	b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, acme...)
	// It leaves its company, belongs to one again in another role, and needs to leave none where none was named.
	b.expect(200, "", "PATCH", path+"/user-of-acme", `{"role":"send","company_no":null}`)
	expect("user-of-acme", "send", "default", false)
	b.expect(200, "", "PATCH", path+"/user-of-acme", `{"role":"read","company_no":"acme"}`)
	expect("user-of-acme", "read", "acme", false)
	b.user("nobodys", "submit", nil)
	b.expect(200, "", "PATCH", path+"/nobodys", `{"role":"admin"}`)
	b.expect(200, "", "PATCH", path+"/nobodys", `{"company_no":null}`)
	expect("nobodys", "admin", "default", true)
}

// An admin for whom a company was named before that was refused goes on submitting in its name, and belongs to it once the role is one
// that a company binds.
func TestAnAdminThatSubmitsForACompanyGoesOnDoingSo(t *testing.T) {
	b := setup(t)
	b.company("acme", 1)
	admin := b.user("boss", "admin", nil)
	b.exec("UPDATE users SET company_id = (SELECT id FROM companies WHERE company_no = 'acme') WHERE username = 'boss'")
	b.expect(200, "", "PATCH", "/api/v1/admin/users/boss", `{"top_priority":2}`) // in force at once
	b.submitMany("x", 1, nil, admin...)
	if n := b.count("SELECT count(*) FROM tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no = 'acme'"); n != 1 {
		t.Errorf("%d messages are of its company", n)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/users/boss", `{"role":"read"}`)
	if u := decode[api.User](t, b.expect(200, "", "GET", "/api/v1/admin/users/boss", nil)); u.CompanyNo != "acme" || u.AllCompanies {
		t.Errorf("as a reader it is %+v", u)
	}
}

func TestAPIKeys(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/users", `{"username":"system","role":"submit"}`)
	made := decode[api.NewKey](t, b.expect(200, "", "POST", "/api/v1/admin/users/system/keys", `{"name":"production"}`))
	if !strings.HasPrefix(made.Key, "lksms_") || len(made.Key) != len("lksms_")+43 {
		t.Errorf("the key is %d characters", len(made.Key))
	}
	asBearer, asPassword := []string{"Authorization", "Bearer " + made.Key}, basic("system", made.Key)
	for _, headers := range [][]string{asBearer, asPassword} {
		b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, headers...)
	}
	b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, basic("another", made.Key)...)
	b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, basic("system", "")...) // it has no password
	b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, "Authorization", "Bearer lksms_"+strings.Repeat("A", 43))
	a := b.expect(200, "", "GET", "/api/v1/admin/users/system/keys", nil)
	if keys := decode[[]api.Key](t, a); len(keys) != 1 || keys[0].Name != "production" || strings.Contains(a.raw, made.Key) {
		t.Errorf("listed %s", a.raw)
	}
	if n := b.count("SELECT count(*) FROM api_keys WHERE encode(key_hash, 'escape') LIKE '%lksms%' OR octet_length(key_hash) <> 32"); n != 0 {
		t.Error("the key itself is stored")
	}
	path := fmt.Sprintf("/api/v1/admin/users/system/keys/%d", made.ID)
	b.expect(404, "key.not_found", "DELETE", strings.Replace(path, "system", "nobody", 1), nil)
	b.expect(200, "", "DELETE", path, nil)
	b.expect(404, "key.not_found", "DELETE", path, nil)
	for _, headers := range [][]string{asBearer, asPassword} {
		b.expect(401, "auth.required", "GET", "/api/v1/sms/tasks", nil, headers...)
	}
	b.expect(404, "user.not_found", "POST", "/api/v1/admin/users/nobody/keys", `{"name":"x"}`)
	b.expect(404, "user.not_found", "GET", "/api/v1/admin/users/nobody/keys", nil)
	if strings.Contains(b.log.String(), made.Key) {
		t.Error("the key is in the log")
	}
}

func TestGuessingIsSlowedDownAndLocksNobodyElseOut(t *testing.T) {
	b := setup(t)
	good := b.user("sender", "send", nil)
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, good...)
	var last answer
	for i := range 10 {
		last = b.call("GET", "/api/v1/sms/tasks/pending?app_id=a", nil, basic("sender", fmt.Sprint("guess ", i))...)
		if last.status == 429 {
			break
		}
		if last.status != 401 {
			t.Fatalf("guess %d: %d", i, last.status)
		}
	}
	if last.status != 429 || last.body.Error.Reason != "auth.too_many_failures" || last.header.Get("Retry-After") == "" {
		t.Errorf("ten guesses end with %d %v", last.status, last.header)
	}
	// The sender itself goes on: it was verified a moment ago. So does another user at the same address.
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, good...)
	b.expect(200, "", "GET", "/api/v1/sms/tasks/pending?app_id=a", nil, b.user("other", "send", nil)...)
	b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
}

func TestANeighboursWrongPasswordsLockNobodyOut(t *testing.T) {
	var late atomic.Int64 // seconds
	b := setupWith(t, defaultRules, func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Second) }
	})
	user := b.user("system", "submit", nil)
	b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...)
	refused := 0
	for n := range 60 {
		if b.call("GET", "/api/v1/sms/tasks", nil, basic(fmt.Sprint("neighbour ", n), "a wrong password")...).status == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("60 guesses from one address were all compared")
	}
	for range 50 { // for five minutes
		b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...)
		b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
		b.call("GET", "/api/v1/sms/tasks", nil, basic(fmt.Sprint("neighbour ", late.Add(6)), "a wrong password")...)
	}
}

// A caller lives where it calls from as long as it goes on, though its password is compared but once.
func TestWhereACallerLivesIsRememberedWhileItCalls(t *testing.T) {
	var late atomic.Int64 // hours
	b := setupWith(t, defaultRules, func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Hour) }
	})
	user := b.user("system", "submit", nil)
	poll := func() { b.expect(200, "", "GET", "/api/v1/sms/tasks", nil, user...) }
	age := func() time.Duration {
		return time.Duration(scan[float64](b, "SELECT extract(epoch FROM now() - seen_at)::float8 FROM user_addresses WHERE username = 'system'") * float64(time.Second))
	}
	poll()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := serveUntil(t, b.app, listener)
	t.Cleanup(func() {
		stop()
		<-served
	})
	b.exec("UPDATE user_addresses SET seen_at = now() - interval '29 days'")
	late.Add(1)
	poll() // it is not a day later
	if got := age(); got < 28*24*time.Hour {
		t.Errorf("noted again after an hour")
	}
	for range 2 {
		late.Add(25)
		poll()
		eventually(t, "it is noted again", func() bool { return age() < 24*time.Hour })
		b.exec("UPDATE user_addresses SET seen_at = now() - interval '29 days'")
	}
}

// Each way in which an app could take or settle the tasks of a sender that the server drives.
func TestAnAppCannotBeADrivenSender(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/senders", `{"sender_no":"driven","name":"Driven","kind":"log"}`)
	bound := b.user("bound", "send", map[string]any{"app_id": "driven"})
	id := b.submit("x")
	for _, headers := range [][]string{nil, bound} {
		b.expect(409, "sender.is_driven", "GET", "/api/v1/sms/tasks/pending?app_id=driven", nil, headers...)
		b.expect(409, "sender.is_driven", "GET", "/api/v1/sms/tasks/pending?app_id=driven&wait=30", nil, headers...)
		b.expect(409, "sender.is_driven", "POST", "/api/v1/sms/tasks/claim", `{"app_id":"driven","limit":10}`, headers...)
		b.expect(409, "sender.is_driven", "GET", "/app/api/v1/sms/tasks/pending?app_id=driven", nil, headers...)
		for _, prefix := range []string{"", "/app"} {
			b.expect(409, "sender.is_driven", "POST", prefix+"/api/v1/sms/report", reportBody(id, "driven", 2, nil), headers...)
		}
		batch := decode[api.ReportedBatch](t, b.expect(200, "", "POST", "/api/v1/sms/report-batch",
			map[string]any{"reports": []any{reportBody(id, "driven", 2, nil)}}, headers...))
		if batch.Accepted != 0 || batch.Items[0].Code != 409 || batch.Items[0].Error.Reason != "sender.is_driven" {
			t.Errorf("%+v", batch)
		}
	}
	if n := b.count("SELECT count(*) FROM send_logs") + b.count("SELECT count(*) FROM report_logs"); n != 0 {
		t.Errorf("it left %d rows", n)
	}
	// An app again, it is served at once; so is the number that no driver has any more.
	b.expect(200, "", "PATCH", "/api/v1/admin/senders/driven", `{"kind":"app"}`)
	if got := b.claim("driven", 1); len(got) != 1 {
		t.Errorf("claimed %v", got)
	}
	b.expect(200, "", "PATCH", "/api/v1/admin/senders/driven", `{"kind":"log","config":{}}`)
	b.expect(409, "sender.is_driven", "POST", "/api/v1/sms/report", reportBody(id, "driven", 2, nil))
}

// Whatever a caller asks for in the query is heard or refused, on every operation.
func TestUndeclaredQueryParametersAreRefused(t *testing.T) {
	b := setup(t)
	for id, o := range operations {
		if o.roles == "callback" { // providers call as they like
			continue
		}
		sep := "?"
		if strings.Contains(o.path, "?") {
			sep = "&"
		}
		var body any
		if o.body != "" {
			body = o.body
		}
		a := b.call(o.method, o.path+sep+"page=2&Limit=1&%00=", body)
		if a.status != 422 || a.fields() != ",Limit,page" {
			t.Errorf("%s: %d, fields %q: %s", id, a.status, a.fields(), a.raw)
		}
	}
	if n := b.count("SELECT count(*) FROM tasks") + b.count("SELECT count(*) FROM users") + b.count("SELECT count(*) FROM contacts"); n != 0 {
		t.Errorf("%d rows were made", n)
	}
	if a := b.expect(422, "request.invalid", "PUT", "/api/v1/admin/contacts?company_no=default", `{"contacts":[{"user_id":"u"}]}`); a.fields() != "company_no" {
		t.Errorf("names %q", a.fields())
	}
	b.expect(200, "", "GET", "/api/v1/admin/contacts?company_no=default", nil)
	b.expect(404, "contact.not_found", "GET", "/api/v1/admin/contacts/u?company_no=default", nil)
	for _, query := range []string{"limit=1;status=0", "limit=%zz"} {
		if a := b.expect(422, "request.invalid", "GET", "/api/v1/sms/tasks?"+query, nil); a.fields() != "query" {
			t.Errorf("%s names %q", query, a.fields())
		}
	}
}
