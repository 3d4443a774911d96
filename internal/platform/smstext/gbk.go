package smstext

import "golang.org/x/text/encoding/simplifiedchinese"

// NewGBK returns the Appender of GBK, in which a character has one or two octets. The Appender is not safe for concurrent use.
func NewGBK() Appender {
	encoder := simplifiedchinese.GBK.NewEncoder()
	return func(dst []byte, r rune) ([]byte, bool) {
		var octets [2]byte
		n, _, err := encoder.Transform(octets[:], []byte(string(r)), true)
		return append(dst, octets[:n]...), err == nil && n > 0
	}
}

// DecodeGBK decodes GBK, which contains ASCII. Octets that are not GBK are decoded as U+FFFD.
func DecodeGBK(octets []byte) string {
	text, _ := simplifiedchinese.GBK.NewDecoder().Bytes(octets) // the decoder does not fail
	return string(text)
}
