package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"lksms/internal/dispatch/placeholder"
	"lksms/internal/platform/fault"
)

// FuzzFill fills any template with any payload. A placeholder in a value is not filled, and a missing key is reported.
func FuzzFill(f *testing.F) {
	f.Add("${a} ${b.c} ${${a}} ${}", []byte(`{"a":"${b}","b":[1e99,"<"],"":null}`))
	f.Fuzz(func(t *testing.T, template string, payload []byte) {
		fields := map[string]any{}
		d := json.NewDecoder(bytes.NewReader(payload))
		d.UseNumber()
		if d.Decode(&fields) != nil {
			return
		}
		text, missing := placeholder.Fill(template, fields, len(template)+1000, nil)
		for _, key := range missing {
			if fields[key] != nil {
				t.Errorf("%q is named as missing, but the payload has it", key)
			}
		}
		if !strings.Contains(template, "${") && utf8.ValidString(template) && text != template {
			t.Errorf("%q became %q", template, text)
		}
		n := Notification{BizType: NodeTimeout}
		if err := n.complete(fields); err != nil && !errors.As(err, new(*fault.Error)) {
			t.Errorf("not a fault: %v", err)
		}
		if n.Repeat != nil && (*n.Repeat < 1 || *n.Repeat > maxRepeatMinutes) {
			t.Errorf("a reminder every %d minutes", *n.Repeat)
		}
	})
}
