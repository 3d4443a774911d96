package provider

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzReply reads any answer under any configuration. The outcome must be consistent, and its texts must not exceed their limits.
func FuzzReply(f *testing.F) {
	f.Add("", "code", "0", "data.0.id", "code", "text", 200, []byte(`{"code":0,"data":[{"id":"a\u0000"}],"text":"x"}`))
	f.Add(`^(?P<code>\d+),(?P<id>.*)$`, "code", "0", "id", "code", "", 200, []byte("0,\xff"))
	f.Add("", "", "", "", "", "", 302, []byte("<html>"))
	f.Add("", "a", "b", "a.b.1", "a", "a", 500, []byte(`{"a":1e999999}`))
	f.Fuzz(func(t *testing.T, pattern, success, equals, number, code, text string, status int, answer []byte) {
		r := Reply{Pattern: pattern, Success: success, Equals: []string{equals}, Number: number, Code: code, Error: text, Permanent: []string{"1"}, Trouble: []string{"2"}}
		if r.Check() != nil {
			return
		}
		o := r.Outcome(status, answer)
		if o.OK && (o.Unknown || o.Trouble || o.Permanent) {
			t.Errorf("sent and not sent: %+v", o)
		}
		if !o.OK && o.Error == "" || utf8.RuneCountInString(o.Error) > maxReplyText {
			t.Errorf("error text %q", o.Error)
		}
	})
}

// An answer with more than one JSON value is not understood: the second value can contradict the first.
func TestAnAnswerOfSeveralJSONValuesIsUnclear(t *testing.T) {
	t.Parallel()
	r := Reply{Success: "status", Equals: []string{"ok"}}
	for answer, isSent := range map[string]bool{
		`{"status":"ok"}` + "\n":            true,
		`{"status":"ok"}x`:                  false,
		`{"status":"ok"}{"status":"bad"}`:   false,
		`{"status":"bad"} {"status":"bad"}`: false,
	} {
		o := r.Outcome(200, []byte(answer))
		if o.OK != isSent || o.Unknown == isSent {
			t.Errorf("%s: %+v", answer, o)
		}
	}
}

// A code that the configuration lists as a failure means a failure, although the status and the other fields look like success.
func TestAListedCodeMeansAFailureWithAnyStatus(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Reply{
		"number":  {Number: "id"},
		"status":  {Success: "status"},
		"success": {Success: "ok", Equals: []string{"true"}, Number: "id"},
	} {
		r.Code, r.Permanent, r.Trouble = "error.code", []string{"invalid"}, []string{"nofunds"}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		for code, want := range map[string]Outcome{
			"nofunds": {Code: "nofunds", Trouble: true}, "invalid": {Code: "invalid", Permanent: true}, "note": {OK: true},
		} {
			o := r.Outcome(200, []byte(`{"id":"1","ok":true,"error":{"code":"`+code+`"}}`))
			if o.OK != want.OK || o.Trouble != want.Trouble || o.Permanent != want.Permanent || o.Code != want.Code || o.Unknown {
				t.Errorf("%s, %s: %+v", name, code, o)
			}
		}
	}
}

// The provider's id of a message is a text or a number other than 0. An answer without an id that must contain one is unclear.
func TestOnlyTextsAndNumbersAreReadAsProviderIDs(t *testing.T) {
	t.Parallel()
	bySign := Reply{Number: "id", Success: "ok", Equals: []string{"true"}}
	for id, number := range map[string]string{`"a1"`: "a1", "7": "7", "false": "", "true": "", "null": "", "{}": "", `[1]`: "", `""`: "", `" "`: "", "0": "", `"0"`: "", "0.0": "", "10": "10", `"0a"`: "0a", `"  ws-1\n"`: "ws-1", `" 0 "`: ""} {
		o := (&Reply{Number: "id"}).Outcome(200, []byte(`{"id":`+id+`}`))
		if isSent := number != ""; o.OK != isSent || o.Unknown == isSent || o.ProviderNo != number {
			t.Errorf("%s: %+v", id, o)
		}
		if o := bySign.Outcome(200, []byte(`{"ok":true,"id":`+id+`}`)); !o.OK || o.ProviderNo != number {
			t.Errorf("%s beside a sign of success: %+v", id, o)
		}
	}
}

// An answer in lines can end with a carriage return, which does not belong to the provider's id.
func TestAProviderIDOfAPatternHasNoWhiteSpace(t *testing.T) {
	t.Parallel()
	r := Reply{Pattern: `^OK:(?P<id>.*)`, Number: "id"}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if o := r.Outcome(200, []byte("OK:777001\r\n")); !o.OK || o.ProviderNo != "777001" {
		t.Errorf("%+v", o)
	}
}

// The field that shows success decides with any HTTP status, so that a message that the provider accepted is not sent again.
func TestFieldOfSuccessDecidesWithAnyStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply  Reply
		status int
		answer string
		want   string
	}{
		{Reply{Success: "ok", Equals: []string{"yes"}}, 500, `{"ok":"yes"}`, "ok"},
		{Reply{Number: "id"}, 200, `{"id":"a"}`, "ok a"},
		{Reply{Number: "id"}, 500, `{"id":"a"}`, "ok a"},
		{Reply{Number: "id"}, 500, `{}`, "http_500"},
		{Reply{Number: "id"}, 200, `{}`, "unsaid"},
		{Reply{Number: "id", Code: "code"}, 200, `{"id":"a","code":"0"}`, "ok a"},
		{Reply{Number: "id", Code: "code"}, 400, `{"id":"a","code":"7"}`, "7"}, // the provider names the error
		{Reply{Number: "id", Code: "code", Permanent: []string{"7"}}, 200, `{"id":"a","code":"7"}`, "7"},
		{Reply{Success: "status", Number: "id"}, 500, `{"id":"a"}`, "http_500"}, // the status alone shows success
		{ErrCodes(nil, nil, nil), 500, `{"msgid":"a"}`, "ok a"},
		{ErrCodes(nil, nil, nil), 500, `{"msgid":"a","errcode":1}`, "1"},
	} {
		if err := c.reply.Check(); err != nil {
			t.Fatal(err)
		}
		o := c.reply.Outcome(c.status, []byte(c.answer))
		got := o.Code
		if o.OK {
			got = strings.TrimSpace("ok " + o.ProviderNo)
		}
		if got != c.want {
			t.Errorf("%d %s: %s, want %s", c.status, c.answer, got, c.want)
		}
	}
}
