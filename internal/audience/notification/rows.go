package notification

import "lksms/gen/notificationq"

// Rows as the database returns them.
type (
	TemplateRow     = notificationq.NotificationTemplateListRow
	TemplateParams  = notificationq.NotificationTemplatePutParams
	Row             = notificationq.NotificationListRow
	PersonRow       = notificationq.NotificationPeopleRow
	SubscribeRow    = notificationq.SubscribeListRow
	SubscribeCounts = notificationq.SubscribeStatisticsRow
)
