package access_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// read is a request of the reader of acme and the expected status of its response.
type read struct {
	path   string
	status int
}

const forbidden, absent = 403, 404

func TestAReaderSeesOnlyDataOfItsCompany(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	w.Exec("INSERT INTO verification_subjects (company_id, subject, started, approved, is_proven) SELECT id, '+49151', 20, 0, false FROM companies")
	w.Exec("INSERT INTO verification_safe (company_id, subject, created_by) SELECT id, '+49152', 'admin of ' || company_no FROM companies")
	w.Exec(`INSERT INTO verifications (verification_id, company_id, submitted_by, channel, recipient, purpose, status, ended_at, max_checks, expires_at, task_ids)
		SELECT 'vrf_' || company_no, id, 'admin of ' || company_no, 'sms', '+8613700000000', 'login', 'approved', now(), 5, now(), ARRAY['task_none'] FROM companies`)
	reads := map[string][]read{} // requests by operation
	for _, part := range []map[string][]read{readsOfMessages(w), readsOfContacts(w), readsOfSenders(w), forbiddenReads} {
		maps.Copy(reads, part)
	}
	checkEachReadIsListed(w, reads)
	for id, requests := range reads {
		for _, r := range requests {
			checkRead(w, id, r)
		}
	}
	for name, headers := range map[string][]string{"acme": w.Reader, "all": w.All} {
		ledger := apptest.Decode[api.LedgerPage](t, w.Expect(200, "", "GET", "/api/v1/admin/senders/both_sender/ledger", nil, headers...)).Items
		if want := map[string]int{"acme": 2, "all": 3}[name]; len(ledger) != want { // the opening balance, and one lease for each company
			t.Errorf("the reader of %s sees %d ledger entries, want %d", name, len(ledger), want)
		}
	}
	w.Expect(403, "auth.other_company", "GET", "/api/v1/admin/contacts?company_no=beta", nil, w.Reader...)
	w.Expect(403, "auth.forbidden", "GET", "/metrics", nil, w.Reader...)
	if a := w.Call("GET", "/metrics", nil, w.All...); a.Status != 200 {
		t.Errorf("metrics: %d", a.Status)
	}
}

// readsOfMessages returns reads of what the two companies send: tasks, batches, notifications, templates and events.
func readsOfMessages(w *apptest.TwoCompanies) map[string][]read {
	own, beta := w.IDs, w.BetaIDs
	template := func(status string, companies ...string) string {
		body := map[string]any{"template_name": "for acme", "template_content": "hello", "status": status, "companies": companies}
		return fmt.Sprint("/api/v1/admin/template/", apptest.Decode[api.Template](w.T, w.Expect(200, "", "POST", "/api/v1/admin/template", body)).ID)
	}
	return map[string][]read{
		"getTask":         {{"/api/v1/sms/task/" + own["task"], 200}, {"/api/v1/sms/task/" + beta["task"], absent}},
		"getTaskTimeline": {{"/api/v1/sms/task/" + own["task"] + "/timeline", 200}, {"/api/v1/sms/task/" + beta["task"] + "/timeline", absent}},
		"explainTask":     {{"/api/v1/sms/task/" + own["task"] + "/explain", 200}, {"/api/v1/sms/task/" + beta["task"] + "/explain", absent}},
		"listTasks":       {{"/api/v1/sms/tasks", 200}, {"/api/v1/sms/tasks?source=beta", 200}, {"/api/v1/sms/tasks?phone_number=" + apptest.BetaPhone, 200}, {"/api/v1/sms/tasks?company_no=acme", 200}, {"/api/v1/sms/tasks?company_no=beta", forbidden}, {"/api/v1/sms/tasks?company_no=none", forbidden}},
		"listReceived":    {{"/api/v1/received", 200}, {"/api/v1/received?unread=true", 200}, {"/api/v1/received?sender_no=both_sender", 200}, {"/api/v1/received?company_no=beta", forbidden}},
		"getReceived":     {{"/api/v1/received/" + own["received"], 200}, {"/api/v1/received/" + beta["received"], absent}},
		"listBlocks":      {{"/api/v1/blocks", 200}, {"/api/v1/blocks?company_no=beta", forbidden}, {"/api/v1/blocks?phone_number=%2B8613700000099", 200}},
		"listSuspects":    {{"/api/v1/admin/verifications/suspects", 200}, {"/api/v1/admin/verifications/suspects?company_no=beta", forbidden}},
		"getVerification": {{"/api/v1/verifications/vrf_acme", 200}, {"/api/v1/verifications/vrf_beta", absent}},
		"readVerificationStatistics": {
			{"/api/v1/verifications/statistics?by=company&from=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), 200},
			{"/api/v1/verifications/statistics?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&company_no=beta", forbidden},
		},
		"listSafe":          {{"/api/v1/admin/verifications/safe", 200}, {"/api/v1/admin/verifications/safe?company_no=beta", forbidden}},
		"exportBlocks":      {{"/api/v1/blocks/export.csv", 200}, {"/api/v1/blocks/export.csv?company_no=beta", forbidden}},
		"listReplyRules":    {{"/api/v1/reply-rules", 200}, {"/api/v1/reply-rules?company_no=acme", 200}, {"/api/v1/reply-rules?company_no=beta", forbidden}},
		"listConversations": {{"/api/v1/conversations", 200}, {"/api/v1/conversations?unread=true", 200}, {"/api/v1/conversations?sender_no=both_sender", 200}, {"/api/v1/conversations?company_no=beta", forbidden}},
		"getConversation":   {{"/api/v1/conversations/" + apptest.Phone, 200}, {"/api/v1/conversations/" + apptest.BetaPhone, absent}, {"/api/v1/conversations/" + apptest.BetaPhone + "?company_no=beta", forbidden}},
		"listBatches":       {{"/api/v1/batches", 200}},
		"getBatch":          {{"/api/v1/batches/" + own["batch"], 200}, {"/api/v1/batches/" + beta["batch"], absent}},
		"listBatchRows":     {{"/api/v1/batches/" + own["batch"] + "/rows", 200}, {"/api/v1/batches/" + beta["batch"] + "/rows", absent}},
		"exportBatchErrors": {{"/api/v1/batches/" + own["batch"] + "/errors.csv", 200}, {"/api/v1/batches/" + beta["batch"] + "/errors.csv", absent}},
		"previewBatch":      {{"/api/v1/batches/" + own["batch"] + "/preview", 200}, {"/api/v1/batches/" + beta["batch"] + "/preview", absent}},
		"listNotifications": {{"/api/v1/notifications", 200}},
		"getNotification":   {{"/api/v1/notifications/" + own["notification"], 200}, {"/api/v1/notifications/" + beta["notification"], absent}},
		"listOnce":          {{"/api/v1/subscribe-messages", 200}},
		"onceStatistics":    {{"/api/v1/subscribe-messages/statistics", 200}},
		"listTemplates":     {{"/api/v1/admin/template", 200}, {"/api/v1/admin/template?company_no=beta", forbidden}},
		"getTemplate":       {{template("active", "acme", "beta"), 200}, {template("draft", "acme"), absent}, {template("active", "beta"), absent}},
		"pullEvents":        {{"/api/v1/events", 200}, {"/api/v1/events?company_no=acme", 200}, {"/api/v1/events?company_no=beta", forbidden}},
		// All companies share the templates of the platform.
		"listNotificationTemplates": {{"/api/v1/admin/notification-templates", 200}, {"/api/v1/admin/notification-templates?company_no=beta", forbidden}},
	}
}

// readsOfContacts returns reads of contacts, tags, imports and erasures of the two companies.
func readsOfContacts(w *apptest.TwoCompanies) map[string][]read {
	own, beta := w.IDs, w.BetaIDs
	erasure := func(headers []string) string {
		return fmt.Sprint("/api/v1/contacts/erasures/", apptest.Decode[api.Erasure](w.T, w.Expect(200, "", "POST", "/api/v1/contacts/erasures", `{"user_id":"gone"}`, headers...)).ErasureID)
	}
	ownErasure, betaErasure := erasure(w.Acme), erasure(w.Beta)
	return map[string][]read{
		"listContacts":              {{"/api/v1/admin/contacts", 200}, {"/api/v1/admin/contacts?company_no=acme", 200}, {"/api/v1/admin/contacts?company_no=beta", forbidden}},
		"getContact":                {{"/api/v1/admin/contacts/of-acme", 200}, {"/api/v1/admin/contacts/of-beta", absent}, {"/api/v1/admin/contacts/of-beta?company_no=beta", forbidden}},
		"selectContacts":            {{"/api/v1/contacts?tag=vip", 200}, {"/api/v1/contacts", 200}, {"/api/v1/contacts?tag=tag-of-beta", absent}, {"/api/v1/contacts?company_no=beta", forbidden}},
		"countContacts":             {{"/api/v1/contacts/count?tag=vip", 200}, {"/api/v1/contacts/count?not_tag=tag-of-beta", absent}, {"/api/v1/contacts/count?company_no=beta", forbidden}},
		"listTags":                  {{"/api/v1/tags", 200}, {"/api/v1/tags?user_id=of-beta", absent}, {"/api/v1/tags?company_no=beta", forbidden}},
		"listTagContacts":           {{"/api/v1/tags/vip/contacts", 200}, {"/api/v1/tags/tag-of-beta/contacts", absent}, {"/api/v1/tags/tag-of-beta/contacts?company_no=beta", forbidden}},
		"exportContacts":            {{"/api/v1/contacts/export.csv", 200}, {"/api/v1/contacts/export.csv?tag=vip", 200}, {"/api/v1/contacts/export.csv?tag=tag-of-beta", absent}, {"/api/v1/contacts/export.csv?company_no=beta", forbidden}},
		"listContactImports":        {{"/api/v1/contacts/imports", 200}, {"/api/v1/contacts/imports?company_no=beta", forbidden}},
		"getContactImport":          {{"/api/v1/contacts/imports/" + own["import"], 200}, {"/api/v1/contacts/imports/" + beta["import"], absent}, {"/api/v1/contacts/imports/" + beta["import"] + "?company_no=beta", forbidden}},
		"exportContactImportErrors": {{"/api/v1/contacts/imports/" + own["import"] + "/errors.csv", 200}, {"/api/v1/contacts/imports/" + beta["import"] + "/errors.csv", absent}},
		"listErasures":              {{"/api/v1/contacts/erasures", 200}, {"/api/v1/contacts/erasures?company_no=beta", forbidden}},
		"getErasure":                {{ownErasure, 200}, {betaErasure, absent}, {betaErasure + "?company_no=beta", forbidden}},
	}
}

// readsOfSenders returns reads of companies, senders, routes, channels and statistics.
func readsOfSenders(w *apptest.TwoCompanies) map[string][]read {
	own, beta := w.IDs, w.BetaIDs
	statisticsOf := "/api/v1/admin/statistics?step=hour&from=" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + "&by="
	return map[string][]read{
		"taskStatistics": {{"/api/v1/admin/task-statistics", 200}},
		"readStatistics": {
			{statisticsOf + "company", 200}, {statisticsOf + "sender", 200}, {statisticsOf + "company&key=acme", 200}, {statisticsOf + "company&company_no=acme", 200},
			{statisticsOf + "channel&company_no=beta", forbidden}, {statisticsOf + "company&key=beta", forbidden}, {statisticsOf + "company&company_no=none", forbidden},
		},
		"taskStatusInfo":    {{"/api/v1/admin/task-status-info", 200}},
		"listCompanies":     {{"/api/v1/admin/companies", 200}},
		"getCompany":        {{"/api/v1/admin/companies/acme", 200}, {"/api/v1/admin/companies/beta", absent}, {"/api/v1/admin/companies/default", absent}},
		"listChannels":      {{"/api/v1/admin/channels", 200}},
		"getChannel":        {{"/api/v1/admin/channels/sms", 200}},
		"listCountries":     {{"/api/v1/admin/countries", 200}},
		"getCountry":        {{"/api/v1/admin/countries/XX", absent}},
		"listSenders":       {{"/api/v1/admin/senders", 200}},
		"getSender":         {{"/api/v1/admin/senders/acme_sender", 200}, {"/api/v1/admin/senders/both_sender", 200}, {"/api/v1/admin/senders/beta_sender", absent}, {"/api/v1/admin/senders/nobody_sender", absent}},
		"listLedger":        {{"/api/v1/admin/senders/both_sender/ledger", 200}, {"/api/v1/admin/senders/beta_sender/ledger", absent}},
		"listRoutes":        {{"/api/v1/admin/routes", 200}, {"/api/v1/admin/routes?company_no=acme", 200}, {"/api/v1/admin/routes?company_no=beta", forbidden}, {"/api/v1/admin/routes?company_no=none", forbidden}, {"/api/v1/admin/routes?sender_no=both_sender", 200}, {"/api/v1/admin/routes?sender_no=beta_sender", absent}},
		"listInbounds":      {{"/api/v1/admin/inbounds", 200}},
		"getInbound":        {{"/api/v1/admin/inbounds/inbound-of-acme", 200}, {"/api/v1/admin/inbounds/inbound-of-beta", absent}},
		"getRoute":          {{"/api/v1/admin/routes/" + own["route"], 200}, {"/api/v1/admin/routes/" + beta["route"], absent}},
		"listDailyTotals":   {{"/api/v1/admin/daily-totals", 200}, {"/api/v1/admin/daily-totals?company_no=beta", forbidden}},
		"exportDailyTotals": {{"/api/v1/admin/daily-totals.csv", 200}, {"/api/v1/admin/daily-totals.csv?company_no=beta", forbidden}},
		"getOverview":       {{"/api/v1/admin/overview", 200}},
		"streamOverview":    {{"/api/v1/admin/stream?seconds=0", 200}},
		"getSession":        {{"/api/v1/session", 200}},
		"health":            {{"/health", 200}},
		"ready":             {{"/ready", 200}},
	}
}

// forbiddenReads are the requests that are forbidden for every reader of one company.
var forbiddenReads = map[string][]read{
	"claimTasks":                      {{"/api/v1/sms/tasks/pending?app_id=a", forbidden}},
	"appClaimTasks":                   {{"/app/api/v1/sms/tasks/pending?app_id=a", forbidden}},
	"appTaskStatistics":               {{"/app/api/v1/admin/task-statistics", forbidden}},
	"listDefaultContents":             {{"/api/v1/admin/default-sms", forbidden}},
	"getDefaultContent":               {{"/api/v1/admin/default-sms/1", forbidden}},
	"listUsers":                       {{"/api/v1/admin/users", forbidden}},
	"getUser":                         {{"/api/v1/admin/users/user-of-acme", forbidden}},
	"listKeys":                        {{"/api/v1/admin/users/user-of-acme/keys", forbidden}},
	"getSettings":                     {{"/api/v1/admin/settings", forbidden}},
	"getSettingsCategory":             {{"/api/v1/admin/settings/sms", forbidden}},
	"listServers":                     {{"/api/v1/admin/servers", forbidden}},
	"listEvents":                      {{"/api/v1/admin/events", forbidden}},
	"listAudit":                       {{"/api/v1/admin/audit", forbidden}},
	"listWebhooks":                    {{"/api/v1/webhooks", forbidden}},
	"getWebhook":                      {{"/api/v1/webhooks/1", forbidden}},
	"listWebhookDeliveries":           {{"/api/v1/webhooks/1/deliveries", forbidden}},
	"listPartitions":                  {{"/api/v1/admin/history", forbidden}},
	"listTaskJobs":                    {{"/api/v1/admin/task-jobs", forbidden}},
	"getTaskJob":                      {{"/api/v1/admin/task-jobs/1", forbidden}},
	"listAlertRules":                  {{"/api/v1/admin/alert-rules", forbidden}},
	"getAlertRule":                    {{"/api/v1/admin/alert-rules/1", forbidden}},
	"listAlertReceivers":              {{"/api/v1/admin/alert-receivers", forbidden}},
	"getAlertReceiver":                {{"/api/v1/admin/alert-receivers/1", forbidden}},
	"listAlerts":                      {{"/api/v1/admin/alerts", forbidden}},
	"listTemplateVersions":            {{"/api/v1/admin/template/1/versions", forbidden}},
	"listCallbacks":                   {{"/api/v1/admin/callbacks", forbidden}},
	"getCallback":                     {{"/api/v1/admin/callbacks/1", forbidden}},
	"listReceipts":                    {{"/api/v1/admin/receipts", forbidden}},
	"listSenderAnswers":               {{"/api/v1/admin/senders/acme_sender/answers", forbidden}},
	"listSenderLinks":                 {{"/api/v1/admin/senders/acme_sender/links", forbidden}},
	"getSenderTrace":                  {{"/api/v1/admin/senders/acme_sender/trace", forbidden}},
	"listSims":                        {{"/api/v1/admin/senders/acme_sender/sims", forbidden}},
	"listReconciliations":             {{"/api/v1/admin/reconciliations", forbidden}},
	"getReconciliation":               {{"/api/v1/admin/reconciliations/1", forbidden}},
	"listReconciliationDifferences":   {{"/api/v1/admin/reconciliations/1/differences", forbidden}},
	"exportReconciliationDifferences": {{"/api/v1/admin/reconciliations/1/differences.csv", forbidden}},
}

// checkEachReadIsListed fails the test if reads lacks a GET operation of the contract.
func checkEachReadIsListed(w *apptest.TwoCompanies, reads map[string][]read) {
	w.T.Helper()
	var contract struct {
		Paths map[string]struct{ Get *struct{ OperationID string } }
	}
	if err := json.Unmarshal([]byte(w.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil {
		w.T.Fatal(err)
	}
	for path, methods := range contract.Paths {
		if methods.Get != nil && reads[methods.Get.OperationID] == nil {
			w.T.Errorf("GET %s (%s) is in the contract and not in this table", path, methods.Get.OperationID)
		}
	}
}

// companyRequired are the operations for which a reader of all companies must name a company.
var companyRequired = []string{
	"getContact", "selectContacts", "countContacts", "listTags", "listTagContacts", "exportContacts", "getContactImport",
	"exportContactImportErrors", "getErasure", "getConversation",
}

// withoutCompany are the operations whose response to a reader of acme need not mention acme.
var withoutCompany = []string{
	"pullEvents", "listErasures", "getErasure", "listDailyTotals", "exportDailyTotals", "countContacts", "exportContactImportErrors",
	"taskStatusInfo", "getTaskTimeline", "getSender", "taskStatistics", "readStatistics", "listChannels", "getChannel", "listCountries",
	"listLedger", "listNotificationTemplates", "health", "ready",
}

// checkRead sends a request as the reader of acme. It fails the test if the status is not the expected status, if the response mentions beta, or if the
// response does not mention acme.
func checkRead(w *apptest.TwoCompanies, id string, r read) {
	w.T.Helper()
	a := w.Call("GET", r.path, nil, w.Reader...)
	if a.Status != r.status {
		w.T.Errorf("%s %s: %d, want %d: %s", id, r.path, a.Status, r.status, a.Raw)
	}
	if a.Status == 200 && (strings.Contains(a.Raw, "beta") || strings.Contains(a.Raw, apptest.BetaPhone)) {
		w.T.Errorf("%s %s shows something of beta: %s", id, r.path, a.Raw)
	}
	isEmptied := strings.Contains(r.path, "source=beta") || strings.Contains(r.path, apptest.BetaPhone)
	if id == "listNotifications" { // this list contains ids as the only data of a company
		if !strings.Contains(a.Raw, `"notification_id":`+w.IDs["notification"]+",") || strings.Contains(a.Raw, `"notification_id":`+w.BetaIDs["notification"]+",") {
			w.T.Errorf("a reader sees %s", a.Raw)
		}
	} else if a.Status == 200 && !slices.Contains(withoutCompany, id) && !isEmptied && !strings.Contains(a.Raw, "acme") {
		w.T.Errorf("%s %s shows nothing of acme: %s", id, r.path, a.Raw)
	}
	if r.status == absent && id != "getCountry" { // a reader of all companies sees the resource
		if a := w.Call("GET", r.path, nil, w.All...); a.Status != 200 && !slices.Contains(companyRequired, id) {
			w.T.Errorf("%s %s: a reader of all gets %d", id, r.path, a.Status)
		}
	}
}

func TestAnAdminListsTheTasksOfOneCompany(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	const path = "/api/v1/sms/tasks?company_no="
	list := func(query string, headers ...string) (ids []string) {
		for _, task := range apptest.Decode[api.TaskPage](t, w.Expect(200, "", "GET", path+query, nil, headers...)).Items {
			ids = append(ids, task.TaskID)
		}
		return ids
	}
	own := w.IDs["task"]
	if all := list("acme"); !slices.Contains(all, own) {
		t.Errorf("%v is without %s", all, own)
	}
	if of := list("beta", w.All...); len(of) == 0 || slices.Contains(of, own) {
		t.Errorf("of beta: %v, with %s?", of, own)
	}
	if none := list("beta&phone_number=" + apptest.Phone); len(none) > 0 {
		t.Errorf("to a recipient of acme, from beta: %v", none)
	}
	w.Expect(404, "company.not_found", "GET", path+"nobody", nil)
}

// Each company has separate counts. The counts stay exact while tasks change and facts are counted, and add up to the counts of all companies.
func TestStatisticsOfACompanyCountOnlyItsTasks(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	counts := func(headers []string) api.Statistics {
		return apptest.Decode[api.Statistics](t, w.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil, headers...))
	}
	other := w.AddUser("reader-of-beta", "read", map[string]any{"company_no": "beta"})
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.IDs["task"]+"/cancel", nil, w.Acme...)
	w.Submit("of the default company")
	check := func() {
		t.Helper()
		want := map[string]api.Statistics{
			"acme": {PendingNewTasks: 1, ProcessingTasks: 1, FailedTasks: 1}, "beta": {PendingNewTasks: 2, ProcessingTasks: 1, FailedTasks: 1},
			"all": {PendingNewTasks: 4, ProcessingTasks: 2, FailedTasks: 2},
		}
		for name, headers := range map[string][]string{"acme": w.Reader, "beta": other, "all": w.All} {
			if got := counts(headers); got != want[name] {
				t.Errorf("%s: %+v, want %+v", name, got, want[name])
			}
		}
	}
	check()
	fold := func() int {
		t.Helper()
		n, err := w.App.History.Fold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	fold()
	check()
	if n := w.Count("SELECT count(*) FROM task_counts"); n != 3 {
		t.Errorf("%d rows of counts for three companies", n)
	}
	if n := fold(); n != 0 {
		t.Errorf("%d rows were folded again", n)
	}
	check()
}

// A reader without a company sees all companies. After a company is set, the reader at once sees only this company.
func TestAReaderWithoutACompanySeesAllCompanies(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	seen := func(headers []string) int {
		return len(apptest.Decode[api.TaskPage](t, w.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=100", nil, headers...)).Items)
	}
	everything, acmes := w.Count("SELECT count(*) FROM tasks"), w.Count("SELECT count(*) FROM tasks t JOIN companies c ON c.id = t.company_id WHERE c.company_no = 'acme'")
	user := func(name string) api.User {
		return apptest.Decode[api.User](t, w.Expect(200, "", "GET", "/api/v1/admin/users/"+name, nil))
	}
	if got := seen(w.All); got != everything || !user("reader").AllCompanies || user("reader").CompanyNo != "default" {
		t.Errorf("the reader of all sees %d of %d tasks, %+v", got, everything, user("reader"))
	}
	if got := seen(w.Reader); got != acmes || user("reader-of-acme").AllCompanies {
		t.Errorf("the reader of acme sees %d of %d tasks", got, acmes)
	}
	// A reader of the default company sees only the tasks of this company.
	if got := seen(w.AddUser("reader-of-default", "read", map[string]any{"company_no": "default"})); got != 0 {
		t.Errorf("the reader of the default company sees %d tasks, want none", got)
	}
	for _, change := range []struct {
		body string
		want int
	}{{`{"company_no":"acme"}`, acmes}, {`{"top_priority":2}`, acmes}, {`{"company_no":null}`, everything}, {`{"company_no":"default"}`, 0}, {`{"company_no":null}`, everything}} {
		w.Expect(200, "", "PATCH", "/api/v1/admin/users/reader", change.body)
		if got := seen(w.All); got != change.want {
			t.Errorf("after %s the reader sees %d tasks, want %d", change.body, got, change.want)
		}
	}
	// A submit user of a company keeps the company when it becomes a reader.
	w.Expect(200, "", "PATCH", "/api/v1/admin/users/user-of-acme", `{"role":"read"}`)
	if got := seen(w.Acme); got != acmes {
		t.Errorf("the former submit user sees %d of %d tasks", got, acmes)
	}
}

// A caller that is bound to a company sees the names of the senders of its routes and of the shared pool, and whether each sender can send the message. Only a
// caller that sees all companies sees costs, weights and the time when a sender is ready.
func TestACompanySeesNoCostsAndWeightsOfSenders(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	w.AddSender(map[string]any{"sender_no": "betas_own", "is_shared": false})
	w.AddRoute("beta", "betas_own", 3)
	w.AddSender(map[string]any{"sender_no": "acmes_own", "is_shared": false, "balance": 3, "low_switch": 3, "segment_size": 1})
	w.AddRoute("acme", "acmes_own", 7)
	w.Exec("UPDATE sender_states SET seen_at = now()")
	w.Exec("UPDATE sender_states st SET next_available_at = now() + interval '1 hour' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'acme_sender'")
	w.Exec("UPDATE senders SET is_shared = false WHERE sender_no IN ('acme_sender', 'beta_sender', 'both_sender')")
	send := func(kind, query, key string, headers []string) string {
		t.Helper()
		return w.Expect(200, "", "POST", "/api/v1/sms/send"+query, map[string]any{
			"phone_number": apptest.Phone, "content": "x", "message_type": kind, "dedup_key": key,
		}, headers...).Raw
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
		{"notification", "acme_sender paused, acmes_own no_funds"},
		{"marketing", "both_sender"},
		{"verification", "nobody_sender"}, // this sender serves the shared pool
	} {
		before := send(c.kind, "?dry_run=true", c.kind, w.Acme)
		id := read(send(c.kind, "", c.kind, w.Acme)).Data.TaskID
		explain := func(headers []string) string {
			return w.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/explain", nil, headers...).Raw
		}
		for way, raw := range map[string]string{
			"dry run": before, "repeated dry run": send(c.kind, "?dry_run=true", c.kind, w.Acme), "explain": explain(w.Acme), "explain to a reader": explain(w.Reader),
		} {
			a, got := read(raw), []string{}
			for _, s := range a.Data.Senders {
				for _, number := range numbers {
					if s[number] != nil {
						t.Errorf("%s of %s shows the %s of %s", way, c.kind, number, s["sender_no"])
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
				t.Errorf("%s of %s: %s, want %s", way, c.kind, raw, c.senders)
			}
		}
		if c.kind != "notification" {
			continue
		}
		for _, headers := range [][]string{nil, w.All} { // an admin, and a reader of all companies
			for _, number := range numbers {
				if raw := explain(headers); !strings.Contains(raw, `"`+number+`"`) {
					t.Errorf("a caller that sees all companies sees no %s: %s", number, raw)
				}
			}
		}
	}
	if a := read(send("verification", "?dry_run=true", "other", nil)); a.Data.Cost == nil {
		t.Errorf("an admin sees no cost: %+v", a)
	}
}
