package smstext

import "unicode/utf8"

// escape is the septet before the code of a character of the extension table.
const escape = 0x1B

// basic contains the characters of the GSM 7-bit default alphabet (3GPP TS 23.038, section 6.2.1) in the order of their codes.
var basic = []rune("@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà")

// extension contains the characters of the extension table (section 6.2.1.1) by their codes.
var extension = map[byte]rune{
	0x0A: '\f', 0x14: '^', 0x28: '{', 0x29: '}', 0x2F: '\\', 0x3C: '[', 0x3D: '~', 0x3E: ']', 0x40: '|', 0x65: '€',
}

// A septetCode is the code of a character, and whether an escape stands before the code.
type septetCode struct {
	code      byte
	isEscaped bool
}

var septetCodes = func() map[rune]septetCode {
	codes := make(map[rune]septetCode, len(basic)+len(extension))
	for code, r := range basic {
		if code != escape {
			codes[r] = septetCode{code: byte(code)}
		}
	}
	for code, r := range extension {
		codes[r] = septetCode{code: code, isEscaped: true}
	}
	return codes
}()

// Septets returns the number of septets of a character in the GSM 7-bit default alphabet with its extension table: 1, 2, or 0 if the alphabet lacks the
// character.
func Septets(r rune) int {
	c, known := septetCodes[r]
	switch {
	case !known:
		return 0
	case c.isEscaped:
		return 2
	default:
		return 1
	}
}

// AppendGSM7 is the Appender of the GSM 7-bit default alphabet with its extension table, unpacked: each octet contains one septet.
func AppendGSM7(dst []byte, r rune) ([]byte, bool) {
	c, known := septetCodes[r]
	if c.isEscaped {
		dst = append(dst, escape)
	}
	return append(dst, c.code), known
}

// DecodeGSM7 decodes unpacked septets. An unknown code after an escape is decoded as the character of the default alphabet with this code, and an escape without
// a code as a space (3GPP TS 23.038, section 6.2.1.1). An octet above 127 is decoded as U+FFFD.
func DecodeGSM7(septets []byte) string {
	text := make([]byte, 0, len(septets))
	for i := 0; i < len(septets); i++ {
		code, r := septets[i], utf8.RuneError
		switch {
		case code != escape && code < 0x80:
			r = basic[code]
		case code == escape && i+1 < len(septets) && septets[i+1] < 0x80 && septets[i+1] != escape:
			i++
			var known bool
			if r, known = extension[septets[i]]; !known {
				r = basic[septets[i]]
			}
		case code == escape:
			r = ' '
		}
		text = utf8.AppendRune(text, r)
	}
	return string(text)
}

// padding is the septet that fills seven unused bits at the end, CR (3GPP TS 23.038, section 6.1.2.3.1): zero bits would be read as "@".
const padding = 0x0D

// Pack packs septets into octets, eight septets into seven octets (3GPP TS 23.038, section 6.1.2.1). The first septet starts after fill unused bits: after a
// user data header, fill is FillBits(length of the header). Seven unused bits at the end contain CR.
func Pack(septets []byte, fill int) []byte {
	octets := make([]byte, (len(septets)*7+fill+7)/8)
	bit := fill
	for _, s := range septets {
		putSeptet(octets, bit, s)
		bit += 7
	}
	if len(octets)*8-bit == 7 {
		putSeptet(octets, bit, padding)
	}
	return octets
}

func putSeptet(octets []byte, bit int, septet byte) {
	wide := uint16(septet&0x7F) << (bit % 8)
	octets[bit/8] |= byte(wide)
	if high := byte(wide >> 8); high != 0 {
		octets[bit/8+1] |= high
	}
}

// Unpack returns the septets that Pack packed after fill unused bits. The octets do not tell whether their last seven bits are a septet. Unpack removes CR from
// these bits, and also "@", because other senders fill unused bits with zeros. It does not remove "@" if the octets fill a short message: a part of a long
// message usually has no unused bits, and "@" is a common character.
func Unpack(octets []byte, fill int) []byte {
	bits := len(octets)*8 - fill
	if bits < 7 {
		return nil
	}
	septets := make([]byte, bits/7)
	for i := range septets {
		bit := fill + i*7
		wide := uint16(octets[bit/8])
		if bit/8+1 < len(octets) {
			wide |= uint16(octets[bit/8+1]) << 8
		}
		septets[i] = byte(wide>>(bit%8)) & 0x7F
	}
	n, isFull := len(septets), len(octets) >= MaxOctets-UDH16Length
	if last := septets[n-1]; bits%7 == 0 && (last == padding || last == 0 && !isFull) {
		return septets[:n-1]
	}
	return septets
}

// FillBits returns the number of unused bits between a user data header of some octets, including its length, and the first septet.
func FillBits(header int) int { return (7 - header*8%7) % 7 }
