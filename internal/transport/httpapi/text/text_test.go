package text

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lksms/internal/audience/batch/progress"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/platform/fault"
)

// Limits of any type are formatted without exponents, Go syntax or trailing zeros.
func TestLimitsInTextsAreFormattedWithoutExponents(t *testing.T) {
	for _, c := range []struct {
		limit any
		want  string
	}{
		{2592000.0, "must be at most 2592000"},
		{0.001, "must be at most 0.001"},
		{int64(7), "must be at most 7"},
		{[]any{"on", 2592000.0}, "must be at most on, 2592000"},
		{[]int16{3, 4}, "must be at most 3, 4"},
		{[]explain.Switch{{Kind: "channel", Name: "sms"}, {Kind: "country", Name: "SG"}}, "must be at most channel sms is off; country SG is off"},
	} {
		if got := english.rule(fault.Field{Rule: fault.TooBig, Limit: c.limit}); got != c.want {
			t.Errorf("%v is written %q, want %q", c.limit, got, c.want)
		}
	}
}

// The console names switches, and the missing sender of a batch, with the words of the server.
func TestConsoleUsesWordsOfServer(t *testing.T) {
	for folder, texts := range map[string]*Catalogue{"en": english, "zh": chinese} {
		page := func(name string) string {
			body, err := os.ReadFile("../../../../web/src/i18n/" + folder + "/" + name + ".ts")
			if err != nil {
				t.Fatal(err)
			}
			return strings.ToLower(string(body))
		}
		for kind, words := range texts.switches {
			line := strings.ToLower(fmt.Sprintf("    %s: '%s',\n", kind, strings.ReplaceAll(words, "%s", "{name}")))
			if kind != "" && !strings.Contains(page("compose"), line) {
				t.Errorf("%s: the page to compose a message lacks %q", folder, line)
			}
		}
		for words := range strings.FieldsFuncSeq(texts.BatchWaits[progress.WaitsForAny], func(r rune) bool { return strings.ContainsRune(":.：。", r) }) {
			if words = strings.ToLower(strings.TrimSpace(words)); !strings.Contains(page("batches"), words) {
				t.Errorf("%s: the page of a batch lacks %q", folder, words)
			}
		}
	}
}

func TestEveryFaultHasTextInEachLanguage(t *testing.T) {
	for name, c := range map[string]*Catalogue{"english": english, "chinese": chinese} {
		for _, reason := range fault.Reasons {
			if c.reasons[reason] == "" {
				t.Errorf("%s has no text for the reason %s", name, reason)
			}
		}
		for _, rule := range fault.Rules {
			limit, limits := any(7), strings.Count(c.rules[rule], "%v")
			if limits == 2 {
				limit = fault.Lengths{Has: 8, Most: 7}
			}
			text := c.rule(fault.Field{Rule: rule, Limit: limit})
			if text == "" || strings.Contains(text, "%!") {
				t.Errorf("%s has no text for the rule %s: %q", name, rule, text)
			}
			if limits != strings.Count(english.rules[rule], "%v") {
				t.Errorf("the text of the rule %s has its limit in one language only", rule)
			}
		}
		if len(c.reasons) != len(fault.Reasons) || len(c.rules) != len(fault.Rules) {
			t.Errorf("%s has texts for unknown reasons or rules", name)
		}
	}
}
