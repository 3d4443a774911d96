package alert

import "lksms/gen/alertq"

// Types of rows that other rooms read.
type (
	// ReceiverRow is a stored receiver of alerts.
	ReceiverRow = alertq.AlertReceiverListRow
	// RuleRow is a stored rule of alerts.
	RuleRow = alertq.AlertRuleListRow
	// DeliveryRow is a stored notice of an alert.
	DeliveryRow = alertq.AlertDelivery
	// EventRow is a stored operator event.
	EventRow = alertq.Event
)
