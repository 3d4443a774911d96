package gate

import (
	"iter"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// costlyOperations lists the operations that read or write many rows: those with a cursor, the batches, the forms, and the ones named here. Any
// other request is costly if its body is large, or if it is a dry run, which compares all senders.
func costlyOperations(spec *openapi3.T, batches, forms iter.Seq[string]) map[string]bool {
	costly := map[string]bool{
		"GET /api/v1/sms/task/{task_id}/explain": true, "GET /api/v1/sms/task/{task_id}/timeline": true,
		"GET /api/v1/admin/statistics": true, "GET /api/v1/subscribe-messages/statistics": true, "GET /api/v1/admin/notification-templates": true,
		"PUT /api/v1/admin/contacts":       true,
		"POST /api/v1/tags/{tag}/contacts": true, "GET /api/v1/contacts/count": true,
		"GET /api/v1/contacts/export.csv": true, "GET /api/v1/contacts/imports/{import_id}/errors.csv": true,
		"POST /api/v1/notifications": true, "DELETE /api/v1/notifications": true, "POST /api/v1/notifications/status": true,
	}
	for _, all := range []iter.Seq[string]{batches, forms} {
		for pattern := range all {
			costly[pattern] = true
		}
	}
	for pattern, names := range parametersOf(spec) {
		if slices.Contains(names, "cursor") {
			costly[pattern] = true
		}
	}
	return costly
}
