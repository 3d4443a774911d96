package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/placeholder"
	"lksms/internal/postgres"
)

// Text is what a rendering says. With placeholders, each recipient fills it.
type Text struct {
	Title, Content string
	HTML           string // Content as HTML; empty: none
	TemplateID     string // of the provider; empty: none
	Params         []byte // values of placeholders that are the same for all, and values for the template of the provider
}

// ForContact fills a text with its params and the values of a recipient. A title is one line, whatever a value has.
func (t Text) ForContact(values []byte) (Text, error) {
	var all map[string]any
	for _, text := range [][]byte{t.Params, values} { // the values of the recipient have other keys
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			return t, fmt.Errorf("read values of rendering: %w", err)
		}
	}
	t.Title, _ = fill(t.Title, all, titleMost)
	t.Title = strings.Join(strings.Fields(t.Title), " ")
	t.Content, _ = fill(t.Content, all, contentMost)
	t.HTML, _ = placeholder.Fill(t.HTML, all, contentMost, html.EscapeString)
	delete(all, dollar)
	var err error
	t.Params, err = placeholder.JSON(all)
	return t, err //nolint:wrapcheck // says what it is
}

// Keys returns the placeholders that each recipient fills, each once.
func (t Text) Keys() (keys []string) {
	var params map[string]any
	_ = json.Unmarshal(t.Params, &params) // without params, recipients fill everything
	for _, text := range []string{t.Title, t.Content, t.HTML} {
		for _, key := range placeholder.Keys(text) {
			if _, isShared := params[key]; !isShared && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Check returns request.invalid, naming content or subject, for a filled text that is too long or has nothing to say.
func (t Text) Check() error {
	switch {
	case isTooLong(t.Title, "", ""):
		return fault.InvalidField("subject", fault.TooLong, titleMost)
	case isTooLong("", t.Content, t.HTML):
		return fault.InvalidField("content", fault.TooLong, contentMost)
	case strings.TrimSpace(t.Content) == "":
		return fault.InvalidField("content", fault.RenderedBlank, nil)
	}
	return nil
}

// dollar is the placeholder that stands for its own first character, so that a text can have "${" itself.
const dollar = "$"

// Literal returns a part of a text in which nothing is a placeholder.
func Literal(part string) string { return strings.ReplaceAll(part, "${", "${"+dollar+"}{") }

// Place returns the placeholder of a key.
func Place(key string) string { return "${" + key + "}" }

// NewText returns a text of parts that Literal and Place returned.
func NewText(title, content, body string) Text {
	return Text{Title: title, Content: content, HTML: body, Params: []byte(`{"` + dollar + `":"` + dollar + `"}`)}
}

// TemplateText returns the text of the template of a business type on a channel for a company. Fault: template.not_found.
func (s *Service) TemplateText(ctx context.Context, companyID int64, bizType int16, channel string) (Text, error) {
	rows, err := s.q.NotificationTemplateList(ctx, dbq.NotificationTemplateListParams{BizType: &bizType, Channel: &channel})
	row, err := postgres.One(rows, err, "read template", errNoTemplate)
	if err == nil && !row.IsEnabled {
		err = errNoTemplate
	}
	if err != nil {
		return Text{}, err
	}
	shared := map[string]any{}
	if s.platformURL != "" {
		shared["platformUrl"] = s.platformURL
	}
	t := Text{Title: row.Title, Content: row.Content, TemplateID: row.ExternalID}
	if row.Html != nil {
		t.HTML = *row.Html
	}
	t.Params, err = placeholder.JSON(shared)
	return t, err //nolint:wrapcheck // says what it is
}

// StoreText stores the text of a batch on a channel, filled if there is nothing that recipients fill, and returns the id of the rendering.
func (s *Service) StoreText(ctx context.Context, channel string, t Text) (int64, error) {
	isTemplate := len(t.Keys()) > 0
	if !isTemplate {
		var err error
		if t, err = t.ForContact([]byte("{}")); err != nil {
			return 0, err
		}
	}
	id, err := s.q.RenderingCreateOfBatch(ctx, dbq.RenderingCreateOfBatchParams{
		Channel: channel, Title: t.Title, Content: t.Content, Html: t.HTML, TemplateID: t.TemplateID, Params: t.Params, IsTemplate: isTemplate,
	})
	return id, postgres.Wrap("store rendering", err, fault.New(fault.NotFound, fault.ChannelNotFound))
}

// StoredText returns the text of a rendering, and whether each recipient fills it.
func (s *Service) StoredText(ctx context.Context, renderingID int64) (t Text, isTemplate bool, err error) {
	row, err := s.q.RenderingText(ctx, renderingID)
	t = Text{Title: row.Title, Content: row.Content, HTML: row.Html, TemplateID: row.TemplateID, Params: row.Params}
	return t, row.IsTemplate, postgres.Wrap("read rendering", err, nil)
}
