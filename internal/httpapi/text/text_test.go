package text

import (
	"strings"
	"testing"

	"lksms/internal/fault"
)

func TestEveryFaultHasATextInEachLanguage(t *testing.T) {
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
