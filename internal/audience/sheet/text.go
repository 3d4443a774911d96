package sheet

import (
	"strings"
	"unicode"

	"lksms/internal/platform/characters"
)

// isBlank reports whether c is invisible: white space, a zero-width character, or a character that sets the direction of text. Such
// characters often surround copied text.
func isBlank(c rune) bool {
	switch {
	case c <= ' ':
		return true
	case c < 0x80:
		return false
	case c >= 0x200B && c <= 0x200F, c >= 0x202A && c <= 0x202E, c == 0x2060, c >= 0x2066 && c <= 0x2069, c == 0xFEFF:
		return true
	}
	return unicode.IsSpace(c)
}

func trim(text string) string { return strings.TrimFunc(text, isBlank) }

// cellOf returns the cell of a text. A number loses its text marks: a leading apostrophe, the form ="0123", and white space. Any other text is not changed.
func cellOf(text string) Cell {
	if text == "" {
		return Cell{}
	}
	value := trim(text)
	if inner, is := strings.CutPrefix(value, `="`); is && inner != "" && strings.IndexByte(inner, '"') == len(inner)-1 {
		text, value = inner[:len(inner)-1], trim(inner[:len(inner)-1])
	}
	bare := trim(strings.TrimPrefix(value, "'"))
	if isNumber(bare) {
		text = bare
	}
	return Cell{Text: text, Lossy: isLost(bare)}
}

// isNumber reports whether a text is a number or a phone number in any notation.
func isNumber(text string) bool {
	digits := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits++
		case !strings.ContainsRune("+-(). ", rune(c)):
			return false
		}
	}
	return digits > 0
}

// isLost reports whether a text is a placeholder that a spreadsheet program displays instead of the value: a shortened number (1.38E+10), an error of a
// formula, or a value in a column that is too narrow (########).
func isLost(text string) bool {
	if text == "" {
		return false
	}
	if text[0] == '#' {
		return len(text) > 1 && strings.Trim(text, "#") == "" || isError(text)
	}
	mantissa, exponent, is := strings.Cut(strings.TrimLeft(text, "+-"), "E+")
	if !is || !characters.IsDigits(exponent) {
		return false
	}
	whole, fraction, hasPoint := strings.Cut(strings.Replace(mantissa, ",", ".", 1), ".")
	return characters.IsDigits(whole) && (!hasPoint || characters.IsDigits(fraction))
}

// isError reports whether a text is the error of a formula, such as #N/A.
func isError(text string) bool {
	switch text {
	case "#N/A", "#REF!", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!", "#GETTING_DATA":
		return true
	}
	return false
}
