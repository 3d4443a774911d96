package jsonbody

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/platform/fault"
)

// Limits of the shape of a JSON body. The bodies of the contract need three levels, and lists of up to MaxListItems.
const (
	maxDepth     = 32
	MaxListItems = 5000
	maxMembers   = 500
	maxValues    = 25_000 // in the whole body; a batch of a thousand messages has half as many
)

// The errors of a ShapeReader.
var (
	ErrTooDeep = errors.New("body nests too deep")
	ErrTooMany = errors.New("list or object of the body is too long")
)

// ShapeReader reads JSON and fails where its shape exceeds the limits, before anything is built from it.
type ShapeReader struct {
	io.Reader
	depth    int
	commas   [maxDepth + 1]int  // so far in the list or object at each level
	opened   [maxDepth + 1]byte // the byte that opened it
	values   int                // so far
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
			if s.commas[s.depth] >= mostIn(s.opened[s.depth]) || s.values > maxValues {
				return i, ErrTooMany
			}
		}
	}
	return n, err
}

// mostIn returns the maximum number of items of a list, or of members of an object, by the byte that opens it.
func mostIn(opened byte) int {
	if opened == '{' {
		return maxMembers
	}
	return MaxListItems
}

// TooMany returns a fault that names the list or object that is too long. start is the body up to there.
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
	if most := mostIn(byte(kind)); length >= int64(most) {
		return fault.InvalidField(fieldAt(decoder.StackPointer().Parent()), fault.TooManyItems, most)
	}
	return fault.InvalidField("body", fault.TooManyItems, maxValues)
}
