package alert

import "lksms/gen/alertq"

// These are the row types that other packages read.
type (
	// ReceiverRow is a stored receiver of alerts.
	ReceiverRow = alertq.AlertReceiverListRow
	// RuleRow is a stored rule of alerts.
	RuleRow = alertq.AlertRuleListRow
	// DeliveryRow is a stored delivery of an alert to a receiver.
	DeliveryRow = alertq.AlertDelivery
	// EventRow is a stored operator event.
	EventRow = alertq.Event
)
