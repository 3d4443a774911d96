package notification

import "lksms/gen/notificationq"

// These are the row types that other packages read.
type (
	// TemplateRow is a stored template of notifications.
	TemplateRow = notificationq.NotificationTemplateListRow
	// TemplateParams is the parameters of a stored template of notifications.
	TemplateParams = notificationq.NotificationTemplatePutParams
	// Row is a stored notification.
	Row = notificationq.NotificationListRow
	// PersonRow is a recipient of a notification, with the state of the messages.
	PersonRow = notificationq.NotificationPeopleRow
	// SubscribeRow is a message that is sent once.
	SubscribeRow = notificationq.SubscribeListRow
	// SubscribeCounts is the numbers of messages that are sent once, by state.
	SubscribeCounts = notificationq.SubscribeStatisticsRow
)
