package webhook

import "lksms/gen/webhookq"

// Types of rows that other rooms read.
type (
	// Row is a stored webhook.
	Row = webhookq.WebhookListRow
)
