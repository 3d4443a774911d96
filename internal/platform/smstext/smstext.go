// Package smstext encodes the texts of short messages, and splits long texts into parts. Protocols of carriers share it.
package smstext

import "unicode/utf8"

// An Appender appends the octets of one character to dst. It returns false if its alphabet lacks the character.
type Appender func(dst []byte, r rune) ([]byte, bool)

// Encode encodes text. It returns false if the alphabet lacks a character of text.
func Encode(text string, alphabet Appender) ([]byte, bool) {
	octets := make([]byte, 0, len(text))
	for _, r := range text {
		var known bool
		if octets, known = alphabet(octets, r); !known {
			return nil, false
		}
	}
	return octets, true
}

// Split encodes text into parts of at most limit octets, at least one part. Each part contains as many characters as fit, and no character is split, so that the
// octets of a surrogate pair, or of an escape and its character, stay together. It returns false if the alphabet lacks a character of text, or if limit is
// smaller than a character.
func Split(text string, limit int, alphabet Appender) ([][]byte, bool) {
	var parts [][]byte
	part := make([]byte, 0, limit)
	for _, r := range text {
		longer, known := alphabet(part, r)
		if known && len(longer) > limit {
			parts = append(parts, part)
			longer, known = alphabet(make([]byte, 0, limit), r)
		}
		if !known || len(longer) > limit {
			return nil, false
		}
		part = longer
	}
	return append(parts, part), true
}

// AppendLatin1 is the Appender of ISO 8859-1.
func AppendLatin1(dst []byte, r rune) ([]byte, bool) {
	return append(dst, byte(r)), r <= 0xFF
}

// AppendASCII is the Appender of ASCII.
func AppendASCII(dst []byte, r rune) ([]byte, bool) {
	return append(dst, byte(r)), r < utf8.RuneSelf
}

// DecodeLatin1 decodes ISO 8859-1.
func DecodeLatin1(octets []byte) string {
	text := make([]byte, 0, len(octets)*2)
	for _, o := range octets {
		text = utf8.AppendRune(text, rune(o))
	}
	return string(text)
}

// DecodeASCII decodes ASCII. An octet above 127 is decoded as U+FFFD.
func DecodeASCII(octets []byte) string {
	text := make([]byte, 0, len(octets))
	for _, o := range octets {
		if o >= utf8.RuneSelf {
			text = utf8.AppendRune(text, utf8.RuneError)
		} else {
			text = append(text, o)
		}
	}
	return string(text)
}
