package cmpp

import (
	"encoding/binary"
	"io"
)

const headerLength = 12

// MaxLength is the largest accepted length of a PDU in octets, with its header. A CMPP_SUBMIT of CMPP 3.0 to 99 recipients with 255 octets of content has less.
const MaxLength = 4096

// A Frame is a PDU with the number in its header that connects a response with its request.
type Frame struct {
	Sequence uint32
	PDU      PDU
}

// Append appends the encoded frame to dst. If a value does not fit, it returns dst and a *FieldError.
func Append(dst []byte, version Version, frame Frame) ([]byte, error) {
	start := len(dst)
	c := coder{version: version, octets: append(dst, make([]byte, headerLength)...)}
	frame.PDU.fields(&c)
	if c.err != nil {
		return dst, c.err
	}
	header := c.octets[start:]
	binary.BigEndian.PutUint32(header, uint32(len(header)))
	binary.BigEndian.PutUint32(header[4:], uint32(frame.PDU.command()))
	binary.BigEndian.PutUint32(header[8:], frame.Sequence)
	return c.octets, nil
}

// Read reads one frame. It allocates no more than the length of the PDU, and nothing for a length above MaxLength.
//
// After a *DecodeError, the next frame can be read. All other errors end the stream; an io.EOF means that it ended between two frames.
func Read(r io.Reader, version Version) (Frame, error) {
	raw, err := readRaw(r)
	if err != nil {
		return Frame{}, err
	}
	return decode(raw, version)
}

// A rawFrame is a frame whose fields are not decoded.
type rawFrame struct {
	command  Command
	sequence uint32
	body     []byte
}

func readRaw(r io.Reader) (rawFrame, error) {
	var header [headerLength]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return rawFrame{}, err
	}
	length := binary.BigEndian.Uint32(header[:])
	if length < headerLength || length > MaxLength {
		return rawFrame{}, &LengthError{Length: length}
	}
	raw := rawFrame{
		command: Command(binary.BigEndian.Uint32(header[4:])), sequence: binary.BigEndian.Uint32(header[8:]), body: make([]byte, length-headerLength),
	}
	_, err := io.ReadFull(r, raw.body)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}

// decode requires that the fields fill the body: a PDU of the other version can have plausible values in its first fields, such as the first octet of a
// four-octet error as the result 0.
func decode(raw rawFrame, version Version) (Frame, error) {
	empty, known := newPDU[raw.command]
	if !known {
		return Frame{}, &DecodeError{Command: raw.command, Sequence: raw.sequence, Reason: "the command is unknown"}
	}
	frame := Frame{Sequence: raw.sequence, PDU: empty()}
	c := coder{version: version, decoding: true, octets: raw.body}
	frame.PDU.fields(&c)
	if c.err == nil && len(c.octets) > 0 {
		c.fail("", "%d octets follow the last field: the other side may speak another version than %s", len(c.octets), c.version)
	}
	if c.err != nil {
		return Frame{}, &DecodeError{Command: raw.command, Sequence: raw.sequence, Field: c.err.Field, Reason: c.err.Reason}
	}
	return frame, nil
}
