package notification

import (
	"context"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// TemplateText returns the text and the signature of the template that a company uses for a business type on a channel. The signature is nil if the template
// has none. Fault: template.not_found.
func (s *Service) TemplateText(ctx context.Context, companyID int64, bizType int16, channel string) (t placeholder.Text, sign *string, err error) {
	row, err := s.q.EffectiveTemplate(ctx, notificationq.EffectiveTemplateParams{CompanyID: companyID, BizType: bizType, Channel: channel})
	if err != nil {
		return t, nil, postgres.Wrap("read template", err, errNoTemplate)
	}
	shared := map[string]any{}
	if s.platformURL != "" {
		shared["platformUrl"] = s.platformURL
	}
	t = placeholder.Text{Title: row.Title, Content: row.Content, TemplateID: row.ExternalID}
	if row.Html != nil {
		t.HTML = *row.Html
	}
	t.Params, err = placeholder.JSON(shared)
	return t, row.Sign, err //nolint:wrapcheck // the error is already wrapped
}

// StoreText stores the text of a batch on a channel, and returns the id of the rendering. If the text has no placeholders for recipients, StoreText stores it
// in its final form.
func (s *Service) StoreText(ctx context.Context, channel string, t placeholder.Text) (int64, error) {
	isTemplate := len(t.Keys()) > 0
	if !isTemplate {
		var err error
		if t, err = t.ForContact([]byte("{}")); err != nil {
			return 0, err
		}
	}
	id, err := s.q.RenderingCreateOfBatch(ctx, notificationq.RenderingCreateOfBatchParams{
		Channel: channel, Title: t.Title, Content: t.Content, Html: t.HTML, TemplateID: t.TemplateID, Params: t.Params, IsTemplate: isTemplate,
	})
	return id, postgres.Wrap("store rendering", err, fault.New(fault.NotFound, fault.ChannelNotFound))
}

// StoredText returns the text of a rendering. isTemplate reports whether the text must be filled for each recipient.
func (s *Service) StoredText(ctx context.Context, renderingID int64) (t placeholder.Text, isTemplate bool, err error) {
	row, err := s.q.RenderingText(ctx, renderingID)
	t = placeholder.Text{Title: row.Title, Content: row.Content, HTML: row.Html, TemplateID: row.TemplateID, Params: row.Params}
	return t, row.IsTemplate, postgres.Wrap("read rendering", err, nil)
}
