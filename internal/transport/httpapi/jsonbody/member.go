package jsonbody

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lksms/internal/platform/fault"
)

// Member returns a member of a good body as it was sent, nil if it was left out. Fault: request.invalid if PostgreSQL would write it in
// more than most bytes.
func Member(body []byte, name string, most int) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("read members of body: %w", err)
	}
	text := members[name]
	if isStoredBeyond(text, most) {
		return nil, fault.InvalidField(name, fault.TooManyBytes, most)
	}
	return text, nil
}

// isStoredBeyond reports whether JSON takes more than most bytes as PostgreSQL writes it: without the white space of its author, and with
// numbers written out. 1e99 takes a hundred bytes.
func isStoredBeyond(text []byte, most int) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return len(text) > most
	}
	size := compact.Len()
	decoder := jsontext.NewDecoder(&compact)
	for token, err := decoder.ReadToken(); err == nil && size <= most; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		if number := token.String(); strings.ContainsAny(number, "eE") {
			exponent, _ := strconv.Atoi(number[strings.IndexAny(number, "eE")+1:])
			size += max(exponent, -exponent)
		}
	}
	return size > most
}

// Fields reads an object. Numbers stay as they are written. No text and null are an empty object.
func Fields(text []byte) (map[string]any, error) {
	fields := map[string]any{}
	if len(text) == 0 {
		return fields, nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return fields, nil
}
