package sensitive

import (
	"strings"

	"lksms/internal/platform/secret"
)

// Hider hides the text of a sensitive message in texts that other systems return, before they are stored or logged. The zero value hides nothing.
type Hider struct {
	isSensitive bool
	part        string // the part that must be hidden; empty: the whole text, of which any part can be returned in any form
}

// Hider returns the Hider of a text.
func (t Text) Hider() Hider { return Hider{true, t.Part} }

// HideAll is the Hider of a sensitive text that is not known.
var HideAll = Hider{isSensitive: true}

// IsSensitive reports whether the message is sensitive.
func (h Hider) IsSensitive() bool { return h.isSensitive }

// Hide returns a text without the sensitive text. If the whole text of the message is sensitive, nothing of a text remains.
func (h Hider) Hide(text string) string {
	switch {
	case !h.isSensitive || text == "":
		return text
	case h.part == "":
		return secret.Hidden
	}
	for _, form := range secret.Forms(h.part) {
		text = strings.ReplaceAll(text, form, secret.Hidden)
	}
	return text
}

// HideToken works like Hide for a number or code that another system has chosen. A text without spaces that is short, and does not repeat the sensitive text,
// remains.
func (h Hider) HideToken(text string) string {
	if !h.isSensitive || h.part != "" {
		return h.Hide(text)
	}
	if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(tokenCharacters, r) }) {
		return ""
	}
	return text
}

const (
	maxToken        = 100
	tokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
)
