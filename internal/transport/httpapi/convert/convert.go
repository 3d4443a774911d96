// Package convert has what handlers need to read requests and to write answers: the envelope, fields of patches, message types, and parts of answers
// that several handlers write.
package convert

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/oapi-codegen/nullable"

	"lksms/gen/api"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/transport/httpapi/caller"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
)

// The envelope of every success.
const (
	OK      = http.StatusOK
	Success = "success"
)

// Done is the answer of an operation that returns nothing.
func Done() api.DoneJSONResponse { return api.DoneJSONResponse{Code: OK, Message: Success} }

// maxObject is how many bytes an object may take of which the contract says nothing more.
const maxObject = 16 << 10

// SentObject is an object in the request's body as it was sent, nil if it was left out: the generated types make float64 of the numbers
// in an object of which the contract says nothing more. Fault: request.invalid for one that takes more than maxObject.
func SentObject(ctx context.Context, name string) (json.RawMessage, error) {
	return jsonbody.Member(gate.Of(ctx).Body.Raw, name, maxObject)
}

// Fields are the fields of an object in the request's body, with numbers as they were sent. Faults as for SentObject.
func Fields(ctx context.Context, name string) (map[string]any, error) {
	text, err := SentObject(ctx, name)
	if err != nil {
		return nil, err
	}
	return jsonbody.Fields(text)
}

// NonEmpty makes nil of an empty text.
func NonEmpty(s *string) *string { return optional.NonZero(optional.Value(s)) }

// List never returns nil: an empty list is written as one.
func List[From, To any](rows []From, one func(From) To) []To {
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = one(row)
	}
	return out
}

// MessageTypes are the names of message types, by how tasks keep them.
var MessageTypes = [...]api.MessageType{
	submit.Verification: api.Verification, submit.Notification: api.Notification, submit.Marketing: api.Marketing,
}

// MessageType is the kept form of a name; notification if the name is missing.
func MessageType(name *api.MessageType) int16 {
	if name != nil {
		for code, known := range MessageTypes {
			if known == *name {
				return int16(code)
			}
		}
	}
	return submit.Notification
}

// OnlyMessageType is the kept form of a name in a filter; nil if the name is missing.
func OnlyMessageType(name *api.MessageType) *int16 {
	if name == nil {
		return nil
	}
	return new(MessageType(name))
}

// Set sets a field that a patch gives.
func Set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// SetNullable sets a field that a patch gives; null empties it.
func SetNullable[T any](field **T, to nullable.Nullable[T]) {
	if to.IsSpecified() {
		*field = Given(to)
	}
}

// Given is the value that a patch gives, nil if it gives none or null.
func Given[T any](n nullable.Nullable[T]) *T {
	v, err := n.Get()
	if err != nil {
		return nil
	}
	return &v
}

// Switches returns the switches that hold a task back.
func Switches(all []explain.Switch) []api.Switch {
	return List(all, func(w explain.Switch) api.Switch { return api.Switch{Switch: api.SwitchSwitch(w.Kind), Name: w.Name} })
}

// Candidates returns the senders that can take a task or not, without the numbers that the caller may not know.
func Candidates(ctx context.Context, all []sender.Candidate) []api.SenderView {
	return List(all, func(c sender.Candidate) api.SenderView {
		view := api.SenderView{SenderNo: c.SenderNo, CanTake: c.Why == "", Why: optional.NonZero(api.SenderViewWhy(c.Why))}
		if caller.SeesNumbers(ctx) {
			view.Until, view.Weight = c.Until, c.Weight
		}
		return view
	})
}

// Delivery returns the delivery state of a task; nil: no receipt says it.
func Delivery(state *int16) *api.TaskDelivery {
	switch {
	case state == nil:
		return nil
	case *state == callback.Delivered:
		return new(api.TaskDelivered)
	default:
		return new(api.TaskUndelivered)
	}
}

// Params returns the params of a template as they were sent, with numbers as they were written; nil without params.
func Params(body []byte) json.RawMessage {
	var sent struct {
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &sent) != nil || string(sent.Params) == "null" {
		return nil
	}
	return sent.Params
}

// UnknownCompany makes of a company that is not there the fault of the body's field that names it.
func UnknownCompany(err error) error { return MissingCompany(err, "company_no") }

// MissingCompany is UnknownCompany for a field.
func MissingCompany(err error, field string) error {
	var expected *fault.Error
	if errors.As(err, &expected) && expected.Reason == fault.CompanyNotFound {
		return fault.InvalidField(field, fault.NotThere, nil)
	}
	return err
}

// OptionalList makes null of a list that is not set.
func OptionalList[T any](list []T) *[]T {
	if list == nil {
		return nil
	}
	return &list
}
