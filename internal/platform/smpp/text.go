package smpp

import "lksms/internal/platform/smstext"

// These are values of DataCoding (section 5.2.19).
const (
	CodingDefault uint8 = 0
	CodingASCII   uint8 = 1
	CodingLatin1  uint8 = 3
	CodingUCS2    uint8 = 8
)

// An Alphabet is the encoding of a text.
type Alphabet uint8

// These are the alphabets of texts. GSM7 is unpacked: each octet contains a septet. Octets are no text: each octet is read as a character of Latin-1.
const (
	GSM7 Alphabet = iota
	GSM7Packed
	ASCII
	Latin1
	UCS2
	Octets
)

// A TextStyle describes how one carrier encodes texts. Its zero value is the usual style: data_coding 0 is the unpacked GSM 7-bit default alphabet, texts outside
// this alphabet are UCS-2, and long messages have a user data header with a reference of 8 bits.
type TextStyle struct {
	// Default is the alphabet that DataCoding 0 means at this carrier: GSM7, GSM7Packed, ASCII or Latin1.
	Default Alphabet
	// Latin1 allows DataCoding 3 for texts that Default lacks.
	Latin1 bool
	// Long is the form of long messages that are sent. All forms are received.
	Long LongForm
}

// Alphabet returns the alphabet of a data coding. The values from 0 to 15 have the meaning of SMPP, and those above the meaning of GSM (3GPP TS 23.038,
// section 4), which carriers use for classes of messages.
func (s TextStyle) Alphabet(dataCoding uint8) Alphabet {
	switch dataCoding {
	case CodingDefault:
		return s.Default
	case CodingASCII:
		return ASCII
	case CodingLatin1:
		return Latin1
	case CodingUCS2:
		return UCS2
	}
	const general, indication, ucs2Indication, class = 0x00, 0xC0, 0xE0, 0xF0
	switch group := dataCoding & 0xF0; {
	case dataCoding < 0x10:
		return Octets // also the alphabets that no carrier uses, such as JIS
	case group == class && dataCoding&4 != 0:
		return Octets
	case group == ucs2Indication:
		return UCS2
	case group == class || group >= indication:
		return s.Default
	case dataCoding&0xC0 == general && dataCoding&0x0C == 8:
		return UCS2
	case dataCoding&0xC0 == general && dataCoding&0x0C == 4:
		return Octets
	default:
		return s.Default
	}
}

// Choose returns the alphabet with the shortest encoding of text, and its data coding.
func (s TextStyle) Choose(text string) (Alphabet, uint8) {
	if isIn(text, s.Default) {
		return s.Default, CodingDefault
	}
	if s.Latin1 && isIn(text, Latin1) {
		return Latin1, CodingLatin1
	}
	return UCS2, CodingUCS2
}

func isIn(text string, a Alphabet) bool {
	var octets [4]byte
	for _, r := range text {
		if _, known := a.appender()(octets[:0], r); !known {
			return false
		}
	}
	return true
}

func (a Alphabet) appender() smstext.Appender {
	switch a {
	case GSM7, GSM7Packed:
		return smstext.AppendGSM7
	case ASCII:
		return smstext.AppendASCII
	case UCS2:
		return smstext.AppendUCS2
	default:
		return smstext.AppendLatin1
	}
}

// Decode decodes a text. Octets that are not in the alphabet are decoded as U+FFFD. GSM7Packed is decoded like GSM7, because TextStyle.Part unpacks.
func (a Alphabet) Decode(octets []byte) string {
	switch a {
	case GSM7, GSM7Packed:
		return smstext.DecodeGSM7(octets)
	case ASCII:
		return smstext.DecodeASCII(octets)
	case UCS2:
		return smstext.DecodeUCS2(octets)
	default:
		return smstext.DecodeLatin1(octets)
	}
}

// Text returns the text of a message that is no part of a long message.
func (s TextStyle) Text(m *Message) (string, error) {
	_, octets, err := s.Part(m)
	return s.Alphabet(m.DataCoding).Decode(octets), err
}
