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

// The longest filled texts, in characters.
const (
	maxTitle   = 1000
	maxContent = 100_000
)

// Text is what a rendering says. With placeholders, each recipient fills it.
type Text struct {
	Title, Content string
	HTML           string // Content as HTML; empty: none
	TemplateID     string // of the provider; empty: none
	Params         []byte // values of placeholders that are the same for all, and values for the template of the provider
}

// Fill fills the texts, and returns the keys without a value, each as often as it is there.
func (t Text) Fill(values map[string]any) (filled Text, missing []string) {
	title, missing := Fill(t.Title, values, maxTitle, nil)
	content, more := Fill(t.Content, values, maxContent, nil)
	body, evenMore := Fill(t.HTML, values, maxContent, html.EscapeString)
	t.Title, t.Content, t.HTML = title, content, body
	return t, slices.Concat(missing, more, evenMore)
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
	t, _ = t.Fill(all)
	t.Title = strings.Join(strings.Fields(t.Title), " ")
	delete(all, dollar)
	var err error
	t.Params, err = JSON(all)
	return t, err //nolint:wrapcheck // says what it is
}

// Keys returns the placeholders that each recipient fills, each once.
func (t Text) Keys() (keys []string) {
	var params map[string]any
	_ = json.Unmarshal(t.Params, &params) // without params, recipients fill everything
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

// Check returns request.invalid, naming content or subject, for a filled text that is too long or has nothing to say.
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

// dollar is the placeholder that stands for its own first character, so that a text can have "${" itself.
const dollar = "$"

// Literal returns a part of a text in which nothing is a
func Literal(part string) string { return strings.ReplaceAll(part, "${", "${"+dollar+"}{") }

// Place returns the placeholder of a key.
func Place(key string) string { return "${" + key + "}" }

// NewText returns a text of parts that Literal and Place returned.
func NewText(title, content, body string) Text {
	return Text{Title: title, Content: content, HTML: body, Params: []byte(`{"` + dollar + `":"` + dollar + `"}`)}
}
