package app_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/gen/dbq"
)

const betaPhone = "13900139000"

// two is two companies that have everything that a company may have, and a reader of the first and one of all.
type two struct {
	*testBundle
	acme, beta, reader, all []string // headers
	ids, betaIDs            map[string]string
}

// twoCompanies makes them. Whatever is beta's says so.
func twoCompanies(t *testing.T) *two {
	t.Helper()
	b := setupWith(t, defaultRules, withSecrets)
	w := &two{testBundle: b, acme: b.company("acme", 1), beta: b.company("beta", 1)}
	w.reader = b.user("reader-of-acme", "read", map[string]any{"company_no": "acme"})
	w.all = b.user("reader", "read", nil)
	for _, no := range []string{"acme", "beta", "both"} {
		b.sender(map[string]any{"sender_no": no + "_sender", "balance": 100})
	}
	b.sender(map[string]any{"sender_no": "nobody_sender"})
	for _, no := range []string{"acme", "beta"} {
		b.route(no, no+"_sender", 1)
		b.expect(200, "", "POST", "/api/v1/admin/routes", map[string]any{"company_no": no, "message_type": "marketing", "sender_no": "both_sender"})
	}
	w.ids, w.betaIDs = w.fill("acme", phone, w.acme), w.fill("beta", betaPhone, w.beta)
	return w
}

// fill gives a company something of everything, and returns the ids.
func (w *two) fill(no, number string, headers []string) map[string]string {
	w.t.Helper()
	ids := map[string]string{}
	send := func(more map[string]any) string {
		body := map[string]any{"phone_number": number, "content": "for " + no, "source": no}
		for k, v := range more {
			body[k] = v
		}
		return decode[api.Submitted](w.t, w.expect(200, "", "POST", "/api/v1/sms/send", body, headers...)).TaskID
	}
	ids["task"] = send(nil)
	send(map[string]any{"message_type": "marketing"})
	w.claim("both_sender", 10)
	w.expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": []any{
		map[string]any{"user_id": "of-" + no, "email": no + "@example.com", "dingtalk_name": no},
	}}, headers...)
	made := decode[api.NotificationsMade](w.t, w.expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1001, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": no}, "user_ids": []string{"of-" + no},
	}, headers...))
	ids["notification"] = fmt.Sprint(made.Items[0].NotificationID)
	w.expect(200, "", "POST", "/api/v1/subscribe-messages", map[string]any{
		"business_type": "b", "business_id": 1, "template_type": no, "receiver_user_id": "of-" + no, "template_id": "x", "data": map[string]any{"k": no},
	}, headers...)
	routes := decode[api.RoutePage](w.t, w.expect(200, "", "GET", "/api/v1/admin/routes?company_no="+no, nil))
	ids["route"] = fmt.Sprint(routes.Items[0].RouteNo)
	return ids
}

func TestAReaderSeesWhatItsCompanyOwns(t *testing.T) {
	w := twoCompanies(t)
	own, beta := w.ids, w.betaIDs
	type look struct {
		path   string
		status int
	}
	const forbidden, absent = 403, 404
	looks := map[string][]look{
		"getTask":             {{"/api/v1/sms/task/" + own["task"], 200}, {"/api/v1/sms/task/" + beta["task"], absent}},
		"getTaskTimeline":     {{"/api/v1/sms/task/" + own["task"] + "/timeline", 200}, {"/api/v1/sms/task/" + beta["task"] + "/timeline", absent}},
		"explainTask":         {{"/api/v1/sms/task/" + own["task"] + "/explain", 200}, {"/api/v1/sms/task/" + beta["task"] + "/explain", absent}},
		"listTasks":           {{"/api/v1/sms/tasks", 200}, {"/api/v1/sms/tasks?source=beta", 200}, {"/api/v1/sms/tasks?phone_number=" + betaPhone, 200}},
		"claimTasks":          {{"/api/v1/sms/tasks/pending?app_id=a", forbidden}},
		"appClaimTasks":       {{"/app/api/v1/sms/tasks/pending?app_id=a", forbidden}},
		"appTaskStatistics":   {{"/app/api/v1/admin/task-statistics", forbidden}},
		"taskStatistics":      {{"/api/v1/admin/task-statistics", 200}},
		"taskStatusInfo":      {{"/api/v1/admin/task-status-info", 200}},
		"listCompanies":       {{"/api/v1/admin/companies", 200}},
		"getCompany":          {{"/api/v1/admin/companies/acme", 200}, {"/api/v1/admin/companies/beta", absent}, {"/api/v1/admin/companies/default", absent}},
		"listChannels":        {{"/api/v1/admin/channels", 200}},
		"getChannel":          {{"/api/v1/admin/channels/sms", 200}},
		"listCountries":       {{"/api/v1/admin/countries", 200}},
		"getCountry":          {{"/api/v1/admin/countries/XX", absent}},
		"listSenders":         {{"/api/v1/admin/senders", 200}},
		"getSender":           {{"/api/v1/admin/senders/acme_sender", 200}, {"/api/v1/admin/senders/both_sender", 200}, {"/api/v1/admin/senders/beta_sender", absent}, {"/api/v1/admin/senders/nobody_sender", absent}},
		"listLedger":          {{"/api/v1/admin/senders/both_sender/ledger", 200}, {"/api/v1/admin/senders/beta_sender/ledger", absent}},
		"listRoutes":          {{"/api/v1/admin/routes", 200}, {"/api/v1/admin/routes?company_no=acme", 200}, {"/api/v1/admin/routes?company_no=beta", forbidden}, {"/api/v1/admin/routes?company_no=none", forbidden}, {"/api/v1/admin/routes?sender_no=both_sender", 200}, {"/api/v1/admin/routes?sender_no=beta_sender", absent}},
		"getRoute":            {{"/api/v1/admin/routes/" + own["route"], 200}, {"/api/v1/admin/routes/" + beta["route"], absent}},
		"listContacts":        {{"/api/v1/admin/contacts", 200}, {"/api/v1/admin/contacts?company_no=acme", 200}, {"/api/v1/admin/contacts?company_no=beta", forbidden}},
		"getContact":          {{"/api/v1/admin/contacts/of-acme", 200}, {"/api/v1/admin/contacts/of-beta", absent}, {"/api/v1/admin/contacts/of-beta?company_no=beta", forbidden}},
		"listNotifications":   {{"/api/v1/notifications", 200}},
		"getNotification":     {{"/api/v1/notifications/" + own["notification"], 200}, {"/api/v1/notifications/" + beta["notification"], absent}},
		"listOnce":            {{"/api/v1/subscribe-messages", 200}},
		"onceStatistics":      {{"/api/v1/subscribe-messages/statistics", 200}},
		"listTemplates":       {{"/api/v1/admin/template", forbidden}},
		"getTemplate":         {{"/api/v1/admin/template/1", forbidden}},
		"listDefaultContents": {{"/api/v1/admin/default-sms", forbidden}},
		"getDefaultContent":   {{"/api/v1/admin/default-sms/1", forbidden}},
		"listUsers":           {{"/api/v1/admin/users", forbidden}},
		"getUser":             {{"/api/v1/admin/users/user-of-acme", forbidden}},
		"listKeys":            {{"/api/v1/admin/users/user-of-acme/keys", forbidden}},
		"getSettings":         {{"/api/v1/admin/settings", forbidden}},
		"getSettingsCategory": {{"/api/v1/admin/settings/sms", forbidden}},
		"listEvents":          {{"/api/v1/admin/events", forbidden}},
		// Every company's notifications are made with the same texts.
		"listNotificationTemplates": {{"/api/v1/admin/notification-templates", 200}},
		"health":                    {{"/health", 200}},
		"ready":                     {{"/ready", 200}},
	}
	var contract struct {
		Paths map[string]struct{ Get *struct{ OperationID string } }
	}
	if err := json.Unmarshal([]byte(w.call("GET", "/openapi.json", nil).raw), &contract); err != nil {
		t.Fatal(err)
	}
	for path, methods := range contract.Paths {
		if methods.Get != nil && looks[methods.Get.OperationID] == nil {
			t.Errorf("GET %s (%s) is in the contract and not in this table", path, methods.Get.OperationID)
		}
	}
	shared := map[string]bool{"taskStatusInfo": true, "getTaskTimeline": true, "getSender": true, "taskStatistics": true, "listChannels": true, "getChannel": true, "listCountries": true,
		"listLedger": true, "listNotificationTemplates": true, "health": true, "ready": true}
	for id, of := range looks {
		for _, l := range of {
			a := w.call("GET", l.path, nil, w.reader...)
			if a.status != l.status {
				t.Errorf("%s %s: %d, want %d: %s", id, l.path, a.status, l.status, a.raw)
			}
			if a.status == 200 && (strings.Contains(a.raw, "beta") || strings.Contains(a.raw, betaPhone)) {
				t.Errorf("%s %s shows what is beta's: %s", id, l.path, a.raw)
			}
			isEmptied := strings.Contains(l.path, "source=beta") || strings.Contains(l.path, betaPhone)
			if id == "listNotifications" { // of which only the numbers tell whose they are
				if !strings.Contains(a.raw, `"notification_id":`+own["notification"]+",") || strings.Contains(a.raw, `"notification_id":`+beta["notification"]+",") {
					t.Errorf("a reader sees %s", a.raw)
				}
			} else if a.status == 200 && !shared[id] && !isEmptied && !strings.Contains(a.raw, "acme") {
				t.Errorf("%s %s shows nothing of acme: %s", id, l.path, a.raw)
			}
			if l.status == absent && id != "getCountry" { // who sees all sees it
				if a := w.call("GET", l.path, nil, w.all...); a.status != 200 && id != "getContact" {
					t.Errorf("%s %s: a reader of all gets %d", id, l.path, a.status)
				}
			}
		}
	}
	for name, headers := range map[string][]string{"acme": w.reader, "all": w.all} {
		ledger := decode[api.LedgerPage](t, w.expect(200, "", "GET", "/api/v1/admin/senders/both_sender/ledger", nil, headers...)).Items
		if want := map[string]int{"acme": 2, "all": 3}[name]; len(ledger) != want { // the opening balance, and an attempt of each company
			t.Errorf("%s is shown %d entries of the ledger, want %d", name, len(ledger), want)
		}
	}
	w.expect(403, "auth.other_company", "GET", "/api/v1/admin/contacts?company_no=beta", nil, w.reader...)
	w.expect(403, "auth.forbidden", "GET", "/metrics", nil, w.reader...)
	if a := w.call("GET", "/metrics", nil, w.all...); a.status != 200 {
		t.Errorf("metrics: %d", a.status)
	}
}

// The counts of companies are apart, through every change of a task and through folding, and add up to those of all.
func TestStatisticsOfACompany(t *testing.T) {
	w := twoCompanies(t)
	counts := func(headers []string) api.Statistics {
		return decode[api.Statistics](t, w.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil, headers...))
	}
	other := w.user("reader-of-beta", "read", map[string]any{"company_no": "beta"})
	w.expect(200, "", "POST", "/api/v1/sms/task/"+w.ids["task"]+"/cancel", nil, w.acme...)
	w.submit("of the default company")
	check := func() {
		t.Helper()
		want := map[string]api.Statistics{
			"acme": {PendingNewTasks: 1, ProcessingTasks: 1, FailedTasks: 1}, "beta": {PendingNewTasks: 2, ProcessingTasks: 1, FailedTasks: 1},
			"all": {PendingNewTasks: 4, ProcessingTasks: 2, FailedTasks: 2},
		}
		for name, headers := range map[string][]string{"acme": w.reader, "beta": other, "all": w.all} {
			if got := counts(headers); got != want[name] {
				t.Errorf("%s: %+v, want %+v", name, got, want[name])
			}
		}
	}
	check()
	fold := func() int {
		t.Helper()
		n, err := dbq.New(w.app.DB).TaskCountFold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	fold()
	check()
	if n := w.count("SELECT count(*) FROM task_count_changes"); n != 3 {
		t.Errorf("three companies are counted in %d rows", n)
	}
	if n := fold(); n != 0 {
		t.Errorf("%d rows were folded again", n)
	}
	check()
}

// A reader for whom no company was named sees every company, one that was made before included; naming one narrows it at once.
func TestAReaderWithoutACompanySeesAll(t *testing.T) {
	w := twoCompanies(t)
	seen := func(headers []string) int {
		return len(decode[api.TaskPage](t, w.expect(200, "", "GET", "/api/v1/sms/tasks?limit=100", nil, headers...)).Items)
	}
	everything, acmes := w.count("SELECT count(*) FROM tasks"), w.count("SELECT count(*) FROM tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no = 'acme'")
	user := func(name string) api.User {
		return decode[api.User](t, w.expect(200, "", "GET", "/api/v1/admin/users/"+name, nil))
	}
	if got := seen(w.all); got != everything || !user("reader").AllCompanies || user("reader").CompanyNo != "default" {
		t.Errorf("sees %d of %d, %+v", got, everything, user("reader"))
	}
	if got := seen(w.reader); got != acmes || user("reader-of-acme").AllCompanies {
		t.Errorf("sees %d of %d", got, acmes)
	}
	// That of the default company is one like any other.
	if got := seen(w.user("reader-of-default", "read", map[string]any{"company_no": "default"})); got != 0 {
		t.Errorf("a reader of the default company sees %d", got)
	}
	for _, change := range []struct {
		body string
		want int
	}{{`{"company_no":"acme"}`, acmes}, {`{"top_priority":2}`, acmes}, {`{"company_no":null}`, everything}, {`{"company_no":"default"}`, 0}, {`{"company_no":null}`, everything}} {
		w.expect(200, "", "PATCH", "/api/v1/admin/users/reader", change.body)
		if got := seen(w.all); got != change.want {
			t.Errorf("after %s it sees %d, want %d", change.body, got, change.want)
		}
	}
	// A submit user of a company that becomes a reader is one of that company.
	w.expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"role":"read"}`)
	if got := seen(w.acme); got != acmes {
		t.Errorf("sees %d of %d", got, acmes)
	}
}

// Of senders, a caller that is bound to a company is told the names that its routes and the shared pool give it, and whether each can
// take the message. What they cost and when they are ready again is for those who see everything.
func TestACompanyIsToldOfSendersWithoutTheirNumbers(t *testing.T) {
	w := twoCompanies(t)
	w.sender(map[string]any{"sender_no": "betas_own", "is_shared": false})
	w.route("beta", "betas_own", 3)
	w.sender(map[string]any{"sender_no": "acmes_own", "is_shared": false, "balance": 3, "low_switch": 3, "segment_size": 1})
	w.route("acme", "acmes_own", 7)
	w.exec("UPDATE sender_states SET seen_at = now()")
	w.exec("UPDATE sender_states st SET next_available_at = now() + interval '1 hour' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'acme_sender'")
	w.exec("UPDATE senders SET is_shared = false WHERE sender_no IN ('acme_sender', 'beta_sender', 'both_sender')")
	send := func(kind, query, key string, headers []string) string {
		t.Helper()
		return w.expect(200, "", "POST", "/api/v1/sms/send"+query, map[string]any{
			"phone_number": phone, "content": "x", "message_type": kind, "dedup_key": key,
		}, headers...).raw
	}
	type answered struct {
		Data struct {
			TaskID  string `json:"task_id"`
			Cost    *int
			Senders []map[string]any
		}
	}
	read := func(raw string) (a answered) {
		t.Helper()
		if err := json.Unmarshal([]byte(raw), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	numbers := []string{"until", "weight"}
	for _, c := range []struct{ kind, senders string }{
		{"notification", "acme_sender resting, acmes_own no_funds"},
		{"marketing", "both_sender"},
		{"verification", "nobody_sender"}, // which is in the shared pool
	} {
		before := send(c.kind, "?dry_run=true", c.kind, w.acme)
		id := read(send(c.kind, "", c.kind, w.acme)).Data.TaskID
		explain := func(headers []string) string {
			return w.expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil, headers...).raw
		}
		for door, raw := range map[string]string{
			"dry run": before, "repeated dry run": send(c.kind, "?dry_run=true", c.kind, w.acme), "explain": explain(w.acme), "explain to a reader": explain(w.reader),
		} {
			a, got := read(raw), []string{}
			for _, s := range a.Data.Senders {
				for _, number := range numbers {
					if s[number] != nil {
						t.Errorf("%s of %s tells the %s of %s", door, c.kind, number, s["sender_no"])
					}
				}
				one := fmt.Sprint(s["sender_no"])
				if s["can_take"] == false {
					one += fmt.Sprint(" ", s["why"])
				}
				got = append(got, one)
			}
			slices.Sort(got)
			if strings.Join(got, ", ") != c.senders || a.Data.Cost != nil {
				t.Errorf("%s of %s: %s, want %s", door, c.kind, raw, c.senders)
			}
		}
		if c.kind != "notification" {
			continue
		}
		for _, headers := range [][]string{nil, w.all} { // an admin, and a reader of every company
			for _, number := range numbers {
				if raw := explain(headers); !strings.Contains(raw, `"`+number+`"`) {
					t.Errorf("who sees everything is told no %s: %s", number, raw)
				}
			}
		}
	}
	if a := read(send("verification", "?dry_run=true", "other", nil)); a.Data.Cost == nil {
		t.Errorf("an admin is told no cost: %+v", a)
	}
}

// What people are told, and where, is the submitter's.
func TestASubmitUserSeesOnlyItsOwnNotifications(t *testing.T) {
	w := twoCompanies(t)
	colleague := w.user("colleague", "submit", map[string]any{"company_no": "acme"})
	id := "/api/v1/notifications/" + w.ids["notification"]
	later := map[string]any{
		"biz_type": 2, "biz_id": 7, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": []string{"of-acme"},
		"next_run_time": time.Now().Add(24 * time.Hour),
	}
	w.expect(200, "", "POST", "/api/v1/notifications", later, w.acme...)
	w.expect(200, "", "GET", id, nil, w.acme...)
	w.expect(404, "notification.not_found", "GET", id, nil, colleague...)
	none := func(path string) {
		t.Helper()
		var page struct{ Items []any }
		if page = decode[struct{ Items []any }](t, w.expect(200, "", "GET", path, nil, colleague...)); len(page.Items) != 0 {
			t.Errorf("%s shows %v", path, page.Items)
		}
	}
	for _, path := range []string{"/api/v1/notifications", "/api/v1/notifications?biz_id=1001", "/api/v1/subscribe-messages", "/api/v1/subscribe-messages?business_id=1", "/api/v1/subscribe-messages/statistics"} {
		none(path)
		if a := w.expect(200, "", "GET", path, nil, w.acme...); !strings.Contains(a.raw, "acme") && !strings.Contains(a.raw, `"notification_id":`+w.ids["notification"]+",") {
			t.Errorf("%s shows its submitter %s", path, a.raw)
		}
	}
	end := func(headers []string) int {
		return decode[api.Changed](t, w.expect(200, "", "POST", "/api/v1/notifications/status", `{"biz_type":2,"biz_ids":[7],"status":3}`, headers...)).Changed
	}
	remove := func(headers []string) int {
		return decode[api.Changed](t, w.expect(200, "", "DELETE", "/api/v1/notifications?biz_type=2&biz_ids=7", nil, headers...)).Changed
	}
	if n := end(colleague) + remove(colleague); n != 0 {
		t.Errorf("a colleague ended or deleted %d", n)
	}
	if end(w.acme) != 1 || remove(w.acme) != 1 {
		t.Error("its submitter could not end or delete it")
	}
	// A business event is the company's: who finishes a node ends the reminder, whoever started it.
	event := func(name string, headers []string) api.NotificationsMade {
		return decode[api.NotificationsMade](t, w.expect(200, "", "POST", "/api/v1/notifications/events", map[string]any{
			"event": name, "task_id": 5, "node_inst_id": 50, "channels": []string{"dingtalk"}, "user_ids": []string{"of-acme"}, "max_duration": 60,
			"payload": map[string]any{"taskName": "x", "nodeName": "y"},
		}, headers...))
	}
	event("node_started", w.acme)
	if n := event("node_finished", colleague).Ended; n != 1 {
		t.Errorf("the end of the node ended %d reminders", n)
	}
}

// Each company's users send its own default contents, though the number is the same.
func TestDefaultContentsBelongToACompany(t *testing.T) {
	w := twoCompanies(t)
	const path = "/api/v1/admin/default-sms"
	store := func(no any, text string) api.DefaultContent {
		body := map[string]any{"phone_number": phone, "content": text}
		if no != nil {
			body["company_no"] = no
		}
		return decode[api.DefaultContent](t, w.expect(200, "", "POST", path, body))
	}
	general, acmes, betas := store(nil, "of the default company"), store("acme", "of acme"), store("beta", "of beta")
	if general.CompanyNo != "default" || acmes.CompanyNo != "acme" {
		t.Errorf("%+v %+v", general, acmes)
	}
	w.expect(409, "default_content.exists", "POST", path, map[string]any{"phone_number": "138 0013 8000", "content": "x", "company_no": "acme"})
	if a := w.expect(422, "request.invalid", "POST", path, map[string]any{"phone_number": phone, "content": "x", "company_no": "nobody"}); a.fields() != "company_no" {
		t.Errorf("names %q", a.fields())
	}
	send := map[string]any{"phone_number": phone}
	for _, c := range []struct {
		headers []string
		want    string
	}{{w.beta, "of beta"}, {w.acme, "of acme"}, {nil, "of the default company"}} {
		if got := decode[api.Submitted](t, w.expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", send, c.headers...)).FinalContent; got != c.want {
			t.Errorf("would send %q, want %q", got, c.want)
		}
		if got := decode[api.Submitted](t, w.expect(200, "", "POST", "/api/v1/sms/send", send, c.headers...)).FinalContent; got != c.want {
			t.Errorf("sent %q, want %q", got, c.want)
		}
		w.expect(409, "default_content.already_sent", "POST", "/api/v1/sms/send", send, c.headers...)
	}
	// One that has none is not given another's.
	if a := w.expect(422, "request.invalid", "POST", "/api/v1/sms/send", send, w.company("gamma", 1)...); a.fields() != "content" {
		t.Errorf("names %q", a.fields())
	}
	listed := decode[api.DefaultContentPage](t, w.expect(200, "", "GET", path+"?company_no=beta", nil)).Items
	if len(listed) != 1 || listed[0].ID != betas.ID {
		t.Errorf("listed %+v", listed)
	}
	if all := decode[api.DefaultContentPage](t, w.expect(200, "", "GET", path+"?phone_number="+url.QueryEscape("+86 13800138000"), nil)).Items; len(all) != 3 {
		t.Errorf("listed %+v", all)
	}
	w.expect(404, "company.not_found", "GET", path+"?company_no=nobody", nil)
	w.expect(200, "", "POST", fmt.Sprint(path, "/", acmes.ID, "/reset"), nil)
	w.expect(409, "default_content.already_sent", "POST", "/api/v1/sms/send", send, w.beta...)
	w.expect(200, "", "POST", "/api/v1/sms/send", send, w.acme...)
}

func TestACompanysUsersMaintainItsContacts(t *testing.T) {
	w := twoCompanies(t)
	const path = "/api/v1/admin/contacts"
	put := func(headers []string, body string) { w.expect(200, "", "PUT", path, body, headers...) }
	get := func(id string, headers []string) api.Contact {
		t.Helper()
		return decode[api.Contact](t, w.expect(200, "", "GET", path+"/"+id, nil, headers...))
	}
	put(w.acme, `{"contacts":[{"user_id":"u","phone":"13800138000","email":"u@example.com","dingtalk_name":"ding","wechat_openid":"open"}]}`)
	put(w.beta, `{"contacts":[{"user_id":"u","email":"beta@example.com"}]}`)
	// A field that is left out stays; null or an empty text clears it.
	put(w.acme, `{"company_no":"acme","contacts":[{"user_id":"u","email":"new@example.com"},{"user_id":"v"}]}`)
	if c := get("u", w.acme); *c.Email != "new@example.com" || *c.Phone != "+8613800138000" || *c.DingtalkName != "ding" || *c.WechatOpenid != "open" {
		t.Errorf("%+v", c)
	}
	put(w.acme, `{"contacts":[{"user_id":"v","phone":"13800138000"},{"user_id":"u","phone":null,"dingtalk_name":""}]}`)
	if c := get("u", w.acme); *c.Email != "new@example.com" || c.Phone != nil || c.DingtalkName != nil || *c.WechatOpenid != "open" {
		t.Errorf("%+v", c)
	}
	if c := get("u", w.beta); *c.Email != "beta@example.com" || c.Phone != nil {
		t.Errorf("beta's %+v", c)
	}
	// Another company's are out of reach, and so is a company that is not there.
	for _, no := range []string{"beta", "default", "nobody"} {
		w.expect(403, "auth.other_company", "PUT", path, map[string]any{"company_no": no, "contacts": []any{map[string]any{"user_id": "u"}}}, w.acme...)
		w.expect(403, "auth.other_company", "GET", path+"?company_no="+no, nil, w.acme...)
		w.expect(403, "auth.other_company", "GET", path+"/u?company_no="+no, nil, w.acme...)
		w.expect(403, "auth.other_company", "DELETE", path+"/u?company_no="+no, nil, w.acme...)
	}
	w.expect(403, "auth.forbidden", "DELETE", path+"/u", nil, w.reader...)
	w.expect(200, "", "DELETE", path+"/u", nil, w.acme...)
	w.expect(404, "contact.not_found", "GET", path+"/u", nil, w.acme...)
	get("u", w.beta)
	w.expect(200, "", "DELETE", path+"/u?company_no=beta", nil)
	// All or none.
	w.expect(422, "request.invalid", "PUT", path, `{"contacts":[{"user_id":"new"},{"user_id":"v","phone":"12"}]}`, w.acme...)
	w.expect(404, "contact.not_found", "GET", path+"/new", nil, w.acme...)
}

// Two that change different fields of new contacts at once lose nothing.
func TestContactsChangedAtOnce(t *testing.T) {
	b := setup(t)
	bodies := []string{`"phone":"13800138000"`, `"email":"u@example.com"`, `"dingtalk_name":"ding"`, `"wechat_openid":"open"`}
	together(len(bodies), func(i int) {
		contacts := make([]string, 50)
		for n := range contacts {
			id := n
			if i%2 == 1 { // in another order
				id = len(contacts) - 1 - n
			}
			contacts[n] = fmt.Sprintf(`{"user_id":"u%d",%s}`, id, bodies[i])
		}
		b.expect(200, "", "PUT", "/api/v1/admin/contacts", `{"contacts":[`+strings.Join(contacts, ",")+`]}`)
	})
	if n := b.count("SELECT count(*) FROM contacts WHERE phone IS NOT NULL AND email IS NOT NULL AND dingtalk_name IS NOT NULL AND wechat_openid IS NOT NULL"); n != 50 {
		t.Errorf("%d contacts of 50 have everything", n)
	}
}
