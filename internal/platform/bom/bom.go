// Package bom decodes texts of other programs. Such a text can begin with a byte order mark, which JSON does not allow, or have another encoding than UTF-8.
package bom

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// Mark is the byte order mark, which some programs write before a text.
const Mark = "\uFEFF"

// Skip returns text without a byte order mark at its beginning.
func Skip(text []byte) []byte { return bytes.TrimPrefix(text, []byte(Mark)) }

// Decode returns text in UTF-8, without a byte order mark. It decodes UTF-16 with a byte order mark, and GB18030 (GBK, GB2312), which older Chinese providers
// send. Text in any other encoding, and UTF-8 with a few broken characters, is returned unchanged.
func Decode(text []byte) []byte {
	if bytes.HasPrefix(text, []byte{0xFF, 0xFE}) || bytes.HasPrefix(text, []byte{0xFE, 0xFF}) {
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(text)
		if err == nil {
			return decoded
		}
	}
	text = Skip(text)
	if good, bad := Count(Whole(text)); bad <= good {
		return text
	}
	decoded, err := simplifiedchinese.GB18030.NewDecoder().Bytes(text)
	if err != nil || bytes.ContainsRune(decoded, utf8.RuneError) || json.Valid(text) && !json.Valid(decoded) {
		return text // decoded as GB18030, a text in another encoding could lose the JSON characters that follow its letters
	}
	return decoded
}

// Whole returns text without an incomplete UTF-8 character at its end.
func Whole(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// Count counts the multi-byte UTF-8 characters of text (good), and the bytes that are not valid UTF-8 (bad). A text counts as UTF-8 if bad <= good: Chinese
// text in GB18030 contains mostly bytes that are invalid in UTF-8. A check for valid GB18030 would be useless, because nearly every pair of bytes, and so also
// broken UTF-8, is valid GB18030.
func Count(text []byte) (good, bad int) {
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case size > 1:
			good++
		case c == utf8.RuneError:
			bad++
		}
		text = text[size:]
	}
	return good, bad
}
