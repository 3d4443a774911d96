// Package convert helps handlers to read requests and to write responses. It converts the envelope, fields of patches, message types, and parts that several
// responses share.
package convert

import (
	"context"
	"encoding/json"
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

// These are the code and message of the envelope of every success.
const (
	OK      = http.StatusOK
	Success = "success"
)

// Done returns the response of an operation that returns no data.
func Done() api.DoneJSONResponse { return api.DoneJSONResponse{Code: OK, Message: Success} }

// maxObject is the maximum size in bytes of an object for which the contract does not define fields.
const maxObject = 16 << 10

// SentObject returns an object of the request's body in its original form. It returns nil if the object is missing. The generated types would convert the
// numbers of such an object to float64. Fault: request.invalid if the object is larger than maxObject.
func SentObject(ctx context.Context, name string) (json.RawMessage, error) {
	return jsonbody.Member(gate.Of(ctx).Body.Raw, name, maxObject)
}

// Fields returns the fields of an object of the request's body, with numbers in their original form. Faults: the faults of SentObject.
func Fields(ctx context.Context, name string) (map[string]any, error) {
	text, err := SentObject(ctx, name)
	if err != nil {
		return nil, err
	}
	return jsonbody.Fields(text)
}

// NonEmpty returns s, or nil if the text is empty.
func NonEmpty(s *string) *string { return optional.NonZero(optional.Value(s)) }

// List converts each row with convert. The result is never nil, so that JSON contains [] instead of null.
func List[From, To any](rows []From, convert func(From) To) []To {
	out := make([]To, len(rows))
	for i, row := range rows {
		out[i] = convert(row)
	}
	return out
}

// MessageTypes contains the names of message types, indexed by their number in the database.
var MessageTypes = [...]api.MessageType{
	submit.Verification: api.Verification, submit.Notification: api.Notification, submit.Marketing: api.Marketing,
}

// MessageType returns the number of a message type in the database. If name is nil, it returns the number of notification.
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

// OnlyMessageType returns the number of a message type for a filter. If name is nil, it returns nil.
func OnlyMessageType(name *api.MessageType) *int16 {
	if name == nil {
		return nil
	}
	return new(MessageType(name))
}

// Set sets a field to the value of a patch. It does nothing if the patch does not contain the field.
func Set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// SetNullable sets a field to the value of a patch; null sets it to nil. It does nothing if the patch does not contain the field.
func SetNullable[T any](field **T, to nullable.Nullable[T]) {
	if to.IsSpecified() {
		*field = Given(to)
	}
}

// Given returns the value of a field of a patch. It returns nil if the field is missing or null.
func Given[T any](n nullable.Nullable[T]) *T {
	v, err := n.Get()
	if err != nil {
		return nil
	}
	return &v
}

// Switches converts the switches that hold a task.
func Switches(all []explain.Switch) []api.Switch {
	return List(all, func(w explain.Switch) api.Switch { return api.Switch{Switch: api.SwitchSwitch(w.Kind), Name: w.Name} })
}

// Candidates converts the senders that were considered for a task. It omits the numbers that the caller cannot see.
func Candidates(ctx context.Context, all []sender.Candidate) []api.SenderView {
	return List(all, func(c sender.Candidate) api.SenderView {
		view := api.SenderView{SenderNo: c.SenderNo, CanTake: c.Why == "", Why: optional.NonZero(api.SenderViewWhy(c.Why))}
		if caller.SeesNumbers(ctx) {
			view.Until, view.Weight = c.Until, c.Weight
		}
		return view
	})
}

// Delivery returns the delivery state of a task. If state is nil, no receipt has reported a state, and Delivery returns nil.
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

// Params returns the params of a template in their original form. It returns nil if params is missing or null.
func Params(body []byte) json.RawMessage {
	var sent struct {
		Params json.RawMessage `json:"params"`
	}
	if json.Unmarshal(body, &sent) != nil || string(sent.Params) == "null" {
		return nil
	}
	return sent.Params
}

// UnknownCompany converts the fault of an unknown company to request.invalid for the body field company_no.
func UnknownCompany(err error) error { return MissingCompany(err, "company_no") }

// MissingCompany works like UnknownCompany for any field.
func MissingCompany(err error, field string) error {
	if fault.Is(err, fault.CompanyNotFound) {
		return fault.InvalidField(field, fault.NotThere, nil)
	}
	return err
}

// OptionalList returns a pointer to list. It returns nil if list is nil, so that JSON contains null.
func OptionalList[T any](list []T) *[]T {
	if list == nil {
		return nil
	}
	return &list
}
