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
	var wrong fault.Fields
	folded := make([]string, len(words))
	for i, word := range words {
		folded[i] = optout.Fold(word)
		switch field := fmt.Sprintf("words.%d", i); {
		case folded[i] == "":
			wrong.Invalid(field, fault.NoLetters, nil)
		case match == Exact && len(folded[i]) > optout.MaxText:
			wrong.Invalid(field, fault.TooLongToMatch, optout.MaxText)
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
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
	var wrong fault.Fields
	patterns := make([]*regexp.Regexp, len(words))
	for i, word := range words {
		var err error
		patterns[i], err = compilePattern(fmt.Sprintf("words.%d", i), word)
		if err := wrong.Add(err); err != nil {
			return nil, err //nolint:wrapcheck // never happens
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
	}
	return func(t text) bool {
		return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(t.shown) })
	}, nil
}

func compilePattern(field, word string) (*regexp.Regexp, error) {
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
	pattern, err := regexp.Compile("(?i)" + word)
	if err != nil {
		return nil, fault.InvalidField(field, fault.NotARegexp, "invalid")
	}
	return pattern, nil
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
