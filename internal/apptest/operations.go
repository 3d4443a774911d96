package apptest

import "strings"

// Operation is a sample call of one operation of the contract, and the roles that may call it. The table is written by hand.
type Operation struct {
	Method, Path string
	Body         string // of an operation that takes a form: see Form
	Roles        string // besides admin; "public": everybody; "callback": providers; "password": those who know the password in the body
}

// Media returns the Content-Type of the call.
func (o Operation) Media() string {
	if strings.HasPrefix(o.Body, "--"+formBoundary) {
		return FormType
	}
	return "application/json"
}

// Content returns the body of the call, and its headers in front of others.
func (o Operation) Content(headers ...string) (body any, all []string) {
	if o.Body == "" {
		return nil, headers
	}
	return o.Body, append([]string{"Content-Type", o.Media()}, headers...)
}

// Operations has all operations of the contract, by id.
var Operations = map[string]Operation{
	"sendSms":                    {"POST", "/api/v1/sms/send", `{"phone_number":"13800138000","content":"x"}`, "submit"},
	"getTask":                    {"GET", "/api/v1/sms/task/t", "", "submit read"},
	"cancelTask":                 {"POST", "/api/v1/sms/task/t/cancel", "", "submit"},
	"requeueTask":                {"POST", "/api/v1/sms/task/t/requeue", `{"remark":"r"}`, "submit"},
	"createTaskJob":              {"POST", "/api/v1/admin/task-jobs", `{"action":"cancel","filter":{"source":"nobody"}}`, ""},
	"listTaskJobs":               {"GET", "/api/v1/admin/task-jobs", "", ""},
	"getTaskJob":                 {"GET", "/api/v1/admin/task-jobs/9", "", ""},
	"stopTaskJob":                {"POST", "/api/v1/admin/task-jobs/9/stop", "", ""},
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
	"listAudit":                  {"GET", "/api/v1/admin/audit", "", "read"},
	"listPartitions":             {"GET", "/api/v1/admin/history", "", "read"},
	"readStatistics":             {"GET", "/api/v1/admin/statistics?from=2026-01-01T00:00:00Z&step=day", "", "read"},
	"createAlertRule":            {"POST", "/api/v1/admin/alert-rules", `{"kind":"disk_low","level":"warning","channel":"sms"}`, ""},
	"listAlertRules":             {"GET", "/api/v1/admin/alert-rules", "", "read"},
	"getAlertRule":               {"GET", "/api/v1/admin/alert-rules/999", "", "read"},
	"updateAlertRule":            {"PATCH", "/api/v1/admin/alert-rules/999", `{"enabled":true}`, ""},
	"deleteAlertRule":            {"DELETE", "/api/v1/admin/alert-rules/999", "", ""},
	"createAlertReceiver":        {"POST", "/api/v1/admin/alert-receivers", `{"name":"n","kind":"alertmanager"}`, ""},
	"listAlertReceivers":         {"GET", "/api/v1/admin/alert-receivers", "", "read"},
	"getAlertReceiver":           {"GET", "/api/v1/admin/alert-receivers/999", "", "read"},
	"updateAlertReceiver":        {"PATCH", "/api/v1/admin/alert-receivers/999", `{"name":"n"}`, ""},
	"deleteAlertReceiver":        {"DELETE", "/api/v1/admin/alert-receivers/999", "", ""},
	"listAlerts":                 {"GET", "/api/v1/admin/alerts", "", "read"},
	"acknowledgeAlert":           {"POST", "/api/v1/admin/alerts/999/acknowledge", `{}`, ""},
	"createNotifications":        {"POST", "/api/v1/notifications", `{"biz_type":0,"biz_id":1,"channels":["oa"],"payload":{},"user_ids":["u"]}`, "submit"},
	"listNotifications":          {"GET", "/api/v1/notifications", "", "submit read"},
	"deleteNotifications":        {"DELETE", "/api/v1/notifications?biz_type=0&biz_ids=99", "", "submit"},
	"getNotification":            {"GET", "/api/v1/notifications/99", "", "submit read"},
	"endNotifications":           {"POST", "/api/v1/notifications/status", `{"biz_type":0,"biz_ids":[99],"status":3}`, "submit"},
	"takeEvent":                  {"POST", "/api/v1/notifications/events", `{"event":"task_created","task_id":1,"channels":["oa"]}`, "submit"},
	"sendOnce":                   {"POST", "/api/v1/subscribe-messages", `{"business_type":"b","business_id":1,"template_type":"t","receiver_user_id":"u","template_id":"x","data":{}}`, "submit"},
	"listOnce":                   {"GET", "/api/v1/subscribe-messages", "", "submit read"},
	"onceStatistics":             {"GET", "/api/v1/subscribe-messages/statistics", "", "submit read"},
	"previewList":                {"POST", "/api/v1/lists/preview", Form("file", "list.csv", "a\n1\n"), "submit"},
	"putContacts":                {"PUT", "/api/v1/admin/contacts", `{"contacts":[{"user_id":"u"}]}`, "submit"},
	"listContacts":               {"GET", "/api/v1/admin/contacts", "", "submit read"},
	"getContact":                 {"GET", "/api/v1/admin/contacts/nobody", "", "submit read"},
	"deleteContact":              {"DELETE", "/api/v1/admin/contacts/nobody", "", "submit"},
	"selectContacts":             {"GET", "/api/v1/contacts", "", "submit read"},
	"countContacts":              {"GET", "/api/v1/contacts/count", "", "submit read"},
	"exportContacts":             {"GET", "/api/v1/contacts/export.csv", "", "submit read"},
	"importContacts":             {"POST", "/api/v1/contacts/import", Form("file", "contacts.csv", "user_id,name\nu,n\n"), "submit"},
	"listContactImports":         {"GET", "/api/v1/contacts/imports", "", "submit read"},
	"getContactImport":           {"GET", "/api/v1/contacts/imports/9", "", "submit read"},
	"exportContactImportErrors":  {"GET", "/api/v1/contacts/imports/9/errors.csv", "", "submit read"},
	"listTags":                   {"GET", "/api/v1/tags", "", "submit read"},
	"putTag":                     {"PUT", "/api/v1/tags/nothing", "", "submit"},
	"deleteTag":                  {"DELETE", "/api/v1/tags/nobody", "", "submit"},
	"listTagContacts":            {"GET", "/api/v1/tags/nobody/contacts", "", "submit read"},
	"changeTag":                  {"POST", "/api/v1/tags/nobody/contacts", `{"add":["u"]}`, "submit"},
	"takeCallback":               {"POST", "/api/v1/callbacks/nobody", `{}`, "callback"},
	"listNotificationTemplates":  {"GET", "/api/v1/admin/notification-templates", "", "read"},
	"putNotificationTemplate":    {"PUT", "/api/v1/admin/notification-templates/99/oa", `{"title":"t","content":"c"}`, ""},
	"deleteNotificationTemplate": {"DELETE", "/api/v1/admin/notification-templates/98/oa", "", ""},
	"explainTask":                {"GET", "/api/v1/sms/task/task_x/explain", "", "submit read"},
	"recoverTasks":               {"POST", "/api/v1/admin/recover-zombie-tasks", "", ""},
	"taskStatistics":             {"GET", "/api/v1/admin/task-statistics", "", "read"},
	"taskStatusInfo":             {"GET", "/api/v1/admin/task-status-info", "", "submit send read"},
	"createSession":              {"POST", "/api/v1/session", `{"username":"role-read","password":"wrong"}`, "password"},
	"getSession":                 {"GET", "/api/v1/session", "", "submit send read"},
	"deleteSession":              {"DELETE", "/api/v1/session", "", "submit send read"},
	"getOverview":                {"GET", "/api/v1/admin/overview", "", "submit read"},
	"streamOverview":             {"GET", "/api/v1/admin/stream?seconds=0", "", "submit read"},
	"health":                     {"GET", "/health", "", "public"},
	"ready":                      {"GET", "/ready", "", "public"},
}
