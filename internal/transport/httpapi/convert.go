package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/oapi-codegen/nullable"

	"lksms/gen/api"
	"lksms/internal/dispatch/queue"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
)

// The envelope of every success.
const (
	ok      = http.StatusOK
	success = "success"
)

func done() api.DoneJSONResponse { return api.DoneJSONResponse{Code: ok, Message: success} }

// objectMost is how many bytes an object may take of which the contract says nothing more.
const objectMost = 16 << 10

// sentObject is an object in the request's body as it was sent, nil if it was left out: the generated types make float64 of the numbers
// in an object of which the contract says nothing more. Fault: request.invalid for one that takes more than objectMost.
func sentObject(ctx context.Context, name string) (json.RawMessage, error) {
	return jsonbody.Member(gate.Of(ctx).Body.Raw, name, objectMost)
}

// fieldsOf are the fields of an object in the request's body, with numbers as they were sent. Faults as for sentObject.
func fieldsOf(ctx context.Context, name string) (map[string]any, error) {
	text, err := sentObject(ctx, name)
	if err != nil {
		return nil, err
	}
	return jsonbody.Fields(text)
}

// nonEmpty makes nil of an empty text.
func nonEmpty(s *string) *string { return optional.NonZero(optional.Value(s)) }

// convert never returns nil: an empty list is written as one.
func convert[From, To any](rows []From, one func(From) To) []To {
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = one(row)
	}
	return out
}

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

// onlyMessageType is the kept form of a name in a filter; nil if there is none.
func onlyMessageType(name *api.MessageType) *int16 {
	if name == nil {
		return nil
	}
	return new(messageType(name))
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
