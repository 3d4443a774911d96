// Package bom reads the texts of other programs: with a byte order mark, which JSON does not allow, or in another encoding than UTF-8.
package bom

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

var mark = []byte("\uFEFF")

// Skip returns text without the mark at its beginning.
func Skip(text []byte) []byte { return bytes.TrimPrefix(text, mark) }

// Decode returns text in UTF-8, without a mark: text in UTF-16 with its mark, and text in GB18030 (GBK, GB2312), in which older Chinese providers
// answer. What is none of these is returned as it is.
func Decode(text []byte) []byte {
	if bytes.HasPrefix(text, []byte{0xFF, 0xFE}) || bytes.HasPrefix(text, []byte{0xFE, 0xFF}) {
		decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(text)
		if err == nil {
			return decoded
		}
	}
	if isUTF8(text) {
		return Skip(text)
	}
	decoded, err := simplifiedchinese.GB18030.NewDecoder().Bytes(text)
	if err != nil || bytes.ContainsRune(decoded, utf8.RuneError) {
		return text
	}
	return decoded
}

// isUTF8 reports whether text is UTF-8, also if it was cut within its last character.
func isUTF8(text []byte) bool {
	for cut := range min(utf8.UTFMax, len(text)+1) {
		if utf8.Valid(text[:len(text)-cut]) {
			return cut == 0 || !utf8.FullRune(text[len(text)-cut:])
		}
	}
	return false
}
