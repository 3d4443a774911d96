// Package characters cuts texts. A character is a Unicode code point, as in the limits of the contract and of PostgreSQL. The package segment has functions that
// do not split what a person sees as one character.
package characters

// First returns the first characters of a text, at most the given number.
func First(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if all := []rune(text); len(all) > most {
		return string(all[:most])
	}
	return text
}
