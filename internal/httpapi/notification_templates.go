package httpapi

import (
	"context"

	"lksms/gen/api"
	"lksms/gen/dbq"
	"lksms/internal/optional"
)

// ListNotificationTemplates shows all templates of notifications.
func (s *Server) ListNotificationTemplates(ctx context.Context, _ api.ListNotificationTemplatesRequestObject) (api.ListNotificationTemplatesResponseObject, error) {
	rows, err := s.notify.Templates(ctx, nil, nil)
	return api.ListNotificationTemplates200JSONResponse{
		Code: ok, Message: success, Data: api.NotificationTemplates{Items: convert(rows, notificationTemplateOf)},
	}, err
}

// PutNotificationTemplate sets a template (S1.7).
func (s *Server) PutNotificationTemplate(ctx context.Context, req api.PutNotificationTemplateRequestObject) (api.PutNotificationTemplateResponseObject, error) {
	row, err := s.notify.PutTemplate(ctx, dbq.NotificationTemplatePutParams{
		BizType: req.BizType, Channel: req.Channel, Title: req.Body.Title, Content: req.Body.Content, Html: req.Body.HTML, ExternalID: optional.Value(req.Body.ExternalID),
		Sign: req.Body.Sign, IsEnabled: optional.Or(req.Body.Enabled, true),
	})
	return api.PutNotificationTemplate200JSONResponse{Code: ok, Message: success, Data: notificationTemplateOf(row)}, err
}

// DeleteNotificationTemplate removes a template.
func (s *Server) DeleteNotificationTemplate(ctx context.Context, req api.DeleteNotificationTemplateRequestObject) (api.DeleteNotificationTemplateResponseObject, error) {
	err := s.notify.DeleteTemplate(ctx, req.BizType, req.Channel)
	return api.DeleteNotificationTemplate200JSONResponse{DoneJSONResponse: done()}, err
}

func notificationTemplateOf(t dbq.NotificationTemplateListRow) api.NotificationTemplate {
	return api.NotificationTemplate{
		BizType: t.BizType, Channel: t.Channel, Title: t.Title, Content: t.Content, HTML: t.Html, ExternalID: t.ExternalID, Sign: t.Sign, Enabled: t.IsEnabled,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}
