package placeholder

import (
	"strings"
	"testing"
)

func TestFillStopsEarlyIfTheTextIsTooLong(t *testing.T) {
	const limit = 100
	value := strings.Repeat("值", 16_000)
	for name, said := range map[string]any{"a text": value, "a list": []any{value}} {
		text, missing := Fill(strings.Repeat("${a}", 5000)+"${b}", map[string]any{"a": said}, limit, nil)
		if n := len([]rune(text)); n <= limit || n > 17_000 || len(missing) != 1 {
			t.Errorf("%s: %d characters, missing %v", name, n, missing)
		}
	}
	if text, missing := Fill("x${a}y${n}z", map[string]any{"a": "${n}", "n": 1}, limit, nil); text != "x${n}y1z" || missing != nil {
		t.Errorf("%s, missing %v", text, missing)
	}
}
