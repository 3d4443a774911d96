package cmpp

import (
	"fmt"

	"lksms/internal/platform/smstext"
)

// Format is the coding of a content (7.4.3.1, Msg_Fmt).
type Format uint8

// These are the codings of the specification.
const (
	FormatASCII  Format = 0
	FormatCard   Format = 3 // writes to the SIM card
	FormatBinary Format = 4
	FormatUCS2   Format = 8
	FormatGBK    Format = 15
)

// String returns the name of the coding, or its number.
func (f Format) String() string {
	switch f {
	case FormatASCII:
		return "ASCII"
	case FormatCard:
		return "card"
	case FormatBinary:
		return "binary"
	case FormatUCS2:
		return "UCS-2"
	case FormatGBK:
		return "GBK"
	default:
		return fmt.Sprintf("format %d", uint8(f))
	}
}

// Header is the kind of user data header in the parts of a long text.
type Header int

// These are the kinds: a reference of 8 bits in 6 octets (05 00 03), or a reference of 16 bits in 7 octets (06 08 04).
const (
	Header8 Header = iota
	Header16
)

// A Part is the content of one Submit: a short text, or one part of a long text. Content contains at most 140 octets with the user data header, in which no
// character is split.
type Part struct {
	Total, Number uint8 // from 1
	UDHI          uint8 // 1 in the parts of a long text
	Format        Format
	Content       []byte
}

// Apply sets the fields of a Submit that describe its content.
func (p Part) Apply(submit *Submit) {
	submit.Total, submit.Number, submit.UDHI, submit.Format, submit.Content = p.Total, p.Number, p.UDHI, p.Format, p.Content
}

// SplitText encodes a text in the first of the formats that contains all its characters. A text above 140 octets is split into parts with the same reference in
// their headers. It returns false if no format contains the characters, or if the text needs more than 255 parts.
func SplitText(text string, formats []Format, header Header, reference uint16) ([]Part, bool) {
	for _, format := range formats {
		if parts, ok := splitText(text, format, header, reference); ok {
			return parts, true
		}
	}
	return nil, false
}

func splitText(text string, format Format, header Header, reference uint16) ([]Part, bool) {
	alphabet := format.alphabet()
	if alphabet == nil {
		return nil, false
	}
	octets, ok := smstext.Encode(text, alphabet)
	if !ok {
		return nil, false
	}
	if len(octets) <= smstext.MaxOctets {
		return []Part{{Total: 1, Number: 1, Format: format, Content: octets}}, true
	}
	contents, ok := smstext.Split(text, smstext.MaxOctets-header.length(), alphabet)
	if !ok || len(contents) > 0xFF {
		return nil, false
	}
	parts := make([]Part, len(contents))
	for i, content := range contents {
		c := smstext.Concat{Reference: reference, Total: uint8(len(contents)), Part: uint8(i + 1)}
		parts[i] = Part{Total: c.Total, Number: c.Part, UDHI: 1, Format: format, Content: append(header.octets(c), content...)}
	}
	return parts, true
}

func (h Header) length() int {
	if h == Header16 {
		return smstext.UDH16Length
	}
	return smstext.UDH8Length
}

func (h Header) octets(c smstext.Concat) []byte {
	if h == Header16 {
		return c.UDH16()
	}
	return c.UDH8()
}

// alphabet returns the alphabet of a format of texts, or nil.
func (f Format) alphabet() smstext.Appender {
	switch f {
	case FormatASCII:
		return smstext.AppendASCII
	case FormatUCS2:
		return smstext.AppendUCS2
	case FormatGBK:
		return smstext.NewGBK()
	default:
		return nil
	}
}

// SplitContent returns the description of the part of a long text in a content, which is zero for other contents, and the octets of the text. The parts of a
// long text are joined before they are decoded. The error is smstext.ErrHeader.
func SplitContent(udhi uint8, content []byte) (smstext.Concat, []byte, error) {
	if udhi&1 == 0 {
		return smstext.Concat{}, content, nil
	}
	return smstext.SplitUDH(content)
}

// DecodeText decodes the octets of a text. Octets of ASCII are decoded as GBK, which contains ASCII: some gateways send GBK with the format 0. It returns false
// if the format is not a format of texts.
func DecodeText(format Format, octets []byte) (string, bool) {
	switch format {
	case FormatASCII, FormatGBK:
		return smstext.DecodeGBK(octets), true
	case FormatUCS2:
		return smstext.DecodeUCS2(octets), true
	default:
		return "", false
	}
}
