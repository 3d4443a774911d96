package smpp

import (
	"errors"
	"fmt"

	"lksms/internal/platform/smstext"
)

// A LongForm is the form in which the parts of a long message are sent.
type LongForm uint8

// These are the forms of long messages. UDH8 and UDH16 put a user data header with a reference of 8 or 16 bits before the text of each part. SAR describes the part
// in the parameters sar_…, and Payload sends the whole text in the parameter message_payload.
const (
	UDH8 LongForm = iota
	UDH16
	SAR
	Payload
)

var longForms = [...]string{"udh8", "udh16", "sar", "payload"}

// String returns the name of the form in configurations.
func (f LongForm) String() string {
	if int(f) < len(longForms) {
		return longForms[f]
	}
	return fmt.Sprintf("%d", uint8(f))
}

// ParseLongForm returns the form with a name.
func ParseLongForm(name string) (LongForm, bool) {
	for i, n := range longForms {
		if n == name {
			return LongForm(i), true
		}
	}
	return 0, false
}

// These are the bits of ESMClass that describe the content of a message (section 5.2.12).
const (
	ESMReceipt      uint8 = 0x04
	ESMManualAck    uint8 = 0x10
	ESMIntermediate uint8 = 0x20
	ESMUDHI         uint8 = 0x40

	esmType uint8 = 0x3C
)

// ErrTooLong is the error of a text that needs more than 255 parts, or more octets than message_payload can contain.
var ErrTooLong = errors.New("the text is too long for one message")

// header returns the octets that the form puts before the text of each part. The carrier itself puts a header of 8 bits before the parts of SAR.
func (f LongForm) header() int {
	if f == UDH16 {
		return smstext.UDH16Length
	}
	return smstext.UDH8Length
}

// limits returns the number of octets of a text in one message, and in each part of a long message.
func (s TextStyle) limits(a Alphabet) (alone, inPart int) {
	if a == GSM7 || a == GSM7Packed {
		return smstext.UnpackedOctets, (smstext.MaxOctets - s.Long.header()) * 8 / 7
	}
	return smstext.MaxOctets, smstext.MaxOctets - s.Long.header()
}

// Messages returns the messages that send text: copies of m with DataCoding, ESMClass, Short and TLVs set. They are more than one if the text is longer than one
// short message and the form is not Payload. The reference identifies the parts of this message: it differs from the references of the last messages to the same
// recipient. The parameters of m stand in each message.
func (s TextStyle) Messages(m Message, text string, reference uint16) ([]*Message, error) {
	a, coding := s.Choose(text)
	m.DataCoding = coding
	alone, inPart := s.limits(a)
	parts, _ := smstext.Split(text, alone, a.appender())
	if len(parts) == 1 {
		m.Short = a.packed(parts[0], 0)
		return []*Message{&m}, nil
	}
	if s.Long == Payload {
		octets, _ := smstext.Encode(text, a.appender())
		return m.payload(a.packed(octets, 0))
	}
	parts, _ = smstext.Split(text, inPart, a.appender())
	if len(parts) > 255 {
		return nil, ErrTooLong
	}
	messages := make([]*Message, len(parts))
	for i, part := range parts {
		c := smstext.Concat{Reference: reference, Total: uint8(len(parts)), Part: uint8(i + 1)}
		messages[i] = m.part(s.Long, c, a, part)
	}
	return messages, nil
}

func (a Alphabet) packed(octets []byte, fill int) []byte {
	if a == GSM7Packed {
		return smstext.Pack(octets, fill)
	}
	return octets
}

func (m *Message) payload(octets []byte) ([]*Message, error) {
	if len(octets) > 0xFFFF {
		return nil, ErrTooLong
	}
	long := *m
	long.TLVs = append(TLVs(nil), m.TLVs...)
	long.TLVs.Add(TagMessagePayload, octets)
	return []*Message{&long}, nil
}

// part returns a copy of m with a part of a long message.
func (m *Message) part(form LongForm, c smstext.Concat, a Alphabet, octets []byte) *Message {
	p := *m
	if form == SAR {
		p.Short = a.packed(octets, 0)
		p.TLVs = append(TLVs(nil), m.TLVs...)
		p.TLVs.AddUint16(TagSarMsgRefNum, c.Reference)
		p.TLVs.AddUint8(TagSarTotalSegments, c.Total)
		p.TLVs.AddUint8(TagSarSegmentSeqnum, c.Part)
		return &p
	}
	p.Short = c.UDH8()
	if form == UDH16 {
		p.Short = c.UDH16()
	}
	p.ESMClass |= ESMUDHI
	p.Short = append(p.Short, a.packed(octets, smstext.FillBits(len(p.Short)))...)
	return &p
}

// Part returns which part of a long message m is, and the octets of its text without a user data header. Concat is zero for a message that is no part. Septets are
// unpacked. The octets of all parts are decoded together with Alphabet.Decode. The error is smstext.ErrHeader, with all octets.
func (s TextStyle) Part(m *Message) (smstext.Concat, []byte, error) {
	octets, header := m.Content(), 0
	c := m.sar()
	var err error
	if m.ESMClass&ESMUDHI != 0 {
		var fromHeader smstext.Concat
		var body []byte
		if fromHeader, body, err = smstext.SplitUDH(octets); err == nil {
			header = len(octets) - len(body)
			octets = body
			if fromHeader.IsPart() {
				c = fromHeader
			}
		}
	}
	if s.Alphabet(m.DataCoding) == GSM7Packed {
		octets = smstext.Unpack(octets, smstext.FillBits(header))
	}
	return c, octets, err
}

// sar returns the part that the parameters sar_… describe (section 5.3.2.22 to 5.3.2.24).
func (m *Message) sar() smstext.Concat {
	reference, _ := m.TLVs.Uint(TagSarMsgRefNum)
	total, _ := m.TLVs.Uint(TagSarTotalSegments)
	part, _ := m.TLVs.Uint(TagSarSegmentSeqnum)
	if part < 1 || part > total || total > 255 || reference > 0xFFFF {
		return smstext.Concat{}
	}
	return smstext.Concat{Reference: uint16(reference), Total: uint8(total), Part: uint8(part)}
}
