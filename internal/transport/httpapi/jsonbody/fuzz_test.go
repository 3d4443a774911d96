package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"testing"
)

// FuzzBody compares the parsed body with the original body. Numbers can be written differently, and all other values must be equal.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"a":1.0,"b":[1e2,-0.0,12e-1,"1.0\"1e5"],"c":{"d":null}}`, `[1e999999`, `{"a":1,"a":2}`, `"\ud800"`, "{\"\xff\":1}", `1.50e1 `, `0e0.0`, `{"":{"a/b~":1E+2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		plain := WholeNumbers(body)
		read, wrong := Parse(plain)
		if limit := 50*len(body) + 100; len(plain) > limit { // 1e99 has a hundred digits
			t.Fatalf("%d bytes became %d", len(body), len(plain))
		}
		sent, err := decodeNumbers(body)
		switch {
		case wrong != nil:
			if err == nil && errors.Is(wrong, ErrNotJSON) {
				t.Errorf("%q is JSON", body)
			}
		case err != nil:
			t.Errorf("%q is read as %v, but is not JSON: %v", body, read, err)
		case !isSame(sent, read):
			t.Errorf("%q is read as %v", body, read)
		}
	})
}

func decodeNumbers(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && d.More() {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

func isSame(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, isNumber := b.(json.Number)
		x, good := new(big.Rat).SetString(a.String())
		y, alsoGood := new(big.Rat).SetString(n.String())
		return isNumber && good && alsoGood && x.Cmp(y) == 0
	case []any:
		list, isList := b.([]any)
		if !isList || len(list) != len(a) {
			return false
		}
		for i := range a {
			if !isSame(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, isObject := b.(map[string]any)
		if !isObject || len(object) != len(a) {
			return false
		}
		for name := range a {
			if there, is := object[name]; !is || !isSame(a[name], there) {
				return false
			}
		}
		return true
	default:
		return a == b
	}
}
