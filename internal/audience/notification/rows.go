package notification

import "lksms/gen/notificationq"

// These are the row types that other packages read.
type (
	// TemplateRow is a stored template of notifications.
	TemplateRow = notificationq.NotificationTemplateListRow
	// TemplateParams contains the parameters of a stored template of notifications.
	TemplateParams = notificationq.NotificationTemplatePutParams
	// Row is a stored notification.
	Row = notificationq.NotificationListRow
	// PersonRow is a recipient of a notification, with the state of the recipient's messages.
	PersonRow = notificationq.NotificationPeopleRow
	// SubscribeRow is a stored send-once message.
	SubscribeRow = notificationq.SubscribeListRow
	// SubscribeCounts contains the numbers of send-once messages by state.
	SubscribeCounts = notificationq.SubscribeStatisticsRow
)
