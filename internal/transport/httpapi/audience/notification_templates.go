package audience

import (
	"context"

	"lksms/gen/api"
	"lksms/internal/audience/notification"
	"lksms/internal/platform/access"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/convert"
	"lksms/internal/transport/httpapi/gate"
)

// templateCompany returns the company whose templates a request reads or changes. It returns nil for the templates of the platform, which only an admin can
// change.
func (h *Handlers) templateCompany(ctx context.Context, no *string, isChange bool) (*int64, error) {
	if no == nil && (!isChange || gate.Of(ctx).Caller.User.Role == access.RoleAdmin) {
		return nil, nil //nolint:nilnil // the platform
	}
	id, err := h.scope.CompanyID(ctx, no)
	return &id, err
}

// ListNotificationTemplates shows the templates of notifications of the platform, or of a company.
func (h *Handlers) ListNotificationTemplates(ctx context.Context, req api.ListNotificationTemplatesRequestObject) (api.ListNotificationTemplatesResponseObject, error) {
	company, err := h.templateCompany(ctx, req.Params.CompanyNo, false)
	if err != nil {
		return nil, err
	}
	rows, err := h.services.Notifications.Templates(ctx, company, nil, nil)
	return api.ListNotificationTemplates200JSONResponse{
		Code: convert.OK, Message: convert.Success, Data: api.NotificationTemplates{Items: convert.List(rows, notificationTemplateOf)},
	}, err
}

// PutNotificationTemplate creates or replaces a template (S1.7).
func (h *Handlers) PutNotificationTemplate(ctx context.Context, req api.PutNotificationTemplateRequestObject) (api.PutNotificationTemplateResponseObject, error) {
	company, err := h.templateCompany(ctx, req.Params.CompanyNo, true)
	if err != nil {
		return nil, err
	}
	row, err := h.services.Notifications.PutTemplate(ctx, company, notification.TemplateParams{
		BizType: req.BizType, Channel: req.Channel, Title: req.Body.Title, Content: req.Body.Content, Html: req.Body.HTML, ExternalID: optional.Value(req.Body.ExternalID),
		Sign: req.Body.Sign, IsEnabled: optional.Or(req.Body.Enabled, true),
	})
	return api.PutNotificationTemplate200JSONResponse{Code: convert.OK, Message: convert.Success, Data: notificationTemplateOf(row)}, err
}

// DeleteNotificationTemplate removes a template.
func (h *Handlers) DeleteNotificationTemplate(ctx context.Context, req api.DeleteNotificationTemplateRequestObject) (api.DeleteNotificationTemplateResponseObject, error) {
	company, err := h.templateCompany(ctx, req.Params.CompanyNo, true)
	if err != nil {
		return nil, err
	}
	err = h.services.Notifications.DeleteTemplate(ctx, company, req.BizType, req.Channel)
	return api.DeleteNotificationTemplate200JSONResponse{DoneJSONResponse: convert.Done()}, err
}

func notificationTemplateOf(t notification.TemplateRow) api.NotificationTemplate {
	return api.NotificationTemplate{
		BizType: t.BizType, Channel: t.Channel, Title: t.Title, Content: t.Content, HTML: t.Html, ExternalID: t.ExternalID, Sign: t.Sign, Enabled: t.IsEnabled,
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}
