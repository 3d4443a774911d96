package template

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"lksms/gen/templateq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Template is a stored template for rendering messages. It does not change when the stored template changes later.
type Template struct {
	ID       int64
	No       string
	Version  int64
	Sign     string // signature of messages without their own signature; empty: the signature of the sender
	Deferred bool   // the messages are sent at the next full interval (S3.2)

	language     string // language of text; empty: unknown
	text         Text
	translations map[string]string // by language
}

// Of returns a stored template for rendering.
func Of(row Row) (Template, error) {
	t := Template{
		ID: row.ID, No: row.TemplateNo, Version: row.Version, Sign: optional.Value(row.Sign), Deferred: row.SendType == scheduled,
		language: optional.Value(row.Language), text: parse(row.TemplateContent),
	}
	if err := json.Unmarshal(row.Translations, &t.translations); err != nil {
		return t, fmt.Errorf("read translations of template %d: %w", row.ID, err)
	}
	return t, nil
}

// Names returns the names of the placeholders in the order in which they first appear in the original text, not in a translation.
func (t Template) Names() []string { return t.text.Names() }

// In returns the text in a language, and the language of this text. For de-AT, it first tries the text in de-AT, then the text in de, and then the original
// text. The language of the original text can be unknown (empty).
func (t Template) In(language string) (Text, string) {
	for language != "" && language != t.language {
		if translation, ok := t.translations[language]; ok {
			return parse(translation), language
		}
		language = language[:max(0, strings.LastIndexByte(language, '-'))]
	}
	return t.text, t.language
}

// Rendered is a rendered text.
type Rendered struct {
	Content  string
	Sign     string  // signature of the template; empty: no signature
	Deferred bool    // the message is sent at the next full interval
	Source   *Source // the template of the text; nil: no template
}

// Source identifies the template, version and language from which a message was rendered.
type Source struct {
	ID         int64  `json:"id"`
	TemplateNo string `json:"template_no"`
	Version    int64  `json:"version"`
	Language   string `json:"language,omitempty"`
}

// Source returns the source of messages that are rendered from the text in a language.
func (t Template) Source(language string) *Source {
	return &Source{ID: t.ID, TemplateNo: t.No, Version: t.Version, Language: language}
}

// AddTo adds the source to a submission, a JSON object, as the member template. The log of submissions stores this object. No request contains a member with
// this name. A nil Source adds nothing.
func (s *Source) AddTo(submission []byte) ([]byte, error) {
	if s == nil {
		return submission, nil
	}
	source, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write source of message: %w", err)
	}
	open, isObject := bytes.CutSuffix(bytes.TrimSpace(submission), []byte("}"))
	if !isObject {
		return submission, nil
	}
	open = bytes.TrimRight(open, " \t\r\n")
	added := append(make([]byte, 0, len(open)+len(source)+len(`,"template":}`)), open...)
	if !bytes.HasSuffix(open, []byte("{")) {
		added = append(added, ',')
	}
	return append(append(append(added, `"template":`...), source...), '}'), nil
}

// Render renders a message in a language; an empty language means the original text. params must contain exactly one value for each placeholder. Faults: those
// of params, and those of Text.Render.
func (t Template) Render(params Params, language string) (Rendered, error) {
	values, err := params.valuesOf(t.Names())
	if err != nil {
		return Rendered{}, err
	}
	text, language := t.In(language)
	return t.rendered(text, language, values)
}

// renderForm renders the original text with form-encoded params (S0.8), which can contain additional values.
func (t Template) renderForm(form string) (Rendered, error) {
	values, err := parseForm(form)
	if err != nil {
		return Rendered{}, err
	}
	return t.rendered(t.text, t.language, values)
}

func (t Template) rendered(text Text, language string, values map[string]string) (Rendered, error) {
	content, err := text.Render(func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	})
	return Rendered{Content: content, Sign: t.Sign, Deferred: t.Deferred, Source: t.Source(language)}, err
}

// Find returns the template with a number that a company can use. Faults: request.invalid for the field template_no if no such template exists, or if it
// belongs only to other companies; template.not_active.
func (s *Service) Find(ctx context.Context, companyID int64, templateNo string) (Template, error) {
	row, err := s.q.TemplateFind(ctx, templateq.TemplateFindParams{CompanyID: companyID, TemplateNo: templateNo})
	switch {
	case err != nil:
		return Template{}, postgres.Wrap("find template", err, fault.InvalidField("template_no", fault.NotThere, nil))
	case row.Status != Active:
		return Template{}, fault.New(fault.Conflict, fault.TemplateNotActive)
	}
	return Of(row)
}

// FirstActive returns the active template with the smallest id that a company can use, or the fault template.none_active.
func (s *Service) FirstActive(ctx context.Context, companyID int64) (Template, error) {
	row, err := s.q.TemplateFirstActive(ctx, companyID)
	if err != nil {
		return Template{}, postgres.Wrap("find active template", err, fault.New(fault.Conflict, fault.TemplateNoneActive))
	}
	return Of(row)
}

// Choice contains the template that a submission chooses, and the values for it.
type Choice struct {
	TemplateNo string          // empty: the first active template
	Params     json.RawMessage // values in their original form, for a template with a number
	Language   string          // for a template with a number; empty: the language of the original text
	Form       string          // form-encoded values, for the first active template
}

// Finder renders the messages of one request for a company. It reads each template once. A Finder must not be used by several goroutines at once.
type Finder struct {
	service   *Service
	companyID int64
	found     map[string]found // by number; an empty number means the first active template
}

type found struct {
	template Template
	err      error
}

// Finder returns a Finder for a company.
func (s *Service) Finder(companyID int64) *Finder {
	return &Finder{service: s, companyID: companyID, found: map[string]found{}}
}

// Render renders a message. Faults: those of Find, FirstActive, ParseParams and Template.Render.
func (f *Finder) Render(ctx context.Context, c Choice) (Rendered, error) {
	of, known := f.found[c.TemplateNo]
	if !known {
		if c.TemplateNo == "" {
			of.template, of.err = f.service.FirstActive(ctx, f.companyID)
		} else {
			of.template, of.err = f.service.Find(ctx, f.companyID, c.TemplateNo)
		}
		f.found[c.TemplateNo] = of
	}
	if of.err != nil {
		return Rendered{}, of.err
	}
	if c.TemplateNo == "" {
		return of.template.renderForm(c.Form)
	}
	params, err := ParseParams(c.Params)
	if err != nil {
		return Rendered{}, err
	}
	return of.template.Render(params, c.Language)
}
