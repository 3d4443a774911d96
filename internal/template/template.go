// Package template owns the templates and the default contents: the texts that a submission may be made from.
package template

import (
	"context"
	"fmt"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
)

// Service reads and writes templates and default contents (S0.5, S0.6).
type Service struct{ q *dbq.Queries }

// New returns a Service on db.
func New(db *postgres.DB) *Service { return &Service{q: dbq.New(db)} }

var (
	errTemplateNotFound = fault.New(fault.NotFound, fault.TemplateNotFound)
	errDefaultNotFound  = fault.New(fault.NotFound, fault.DefaultContentNotFound)
)

// Create adds a template.
func (s *Service) Create(ctx context.Context, name, content string, active bool) (dbq.Template, error) {
	row, err := s.q.TemplateCreate(ctx, dbq.TemplateCreateParams{
		TemplateName: name, TemplateContent: content, IsActive: active,
	})
	return row, postgres.Wrap("create template", err, nil)
}

// Get returns one template, or the fault template.not_found.
func (s *Service) Get(ctx context.Context, id int64) (dbq.Template, error) {
	row, err := s.q.TemplateGet(ctx, id)
	return row, postgres.Wrap("get template", err, errTemplateNotFound)
}

// List returns up to limit templates with smaller ids than before, newest first.
func (s *Service) List(ctx context.Context, before int64, limit int) ([]dbq.Template, error) {
	rows, err := s.q.TemplateList(ctx, dbq.TemplateListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list templates", err, nil)
}

// Patch says what to change in a template; nil stays as it is.
type Patch = dbq.TemplateUpdateParams

// Update changes a template, or returns the fault template.not_found.
func (s *Service) Update(ctx context.Context, patch Patch) (dbq.Template, error) {
	row, err := s.q.TemplateUpdate(ctx, patch)
	return row, postgres.Wrap("update template", err, errTemplateNotFound)
}

// Delete removes a template, or returns the fault template.not_found.
func (s *Service) Delete(ctx context.Context, id int64) error {
	n, err := s.q.TemplateDelete(ctx, id)
	return deleted("delete template", n, err, errTemplateNotFound)
}

// RenderActive renders params with the first active template by id. Without one it returns the fault
// template.none_active; see Render for the others.
func (s *Service) RenderActive(ctx context.Context, params string) (string, error) {
	text, err := s.Active(ctx)
	if err != nil {
		return "", err
	}
	return Render(text, params)
}

// Active returns the text of the first active template by id, or the fault template.none_active.
func (s *Service) Active(ctx context.Context) (string, error) {
	row, err := s.q.TemplateFirstActive(ctx)
	return row.TemplateContent, postgres.Wrap("find active template", err, fault.New(fault.Conflict, fault.TemplateNoneActive))
}

// CreateDefault stores what to send to a phone number by default. A number that has one already, however it is written,
// gives the fault default_content.exists.
func (s *Service) CreateDefault(ctx context.Context, number, content string, useTemplate bool) (dbq.DefaultContent, error) {
	recipient, err := phone.Normalise("phone_number", number)
	if err != nil {
		return dbq.DefaultContent{}, err
	}
	row, err := s.q.DefaultContentCreate(ctx, dbq.DefaultContentCreateParams{
		PhoneNumber: number, Recipient: recipient, Content: content, UseTemplate: useTemplate,
	})
	if postgres.Violates(err, "default_contents_recipient_key") {
		return row, fault.New(fault.Conflict, fault.DefaultContentExists)
	}
	return row, postgres.Wrap("create default content", err, nil)
}

// GetDefault returns one default content, or the fault default_content.not_found.
func (s *Service) GetDefault(ctx context.Context, id int64) (dbq.DefaultContent, error) {
	row, err := s.q.DefaultContentGet(ctx, id)
	return row, postgres.Wrap("get default content", err, errDefaultNotFound)
}

// ListDefaults returns up to limit default contents with smaller ids than before, newest first; of one number if number
// is not nil.
func (s *Service) ListDefaults(ctx context.Context, number *string, before int64, limit int) ([]dbq.DefaultContent, error) {
	recipient, err := phone.NormaliseFilter("phone_number", number)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.DefaultContentList(ctx, dbq.DefaultContentListParams{
		BeforeID: before, Recipient: recipient, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("list default contents", err, nil)
}

// DefaultPatch says what to change in a default content; nil stays as it is.
type DefaultPatch = dbq.DefaultContentUpdateParams

// UpdateDefault changes a default content, or returns the fault default_content.not_found.
func (s *Service) UpdateDefault(ctx context.Context, patch DefaultPatch) (dbq.DefaultContent, error) {
	row, err := s.q.DefaultContentUpdate(ctx, patch)
	return row, postgres.Wrap("update default content", err, errDefaultNotFound)
}

// ResetDefault lets a default content be sent once more, or returns the fault default_content.not_found.
func (s *Service) ResetDefault(ctx context.Context, id int64) (dbq.DefaultContent, error) {
	row, err := s.q.DefaultContentReset(ctx, id)
	return row, postgres.Wrap("reset default content", err, errDefaultNotFound)
}

// DeleteDefault removes a default content, or returns the fault default_content.not_found.
func (s *Service) DeleteDefault(ctx context.Context, id int64) error {
	n, err := s.q.DefaultContentDelete(ctx, id)
	return deleted("delete default content", n, err, errDefaultNotFound)
}

// ConsumeDefault takes the default content of recipient, rendered if it asks for a template, and marks it as sent
// (S0.9). It is consumed only if the transaction of ctx commits, and by one transaction only.
func (s *Service) ConsumeDefault(ctx context.Context, recipient string) (string, error) {
	row, err := s.q.DefaultContentConsume(ctx, recipient)
	if postgres.IsNoRows(err) {
		exists, err := s.q.DefaultContentExists(ctx, recipient)
		switch {
		case err != nil:
			return "", fmt.Errorf("look for default content: %w", err)
		case exists:
			return "", fault.New(fault.Conflict, fault.DefaultContentSent)
		default:
			return "", fault.InvalidField("content", fault.NoDefaultContent, nil)
		}
	}
	if err != nil {
		return "", fmt.Errorf("consume default content: %w", err)
	}
	if row.UseTemplate {
		return s.RenderActive(ctx, row.Content)
	}
	return row.Content, nil
}

func deleted(act string, n int64, err error, none *fault.Error) error {
	if err == nil && n == 0 {
		return none
	}
	return postgres.Wrap(act, err, nil)
}
