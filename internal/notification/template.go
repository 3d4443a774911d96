package notification

import (
	"context"

	"lksms/gen/dbq"
	"lksms/internal/directory"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

var errNoTemplate = fault.New(fault.NotFound, fault.TemplateNotFound)

// PutTemplate sets the template of a business type on a channel (S1.7). Faults: channel.not_found, limit.reached,
// request.invalid for HTML on another channel than e-mail.
func (s *Service) PutTemplate(ctx context.Context, p dbq.NotificationTemplatePutParams) (dbq.NotificationTemplateListRow, error) {
	if p.Html != nil && p.Channel != directory.Email {
		return dbq.NotificationTemplateListRow{}, fault.InvalidField("html", fault.NotAllowed, []string{directory.Email})
	}
	if _, err := s.q.NotificationTemplatePut(ctx, p); err != nil {
		return dbq.NotificationTemplateListRow{}, postgres.Wrap("put template", err, fault.New(fault.NotFound, fault.ChannelNotFound))
	}
	rows, err := s.Templates(ctx, &p.BizType, &p.Channel)
	return postgres.One(rows, err, "read template", errNoTemplate)
}

// Templates returns the templates of a business type and of a channel; nil matches all.
func (s *Service) Templates(ctx context.Context, bizType *int16, channel *string) ([]dbq.NotificationTemplateListRow, error) {
	rows, err := s.q.NotificationTemplateList(ctx, dbq.NotificationTemplateListParams{BizType: bizType, Channel: channel})
	return rows, postgres.Wrap("list templates", err, nil)
}

// DeleteTemplate removes a template. Fault: template.not_found.
func (s *Service) DeleteTemplate(ctx context.Context, bizType int16, channel string) error {
	n, err := s.q.NotificationTemplateDelete(ctx, dbq.NotificationTemplateDeleteParams{BizType: bizType, Channel: channel})
	return postgres.DeletedOne(n, err, "delete template", errNoTemplate)
}
