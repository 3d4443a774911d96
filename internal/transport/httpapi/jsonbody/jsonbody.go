// Package jsonbody parses JSON bodies. It rejects bodies that are nested too deeply or have too many items, bodies that parsers read differently, and values
// that PostgreSQL cannot store. It also reads objects whose fields the contract does not define.
package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/platform/fault"
)

// ErrNotJSON means that a body is not JSON.
var ErrNotJSON = errors.New("body is not JSON")

// Parse parses a body: objects become maps, lists become slices, and numbers become json.Number. It returns ErrNotJSON if the body is not JSON. It returns a
// fault if PostgreSQL cannot store the body, or if JSON parsers read the body differently. Parsers differ after a duplicate name, invalid UTF-8, a lone
// surrogate, and text after the end.
func Parse(body []byte) (any, error) {
	value, bad, err := parse(body)
	if err == nil && bad != nil {
		return nil, bad
	}
	return value, err
}

// parse works like Parse. bad is the fault of a text or number that is valid JSON, but that PostgreSQL cannot store. value then contains this text or
// number. After a lone surrogate, value is nil.
func parse(body []byte) (value any, bad, err error) {
	p := parsers.Get().(*parser) //nolint:forcetypeassert // the pool contains only parsers
	defer func() {
		p.rest, p.unstorable = bytes.Buffer{}, nil
		parsers.Put(p)
	}()
	p.rest = *bytes.NewBuffer(body)
	p.tokens.Reset(&p.rest)
	value, err = p.next()
	if err == nil {
		if _, err := p.tokens.ReadToken(); !errors.Is(err, io.EOF) {
			return nil, nil, fault.New(fault.Malformed, fault.RequestMalformed) // text after the end of the value
		}
		if p.unstorable != nil {
			bad = p.unstorable
		}
		return value, bad, nil
	}
	var syntax *jsontext.SyntacticError
	switch {
	case !errors.As(err, &syntax):
		return nil, nil, ErrNotJSON
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, nil, fault.InvalidField(fieldAt(syntax.JSONPointer), fault.Duplicate, nil)
	case strings.Contains(syntax.Err.Error(), "surrogate"):
		return nil, fault.InvalidField(fieldAt(syntax.JSONPointer), fault.BadCharacters, nil), nil
	case strings.Contains(syntax.Err.Error(), "UTF-8"):
		return nil, nil, fault.InvalidField(fieldAt(syntax.JSONPointer), fault.BadCharacters, nil)
	default:
		return nil, nil, ErrNotJSON
	}
}

// lenient makes a decoder read text that Parse rejects.
var lenient = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// ParseItems works like Parse for a body with a list of items in field. A text or number that PostgreSQL cannot store, and a lone surrogate, rejects only its
// item. ParseItems returns the faults of such items by index, and valid, a copy of the body in which {} replaces these items. value is the value of this copy.
func ParseItems(body []byte, field string) (value any, wrong map[int]error, valid []byte, err error) {
	value, bad, err := parse(body)
	if err != nil || bad == nil {
		return value, nil, body, err
	}
	wrong, copied := map[int]error{}, 0
	for i, item := range Items(body, field) {
		_, fault, err := parse(item)
		if err != nil || fault == nil || item[0] != '{' {
			continue
		}
		wrong[i] = fault
		start := cap(body) - cap(item) // item is a slice of body
		valid = append(append(valid, body[copied:start]...), "{}"...)
		copied = start + len(item)
	}
	valid = append(valid, body[copied:]...)
	if value, err = Parse(valid); err != nil {
		return nil, nil, body, bad
	}
	return value, wrong, valid, nil
}

// Items returns the text of each item of a list in a JSON body. It returns nil if the body is not an object with such a list. An item can contain text that
// Parse rejects. The items are slices of body, not copies.
func Items(body []byte, field string) (items []json.RawMessage) {
	tokens := jsontext.NewDecoder(bytes.NewBuffer(body), lenient...)
	if token, err := tokens.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for tokens.PeekKind() == '"' {
		name, err := tokens.ReadToken()
		if err != nil {
			return nil
		}
		if name.String() != field || tokens.PeekKind() != '[' {
			if tokens.SkipValue() != nil {
				return nil
			}
			continue
		}
		_, _ = tokens.ReadToken() // the opening bracket
		for kind := tokens.PeekKind(); kind != ']' && kind != jsontext.KindInvalid; kind = tokens.PeekKind() {
			item, err := tokens.ReadValue()
			if err != nil {
				return nil
			}
			end := int(tokens.InputOffset())
			items = append(items, body[end-len(item):end])
		}
		return items
	}
	return nil
}

// parser parses one body at a time.
type parser struct {
	rest       bytes.Buffer
	tokens     *jsontext.Decoder
	unstorable *fault.Error // fault of the first value that PostgreSQL cannot store (NUL), or stores with many times its length (a huge number)
}

var parsers = sync.Pool{New: func() any { return &parser{tokens: jsontext.NewDecoder(bytes.NewReader(nil))} }}

func (p *parser) next() (any, error) {
	token, err := p.tokens.ReadToken()
	if err != nil {
		return nil, err //nolint:wrapcheck // Parse turns the error into a fault
	}
	switch token.Kind() {
	case '{':
		return p.object()
	case '[':
		return p.list()
	case '"':
		return p.text(token), nil
	case '0':
		number := token.String()
		if isHuge(number) && p.unstorable == nil {
			p.unstorable = fault.InvalidField(fieldAt(p.tokens.StackPointer()), fault.WrongFormat, nil)
		}
		return json.Number(number), nil
	case 't', 'f':
		return token.Bool(), nil
	default:
		return nil, nil
	}
}

func (p *parser) text(token jsontext.Token) string {
	text := token.String()
	if strings.Contains(text, "\x00") && p.unstorable == nil {
		p.unstorable = fault.InvalidField(fieldAt(p.tokens.StackPointer()), fault.BadCharacters, nil)
	}
	return text
}

func (p *parser) object() (any, error) {
	object := map[string]any{}
	for p.tokens.PeekKind() == '"' {
		name, err := p.tokens.ReadToken()
		if err != nil {
			return nil, err //nolint:wrapcheck // Parse turns the error into a fault
		}
		key := p.text(name)
		if object[key], err = p.next(); err != nil {
			return nil, err
		}
	}
	_, err := p.tokens.ReadToken() // the end of the object, or an error
	return object, err             //nolint:wrapcheck // Parse turns the error into a fault
}

func (p *parser) list() (any, error) {
	list := []any{}
	for kind := p.tokens.PeekKind(); kind != ']' && kind != jsontext.KindInvalid; kind = p.tokens.PeekKind() {
		value, err := p.next()
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := p.tokens.ReadToken() // the end of the list, or an error
	return list, err               //nolint:wrapcheck // Parse turns the error into a fault
}

// maxNumber is the maximum length of a number in characters.
const maxNumber = 100

// isHuge reports whether a number is longer than maxNumber or has an exponent of more than two digits.
func isHuge(number string) bool {
	e := strings.IndexAny(number, "eE")
	return len(number) > maxNumber || e >= 0 && len(strings.TrimLeft(number[e+1:], "+-")) > 2
}

// isPointed reports whether a number contains ".0" or an exponent, and so could be an integer in another form.
func isPointed(number []byte) bool {
	return bytes.Contains(number, []byte(".0")) || bytes.ContainsAny(number, "eE")
}

// IsLong reports whether a number could overflow a generated type. The smallest type has 32 bits.
func IsLong(number []byte) bool { return len(number) > 9 || bytes.ContainsAny(number, "eE") }

// HasNumber reports whether matches returns true for any number in a body. It reads each byte once and skips strings.
func HasNumber(body []byte, matches func(number []byte) bool) bool {
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
			if matches(body[i:end]) {
				return true
			}
			i = end - 1
		}
	}
	return false
}

// maxWhole is the maximum length in characters of an integer that a generated type can hold. Longer numbers are not converted: 1e99 would become 100
// characters long.
const maxWhole = 20

// WholeNumbers returns a body whose integers are written without a decimal point or exponent. The contract accepts 1.0 as an integer, but the generated types
// do not.
func WholeNumbers(body []byte) []byte {
	if !HasNumber(body, isPointed) {
		return body
	}
	var plain []byte
	copied := 0
	decoder := jsontext.NewDecoder(bytes.NewReader(body), lenient...)
	for {
		token, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			return append(plain, body[copied:]...)
		}
		if err != nil {
			return body // body is not JSON; changing numbers before the error could make it valid
		}
		text := token.String()
		if token.Kind() != '0' || !isPointed([]byte(text)) || isHuge(text) { // Parse rejects huge numbers
			continue
		}
		if n, ok := new(big.Rat).SetString(text); ok && n.IsInt() && len(n.Num().String()) <= maxWhole {
			end := int(decoder.InputOffset())
			plain = append(append(plain, body[copied:end-len(text)]...), n.Num().String()...)
			copied = end
		}
	}
}

// fieldAt returns the name of a field in faults: the parts of its path, joined by dots, without NUL.
func fieldAt(pointer jsontext.Pointer) string {
	field := strings.NewReplacer("/", ".", "\x00", "").Replace(strings.TrimPrefix(string(pointer), "/"))
	if field == "" {
		return "body"
	}
	return field
}
