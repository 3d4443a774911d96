package logtext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLogJSONAcceptsAnyText(t *testing.T) {
	for sent, want := range map[string]string{
		`{"a":1,"b":[true,null,"x"]}`:  `{"a":1,"b":[true,null,"x"]}`,
		`{"a":"x\u0000y","\u0000k":1}`: `{"a":"xy","k":1}`,
		`{"a":1e999}`:                  `{"a":"1e999"}`,
		`{"a":"\ud800"}`:               `{"a":"` + "\uFFFD" + `"}`,
		`{"a":`:                        `"{\"a\":"`,
		`{} {}`:                        `"{} {}"`,
		"":                             `""`,
		"\xff\x00":                     "\"\uFFFD\"",
	} {
		if got := string(JSON([]byte(sent))); got != want {
			t.Errorf("%q: got %s, want %s", sent, got, want)
		}
	}
	huge := JSON([]byte(`{"a":"` + strings.Repeat("x", maxJSON) + `"}`))
	if len(huge) > 1000 || !json.Valid(huge) {
		t.Errorf("a huge body is logged in %d bytes", len(huge))
	}
}

func TestLogTextCutsLongTexts(t *testing.T) {
	if got := Text(strings.Repeat("浏", 5000)); utf8.RuneCountInString(got) != 500 {
		t.Errorf("%d characters", utf8.RuneCountInString(got))
	}
	if got := Text("a\x00b\xffc"); got != "ab\uFFFDc" {
		t.Errorf("got %q", got)
	}
}
