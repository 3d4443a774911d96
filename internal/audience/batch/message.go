package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lksms/gen/batchq"
	"lksms/internal/audience/batch/source"
	"lksms/internal/audience/sheet"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// message creates the messages of rows. A short message is created from text. A message on another channel is created from rendering and the values of the row.
type message struct {
	channel   string
	text      template.Text
	rendering *placeholder.Text // nil: the batch sends short messages
	keys      []string          // placeholders of the rendering; empty: the rendering has no placeholders
}

// message reads the text of a batch.
func (s *Service) message(ctx context.Context, b batchq.Batch) (message, error) {
	if b.RenderingID == nil {
		text, err := template.Parse("content", b.Content)
		return message{channel: b.Channel, text: text}, err //nolint:wrapcheck // the error is a fault
	}
	rendering, isTemplate, err := s.Notifications.StoredText(ctx, *b.RenderingID)
	m := message{channel: b.Channel, rendering: &rendering}
	if isTemplate {
		m.keys = rendering.Keys()
	}
	return m, err
}

// contactPrefix is an optional prefix of the placeholders of a notification template. A placeholder means the same field or attribute with and without the
// prefix.
const contactPrefix = "contact."

// names returns the columns that the text needs.
func (m message) names() []string {
	if m.rendering == nil {
		return m.text.Names()
	}
	names := make([]string, len(m.keys))
	for i, key := range m.keys {
		names[i] = strings.TrimPrefix(key, contactPrefix)
	}
	return names
}

// renderRow returns the text of a row and the values that fill the rendering. It returns the fault of the row if the text cannot be created. Without a
// rendering, values is nil.
func (m message) renderRow(row source.Row) (content string, values []byte, wrong *fault.Error) {
	if row.Extra > 0 {
		return "", nil, fault.InvalidField("row", fault.TooManyCells, nil)
	}
	var lossy string
	value := func(name string) (string, bool) {
		cell, is := row.Value(name)
		if cell.Lossy {
			lossy = name
		}
		value := strings.TrimSpace(cell.Text)
		return value, is && value != ""
	}
	var err error
	if m.rendering == nil {
		content, err = m.text.Render(value)
	} else {
		content, values, err = m.fill(value)
	}
	switch {
	case lossy != "":
		return "", nil, fault.InvalidField(lossy, fault.Shortened, nil)
	case errors.As(err, &wrong):
		return "", nil, wrong
	case err != nil:
		return "", nil, fault.InvalidField("content", fault.BadCharacters, nil)
	}
	return content, values, nil
}

// fill returns the beginning of the text of a row, and the values of the row. value returns the value of a column.
func (m message) fill(value func(name string) (string, bool)) (content string, values []byte, err error) {
	own, missing := map[string]string{}, []string{}
	for i, name := range m.names() {
		text, is := value(name)
		if !is {
			missing = append(missing, name)
		}
		own[m.keys[i]] = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	}
	if len(missing) > 0 {
		return "", nil, fault.InvalidField("content", fault.MissingParameters, strings.Join(missing, ", "))
	}
	if len(m.keys) > 0 {
		if values, err = json.Marshal(own); err != nil {
			return "", nil, fmt.Errorf("write values of row: %w", err)
		}
	}
	filled, err := m.filled(values)
	if err == nil {
		err = filled.Check()
	}
	if err != nil {
		return "", nil, err
	}
	return strings.Clone(submit.StoredBeginning(m.channel, filled.Content)), values, nil
}

// filled returns the rendering, filled with the values of a row.
func (m message) filled(values []byte) (placeholder.Text, error) {
	if len(m.keys) == 0 {
		return *m.rendering, nil
	}
	return m.rendering.ForContact(values) //nolint:wrapcheck // the error is already wrapped
}

// textField is a field of a request that contains or names a text, and the columns that the text needs.
type textField struct {
	name    string
	columns []string
}

// textFields returns the fields of the request from which m was composed.
func (m message) textFields(r Request) []textField {
	switch {
	case r.TemplateNo != "":
		return []textField{{"template_no", m.names()}}
	case r.BizType != nil:
		return []textField{{"biz_type", m.names()}}
	case m.rendering == nil:
		return []textField{{"content", m.names()}}
	}
	columns := func(one placeholder.Text) []string {
		one.Params = m.rendering.Params
		return message{rendering: &one, keys: one.Keys()}.names()
	}
	return []textField{
		{"subject", columns(placeholder.Text{Title: m.rendering.Title})},
		{"content", columns(placeholder.Text{Content: m.rendering.Content})},
		{"html", columns(placeholder.Text{HTML: m.rendering.HTML})},
	}
}

// checkColumns returns a fault that names the fields whose text needs a column that the list lacks.
func checkColumns(fields []textField, rows source.Source) error {
	var wrong []fault.Field
	for _, f := range fields {
		if missing := rows.Missing(f.columns); len(missing) > 0 {
			wrong = append(wrong, fault.Field{Name: f.name, Rule: fault.MissingColumns, Limit: missing})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid, Fields: wrong}
}

// compose adds the text that a request names to the batch to create. Faults: request.invalid, template.not_active.
func (s *Service) compose(ctx context.Context, r Request, p *batchq.BatchCreateParams) (message, error) {
	if r.Channel == directory.SMS {
		return s.composeText(ctx, r, p)
	}
	switch {
	case r.TemplateNo != "":
		return message{}, fault.InvalidField("template_no", fault.NotTogether, "channel")
	case r.Language != "":
		return message{}, fault.InvalidField("language", fault.OnlyTogether, "template_no")
	case r.BizType != nil && r.Content != "":
		return message{}, fault.InvalidField("biz_type", fault.NotTogether, "content")
	case r.BizType != nil && r.Subject != "":
		return message{}, fault.InvalidField("biz_type", fault.NotTogether, "subject")
	case r.BizType != nil && r.HTML != "":
		return message{}, fault.InvalidField("biz_type", fault.NotTogether, "html")
	case r.BizType == nil && r.Channel == directory.WeChat: // WeChat sends only its own templates, which need a business type
		return message{}, fault.InvalidField("biz_type", fault.Required, nil)
	case r.BizType == nil && r.Content == "":
		return message{}, fault.InvalidField("content", fault.Required, nil)
	case r.BizType == nil && r.Subject == "" && r.Channel == directory.Email:
		return message{}, fault.InvalidField("subject", fault.Required, nil)
	case r.HTML != "" && r.Channel != directory.Email:
		return message{}, fault.InvalidField("html", fault.NotAllowed, []string{directory.Email})
	}
	var rendering placeholder.Text
	var err error
	if r.BizType != nil {
		var sign *string
		rendering, sign, err = s.Notifications.TemplateText(ctx, r.Origin.CompanyID, *r.BizType, r.Channel)
		if p.Sign == nil {
			p.Sign = sign
		}
		p.Content, p.Subject, p.BizType = rendering.Content, &rendering.Title, r.BizType
	} else {
		rendering, err = renderingOf(r)
		p.Subject = optional.NonZero(r.Subject)
	}
	return message{channel: r.Channel, rendering: &rendering, keys: rendering.Keys()}, missingRowFault(err, "biz_type")
}

// missingRowFault converts the fault of a missing row into a fault of the request's field that names this row.
func missingRowFault(err error, field string) error {
	var missing *fault.Error
	if errors.As(err, &missing) && missing.Kind == fault.NotFound {
		return fault.InvalidField(field, fault.NotThere, nil)
	}
	return err
}

// renderingOf returns the rendering of the texts in a request. These texts contain column names in braces.
func renderingOf(r Request) (placeholder.Text, error) {
	var texts [3]string
	for i, one := range []struct{ field, text string }{{"subject", r.Subject}, {"content", r.Content}, {"html", r.HTML}} {
		text, err := template.Parse(one.field, one.text)
		if err != nil {
			return placeholder.Text{}, err //nolint:wrapcheck // the error is a fault
		}
		texts[i] = text.Rewrite(placeholder.Literal, placeholder.Placeholder)
	}
	return placeholder.NewText(texts[0], texts[1], texts[2]), nil
}

// composeText works like compose, but only for short messages.
func (s *Service) composeText(ctx context.Context, r Request, p *batchq.BatchCreateParams) (message, error) {
	switch {
	case r.Subject != "":
		return message{}, fault.InvalidField("subject", fault.NotTogether, "channel="+directory.SMS)
	case r.HTML != "":
		return message{}, fault.InvalidField("html", fault.NotTogether, "channel="+directory.SMS)
	case r.BizType != nil:
		return message{}, fault.InvalidField("biz_type", fault.NotTogether, "channel="+directory.SMS)
	case r.TemplateNo != "" && r.Content != "":
		return message{}, fault.InvalidField("content", fault.NotTogether, "template_no")
	case r.TemplateNo == "" && r.Content == "":
		return message{}, fault.InvalidField("content", fault.Required, nil)
	case r.TemplateNo == "" && r.Language != "":
		return message{}, fault.InvalidField("language", fault.OnlyTogether, "template_no")
	case len([]rune(r.Content)) > maxContent:
		return message{}, fault.InvalidField("content", fault.TooLong, maxContent)
	}
	if r.TemplateNo != "" {
		t, err := s.Templates.Find(ctx, r.Origin.CompanyID, r.TemplateNo)
		if err != nil {
			return message{}, err
		}
		text, language := t.In(r.Language)
		p.Content, p.IsDeferred = text.String(), t.Deferred
		p.TemplateID, p.TemplateVersion, p.TemplateLanguage = &t.ID, &t.Version, optional.NonZero(language)
		if p.Sign == nil {
			p.Sign = optional.NonZero(t.Sign)
		}
	}
	text, err := template.Parse("content", p.Content)
	return message{channel: r.Channel, text: text}, err //nolint:wrapcheck // the error is a fault
}

// maxContent is the maximum length of the text of short messages in characters, including its placeholders.
const maxContent = 1024

// filledText returns the text of a row, on a channel other than sms.
func (s *Service) filledText(ctx context.Context, b batchq.Batch, values []byte) (placeholder.Text, error) {
	m, err := s.message(ctx, b)
	if err != nil {
		return placeholder.Text{}, err
	}
	text, err := m.filled(values)
	if err != nil {
		return text, fmt.Errorf("fill text of row: %w", err)
	}
	return text, nil
}

// addressCell returns the cell with the address of a row. It cuts the address to the given number of characters.
func addressCell(row source.Row, limit int) sheet.Cell {
	text := characters.First(strings.TrimSpace(row.Address.Text), limit)
	return sheet.Cell{Text: strings.Clone(text), Lossy: row.Address.Lossy}
}
