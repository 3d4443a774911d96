// Package characters cuts texts. A character is a Unicode code point, as in the limits of the contract and of PostgreSQL. The package segment has functions that
// do not split what a person sees as one character.
package characters

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
