// Package characters cuts and checks texts. A character is a Unicode code point, as in the limits of the contract and of PostgreSQL. The package segment has
// functions that do not split what a person sees as one character.
package characters

import (
	"strings"
	"unicode"
)

// First returns the first characters of a text, at most limit.
func First(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	if all := []rune(text); len(all) > limit {
		return string(all[:limit])
	}
	return text
}

// IsASCII reports whether a text consists of ASCII characters. An empty text does.
func IsASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// IsDigits reports whether a text consists of ASCII digits, and is not empty.
func IsDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
