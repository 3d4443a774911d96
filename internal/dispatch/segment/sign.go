package segment

import (
	"strings"
	"unicode"
)

// Sign returns a signature in the form in which it is sent: without surrounding white space, without 【】 around it, and without invisible characters. An empty
// result is no signature.
func Sign(text string) string {
	text = strings.TrimFunc(strings.Map(visible, text), isBlank)
	if inner, isOpen := strings.CutPrefix(text, "【"); isOpen {
		text = strings.TrimFunc(strings.TrimSuffix(inner, "】"), isBlank)
	}
	return text
}

// visible drops invisible characters, except those that change the shape of their neighbours, such as in an emoji.
func visible(r rune) rune {
	if isJoiner := r == 0x200C || r == 0x200D || r >= 0xE0000; unicode.Is(unicode.Cf, r) && !isJoiner {
		return -1
	}
	return r
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// Bare works like Unsigned, but also removes white space and invisible characters in front of any 【 at the start, because this can begin the signature of the
// sender. Bare is for texts that are not stored yet: senders and SQL functions remove a signature from a stored text only if the text begins with it.
func Bare(sign, text string) string {
	for {
		if trimmed := strings.TrimLeftFunc(text, isBlank); strings.HasPrefix(trimmed, "【") {
			text = trimmed
		}
		rest := Unsigned(sign, text)
		if rest == text {
			return text
		}
		text = rest
	}
}
