package provider

import (
	"errors"
	"testing"
)

func TestOnlyTextsOfTheProviderAreHidden(t *testing.T) {
	t.Parallel()
	reply := Reply{Success: "ok", Equals: []string{"1"}, Number: "id", Code: "code", Error: "text"}
	const text = `"text":"rejected: 493817"`
	for name, c := range map[string]struct{ outcome, want Outcome }{
		"a text":      {reply.Outcome(200, []byte(`{"ok":0,"code":"E^1",`+text+`}`)), Outcome{Code: "E^1", Error: "***", IsQuoted: true, Answer: "200 ***"}},
		"no text":     {reply.Outcome(200, []byte(`{"ok":0,"code":"E 493817"}`)), Outcome{Error: "the provider refused it", Answer: "200 ***"}},
		"a status":    {reply.Outcome(503, []byte("493817")), Outcome{Outage: true, Code: "http_503", Error: "the provider answered 503", Answer: "503 ***"}},
		"no answer":   {Failed(t.Context(), errors.New("493817")), Outcome{Trouble: true, Code: "unreachable", Error: "the provider could not be reached"}},
		"accepted":    {reply.Outcome(200, []byte(`{"ok":1,"id":"a=1",`+text+`}`)), Outcome{OK: true, ProviderNo: "a=1", Answer: "200 ***"}},
		"a mail":      {Outcome{OK: true, ProviderNo: "t.1@host", Answer: "250 ok 493817"}, Outcome{OK: true, ProviderNo: "t.1@host", Answer: "250 ***"}},
		"the code":    {Outcome{OK: true, ProviderNo: "493817", Code: "NDkzODE3"}, Outcome{OK: true}},
		"only digits": {Outcome{OK: true, Answer: "493817 is sent"}, Outcome{OK: true, Answer: "***"}},
	} {
		if got := c.outcome.withoutTexts("code 493817"); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
