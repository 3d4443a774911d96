// Package placeholder fills the placeholders ${key} in the texts of notifications.
package placeholder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// Fill replaces each ${key} by its value in the payload, and returns the missing keys. Placeholders in values are not replaced. Fill stops after limit
// characters, because a short template can repeat a long value many times. The result can then be longer than limit characters, but is incomplete. escape
// escapes a value for the format of the text; nil: values are not escaped.
func Fill(template string, payload map[string]any, limit int, escape func(string) string) (text string, missing []string) {
	if escape == nil {
		escape = func(value string) string { return value }
	}
	var out strings.Builder
	length, end := 0, 0
	write := func(part string) {
		out.WriteString(part)
		length += utf8.RuneCountInString(part)
	}
	for _, at := range placeholder.FindAllStringSubmatchIndex(template, -1) {
		before, key := template[end:at[0]], template[at[2]:at[3]]
		end = at[1]
		value := payload[key]
		if value == nil {
			missing = append(missing, key)
			continue
		}
		if length > limit {
			continue
		}
		write(before)
		if text, ok := value.(string); ok {
			write(escape(text))
			continue
		}
		text, err := JSON(value)
		if err != nil {
			missing = append(missing, key)
		}
		write(escape(string(text)))
	}
	if length <= limit {
		write(template[end:])
	}
	return out.String(), missing
}

// Keys returns the keys of the placeholders of a template, including duplicates.
func Keys(template string) (keys []string) {
	for _, found := range placeholder.FindAllStringSubmatch(template, -1) {
		keys = append(keys, found[1])
	}
	return keys
}

// JSON returns readable JSON: < and & are not escaped.
func JSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
