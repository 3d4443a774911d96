// Package template owns templates and default contents: the texts from which a submission can be rendered.
package template

import (
	"context"
	"fmt"
	"unicode/utf8"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/setting"
)

// Service manages templates and default contents (S0.5, S0.6).
type Service struct {
	db       *postgres.DB
	q        *dbq.Queries
	settings *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	return &Service{db: db, q: dbq.New(db), settings: settings}
}

var (
	errTemplateNotFound = fault.New(fault.NotFound, fault.TemplateNotFound)
	errDefaultNotFound  = fault.New(fault.NotFound, fault.DefaultContentNotFound)
)

// scheduled is the send type of a template whose messages are sent at the next full interval (S3.2).
const scheduled = "scheduled"

// Draft is a template to create. Without Companies, every company can use it.
type Draft = dbq.TemplateCreateParams

// Create adds a template. Fault: request.invalid for an unknown company and for a placeholder with spaces.
func (s *Service) Create(ctx context.Context, d Draft) (row dbq.Template, err error) {
	if d.Companies == nil {
		d.Companies = []string{}
	}
	if err := check(d.TemplateContent); err != nil {
		return row, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if err := s.checkCompanies(ctx, d.Companies); err != nil {
			return err
		}
		row, err = s.q.TemplateCreate(ctx, d)
		return postgres.Wrap("create template", err, nil)
	})
	return row, err
}

// checkCompanies returns request.invalid if one of the companies does not exist.
func (s *Service) checkCompanies(ctx context.Context, companies []string) error {
	if len(companies) == 0 {
		return nil
	}
	unknown, err := s.q.TemplateCompaniesUnknown(ctx, companies)
	if err == nil && len(unknown) > 0 {
		return fault.InvalidField("companies", fault.NotThere, nil)
	}
	return postgres.Wrap("check companies", err, nil)
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

// Patch is a change of a template; a nil field is left unchanged.
type Patch = dbq.TemplateUpdateParams

// Update changes a template, or returns the fault template.not_found.
func (s *Service) Update(ctx context.Context, patch Patch) (dbq.Template, error) {
	if patch.TemplateContent != nil {
		if err := check(*patch.TemplateContent); err != nil {
			return dbq.Template{}, err
		}
	}
	if err := s.checkCompanies(ctx, patch.Companies); err != nil {
		return dbq.Template{}, err
	}
	row, err := s.q.TemplateUpdate(ctx, patch)
	return row, postgres.Wrap("update template", err, errTemplateNotFound)
}

// Delete removes a template, or returns the fault template.not_found.
func (s *Service) Delete(ctx context.Context, id int64) error {
	n, err := s.q.TemplateDelete(ctx, id)
	return postgres.DeletedOne(n, err, "delete template", errTemplateNotFound)
}

// Text is a text to send, and whether it is deferred to the next full interval.
type Text struct {
	Content  string
	Deferred bool
}

// RenderActive renders params with the template of Active. Faults: those of Active and render.
func (s *Service) RenderActive(ctx context.Context, companyID int64, params string) (Text, error) {
	t, err := s.Active(ctx, companyID)
	if err != nil {
		return Text{}, err
	}
	return With(t, params)
}

// With renders params with t.
func With(t dbq.Template, params string) (Text, error) {
	content, err := render(t.TemplateContent, params)
	return Text{content, t.SendType == scheduled}, err
}

// Active returns the active template with the smallest id that a company can use, or the fault template.none_active.
func (s *Service) Active(ctx context.Context, companyID int64) (dbq.Template, error) {
	row, err := s.q.TemplateFirstActive(ctx, companyID)
	return row, postgres.Wrap("find active template", err, fault.New(fault.Conflict, fault.TemplateNoneActive))
}

// CreateDefault stores the default content of a company for a phone number. If the number has one already, in any
// notation, the fault is default_content.exists.
func (s *Service) CreateDefault(ctx context.Context, companyID int64, number, content string, useTemplate bool) (dbq.DefaultContent, error) {
	recipient, err := phone.Normalise("phone_number", number)
	if err == nil {
		err = s.checkDefault(ctx, content, useTemplate)
	}
	if err != nil {
		return dbq.DefaultContent{}, err
	}
	row, err := s.q.DefaultContentCreate(ctx, dbq.DefaultContentCreateParams{
		CompanyID: companyID, PhoneNumber: number, Recipient: recipient, Content: content, UseTemplate: useTemplate,
	})
	if postgres.Violates(err, "default_contents_company_id_recipient_key") {
		return row, fault.New(fault.Conflict, fault.DefaultContentExists)
	}
	return row, postgres.Wrap("create default content", err, nil)
}

// checkDefault returns request.invalid for a default content that no message may have. The limit of its message type holds when it is sent.
func (s *Service) checkDefault(ctx context.Context, content string, useTemplate bool) error {
	values, err := s.settings.Get(ctx)
	if err != nil || useTemplate {
		return err
	}
	if n, most := int64(utf8.RuneCountInString(content)), values.SMS.LongestContent(); n > most {
		return fault.InvalidField("content", fault.TooManyCharacters, fault.Lengths{Has: n, Most: most})
	}
	return nil
}

// GetDefault returns one default content, or the fault default_content.not_found.
func (s *Service) GetDefault(ctx context.Context, id int64) (dbq.DefaultContent, error) {
	row, err := s.q.DefaultContentGet(ctx, id)
	return row, postgres.Wrap("get default content", err, errDefaultNotFound)
}

// ListDefaults returns up to limit default contents with smaller ids than before, newest first. A non-nil companyID
// or number restricts the list.
func (s *Service) ListDefaults(ctx context.Context, companyID *int64, number *string, before int64, limit int) ([]dbq.DefaultContent, error) {
	recipient, err := phone.NormaliseFilter("phone_number", number)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.DefaultContentList(ctx, dbq.DefaultContentListParams{
		BeforeID: before, CompanyID: companyID, Recipient: recipient, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("list default contents", err, nil)
}

// DefaultPatch is a change of a default content; a nil field is left unchanged.
type DefaultPatch = dbq.DefaultContentUpdateParams

// UpdateDefault changes a default content, or returns the fault default_content.not_found.
func (s *Service) UpdateDefault(ctx context.Context, patch DefaultPatch) (row dbq.DefaultContent, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if row, err = s.q.DefaultContentUpdate(ctx, patch); err != nil {
			return postgres.Wrap("update default content", err, errDefaultNotFound)
		}
		if patch.Content == nil && patch.UseTemplate == nil {
			return nil
		}
		return s.checkDefault(ctx, row.Content, row.UseTemplate)
	})
	return row, err
}

// ResetDefault allows a default content to be sent once more, or returns the fault default_content.not_found.
func (s *Service) ResetDefault(ctx context.Context, id int64) (dbq.DefaultContent, error) {
	row, err := s.q.DefaultContentReset(ctx, id)
	return row, postgres.Wrap("reset default content", err, errDefaultNotFound)
}

// DeleteDefault removes a default content, or returns the fault default_content.not_found.
func (s *Service) DeleteDefault(ctx context.Context, id int64) error {
	n, err := s.q.DefaultContentDelete(ctx, id)
	return postgres.DeletedOne(n, err, "delete default content", errDefaultNotFound)
}

// ConsumeDefault returns the default content of a company for recipient, rendered if it asks for a template, and
// marks it as sent (S0.9). The mark is committed with the transaction of ctx; only one transaction can set it.
// Faults: default_content.already_sent, request.invalid, and those of RenderActive.
func (s *Service) ConsumeDefault(ctx context.Context, companyID int64, recipient string) (Text, error) {
	row, err := s.q.DefaultContentConsume(ctx, dbq.DefaultContentConsumeParams{CompanyID: companyID, Recipient: recipient})
	if postgres.IsNoRows(err) {
		exists, err := s.q.DefaultContentExists(ctx, dbq.DefaultContentExistsParams{CompanyID: companyID, Recipient: recipient})
		switch {
		case err != nil:
			return Text{}, fmt.Errorf("find default content: %w", err)
		case exists:
			return Text{}, fault.New(fault.Conflict, fault.DefaultContentSent)
		default:
			return Text{}, fault.InvalidField("content", fault.NoDefaultContent, nil)
		}
	}
	if err != nil {
		return Text{}, fmt.Errorf("consume default content: %w", err)
	}
	if row.UseTemplate {
		return s.RenderActive(ctx, companyID, row.Content)
	}
	return Text{Content: row.Content}, nil
}

// ReturnDefault undoes a ConsumeDefault of the same transaction.
func (s *Service) ReturnDefault(ctx context.Context, companyID int64, recipient string) error {
	err := s.q.DefaultContentReturn(ctx, dbq.DefaultContentReturnParams{CompanyID: companyID, Recipient: recipient})
	return postgres.Wrap("return default content", err, nil)
}
