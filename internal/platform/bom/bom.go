// Package bom reads the texts of other programs: with a byte order mark, which JSON does not allow, or in another encoding than UTF-8.
package bom

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

var mark = []byte("\uFEFF")

// Skip returns text without the mark at its beginning.
func Skip(text []byte) []byte { return bytes.TrimPrefix(text, mark) }

// Decode returns text in UTF-8, without a mark: text in UTF-16 with its mark, and text in GB18030 (GBK, GB2312), in which older Chinese providers
// answer. Text in another encoding, or UTF-8 with a few broken characters, keeps its bytes.
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
		return text // the last: another encoding, whose letters and the signs of JSON behind them would become one character
	}
	return decoded
}

// Whole returns text without the beginning of a character of UTF-8 whose end was cut off.
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

// Count counts the characters of text that are several bytes of UTF-8, and the bytes that are not UTF-8. UTF-8 with a few broken characters would pass
// for GB18030, which has a character for nearly every pair of bytes: of Chinese in GB18030, most bytes are wrong in UTF-8, and few pairs are right by
// chance. So text is UTF-8 if bad is at most good.
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
