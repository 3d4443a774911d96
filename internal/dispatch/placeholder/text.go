package placeholder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"unicode/utf8"

	"lksms/internal/platform/fault"
)

// These are the maximum lengths of filled texts, in characters.
const (
	maxTitle   = 1000
	maxContent = 100_000
)

// Text is the text of a rendering. If it contains placeholders, it is filled for each recipient.
type Text struct {
	Title, Content string
	HTML           string // Content as HTML; empty: no HTML
	TemplateID     string // id of the provider's template; empty: no template
	Params         []byte // JSON object: the placeholder values that all recipients share, and the values for the provider's template
}

// Fill fills the texts, and returns the keys without a value, including duplicates.
func (t Text) Fill(values map[string]any) (filled Text, missing []string) {
	title, missing := Fill(t.Title, values, maxTitle, nil)
	content, more := Fill(t.Content, values, maxContent, nil)
	body, evenMore := Fill(t.HTML, values, maxContent, html.EscapeString)
	t.Title, t.Content, t.HTML = title, content, body
	return t, slices.Concat(missing, more, evenMore)
}

// ForContact fills a text with its Params and the values of a recipient. It keeps the title in one line, even if a value contains line breaks.
func (t Text) ForContact(values []byte) (Text, error) {
	var all map[string]any
	for _, text := range [][]byte{t.Params, values} { // no key of the recipient occurs in Params
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			return t, fmt.Errorf("read values of rendering: %w", err)
		}
	}
	t, _ = t.Fill(all)
	t.Title = strings.Join(strings.Fields(t.Title), " ")
	delete(all, dollar)
	var err error
	t.Params, err = JSON(all)
	return t, err //nolint:wrapcheck // the error names its cause
}

// Keys returns the placeholders that are filled for each recipient, without duplicates.
func (t Text) Keys() (keys []string) {
	var params map[string]any
	_ = json.Unmarshal(t.Params, &params) // without Params, all placeholders are filled for each recipient
	for _, text := range []string{t.Title, t.Content, t.HTML} {
		for _, key := range Keys(text) {
			if _, isShared := params[key]; !isShared && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// IsTooLong reports whether a filled text is too long.
func (t Text) IsTooLong() bool {
	return utf8.RuneCountInString(t.Title) > maxTitle || max(utf8.RuneCountInString(t.Content), utf8.RuneCountInString(t.HTML)) > maxContent
}

// Check returns the fault request.invalid, for the field content or subject, if a filled text is too long or empty.
func (t Text) Check() error {
	switch {
	case utf8.RuneCountInString(t.Title) > maxTitle:
		return fault.InvalidField("subject", fault.TooLong, maxTitle)
	case max(utf8.RuneCountInString(t.Content), utf8.RuneCountInString(t.HTML)) > maxContent:
		return fault.InvalidField("content", fault.TooLong, maxContent)
	case strings.TrimSpace(t.Content) == "":
		return fault.InvalidField("content", fault.RenderedBlank, nil)
	}
	return nil
}

// dollar is the placeholder whose value is "$", so that a text can contain "${" literally.
const dollar = "$"

// Literal escapes a part of a text, so that the part contains no placeholder.
func Literal(part string) string { return strings.ReplaceAll(part, "${", "${"+dollar+"}{") }

// Placeholder returns the placeholder of a key.
func Placeholder(key string) string { return "${" + key + "}" }

// NewText returns a text whose parts were returned by Literal and Placeholder.
func NewText(title, content, body string) Text {
	return Text{Title: title, Content: content, HTML: body, Params: []byte(`{"` + dollar + `":"` + dollar + `"}`)}
}
