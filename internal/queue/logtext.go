package queue

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"lksms/internal/postgres"
)

const (
	logTextMax = 500      // characters of a text column
	logJSONMax = 16 << 10 // bytes of a body that is kept as it is
)

// logText cuts s to what a log column takes. A log row must never be the reason why a request fails.
func logText(s string) string {
	s = postgres.Text(s)
	if runes := []rune(s); len(runes) > logTextMax {
		return string(runes[:logTextMax])
	}
	return s
}

func textOf(v any) *string {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	s = logText(s)
	return &s
}

// logJSON makes of any body something that jsonb takes: valid JSON keeps its shape, without NULs and with numbers beyond
// float64, or too small for it, as text; anything else, or anything larger than logJSONMax, becomes its beginning as a JSON string.
func logJSON(raw []byte) []byte {
	if len(raw) <= logJSONMax {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var v any
		if decoder.Decode(&v) == nil && !decoder.More() {
			if out, err := json.Marshal(storable(v)); err == nil {
				return out
			}
		}
	}
	out, err := json.Marshal(logText(string(raw[:min(len(raw), logJSONMax)])))
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
