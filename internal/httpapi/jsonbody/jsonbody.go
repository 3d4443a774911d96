// Package jsonbody checks JSON bodies before anything is built from them: their shape, text that parsers read differently, and values
// that PostgreSQL cannot store. It also reads objects whose fields the contract leaves open.
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

// Ambiguity returns the fault of a body that JSON parsers read differently, because of a duplicate name, invalid UTF-8, a lone surrogate
// or text after its end, or that PostgreSQL cannot store. Nil: the body is good, or is not JSON for another reason.
func Ambiguity(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := decoder.ReadValue()
	if err == nil {
		if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
			return fault.New(fault.Malformed, fault.RequestMalformed) // text after the end
		}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		if err == nil && (bytes.Contains(body, []byte(`\u0000`)) || HasNumber(body, isHuge)) {
			return unstorable(body)
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

// numberMost is the maximum length of a number in characters.
const numberMost = 100

// isHuge reports whether a number is longer than numberMost, or has an exponent of more than two digits.
func isHuge(number []byte) bool {
	e := bytes.IndexAny(number, "eE")
	return len(number) > numberMost || e >= 0 && len(bytes.TrimLeft(number[e+1:], "+-")) > 2
}

// isPointed reports whether a number is written with a point or an exponent, and may be whole.
func isPointed(number []byte) bool {
	return bytes.Contains(number, []byte(".0")) || bytes.ContainsAny(number, "eE")
}

// IsLong reports whether a number may exceed a generated type. The smallest type has 32 bits.
func IsLong(number []byte) bool { return len(number) > 9 || bytes.ContainsAny(number, "eE") }

// HasNumber reports whether is holds for any number in a body. It reads each byte once, and skips strings.
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

// unstorable returns the fault for a value in a valid body that PostgreSQL cannot store, or only at many times its length: a string with a
// NUL, or a huge number. Nil: there is none.
func unstorable(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		switch kind := token.Kind(); {
		case kind == '"' && strings.Contains(token.String(), "\x00"):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.BadCharacters, nil)
		case kind == '0' && isHuge([]byte(token.String())):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.WrongFormat, nil)
		}
	}
	return nil
}

// wholeMost is the maximum length in characters of a whole number that a generated type can hold. Longer ones stay as they are: 1e99 would
// grow to 100 characters.
const wholeMost = 20

// WholeNumbers returns a body with its whole numbers written without point and exponent: the contract accepts 1.0 as an integer, but the
// generated types do not.
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
		if !isPointed([]byte(text)) || isHuge([]byte(text)) { // a huge number is left only in a body that is not JSON: Ambiguity rejects the others
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

// fieldAt returns the name of a field as faults give it: its path, joined with dots.
func fieldAt(pointer jsontext.Pointer) string {
	field := strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
	if field == "" {
		return "body"
	}
	return field
}
