package notification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"
)

var placeholder = regexp.MustCompile(`\$\{([^{}]*)\}`)

// fill replaces each ${key} by its value in the payload, and returns the keys that are missing there. Placeholders in
// values are not replaced. A text longer than most characters is cut at some point behind them: a short template may
// repeat a long value many times.
func fill(template string, payload map[string]any, most int) (text string, missing []string) {
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
		if length > most {
			continue
		}
		write(before)
		if text, ok := value.(string); ok {
			write(text)
			continue
		}
		text, err := encodeJSON(value)
		if err != nil {
			missing = append(missing, key)
		}
		write(string(text))
	}
	if length <= most {
		write(template[end:])
	}
	return out.String(), missing
}

// encodeJSON writes JSON for people to read: < and & are not escaped.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// number reads an integer from a payload. It rounds fractions.
func number(v any) (int64, bool) {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Float64()
		return int64(math.Round(n)), err == nil
	case float64:
		return int64(math.Round(v)), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}
