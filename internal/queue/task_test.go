package queue

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestF16_TenMillionIDsAscendAndSoAreAllDifferent(t *testing.T) {
	t.Parallel()
	last := ""
	for range 10_000_000 {
		id := NewID()
		if id <= last {
			t.Fatalf("%s came after %s", id, last)
		}
		last = id
	}
	if len(last) > 50 || !strings.HasPrefix(last, "task_2") {
		t.Errorf("an id is %q", last)
	}
}

func TestF17_IDsAscendWhenTheClockIsPutBack(t *testing.T) {
	t.Parallel()
	const hour = 60 * 60 * 1000
	ids := idMaker{}
	before := ids.next(5 * hour)
	if after := ids.next(4 * hour); after <= before {
		t.Errorf("%s came after %s", after, before)
	}
}

func TestLogJSONTakesAnything(t *testing.T) {
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
		if got := string(logJSON([]byte(sent))); got != want {
			t.Errorf("%q: got %s, want %s", sent, got, want)
		}
	}
	huge := logJSON([]byte(`{"a":"` + strings.Repeat("x", logJSONMax) + `"}`))
	if len(huge) > 1000 || !json.Valid(huge) {
		t.Errorf("a huge body is kept in %d bytes", len(huge))
	}
}

func TestLogTextCutsToFit(t *testing.T) {
	if got := logText(strings.Repeat("浏", 5000)); utf8.RuneCountInString(got) != 500 {
		t.Errorf("%d characters", utf8.RuneCountInString(got))
	}
	if got := logText("a\x00b\xffc"); got != "ab\uFFFDc" {
		t.Errorf("got %q", got)
	}
}
