package segment

import "github.com/rivo/uniseg"

// Beginning returns the longest prefix of a text with at most most characters that splits no grapheme: an accent stays with its letter, and an emoji of several
// characters stays complete.
func Beginning(text string, most int) string {
	end, characters := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next(); _, end = g.Positions() {
		if characters += len(g.Runes()); characters > most {
			break
		}
	}
	return text[:end]
}

// Shortened cuts a text to at most most characters. A shortened text ends with an ellipsis.
func Shortened(text string, most int) string {
	if len(text) <= most || len([]rune(text)) <= most {
		return text
	}
	return Beginning(text, most-1) + "…"
}
