// Package logtext converts any input of callers into text or JSON that a log row can store, so that writing a log row never makes a request fail.
package logtext

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"lksms/internal/platform/characters"
	"lksms/internal/platform/postgres"
)

const (
	maxText = 500      // maximum length of a text column, in characters
	maxJSON = 16 << 10 // maximum size of a body that is stored unchanged, in bytes
)

// Text converts s for a text column of a log: valid UTF-8 without NUL, cut to 500 characters.
func Text(s string) string {
	return characters.First(postgres.Text(s), maxText)
}

// JSON converts any body to a value that jsonb accepts. Valid JSON keeps its structure, but loses NULs, and numbers outside the range of float64 become
// strings. The beginning of any other body, and of a body larger than maxJSON, becomes a JSON string.
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

// CanHaveField reports whether a JSON body can contain a field with a name, in upper or lower case. Escapes in a body can hide any name.
func CanHaveField(body []byte, name string) bool {
	upper := bytes.ToUpper(body)
	return bytes.Contains(upper, []byte(strings.ToUpper(name))) || bytes.Contains(upper, []byte(`\U`))
}
