// Package segment counts the short messages that a text takes (S3.5).
package segment

import "strings"

// The characters of GSM 03.38: those of the basic alphabet take seven bits, those of the extension fourteen.
const (
	basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
		"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	extension = "\f^{}\\[~]|€"
)

// How much of a text one message holds: alone, or as a part, whose header takes some of the room.
const (
	septetsAlone, septetsInPart = 160, 153
	unitsAlone, unitsInPart     = 70, 67
)

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

// Count is how many segments text takes, at least one: in GSM 03.38 if every character is in it, in UCS-2 otherwise, where a
// character beyond U+FFFF takes two units. A character is never cut in two.
func Count(text string) int {
	if strings.IndexFunc(text, func(r rune) bool { return septets[r] == 0 }) < 0 {
		return count(text, septetsAlone, septetsInPart, func(r rune) int { return septets[r] })
	}
	return count(text, unitsAlone, unitsInPart, func(r rune) int {
		if r > 0xFFFF {
			return 2
		}
		return 1
	})
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

// Signed is text as it goes out with a signature; without one if sign is empty.
func Signed(sign, text string) string {
	if sign == "" {
		return text
	}
	return "【" + sign + "】" + text
}
