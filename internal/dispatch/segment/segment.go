// Package segment counts the SMS segments of a text (S3.5).
package segment

import (
	"strings"

	"lksms/internal/platform/smstext"
)

// These are the capacities of a message with one segment, and of each segment of a longer message, which also contains a header. Septets apply to GSM 03.38,
// and units to UCS-2.
const (
	septetsAlone, septetsInPart = 160, 153
	unitsAlone, unitsInPart     = 70, 67
)

// Count returns the number of segments of text, at least one. A text with only GSM 03.38 characters is counted in
// septets. Any other text is counted in UCS-2 units, where a character above U+FFFF takes two. A character is never
// split.
func Count(text string) int {
	if IsGSM(text) {
		return count(text, septetsAlone, septetsInPart, smstext.Septets)
	}
	return count(text, unitsAlone, unitsInPart, func(r rune) int {
		if r > 0xFFFF {
			return 2
		}
		return 1
	})
}

// IsGSM reports whether text contains only characters of GSM 03.38. A segment of such a text can contain more characters.
func IsGSM(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return smstext.Septets(r) == 0 }) < 0
}

func count(text string, alone, inPart int, size func(rune) int) int {
	total, parts, filled := 0, 1, 0
	for _, r := range text {
		n := size(r)
		total += n
		if filled += n; filled > inPart {
			parts, filled = parts+1, n
		}
	}
	if total <= alone {
		return 1
	}
	return parts
}

// Signed returns text with the signature sign in front. If text already starts with the signature, Signed does not add it twice. If sign is empty, Signed
// returns text.
func Signed(sign, text string) string {
	if sign == "" {
		return text
	}
	return "【" + sign + "】" + Unsigned(sign, text)
}

// Unsigned removes the signature sign, even if it is repeated, from the start of text.
func Unsigned(sign, text string) string {
	if sign == "" {
		return text
	}
	for isSigned := true; isSigned; {
		text, isSigned = strings.CutPrefix(text, "【"+sign+"】")
	}
	return text
}

// Same returns a character that replaces r in a masked text. Both characters take the same space, so that Count returns the same number for the masked text.
func Same(r rune) rune {
	switch size := smstext.Septets(r); {
	case size == 1:
		return '*'
	case size == 2:
		return '|'
	case r > 0xFFFF:
		return '🞶'
	default:
		return '＊'
	}
}
