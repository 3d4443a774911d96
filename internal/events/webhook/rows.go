package webhook

import "lksms/gen/webhookq"

// These are the row types that other packages read.
type (
	// Row is a stored webhook.
	Row = webhookq.WebhookListRow
)
