package smpp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// HeaderLength is the length of the header of a PDU, and the least length of a PDU, in octets (section 3.2).
const HeaderLength = 16

// MaxPDU is a length above all PDUs of the specification, in octets: a message_payload of 65,535 octets, and the other fields.
const MaxPDU = 70_000

// MaxText is the greatest length of a text field (C-octet string) without its NUL, in octets. The specification allows between 5 and 64 octets, depending on the
// field. Carriers use longer passwords, addresses and ids than it allows, so all fields have this limit in both directions.
const MaxText = 255

// An Error is a PDU that cannot be decoded or encoded.
type Error struct {
	Command  CommandID
	Sequence uint32
	// Status is the status with which the other side is answered.
	Status Status
	// Field is the name of the field in the specification, and Problem what is wrong with it.
	Field, Problem string
	// IsFatal is true if the length of the PDU is wrong, so that the beginning of the next PDU is unknown.
	IsFatal bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s %s", e.Command, e.Field, e.Problem) }

// Response returns the answer to the PDU: generic_nack for a wrong length and an unknown command (section 4.3), otherwise the response with the status. It returns
// nil for a PDU that is itself a response, because a response is never answered.
func (e *Error) Response() *PDU {
	switch {
	case e.IsFatal || e.Status == RInvCmdID:
		return &PDU{Command: GenericNack, Status: e.Status, Sequence: e.Sequence}
	case e.Command.IsResponse():
		return nil
	default:
		return &PDU{Command: e.Command.Response(), Status: e.Status, Sequence: e.Sequence}
	}
}

// Append appends the octets of p to dst. The error is an *Error.
func Append(dst []byte, p *PDU) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Command))
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Status))
	dst = binary.BigEndian.AppendUint32(dst, p.Sequence)
	if p.Body != nil {
		c := coder{buf: dst, writing: true}
		p.Body.code(&c, p.Command)
		if c.err != nil {
			c.err.Command, c.err.Sequence = p.Command, p.Sequence
			return dst[:start], c.err
		}
		dst = c.buf
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

// Decode decodes one whole PDU. The octets of its body are parts of octets. The error is an *Error.
//
// Decode accepts what many carriers send against the specification: responses without a body or without the NUL at the end of their id, responses with optional
// parameters instead of a body, fields up to MaxText, and zeros after the last field.
func Decode(octets []byte) (*PDU, error) {
	if len(octets) < HeaderLength {
		return nil, &Error{Status: RInvCmdLen, Field: "command_length", Problem: "is too short", IsFatal: true}
	}
	p := &PDU{
		Command:  CommandID(binary.BigEndian.Uint32(octets[4:])),
		Status:   Status(binary.BigEndian.Uint32(octets[8:])),
		Sequence: binary.BigEndian.Uint32(octets[12:]),
	}
	e := Error{Command: p.Command, Sequence: p.Sequence, Status: RInvCmdLen, Field: "command_length"}
	if length := binary.BigEndian.Uint32(octets); uint64(length) != uint64(len(octets)) {
		e.Problem, e.IsFatal = fmt.Sprintf("is %d, but the PDU has %d octets", length, len(octets)), true
		return nil, &e
	}
	if !p.Command.IsKnown() {
		e.Status, e.Field, e.Problem = RInvCmdID, "command_id", "is unknown"
		return nil, &e
	}
	if p.Body = newBody(p.Command); p.Body == nil {
		return p, nil
	}
	if len(octets) == HeaderLength && p.Command.IsResponse() {
		return p, nil
	}
	c := coder{buf: octets, pos: HeaderLength, isResponse: p.Command.IsResponse()}
	p.Body.code(&c, p.Command)
	if c.err != nil && p.Status != OK {
		p.Body, c.err = newBody(p.Command), nil // an error status is enough: a malformed body is ignored
	}
	if c.err != nil {
		c.err.Command, c.err.Sequence = p.Command, p.Sequence
		return nil, c.err
	}
	return p, nil
}

// step is the number of octets that ReadPDU allocates before it knows that the other side sends more.
const step = 4096

// Read reads one PDU of at most limit octets. Its memory grows with the octets that arrived, so that a sender of headers alone cannot use up the memory. The
// error is an *Error, after which the next PDU can be read unless IsFatal, or the error of r: io.EOF between two PDUs, and io.ErrUnexpectedEOF in a PDU.
func Read(r *bufio.Reader, limit int) (*PDU, error) {
	header, err := r.Peek(HeaderLength)
	if err != nil {
		if len(header) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	length := binary.BigEndian.Uint32(header)
	if length < HeaderLength || uint64(length) > uint64(limit) {
		return nil, &Error{
			Command: CommandID(binary.BigEndian.Uint32(header[4:])), Sequence: binary.BigEndian.Uint32(header[12:]), Status: RInvCmdLen,
			Field: "command_length", Problem: fmt.Sprintf("is %d: at least %d, at most %d", length, HeaderLength, limit), IsFatal: true,
		}
	}
	octets := make([]byte, 0, min(int(length), step))
	for len(octets) < int(length) {
		have := len(octets)
		if have == cap(octets) {
			octets = append(make([]byte, 0, min(int(length), 2*have)), octets...)
		}
		octets = octets[:cap(octets)]
		if _, err := io.ReadFull(r, octets[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return Decode(octets)
}

// A coder decodes fields from buf, or appends fields to buf. After its first error, it does nothing. One coder for both directions ensures that the fields are
// written in the order in which they are read.
type coder struct {
	buf        []byte
	pos        int // of the next octet to decode
	writing    bool
	isResponse bool
	err        *Error
}

func (c *coder) fail(field string, status Status, problem string) {
	if c.err == nil {
		c.err = &Error{Field: field, Status: status, Problem: problem}
	}
}

func (c *coder) isAtEnd() bool { return c.pos == len(c.buf) }

// octet codes an integer of one octet.
func (c *coder) octet(v *uint8) {
	switch {
	case c.err != nil:
	case c.writing:
		c.buf = append(c.buf, *v)
	case c.isAtEnd():
		c.fail("command_length", RInvCmdLen, "is too short for the fields")
	default:
		*v = c.buf[c.pos]
		c.pos++
	}
}

// uint32 codes an integer of four octets.
func (c *coder) uint32(v *uint32) {
	switch {
	case c.err != nil:
	case c.writing:
		c.buf = binary.BigEndian.AppendUint32(c.buf, *v)
	case len(c.buf)-c.pos < 4:
		c.fail("command_length", RInvCmdLen, "is too short for the fields")
	default:
		*v = binary.BigEndian.Uint32(c.buf[c.pos:])
		c.pos += 4
	}
}

// count codes a number of elements in one octet, and returns it.
func (c *coder) count(n int, field string, status Status) int {
	if c.writing && n > 0xFF {
		c.fail(field, status, "is above 255")
	}
	octet := uint8(n)
	c.octet(&octet)
	return int(octet)
}

// text codes a text that ends with NUL. In responses, the NUL can be missing at the end of the PDU.
func (c *coder) text(s *string, field string, status Status) {
	if c.err != nil {
		return
	}
	if c.writing {
		if len(*s) > MaxText || strings.IndexByte(*s, 0) >= 0 {
			c.fail(field, status, fmt.Sprintf("has %d octets or contains NUL: at most %d octets without NUL", len(*s), MaxText))
			return
		}
		c.buf = append(append(c.buf, *s...), 0)
		return
	}
	rest := c.buf[c.pos:]
	end := bytes.IndexByte(rest[:min(len(rest), MaxText+1)], 0)
	next := end + 1
	if end < 0 {
		end, next = len(rest), len(rest)
		if !c.isResponse || end > MaxText {
			c.fail(field, status, "does not end")
			return
		}
	}
	*s = string(rest[:end])
	c.pos += next
}

// octets codes octets after their number, which is one octet.
func (c *coder) octets(v *[]byte, field string, status Status) {
	n := c.count(len(*v), field, status)
	switch {
	case c.err != nil:
	case c.writing:
		c.buf = append(c.buf, *v...)
	case len(c.buf)-c.pos < n:
		c.fail(field, status, "is longer than the PDU")
	case n > 0:
		*v = c.buf[c.pos : c.pos+n : c.pos+n]
		c.pos += n
	}
}

// tlvs codes the optional parameters, which are the rest of a PDU. Zeros that are no parameter are ignored.
func (c *coder) tlvs(v *TLVs) {
	if c.err != nil {
		return
	}
	if c.writing {
		if !areWhole(*v) {
			c.fail("optional parameters", RInvOptParStream, "are cut")
			return
		}
		c.buf = append(c.buf, *v...)
		return
	}
	rest := c.buf[c.pos:len(c.buf):len(c.buf)]
	if len(rest) < 4 {
		rest = bytes.TrimLeft(rest, "\x00")
	}
	if !areWhole(rest) {
		c.fail("optional parameters", RInvOptParStream, "are cut")
		return
	}
	c.pos = len(c.buf)
	if len(rest) > 0 {
		*v = TLVs(rest)
	}
}

// idAndTLVs codes the body of a response: an id, and optional parameters. Some carriers omit the id before parameters, although it is mandatory. The body is read
// so only if it cannot be read with an id.
func (c *coder) idAndTLVs(id *string, field string, tlvs *TLVs) {
	start := c.pos
	c.text(id, field, RInvMsgID)
	c.tlvs(tlvs)
	if !c.writing && c.err != nil && areWhole(c.buf[start:]) {
		*id, c.pos, c.err = "", start, nil
		c.tlvs(tlvs)
	}
}
