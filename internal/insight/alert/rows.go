package alert

import "lksms/gen/alertq"

// Rows as the database returns them.
type (
	ReceiverRow = alertq.AlertReceiverListRow
	RuleRow     = alertq.AlertRuleListRow
	DeliveryRow = alertq.AlertDelivery
	EventRow    = alertq.Event
)
