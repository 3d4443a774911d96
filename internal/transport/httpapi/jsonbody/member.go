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

// Member returns the original text of a member of a valid body. It returns nil if the member is missing. Fault: request.invalid if PostgreSQL would store the
// member in more than maxBytes.
func Member(body []byte, name string, maxBytes int) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("read members of body: %w", err)
	}
	text := members[name]
	if exceedsStoredSize(text, maxBytes) {
		return nil, fault.InvalidField(name, fault.TooManyBytes, maxBytes)
	}
	return text, nil
}

// exceedsStoredSize reports whether PostgreSQL would store a JSON text in more than maxBytes. PostgreSQL removes white space and writes exponents out: 1e99
// becomes a hundred bytes long.
func exceedsStoredSize(text []byte, maxBytes int) bool {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return len(text) > maxBytes
	}
	size := compact.Len()
	decoder := jsontext.NewDecoder(&compact)
	for token, err := decoder.ReadToken(); err == nil && size <= maxBytes; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		if number := token.String(); strings.ContainsAny(number, "eE") {
			exponent, _ := strconv.Atoi(number[strings.IndexAny(number, "eE")+1:])
			size += max(exponent, -exponent)
		}
	}
	return size > maxBytes
}

// Fields parses a JSON object and keeps numbers as they are written. An empty text and null become an empty map.
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
