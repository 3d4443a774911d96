// Package jsonbody checks bodies in JSON before anything is built from them: their shape, what parsers read differently, and what
// PostgreSQL cannot store.
package jsonbody

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/fault"
)

// Ambiguity returns the fault of a body that JSON parsers read differently, with a name that occurs twice or bytes that are no text, or
// that PostgreSQL cannot store. Nil: none, or the body is no JSON.
func Ambiguity(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := decoder.ReadValue()
	if err == nil {
		if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
			return fault.New(fault.Malformed, fault.RequestMalformed) // something stands behind it
		}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		if err == nil && (bytes.Contains(body, []byte(`\u0000`)) || HasNumber(body, isFar)) {
			return unkeepable(body)
		}
		return nil
	}
	field := fieldAt(syntax.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fault.InvalidField(field, fault.Duplicate, nil)
	case strings.Contains(syntax.Err.Error(), "UTF-8"), strings.Contains(syntax.Err.Error(), "surrogate"):
		return fault.InvalidField(field, fault.BadCharacters, nil)
	}
	return nil
}

// numberMost is how long a number may be.
const numberMost = 100

// isFar tells of a number that it is too long, or has an exponent of more than two digits.
func isFar(number []byte) bool {
	e := bytes.IndexAny(number, "eE")
	return len(number) > numberMost || e >= 0 && len(bytes.TrimLeft(number[e+1:], "+-")) > 2
}

// isPointed tells of a number that it is written with a point or an exponent, and may be whole.
func isPointed(number []byte) bool {
	return bytes.Contains(number, []byte(".0")) || bytes.ContainsAny(number, "eE")
}

// IsLong tells of a number that it may be more than a generated type holds, of which the smallest has 32 bits.
func IsLong(number []byte) bool { return len(number) > 9 || bytes.ContainsAny(number, "eE") }

// HasNumber tells whether any number in a body is such. It looks at each byte once, at what stands between texts.
func HasNumber(body []byte, is func(number []byte) bool) bool {
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case c >= '0' && c <= '9':
			end := i + 1
			for end < len(body) && strings.IndexByte("0123456789.eE+-", body[end]) >= 0 {
				end++
			}
			if is(body[i:end]) {
				return true
			}
			i = end - 1
		}
	}
	return false
}

// unkeepable names what a good body holds and PostgreSQL does not keep, or only at many times its length: a text with a NUL, and a
// number that isFar. Nil if there is none.
func unkeepable(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		switch kind := token.Kind(); {
		case kind == '"' && strings.Contains(token.String(), "\x00"):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.BadCharacters, nil)
		case kind == '0' && isFar([]byte(token.String())):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.WrongFormat, nil)
		}
	}
	return nil
}

// wholeMost is how many characters a whole number has that a generated type can hold. Longer ones are left: 1e99 is a fifth as long.
const wholeMost = 20

// WholeNumbers writes the whole numbers of a good body without point and exponent: 1.0 is an integer to the contract, and none to the
// generated types.
func WholeNumbers(body []byte) []byte {
	if !HasNumber(body, isPointed) {
		return body
	}
	var plain []byte
	copied := 0
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		text := token.String()
		if !isPointed([]byte(text)) || isFar([]byte(text)) { // of a body that is no JSON: others with such a number were refused
			continue
		}
		if n, ok := new(big.Rat).SetString(text); ok && n.IsInt() && len(n.Num().String()) <= wholeMost {
			end := int(decoder.InputOffset())
			plain = append(append(plain, body[copied:end-len(text)]...), n.Num().String()...)
			copied = end
		}
	}
	return append(plain, body[copied:]...)
}

// fieldAt names a place in a body as faults do.
func fieldAt(pointer jsontext.Pointer) string {
	field := strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
	if field == "" {
		return "body"
	}
	return field
}
