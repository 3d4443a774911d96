// Package segment counts the SMS segments of a text (S3.5).
package segment

import "strings"

// The characters of GSM 03.38. A character of the basic alphabet takes one septet (seven bits), one of the extension two.
const (
	basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	extension = "\f^{}\\[~]|€"
)

// Capacity of a segment: of a single one, and of a part of a longer message, whose header takes some space. Septets
// are for GSM 03.38, units for UCS-2.
const (
	septetsAlone, septetsInPart = 160, 153
	unitsAlone, unitsInPart     = 70, 67
)

// septets holds the size of each GSM 03.38 character.
var septets = func() map[rune]int {
	sizes := make(map[rune]int, 138)
	for _, r := range basic {
		sizes[r] = 1
	}
	for _, r := range extension {
		sizes[r] = 2
	}
	return sizes
}()

// Count returns the number of segments of text, at least one. A text with only GSM 03.38 characters is counted in
// septets. Any other text is counted in UCS-2 units, where a character above U+FFFF takes two. A character is never
// split.
func Count(text string) int {
	if IsGSM(text) {
		return count(text, septetsAlone, septetsInPart, func(r rune) int { return septets[r] })
	}
	return count(text, unitsAlone, unitsInPart, func(r rune) int {
		if r > 0xFFFF {
			return 2
		}
		return 1
	})
}

// IsGSM reports whether text has only characters of GSM 03.38, of which a segment takes the most.
func IsGSM(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return septets[r] == 0 }) < 0
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

// Signed returns text with the signature sign in front, once, also if text begins with it; text alone if sign is empty.
func Signed(sign, text string) string {
	if sign == "" {
		return text
	}
	return "【" + sign + "】" + Unsigned(sign, text)
}

// Unsigned returns text without the signature sign in front, if text begins with it.
func Unsigned(sign, text string) string {
	if sign == "" {
		return text
	}
	for isSigned := true; isSigned; {
		text, isSigned = strings.CutPrefix(text, "【"+sign+"】")
	}
	return text
}
