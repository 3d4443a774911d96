package cmpp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// A coder encodes or decodes the fields of one PDU. Each PDU declares its fields once, in the order of the specification, as calls of the coder: the same
// declaration serves both directions and both versions. After a failure, the coder ignores all further fields.
type coder struct {
	version  Version
	decoding bool
	octets   []byte // the encoded PDU so far, or the octets that are not decoded yet
	err      *FieldError
}

func (c *coder) fail(field, format string, args ...any) {
	if c.err == nil {
		c.err = &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
}

// numberLength is the length of the number of a user. CMPP 3.0 made it longer, for pseudonyms.
func (c *coder) numberLength() int {
	if c.version.isV3() {
		return 32
	}
	return 21
}

// take returns the next n octets of a PDU that is decoded, or nil after a failure.
func (c *coder) take(field string, n int) []byte {
	if c.err == nil && len(c.octets) < n {
		c.fail(field, "the PDU ends %d octets early: the other side may speak another version than %s", n-len(c.octets), c.version)
	}
	if c.err != nil {
		return nil
	}
	octets := c.octets[:n]
	c.octets = c.octets[n:]
	return octets
}

func (c *coder) uint8(field string, value *uint8) {
	if !c.decoding {
		c.octets = append(c.octets, *value)
	} else if octets := c.take(field, 1); octets != nil {
		*value = octets[0]
	}
}

func (c *coder) uint32(field string, value *uint32) {
	if !c.decoding {
		c.octets = binary.BigEndian.AppendUint32(c.octets, *value)
	} else if octets := c.take(field, 4); octets != nil {
		*value = binary.BigEndian.Uint32(octets)
	}
}

func (c *coder) messageID(value *MessageID) {
	if !c.decoding {
		c.octets = binary.BigEndian.AppendUint64(c.octets, uint64(*value))
	} else if octets := c.take("Msg_Id", 8); octets != nil {
		*value = MessageID(binary.BigEndian.Uint64(octets))
	}
}

// status is a number of one octet in CMPP 2.0 and four octets in CMPP 3.0.
func (c *coder) status(field string, value *uint32) {
	if c.version.isV3() {
		c.uint32(field, value)
		return
	}
	if !c.decoding && *value > 0xFF {
		c.fail(field, "%d is above 255, the maximum of CMPP %s", *value, c.version)
	}
	octet := uint8(*value)
	c.uint8(field, &octet)
	if c.decoding {
		*value = uint32(octet)
	}
}

// text is an Octet String of a fixed length: the value, then zeros (7.1). A value is never cut: a shorter number is another recipient.
func (c *coder) text(field string, value *string, length int) {
	if c.decoding {
		if octets := c.take(field, length); octets != nil {
			octets, _, _ = bytes.Cut(octets, []byte{0})
			*value = string(octets)
		}
		return
	}
	switch {
	case len(*value) > length:
		c.fail(field, "%d octets are too long: at most %d", len(*value), length)
	case strings.IndexByte(*value, 0) >= 0:
		c.fail(field, "the value contains a zero octet")
	default:
		c.octets = append(c.octets, *value...)
		c.octets = append(c.octets, make([]byte, length-len(*value))...)
	}
}

// fixed is a field of octets that have no terminator, such as a digest.
func (c *coder) fixed(field string, value []byte) {
	if !c.decoding {
		c.octets = append(c.octets, value...)
	} else if octets := c.take(field, len(value)); octets != nil {
		copy(value, octets)
	}
}

// reserved is a field without a meaning: zeros are sent, and any octets are accepted.
func (c *coder) reserved(length int) {
	if c.decoding {
		c.take("Reserve", length)
	} else {
		c.octets = append(c.octets, make([]byte, length)...)
	}
}

// content is a field of a length in one octet, and as many octets.
func (c *coder) content(field string, value *[]byte) {
	if !c.decoding && len(*value) > 0xFF {
		c.fail(field, "%d octets are too long: at most 255", len(*value))
		return
	}
	length := uint8(len(*value))
	c.uint8("Msg_Length", &length)
	if !c.decoding {
		c.octets = append(c.octets, *value...)
	} else if octets := c.take(field, int(length)); octets != nil {
		*value = bytes.Clone(octets)
	}
}

// maxDestinations is the largest number of recipients of one CMPP_SUBMIT: the specification demands fewer than 100 (7.4.3.1, DestUsr_tl).
const maxDestinations = 99

// texts is a list of Octet Strings of one length. Its number of values in one octet is the field before.
func (c *coder) texts(count, field string, values *[]string, length int) {
	n := uint8(min(len(*values), 0xFF))
	c.uint8(count, &n)
	if c.err == nil && n > maxDestinations {
		c.fail(count, "%d are too many: at most %d", n, maxDestinations)
	}
	// The PDU must contain all values before memory for them is allocated.
	if c.decoding && c.err == nil && len(c.octets) < int(n)*length {
		c.fail(count, "the PDU is too short for %d values", n)
	}
	if c.err != nil {
		return
	}
	if c.decoding && n > 0 {
		*values = make([]string, n)
	}
	for i := range *values {
		c.text(field, &(*values)[i], length)
	}
}
