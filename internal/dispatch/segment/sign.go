package segment

import (
	"strings"
	"unicode"
)

func isBlank(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

// Bare works like Unsigned, but also removes white space and invisible characters in front of the signature. It is for texts that are not stored yet: senders
// and SQL functions remove the signature from a stored text only if the text begins with it.
func Bare(sign, text string) string {
	for sign != "" {
		rest, isSigned := strings.CutPrefix(strings.TrimLeftFunc(text, isBlank), "【"+sign+"】")
		if !isSigned {
			break
		}
		text = rest
	}
	return text
}
