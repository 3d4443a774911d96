package jsonbody

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/platform/fault"
)

// These are the limits of the shape of a JSON body. Bodies of the contract need three levels, and lists of up to MaxListItems items.
const (
	maxDepth     = 32
	MaxListItems = 5000
	maxMembers   = 500
	maxValues    = 25_000 // maximum number of values in the whole body; a batch of a thousand messages contains half as many
)

// These are the errors that a ShapeReader returns.
var (
	ErrTooDeep = errors.New("body nests too deep")
	ErrTooMany = errors.New("list or object of the body is too long")
)

// ShapeReader reads JSON and returns an error as soon as the shape exceeds the limits, before a parser allocates memory for the body.
type ShapeReader struct {
	io.Reader
	depth    int
	commas   [maxDepth + 1]int  // number of commas so far, in the open list or object of each level
	opened   [maxDepth + 1]byte // opening byte of the list or object of each level
	values   int                // number of values so far
	inString bool
	escaped  bool
}

func (s *ShapeReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	for i, c := range p[:n] {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.escaped = c == '\\'
			s.inString = c != '"'
		case c == '"':
			s.inString = true
		case c == '{' || c == '[':
			if s.depth == maxDepth {
				return i, ErrTooDeep
			}
			s.depth++
			s.commas[s.depth], s.opened[s.depth] = 0, c
			s.values++
		case c == '}' || c == ']':
			s.depth = max(0, s.depth-1)
		case c == ',' && s.depth > 0:
			s.commas[s.depth]++
			s.values++
			if s.commas[s.depth] >= maxIn(s.opened[s.depth]) || s.values > maxValues {
				return i, ErrTooMany
			}
		}
	}
	return n, err
}

// maxIn returns the maximum number of items of a list, or of members of an object. opened is its opening byte.
func maxIn(opened byte) int {
	if opened == '{' {
		return maxMembers
	}
	return MaxListItems
}

// TooMany returns a fault that names the list or object with too many items. start is the body up to the error.
func TooMany(start []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(start), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := decoder.ReadToken(); err != nil {
			break
		}
	}
	kind, length := decoder.StackIndex(decoder.StackDepth())
	if kind == '{' {
		length /= 2
	}
	if limit := maxIn(byte(kind)); length >= int64(limit) {
		return fault.InvalidField(fieldAt(decoder.StackPointer().Parent()), fault.TooManyItems, limit)
	}
	return fault.InvalidField("body", fault.TooManyItems, maxValues)
}
