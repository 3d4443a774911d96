package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oapi-codegen/nullable"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/httpapi/gate"
	"lksms/internal/optional"
	"lksms/internal/queue"
)

// The envelope of every success.
const (
	ok      = http.StatusOK
	success = "success"
)

func done() api.DoneJSONResponse { return api.DoneJSONResponse{Code: ok, Message: success} }

// objectMost is how many bytes an object may take of which the contract says nothing more.
const objectMost = 16 << 10

// member is an object in the request's body as it was sent, nil if it was left out. The generated types make float64 of the numbers in
// an object of which the contract says nothing more. Fault: request.invalid for one that takes more than objectMost.
func member(ctx context.Context, name string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(gate.Of(ctx).Body, &members); err != nil {
		return nil, fmt.Errorf("read members of body: %w", err)
	}
	text := members[name]
	if storedSize(text) > objectMost {
		return nil, fault.InvalidField(name, fault.TooManyBytes, objectMost)
	}
	return text, nil
}

// storedSize is how many bytes JSON takes at most as PostgreSQL writes it: without the white space of its author, and with numbers
// written out. 1e99 takes a hundred.
func storedSize(text []byte) int {
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return len(text)
	}
	size := compact.Len()
	decoder := jsontext.NewDecoder(&compact)
	for token, err := decoder.ReadToken(); err == nil && size <= objectMost; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		if number := token.String(); strings.ContainsAny(number, "eE") {
			exponent, _ := strconv.Atoi(number[strings.IndexAny(number, "eE")+1:])
			size += max(exponent, -exponent)
		}
	}
	return size
}

// object reads an object, whose numbers stay as they are written; nothing and null are an empty one.
func object(text []byte) (map[string]any, error) {
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

// payload is that of the request.
func payload(ctx context.Context) (map[string]any, error) {
	text, err := member(ctx, "payload")
	if err != nil {
		return nil, err
	}
	return object(text)
}

func nonEmpty(s *string) *string {
	if optional.Value(s) == "" {
		return nil
	}
	return s
}

// convert never returns nil: an empty list is written as one.
func convert[From, To any](rows []From, one func(From) To) []To {
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = one(row)
	}
	return out
}

// claimSize applies the contract's default.
func claimSize(limit *int) int { return optional.Or(limit, 10) }

// The names of message types, by how tasks keep them.
var messageTypes = [...]api.MessageType{
	queue.Verification: api.Verification, queue.Notification: api.Notification, queue.Marketing: api.Marketing,
}

// messageType is the kept form of a name; notification if there is none.
func messageType(name *api.MessageType) int16 {
	if name != nil {
		for code, known := range messageTypes {
			if known == *name {
				return int16(code)
			}
		}
	}
	return queue.Notification
}

// set sets a field that a patch gives.
func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// setNullable sets a field that a patch gives; null empties it.
func setNullable[T any](field **T, to nullable.Nullable[T]) {
	if to.IsSpecified() {
		*field = given(to)
	}
}

// given is the value that a patch gives, nil if it gives none or null.
func given[T any](n nullable.Nullable[T]) *T {
	v, err := n.Get()
	if err != nil {
		return nil
	}
	return &v
}
