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
	if err != nil {
		return nil, err
	}
	return api.ListNotificationTemplates200JSONResponse{
		Code: ok, Message: success, Data: api.NotificationTemplates{Items: convert(rows, notificationTemplateOf)},
	}, nil
}

// PutNotificationTemplate sets a template (S1.7).
func (s *Server) PutNotificationTemplate(ctx context.Context, req api.PutNotificationTemplateRequestObject) (api.PutNotificationTemplateResponseObject, error) {
	row, err := s.notify.PutTemplate(ctx, dbq.NotificationTemplatePutParams{
		BizType: req.BizType, Channel: req.Channel, Title: req.Body.Title, Content: req.Body.Content, ExternalID: optional.Value(req.Body.ExternalID),
		Sign: req.Body.Sign, IsEnabled: optional.Or(req.Body.Enabled, true),
	})
	if err != nil {
		return nil, err
	}
	return api.PutNotificationTemplate200JSONResponse{Code: ok, Message: success, Data: notificationTemplateOf(row)}, nil
}

// DeleteNotificationTemplate removes a template.
func (s *Server) DeleteNotificationTemplate(ctx context.Context, req api.DeleteNotificationTemplateRequestObject) (api.DeleteNotificationTemplateResponseObject, error) {
	if err := s.notify.DeleteTemplate(ctx, req.BizType, req.Channel); err != nil {
		return nil, err
	}
	return api.DeleteNotificationTemplate200JSONResponse{DoneJSONResponse: done()}, nil
}

func notificationTemplateOf(t dbq.NotificationTemplateListRow) api.NotificationTemplate {
	return api.NotificationTemplate{
		BizType: t.BizType, Channel: t.Channel, Title: t.Title, Content: t.Content, ExternalID: t.ExternalID, Sign: t.Sign, Enabled: t.IsEnabled,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}
