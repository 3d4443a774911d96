package replyrule

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"lksms/internal/dispatch/received/optout"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
)

const (
	maxPatterns    = 10   // maximum number of regular expressions of a rule
	maxPatternSize = 200  // maximum number of steps of a regular expression, so that a message never costs more than some milliseconds
	maxSearched    = 1000 // maximum number of characters of a text that regular expressions search
)

// text is a text in the forms that rules compare.
type text struct {
	whole  string
	folded string // see optout.Fold
	shown  string // the beginning of the text with ordinary instead of full-width characters
}

func textOf(content string) text {
	return text{whole: content, folded: optout.Fold(content), shown: characters.First(strings.TrimSpace(norm.NFKC.String(content)), maxSearched)}
}

// matcher reports whether a rule applies to a text.
type matcher func(t text) bool

// compile returns the matcher of words. Fault: request.invalid for the field words, or for an element of it.
func compile(match string, words []string) (matcher, error) {
	if match == Regexp {
		return compilePatterns(words)
	}
	folded := make([]string, len(words))
	for i, word := range words {
		folded[i] = optout.Fold(word)
		switch field := fmt.Sprintf("words.%d", i); {
		case folded[i] == "":
			return nil, fault.InvalidField(field, fault.Blank, nil)
		case match == Exact && len(folded[i]) > optout.MaxText:
			return nil, fault.InvalidField(field, fault.TooLongToMatch, optout.MaxText)
		}
	}
	switch match {
	case Exact:
		return func(t text) bool { return optout.IsOneOf(t.whole, words) }, nil
	case Prefix:
		return func(t text) bool {
			return slices.ContainsFunc(folded, func(word string) bool { return strings.HasPrefix(t.folded, word) })
		}, nil
	default:
		return func(t text) bool {
			return slices.ContainsFunc(folded, func(word string) bool { return strings.Contains(t.folded, word) })
		}, nil
	}
}

func compilePatterns(words []string) (matcher, error) {
	if len(words) > maxPatterns {
		return nil, fault.InvalidField("words", fault.TooManyItems, maxPatterns)
	}
	patterns := make([]*regexp.Regexp, len(words))
	for i, word := range words {
		field := fmt.Sprintf("words.%d", i)
		parsed, err := syntax.Parse(word, syntax.Perl|syntax.FoldCase)
		var wrong *syntax.Error
		switch {
		case errors.As(err, &wrong):
			return nil, fault.InvalidField(field, fault.NotARegexp, string(wrong.Code))
		case err != nil:
			return nil, fault.InvalidField(field, fault.NotARegexp, "invalid")
		case sizeOf(parsed) > maxPatternSize:
			return nil, fault.InvalidField(field, fault.TooComplex, nil)
		}
		if patterns[i], err = regexp.Compile("(?i)" + word); err != nil {
			return nil, fault.InvalidField(field, fault.NotARegexp, "invalid")
		}
	}
	return func(t text) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(t.shown) })
	}, nil
}

// sizeOf returns approximately the number of steps of a compiled expression, or a number greater than maxPatternSize. The expression is measured before it is
// compiled, because repetitions of repetitions could use all memory.
func sizeOf(r *syntax.Regexp) int {
	n := 1
	if r.Op == syntax.OpLiteral {
		n = len(r.Rune)
	}
	for _, sub := range r.Sub {
		n += sizeOf(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(1, r.Min, r.Max)
	}
	return min(n, maxPatternSize+1)
}
