// Package logtext makes of anything that callers send something that a log row can hold: a log row must never be the reason why a request
// fails.
package logtext

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"lksms/internal/platform/postgres"
)

const (
	maxText = 500      // characters of a text column
	maxJSON = 16 << 10 // bytes of a body that is kept as it is
)

// Text returns s as a text column of a log takes it: valid UTF-8 without NUL, cut to 500 characters.
func Text(s string) string {
	s = postgres.Text(s)
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText])
	}
	return s
}

// JSON makes of any body something that jsonb takes: valid JSON keeps its shape, without NULs and with numbers beyond
// float64, or too small for it, as text; anything else, or anything larger than maxJSON, becomes its beginning as a JSON string.
func JSON(raw []byte) []byte {
	if len(raw) <= maxJSON {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var v any
		if decoder.Decode(&v) == nil && !decoder.More() {
			if out, err := json.Marshal(storable(v)); err == nil {
				return out
			}
		}
	}
	out, err := json.Marshal(Text(string(raw[:min(len(raw), maxJSON)])))
	if err != nil {
		return nil
	}
	return out
}

func storable(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "")
	case json.Number:
		f, err := strconv.ParseFloat(v.String(), 64)
		digits, _, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if isTooSmall := f == 0 && strings.ContainsAny(digits, "123456789"); err != nil || isTooSmall {
			return v.String()
		}
	case []any:
		for i := range v {
			v[i] = storable(v[i])
		}
	case map[string]any:
		for k, inner := range v {
			delete(v, k)
			v[strings.ReplaceAll(k, "\x00", "")] = storable(inner)
		}
	}
	return v
}
