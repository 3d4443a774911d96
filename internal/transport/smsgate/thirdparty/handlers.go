package thirdparty

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"lksms/internal/dispatch/received"
	"lksms/internal/events/webhook"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgate/mobile"
)

// Prefix is the path prefix of the API.
const Prefix = "/smsgate/3rdparty/v1"

// Services contains the services that the handlers call.
type Services struct {
	Messages *Service
	Webhooks *webhook.Service
	Phones   *mobile.Service
	Received *received.Service
	Ready    func(context.Context) error // returns nil if the server can serve requests
}

type server struct {
	Services
	gate *gate.Gate
}

const (
	maxBody   = 64 << 10 // the default of the contract; the text of a message is much shorter
	limit     = 10 * time.Second
	listLimit = 30 * time.Second
)

// Mount registers the API with a ServeMux.
func Mount(mux *http.ServeMux, guard *gate.Gate, services Services) {
	s := &server{services, guard}
	submit := []string{access.RoleSubmit}
	op := func(pattern string, roles []string, handle func(http.ResponseWriter, *http.Request) error, change func(*gate.ForeignOperation)) {
		method, path, _ := strings.Cut(pattern, " ")
		o := gate.ForeignOperation{Pattern: method + " " + Prefix + path, Roles: roles, ServedBy: servers.API, Limit: limit, Answer: answerFault, Handle: refusing(handle)}
		if method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
			o.BodyBytes, o.IsJSON = maxBody, true
		}
		if change != nil {
			change(&o)
		}
		guard.MountForeign(mux, o)
	}
	toMany := func(o *gate.ForeignOperation) { o.IsCostlyFor = isToMany }
	audited := func(o *gate.ForeignOperation) { o.IsAudited = true }
	anyBody := func(o *gate.ForeignOperation) { o.BodyBytes, o.IsJSON = 0, false }

	for _, path := range []string{"/health", "/health/live", "/health/ready", "/health/startup"} {
		op("GET "+path, nil, s.health, func(o *gate.ForeignOperation) { o.AnswersHead = true })
	}
	for _, path := range []string{"/message", "/messages"} { // /message is the older name, which clients still use
		op("POST "+path, submit, s.send, toMany)
		op("GET "+path, submit, s.list, func(o *gate.ForeignOperation) { o.IsCostly, o.Limit = true, listLimit })
		op("GET "+path+"/{id}", submit, s.get, nil)
		op("DELETE "+path+"/{id}", submit, s.cancel, nil)
		op("POST "+path+"/inbox/export", submit, s.refresh, nil) // the older name of /inbox/refresh, which clients still use
	}
	for _, path := range []string{"/device", "/devices"} {
		op("GET "+path, submit, s.devices, nil)
		op("DELETE "+path+"/{id}", submit, s.deleteDevice, nil)
	}
	op("GET /webhooks", submit, s.listWebhooks, nil)
	op("POST /webhooks", submit, s.registerWebhook, audited)
	op("DELETE /webhooks/{id}", submit, s.deleteWebhook, audited)
	op("GET /settings", submit, s.getSettings, nil)
	op("PUT /settings", submit, s.putSettings, audited)
	op("PATCH /settings", submit, s.putSettings, audited)
	op("GET /logs", submit, unsupported("the logs of devices are not kept by this server"), nil)
	op("GET /inbox", submit, s.inbox, func(o *gate.ForeignOperation) { o.IsCostly, o.Limit = true, listLimit })
	op("GET /inbox/{id}/attachments/{part}", submit, unsupported("this server receives no MMS"), nil)
	op("POST /inbox/export", submit, s.refresh, nil)
	op("POST /inbox/refresh", submit, s.refresh, nil)
	noTokens := unsupported("this server makes no tokens: use the user name and password, or an API key as the token")
	op("POST /auth/token", submit, noTokens, anyBody)
	op("POST /auth/token/refresh", submit, noTokens, anyBody)
	op("DELETE /auth/token/{id}", submit, noTokens, nil)
	guard.MountForeign(mux, gate.ForeignOperation{
		Pattern: Prefix + "/", Roles: submit, ServedBy: servers.API, Limit: limit, Answer: answerFault,
		Handle: func(_ http.ResponseWriter, r *http.Request) error { return guard.NoRoute(r) },
	})
}

// refusal is an error that only this API has. text is the message of the response.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(text string) error { return &refusal{http.StatusBadRequest, text} }

// unsupported returns a handler for an operation that this server does not support.
func unsupported(why string) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error { return &refusal{http.StatusNotImplemented, why} }
}

// refusing writes the response of a refusal, and passes other errors to the gate.
func refusing(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := handle(w, r)
		var own *refusal
		if errors.As(err, &own) {
			write(w, own.status, errorAnswer{Message: own.text})
			return nil
		}
		return err
	}
}

// errorAnswer is the response of a failed request.
type errorAnswer struct {
	Message string     `json:"message"`
	Data    *errorData `json:"data,omitempty"`
}

type errorData struct {
	Reason    string `json:"reason"`
	RequestID string `json:"request_id"`
}

// answerFault answers a fault. Like SMSGate, it uses status 400 for a rejected message: programs take 409 as the answer to a message that is already stored.
func answerFault(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	status, answer := faultAnswer(r, status, f)
	write(w, status, answer)
}

func faultAnswer(r *http.Request, status int, f *fault.Error) (int, errorAnswer) {
	x := gate.Of(r.Context())
	texts := []string{x.Text.Reason(f)}
	if f.Reason == fault.RequestInvalid && len(f.Fields) > 0 { // the fields are more specific than the reason
		texts = nil
	}
	for _, field := range f.Fields[:min(len(f.Fields), maxFields)] {
		texts = append(texts, x.Text.Remark(field))
	}
	if status == http.StatusUnprocessableEntity || f.Reason == fault.RecipientBlocked {
		status = http.StatusBadRequest
	}
	return status, errorAnswer{strings.Join(texts, "; "), &errorData{string(f.Reason), x.Origin.RequestID}}
}

// maxFields is the maximum number of invalid fields in a response.
const maxFields = 10

// write writes a JSON response. A nil answer means an empty body.
func write(w http.ResponseWriter, status int, answer any) {
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // impossible: the values are texts, numbers and times
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client disconnected
}

// read decodes the JSON body into v. Like SMSGate, it ignores unknown members. Faults: request.invalid, which names a field of the wrong type;
// request.malformed.
func read(r *http.Request, v any) error {
	err := json.Unmarshal(gate.Of(r.Context()).Body.Plain, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return fault.InvalidField(wrong.Field, fault.WrongFormat, nil)
	default: // an invalid number or time, or not an object
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}

// health reports whether the server can serve requests.
func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	status, word := http.StatusOK, "pass"
	if s.Ready(r.Context()) != nil {
		status, word = http.StatusServiceUnavailable, "fail"
	}
	type check struct {
		Description   string `json:"description"`
		ObservedValue int    `json:"observedValue"`
		Status        string `json:"status"`
	}
	write(w, status, struct {
		Status    string           `json:"status"`
		ReleaseID int              `json:"releaseId"`
		Checks    map[string]check `json:"checks"`
	}{word, 1, map[string]check{"db:ready": {Description: "The database answers and is migrated", ObservedValue: 1, Status: word}}})
	return nil
}
