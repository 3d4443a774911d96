package smstext

import (
	"encoding/binary"
	"errors"
)

// MaxOctets is the number of octets of one short message, with its user data header. UnpackedOctets is the number of octets of the same message if each octet
// contains one septet and no header stands before them.
const (
	MaxOctets      = 140
	UnpackedOctets = 160
)

// These are the lengths of the user data headers of a Concat in octets.
const (
	UDH8Length  = 6
	UDH16Length = 7
)

// The elements of a user data header that describe a part of a long message (3GPP TS 23.040, sections 9.2.3.24.1 and 9.2.3.24.8).
const (
	concat8  = 0x00
	concat16 = 0x08
)

// ErrHeader is the error of a user data header that is longer than the message, or whose elements are cut.
var ErrHeader = errors.New("the user data header is cut")

// A Concat describes one part of a long message. Reference is the same in all parts of one message. Total is the number of parts, and Part the number of this
// part, from 1. The zero value describes a message that is no part.
type Concat struct {
	Reference uint16
	Total     uint8
	Part      uint8
}

// IsPart reports whether c describes a part. Receivers ignore a header with a total or a number of zero, and with a number above the total.
func (c Concat) IsPart() bool { return c.Part >= 1 && c.Part <= c.Total }

// UDH8 returns the user data header with the low eight bits of the reference.
func (c Concat) UDH8() []byte {
	return []byte{UDH8Length - 1, concat8, 3, byte(c.Reference), c.Total, c.Part}
}

// UDH16 returns the user data header with a reference of 16 bits.
func (c Concat) UDH16() []byte {
	return []byte{UDH16Length - 1, concat16, 4, byte(c.Reference >> 8), byte(c.Reference), c.Total, c.Part}
}

// SplitUDH splits octets that start with a user data header into the description of the part, which is zero without one, and the octets after the header.
// Elements with other content are ignored.
func SplitUDH(octets []byte) (c Concat, body []byte, err error) {
	if len(octets) == 0 || int(octets[0]) >= len(octets) {
		return Concat{}, nil, ErrHeader
	}
	elements, body := octets[1:1+octets[0]], octets[1+octets[0]:]
	for len(elements) > 0 {
		if len(elements) < 2 || len(elements) < 2+int(elements[1]) {
			return Concat{}, nil, ErrHeader
		}
		id, data := elements[0], elements[2:2+elements[1]]
		elements = elements[2+len(data):]
		switch {
		case id == concat8 && len(data) == 3:
			c = Concat{Reference: uint16(data[0]), Total: data[1], Part: data[2]}
		case id == concat16 && len(data) == 4:
			c = Concat{Reference: binary.BigEndian.Uint16(data), Total: data[2], Part: data[3]}
		}
	}
	if !c.IsPart() {
		c = Concat{}
	}
	return c, body, nil
}
