package notification

import (
	"context"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

var errNoTemplate = fault.New(fault.NotFound, fault.TemplateNotFound)

// PutTemplate sets the template of a business type on a channel (S1.7). If companyID is nil, it sets the template of the platform, which applies to companies
// without their own template. Faults: channel.not_found, limit.reached; request.invalid for HTML on a channel other than e-mail.
func (s *Service) PutTemplate(ctx context.Context, companyID *int64, p TemplateParams) (TemplateRow, error) {
	if p.Html != nil && p.Channel != directory.Email {
		return TemplateRow{}, fault.InvalidField("html", fault.NotAllowed, []string{directory.Email})
	}
	var err error
	if companyID == nil {
		_, err = s.q.NotificationTemplatePut(ctx, p)
	} else {
		_, err = s.q.CompanyTemplatePut(ctx, notificationq.CompanyTemplatePutParams{
			CompanyID: *companyID, BizType: p.BizType, Channel: p.Channel, Title: p.Title, Content: p.Content, Html: p.Html, ExternalID: p.ExternalID,
			Sign: p.Sign, IsEnabled: p.IsEnabled,
		})
	}
	if err != nil {
		return TemplateRow{}, postgres.Wrap("put template", err, fault.New(fault.NotFound, fault.ChannelNotFound))
	}
	rows, err := s.Templates(ctx, companyID, &p.BizType, &p.Channel)
	return postgres.One(rows, err, "read template", errNoTemplate)
}

// Templates returns the templates of a company, or of the platform if companyID is nil. A nil business type or channel matches all.
func (s *Service) Templates(ctx context.Context, companyID *int64, bizType *int16, channel *string) ([]TemplateRow, error) {
	if companyID != nil {
		own, err := s.q.CompanyTemplateList(ctx, notificationq.CompanyTemplateListParams{CompanyID: *companyID, BizType: bizType, Channel: channel})
		rows := make([]TemplateRow, len(own))
		for i, row := range own {
			rows[i] = TemplateRow(row)
		}
		return rows, postgres.Wrap("list templates of company", err, nil)
	}
	rows, err := s.q.NotificationTemplateList(ctx, notificationq.NotificationTemplateListParams{BizType: bizType, Channel: channel})
	return rows, postgres.Wrap("list templates", err, nil)
}

// DeleteTemplate removes a template of a company, or of the platform. Fault: template.not_found.
func (s *Service) DeleteTemplate(ctx context.Context, companyID *int64, bizType int16, channel string) error {
	if companyID != nil {
		n, err := s.q.CompanyTemplateDelete(ctx, notificationq.CompanyTemplateDeleteParams{CompanyID: *companyID, BizType: bizType, Channel: channel})
		return postgres.DeletedOne(n, err, "delete template of company", errNoTemplate)
	}
	n, err := s.q.NotificationTemplateDelete(ctx, notificationq.NotificationTemplateDeleteParams{BizType: bizType, Channel: channel})
	return postgres.DeletedOne(n, err, "delete template", errNoTemplate)
}
