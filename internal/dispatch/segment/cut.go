package segment

import "github.com/rivo/uniseg"

// Beginning returns the longest prefix of a text with at most limit characters that splits no grapheme: an accent stays with its letter, and an emoji of several
// characters stays complete.
func Beginning(text string, limit int) string {
	end, characters := 0, 0
	for g := uniseg.NewGraphemes(text); g.Next(); _, end = g.Positions() {
		if characters += len(g.Runes()); characters > limit {
			break
		}
	}
	return text[:end]
}

// Shortened cuts a text to at most limit characters. A shortened text ends with an ellipsis.
func Shortened(text string, limit int) string {
	if len(text) <= limit || len([]rune(text)) <= limit {
		return text
	}
	return Beginning(text, limit-1) + "…"
}
