package sensitive

import (
	"encoding/base64"
	"regexp"
	"strings"

	"lksms/internal/platform/secret"
)

// Hide returns the text that is stored and logged instead of a text of another system about a sensitive message. It drops the whole text, because any part can
// repeat the message in another notation.
func Hide(text string) string {
	if text == "" {
		return ""
	}
	return secret.Hidden
}

// HideToken works like Hide for a number or code that another system chose. A short text of printable ASCII without spaces remains; any other text is dropped.
// Receipts refer to the number of a message, and some providers use digits only, so that digits remain too.
func HideToken(text string) string {
	if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return text
}

const maxToken = 100 // bytes

// HideTokenOf works like HideToken for a message whose text is known: a token that is a number of the text is dropped, and a
// token that contains such a number in base64. A token that only contains a number remains: numbers of messages often contain dates, as texts do.
func HideTokenOf(text, token string) string {
	decoded, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		decoded, _ = base64.RawURLEncoding.DecodeString(token) // a token in no base64 has no decoded form
	}
	for _, number := range numbers.FindAllString(text, -1) {
		if token == number || strings.Contains(string(decoded), number) {
			return ""
		}
	}
	return HideToken(token)
}

var numbers = regexp.MustCompile(`[0-9]{4,}`)
