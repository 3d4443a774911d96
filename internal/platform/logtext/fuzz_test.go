package logtext

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"lksms/internal/platform/postgres"
)

// FuzzLogJSON checks that any body becomes JSON of a bounded size that PostgreSQL can store.
func FuzzLogJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"\u0000","b\u0000":[1e999999,1e99]}`, "[1", "\xff\x00", `"\ud800"`, `{"a":1} {}`, "", "<"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := JSON(raw)
		var v any
		d := json.NewDecoder(bytes.NewReader(kept))
		d.UseNumber()
		if err := d.Decode(&v); err != nil || !postgres.IsText(string(kept)) || hasNUL(v) {
			t.Errorf("%q is logged as %q, %v", raw, kept, err)
		}
		if limit := 6*min(len(raw), maxJSON) + 100; len(kept) > limit {
			t.Errorf("%d bytes are logged as %d", len(raw), len(kept))
		}
		if text := Text(string(raw)); !postgres.IsText(text) || utf8.RuneCountInString(text) > maxText {
			t.Errorf("%q is logged as %q", raw, text)
		}
	})
}

// hasNUL reports whether a text in v contains NUL, which PostgreSQL cannot store.
func hasNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return !postgres.IsText(v)
	case []any:
		for _, one := range v {
			if hasNUL(one) {
				return true
			}
		}
	case map[string]any:
		for name, one := range v {
			if !postgres.IsText(name) || hasNUL(one) {
				return true
			}
		}
	}
	return false
}
