package provider

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// view is a text with its escapes decoded. from[i] is the position of its byte i in the original text; the last position is the length of the original.
type view struct {
	text string
	from []int
}

// viewsOf returns a text in each notation in which a provider can repeat a secret: as it is, as JSON, as a part of a URL, and as one within the other.
func viewsOf(text string) []view {
	plain := view{text, make([]int, len(text)+1)}
	for i := range plain.from {
		plain.from[i] = i
	}
	if !strings.ContainsAny(text, `%\`) {
		return []view{plain}
	}
	fromURL, fromJSON := plain.decode(urlEscape), plain.decode(jsonEscape)
	return []view{plain, fromURL, fromJSON, fromURL.decode(jsonEscape), fromJSON.decode(urlEscape)}
}

// decode decodes the escapes of a notation. An escape that breaks off at the end of the text is removed. All else remains.
func (v view) decode(escape func(text string) (decoded string, length int)) view {
	var text strings.Builder
	from := make([]int, 0, len(v.from))
	for at := 0; at < len(v.text); {
		decoded, length := escape(v.text[at:])
		if length == 0 {
			decoded, length = v.text[at:at+1], 1
		}
		for range len(decoded) {
			from = append(from, v.from[at])
		}
		text.WriteString(decoded)
		at += length
	}
	return view{text.String(), append(from, v.from[len(v.text)])}
}

// urlEscape decodes the percent escape at the beginning of a text. length is 0 if the text begins with no escape. decoded is empty if the escape breaks off.
func urlEscape(text string) (decoded string, length int) {
	const escape = len("%2f")
	if text[0] != '%' {
		return "", 0
	}
	if len(text) < escape {
		return "", len(text)
	}
	if b, err := strconv.ParseUint(text[1:escape], 16, 8); err == nil {
		return string([]byte{byte(b)}), escape
	}
	return "", 0
}

// jsonEscape works like urlEscape for the escapes of JSON.
func jsonEscape(text string) (decoded string, length int) {
	const escape = len(`\u002f`)
	switch {
	case text[0] != '\\':
		return "", 0
	case len(text) == 1:
		return "", 1
	case text[1] != 'u':
		const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		if i := strings.IndexByte(letters, text[1]); i >= 0 {
			return meanings[i : i+1], 2
		}
		return "", 0
	case len(text) < escape:
		return "", len(text)
	}
	unit, err := strconv.ParseUint(text[2:escape], 16, 16)
	if err != nil {
		return "", 0
	}
	if !utf16.IsSurrogate(rune(unit)) {
		return string(rune(unit)), escape
	}
	rest := text[escape:]
	if len(rest) < escape {
		return "", len(text)
	}
	low, err := strconv.ParseUint(rest[2:escape], 16, 16)
	if !strings.HasPrefix(rest, `\u`) || err != nil {
		return "", 0
	}
	return string(utf16.DecodeRune(rune(unit), rune(low))), 2 * escape
}
