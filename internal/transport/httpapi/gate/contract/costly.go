package contract

import "slices"

// namedCostly lists costly operations that isCostly does not recognise in another way. isCostly also recognises operations with the parameter cursor, with a
// batch, or with a form.
var namedCostly = []string{
	"GET /api/v1/sms/task/{task_id}/explain",
	"GET /api/v1/sms/task/{task_id}/timeline",
	"GET /api/v1/admin/statistics",
	"GET /api/v1/subscribe-messages/statistics",
	"GET /api/v1/admin/notification-templates",
	"PUT /api/v1/admin/contacts",
	"POST /api/v1/tags/{tag}/contacts",
	"GET /api/v1/contacts/count",
	"GET /api/v1/contacts/export.csv",
	"GET /api/v1/contacts/imports/{import_id}/errors.csv",
	"POST /api/v1/notifications",
	"DELETE /api/v1/notifications",
	"POST /api/v1/notifications/status",
}

// isCostly reports whether an operation reads or writes many rows, so that each request needs a slot. A request of another operation is costly if its body is
// large, or if it is a dry run, which compares all senders.
func isCostly(pattern string, o Operation) bool {
	return o.Form != nil || o.Batch != nil || slices.Contains(o.Parameters, "cursor") || slices.Contains(namedCostly, pattern)
}
