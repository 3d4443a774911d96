package segment

import "github.com/rivo/uniseg"

// Beginning returns the longest beginning of a text with at most most characters that cuts no grapheme: an accent stays with its letter, and a family
// of emoji stays whole.
func Beginning(text string, most int) string {
	end, characters := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next(); _, end = g.Positions() {
		if characters += len(g.Runes()); characters > most {
			break
		}
	}
	return text[:end]
}

// Shortened returns a text of at most most characters. One that is cut ends with an ellipsis.
func Shortened(text string, most int) string {
	if len(text) <= most || len([]rune(text)) <= most {
		return text
	}
	return Beginning(text, most-1) + "…"
}
