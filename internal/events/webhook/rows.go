package webhook

import "lksms/gen/webhookq"

// Rows as the database returns them.
type (
	Row = webhookq.WebhookListRow
)
