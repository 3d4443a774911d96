package smstext

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendUCS2 is the Appender of UCS-2 in network byte order. A character above U+FFFF is encoded as a surrogate pair (UTF-16), as phones do.
func AppendUCS2(dst []byte, r rune) ([]byte, bool) {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(dst, uint16(high)), uint16(low)), true
	}
	return binary.BigEndian.AppendUint16(dst, uint16(r)), true
}

// EncodeUCS2 encodes text in UCS-2. Octets of text that are not UTF-8 are encoded as U+FFFD.
func EncodeUCS2(text string) []byte {
	octets := make([]byte, 0, len(text)*2)
	for _, r := range text {
		octets, _ = AppendUCS2(octets, r)
	}
	return octets
}

// DecodeUCS2 decodes UCS-2 with surrogate pairs. Half of a pair, and an odd octet at the end, are decoded as U+FFFD. Join the parts of a long message before
// decoding: some senders split pairs.
func DecodeUCS2(octets []byte) string {
	text := make([]byte, 0, len(octets)/2*3+3)
	for ; len(octets) >= 2; octets = octets[2:] {
		r := rune(binary.BigEndian.Uint16(octets))
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if len(octets) >= 4 {
				low = rune(binary.BigEndian.Uint16(octets[2:]))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				octets = octets[2:]
			}
		}
		text = utf8.AppendRune(text, r)
	}
	if len(octets) == 1 {
		text = utf8.AppendRune(text, utf8.RuneError)
	}
	return string(text)
}
