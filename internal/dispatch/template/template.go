// Package template owns templates and default contents: the texts from which a submission can be rendered.
package template

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"lksms/gen/templateq"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// Service manages templates and default contents (S0.5, S0.6, S3.10).
type Service struct {
	db       *postgres.DB
	q        *templateq.Queries
	settings *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, settings *setting.Service) *Service {
	return &Service{db: db, q: templateq.New(db), settings: settings}
}

var (
	errTemplateNotFound = fault.New(fault.NotFound, fault.TemplateNotFound)
	errDefaultNotFound  = fault.New(fault.NotFound, fault.DefaultContentNotFound)
)

// scheduled is the send type of a template whose messages are sent at the next full interval (S3.2).
const scheduled = "scheduled"

// These are the states of a template (S3.10). Only active templates can be used for messages.
const (
	Draft    = "draft"
	InReview = "in_review"
	Active   = "active"
	Disabled = "disabled"
	Voided   = "voided"
)

// next contains the states that can follow each state. Voided is final.
var next = map[string][]string{
	Draft:    {InReview, Voided},
	InReview: {Draft, Active, Voided},
	Active:   {Disabled, Voided},
	Disabled: {Active, Draft, Voided},
	Voided:   {},
}

// before returns the states from which a template can change to status, including status itself.
func before(status string) []string {
	var from []string
	for state, allowed := range next {
		if state != Voided && (state == status || slices.Contains(allowed, status)) {
			from = append(from, state)
		}
	}
	return from
}

// Settings contains the settings of a template that an administrator sets.
type Settings struct {
	Name, Content, Scene, Purpose string
	Language                      *string           // language of Content; nil: unknown
	Translations                  map[string]string // by language
	Sign                          *string           // nil: the signature of the sender
	Status                        string
	SendType                      string
	Companies                     []string // numbers of the companies that can use the template; empty: all companies
}

// Enable enables or disables a template as the contract documents is_active. Disabling a template that is not active does not change its state.
func (t *Settings) Enable(isActive bool) {
	switch {
	case isActive:
		t.Status = Active
	case t.Status == Active:
		t.Status = Disabled
	}
}

// givenNo matches numbers that are derived from ids. No administrator can choose such a number.
var givenNo = regexp.MustCompile(`^template-[0-9]+$`)

// Create adds a template. If no is nil, the number is derived from the id. Faults: exists if the number is in use, limit.reached, and request.invalid for an
// unknown company, a reserved number and invalid texts.
func (s *Service) Create(ctx context.Context, no *string, t Settings) (row Row, err error) {
	if no != nil && givenNo.MatchString(*no) {
		return row, fault.InvalidField("template_no", fault.Reserved, nil)
	}
	if err := checkTexts(Settings{}, t); err != nil {
		return row, err
	}
	translations, err := encoded(t.Translations)
	if err != nil {
		return row, err
	}
	if t.Companies == nil {
		t.Companies = []string{}
	}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if err := s.checkCompanies(ctx, t.Companies); err != nil {
			return err
		}
		row, err = s.q.TemplateCreate(ctx, templateq.TemplateCreateParams{
			GivenNo: no, TemplateName: t.Name, TemplateContent: t.Content, Scene: t.Scene, Purpose: t.Purpose, Language: t.Language,
			Translations: translations, Sign: t.Sign, Status: t.Status, SendType: t.SendType, Companies: t.Companies,
		})
		if postgres.Violates(err, "templates_template_no_key") {
			return fault.New(fault.Conflict, fault.Exists)
		}
		if err != nil {
			return postgres.Wrap("create template", err, nil)
		}
		return postgres.Wrap("store version of template", s.q.TemplateVersionKeep(ctx, row.ID), nil)
	})
	return row, err
}

// checkTexts checks the changed texts of a template. Unchanged texts that were stored before a check existed are not checked.
func checkTexts(was, t Settings) error {
	hasOtherContent := t.Content != was.Content
	if hasOtherContent {
		if _, err := Parse("template_content", t.Content); err != nil {
			return err
		}
	}
	if !hasOtherContent && maps.Equal(t.Translations, was.Translations) && optional.Value(t.Language) == optional.Value(was.Language) {
		return nil
	}
	own := parse(t.Content).Names()
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	for _, language := range slices.Sorted(maps.Keys(t.Translations)) {
		field := fault.Field{Name: "translations." + language}
		text, err := Parse(field.Name, t.Translations[language])
		if err != nil {
			return err
		}
		names := text.Names()
		isOwn := func(name string) bool { return slices.Contains(own, name) }
		isTranslated := func(name string) bool { return slices.Contains(names, name) }
		others := append(slices.DeleteFunc(slices.Clone(own), isTranslated), slices.DeleteFunc(slices.Clone(names), isOwn)...)
		switch {
		case !languageTag.MatchString(language):
			field.Rule = fault.WrongFormat
		case language == optional.Value(t.Language):
			field.Rule = fault.Duplicate
		case len(others) > 0:
			field.Rule, field.Limit = fault.OtherPlaceholders, joined(others)
		default:
			continue
		}
		all.Fields = append(all.Fields, field)
	}
	if len(all.Fields) > 0 {
		return all
	}
	return nil
}

// languageTag matches the languages that the contract allows.
var languageTag = regexp.MustCompile(`^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$`)

// encoded returns translations in their stored form: an object, even without translations.
func encoded(translations map[string]string) ([]byte, error) {
	if len(translations) == 0 {
		return []byte("{}"), nil
	}
	object, err := json.Marshal(translations)
	if err != nil {
		return nil, fmt.Errorf("write translations: %w", err)
	}
	return object, nil
}

// checkCompanies returns the fault request.invalid if one of the companies does not exist.
func (s *Service) checkCompanies(ctx context.Context, companies []string) error {
	if len(companies) == 0 {
		return nil
	}
	known, err := s.q.TemplateCompanies(ctx, companies)
	if err != nil {
		return postgres.Wrap("check companies", err, nil)
	}
	var wrong fault.Fields
	fault.InvalidItems(&wrong, "companies", companies, fault.NotThere, nil, func(no string) bool { return !slices.Contains(known, no) })
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// Get returns one template, or the fault template.not_found.
func (s *Service) Get(ctx context.Context, id int64) (Row, error) {
	row, err := s.q.TemplateGet(ctx, id)
	return row, postgres.Wrap("get template", err, errTemplateNotFound)
}

// Filter selects templates for a list: up to Limit templates with smaller ids than BeforeID. A nil field matches all.
type Filter struct {
	TemplateNo, Scene, Status *string
	CompanyNo                 *string // a company that can use the templates
	OnlyActive                bool
	BeforeID                  int64
	Limit                     int
}

// List returns templates, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Row, error) {
	rows, err := s.q.TemplateList(ctx, templateq.TemplateListParams{
		BeforeID: f.BeforeID, TemplateNo: f.TemplateNo, Scene: f.Scene, Status: f.Status, CompanyNo: f.CompanyNo, OnlyActive: f.OnlyActive,
		PageLimit: int32(f.Limit),
	})
	return rows, postgres.Wrap("list templates", err, nil)
}

// Versions returns up to limit versions of a template with smaller numbers than `before`, newest first, or the fault template.not_found.
func (s *Service) Versions(ctx context.Context, id int64, before int64, limit int) ([]VersionRow, error) {
	rows, err := s.q.TemplateVersionList(ctx, templateq.TemplateVersionListParams{TemplateID: id, BeforeVersion: before, PageLimit: int32(limit)})
	if err == nil && len(rows) == 0 {
		if _, err := s.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	return rows, postgres.Wrap("list versions of template", err, nil)
}

// Update applies change to a template. version is the version of the texts that the caller read; nil: any version. Faults: template.not_found, version.stale,
// template.voided, template.wrong_status, template.in_review, limit.reached, and those of Create for the changed fields.
func (s *Service) Update(ctx context.Context, id int64, version *int64, change func(*Settings)) (row Row, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		was, err := s.q.TemplateLock(ctx, id)
		if err != nil {
			return postgres.Wrap("lock template", err, errTemplateNotFound)
		}
		if version != nil && *version != was.Version {
			return fault.New(fault.Conflict, fault.VersionStale)
		}
		row, err = s.update(ctx, was, change)
		return err
	})
	return row, err
}

func (s *Service) update(ctx context.Context, was Row, change func(*Settings)) (row Row, err error) {
	from := Settings{
		Name: was.TemplateName, Content: was.TemplateContent, Scene: was.Scene, Purpose: was.Purpose, Language: was.Language, Sign: was.Sign,
		Status: was.Status, SendType: was.SendType, Companies: was.Companies,
	}
	if err := json.Unmarshal(was.Translations, &from.Translations); err != nil {
		return row, fmt.Errorf("read translations of template %d: %w", was.ID, err)
	}
	to := from
	change(&to)
	if err := checkTexts(from, to); err != nil {
		return row, err
	}
	if !slices.Equal(from.Companies, to.Companies) {
		if err := s.checkCompanies(ctx, to.Companies); err != nil {
			return row, err
		}
	}
	translations, err := encoded(to.Translations)
	if err != nil {
		return row, err
	}
	row, err = s.q.TemplateUpdate(ctx, templateq.TemplateUpdateParams{
		ID: was.ID, TemplateName: to.Name, TemplateContent: to.Content, Scene: to.Scene, Purpose: to.Purpose, Language: to.Language,
		Translations: translations, Sign: to.Sign, Status: to.Status, SendType: to.SendType, Companies: to.Companies,
		FromStatuses: before(to.Status),
	})
	switch {
	case postgres.IsNoRows(err) && was.Status == Voided:
		return row, fault.New(fault.Conflict, fault.TemplateVoided)
	case postgres.IsNoRows(err):
		return row, &fault.Error{Kind: fault.Conflict, Reason: fault.TemplateWrongStatus, Fields: []fault.Field{
			{Name: "status", Rule: fault.NotAllowed, Limit: next[was.Status]},
		}}
	case err != nil:
		return row, fmt.Errorf("update template: %w", err)
	case row.Version != was.Version && was.Status == InReview && row.Status != Draft:
		return row, fault.New(fault.Conflict, fault.TemplateInReview) // an approved template must equal the reviewed one
	}
	return row, postgres.Wrap("store version of template", s.q.TemplateVersionKeep(ctx, was.ID), nil)
}

// Delete removes a template with its versions, or returns the fault template.not_found.
func (s *Service) Delete(ctx context.Context, id int64) error {
	n, err := s.q.TemplateDelete(ctx, id)
	return postgres.DeletedOne(n, err, "delete template", errTemplateNotFound)
}

// CreateDefault stores the default content of a company for a phone number. If the number already has a default content in any notation, the fault is
// default_content.exists. region applies to a number without a country code.
func (s *Service) CreateDefault(ctx context.Context, companyID int64, region, number, content string, useTemplate bool) (DefaultRow, error) {
	read, err := phone.Read("phone_number", number, region)
	if err == nil {
		err = s.checkDefault(ctx, content, useTemplate)
	}
	if err != nil {
		return DefaultRow{}, err
	}
	row, err := s.q.DefaultContentCreate(ctx, templateq.DefaultContentCreateParams{
		CompanyID: companyID, PhoneNumber: read.Written, Recipient: read.E164, Content: content, UseTemplate: useTemplate,
	})
	if postgres.Violates(err, "default_contents_company_id_recipient_key") {
		return row, fault.New(fault.Conflict, fault.DefaultContentExists)
	}
	return row, postgres.Wrap("create default content", err, nil)
}

// checkDefault returns the fault request.invalid for a default content that is too long for every message type. The limit of the message type is checked when
// the content is sent.
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
func (s *Service) GetDefault(ctx context.Context, id int64) (DefaultRow, error) {
	row, err := s.q.DefaultContentGet(ctx, id)
	return row, postgres.Wrap("get default content", err, errDefaultNotFound)
}

// ListDefaults returns up to limit default contents with smaller ids than `before`, newest first. companyID and number, if not nil, restrict the list.
func (s *Service) ListDefaults(ctx context.Context, companyID *int64, region string, number *string, before int64, limit int) ([]DefaultRow, error) {
	recipient, err := phone.NormaliseFilter("phone_number", number, region)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.DefaultContentList(ctx, templateq.DefaultContentListParams{
		BeforeID: before, CompanyID: companyID, Recipient: recipient, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("list default contents", err, nil)
}

// DefaultPatch is a change of a default content. A nil field is not changed.
type DefaultPatch = templateq.DefaultContentUpdateParams

// UpdateDefault changes a default content, or returns the fault default_content.not_found.
func (s *Service) UpdateDefault(ctx context.Context, patch DefaultPatch) (row DefaultRow, err error) {
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
func (s *Service) ResetDefault(ctx context.Context, id int64) (DefaultRow, error) {
	row, err := s.q.DefaultContentReset(ctx, id)
	return row, postgres.Wrap("reset default content", err, errDefaultNotFound)
}

// DeleteDefault removes a default content, or returns the fault default_content.not_found.
func (s *Service) DeleteDefault(ctx context.Context, id int64) error {
	n, err := s.q.DefaultContentDelete(ctx, id)
	return postgres.DeletedOne(n, err, "delete default content", errDefaultNotFound)
}

// ConsumeDefault returns the default content of a company for recipient, and marks the content as sent (S0.9). If the default content or isForm requires
// this, ConsumeDefault renders the content with a template. The mark is committed with the transaction of ctx. Only one transaction can set the mark. Faults:
// default_content.already_sent, request.invalid, and those of FirstActive.
func (s *Service) ConsumeDefault(ctx context.Context, companyID int64, recipient string, isForm bool) (Rendered, error) {
	row, err := s.q.DefaultContentConsume(ctx, templateq.DefaultContentConsumeParams{CompanyID: companyID, Recipient: recipient})
	return s.renderDefault(ctx, companyID, recipient, isForm, row.Content, row.UseTemplate, err)
}

// PeekDefault returns the same content as ConsumeDefault, but does not mark it as sent.
func (s *Service) PeekDefault(ctx context.Context, companyID int64, recipient string, isForm bool) (Rendered, error) {
	row, err := s.q.DefaultContentPeek(ctx, templateq.DefaultContentPeekParams{CompanyID: companyID, Recipient: recipient})
	return s.renderDefault(ctx, companyID, recipient, isForm, row.Content, row.UseTemplate, err)
}

// renderDefault renders a default content, or returns the reason why the content has no text.
func (s *Service) renderDefault(
	ctx context.Context, companyID int64, recipient string, isForm bool, content string, usesTemplate bool, err error,
) (Rendered, error) {
	if postgres.IsNoRows(err) {
		exists, err := s.q.DefaultContentExists(ctx, templateq.DefaultContentExistsParams{CompanyID: companyID, Recipient: recipient})
		switch {
		case err != nil:
			return Rendered{}, fmt.Errorf("find default content: %w", err)
		case exists:
			return Rendered{}, fault.New(fault.Conflict, fault.DefaultContentSent)
		default:
			return Rendered{}, fault.InvalidField("content", fault.NoDefaultContent, nil)
		}
	}
	if err != nil {
		return Rendered{}, fmt.Errorf("consume default content: %w", err)
	}
	if usesTemplate || isForm {
		return s.Finder(companyID).Render(ctx, Choice{Form: content})
	}
	return Rendered{Content: content}, nil
}

// ReturnDefault undoes a ConsumeDefault of the same transaction.
func (s *Service) ReturnDefault(ctx context.Context, companyID int64, recipient string) error {
	err := s.q.DefaultContentReturn(ctx, templateq.DefaultContentReturnParams{CompanyID: companyID, Recipient: recipient})
	return postgres.Wrap("return default content", err, nil)
}
