// Package smsgateclient answers the third-party API of SMSGate, so that a program that was written for it sends through LKSMS.
// docs/integrations.md#smsgate says what it has, and what is refused. Its answers have the shapes of SMSGate.
package smsgateclient

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"lksms/internal/events/webhook"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/smsgateclient"
)

// Prefix is where the API begins.
const Prefix = "/smsgate/3rdparty/v1"

// Services are what the API leads to.
type Services struct {
	Messages *smsgateclient.Service
	Webhooks *webhook.Service
	Ready    func(context.Context) error // nil when requests can be served
}

type server struct {
	Services
	gate *gate.Gate
}

const (
	bodyMost  = 64 << 10 // as an operation of the contract; the text of a message is much shorter
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
			o.BodyBytes, o.IsJSON = bodyMost, true
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
		op("GET "+path, nil, s.health, nil)
	}
	for _, path := range []string{"/message", "/messages"} { // the first is the older name, which clients still use
		op("POST "+path, submit, s.send, toMany)
		op("GET "+path, submit, s.list, func(o *gate.ForeignOperation) { o.IsCostly, o.Limit = true, listLimit })
		op("GET "+path+"/{id}", submit, s.get, nil)
		op("DELETE "+path+"/{id}", submit, s.cancel, nil)
		op("POST "+path+"/inbox/export", submit, notHere("this server receives no messages"), anyBody)
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
	op("GET /logs", submit, notHere("the logs of devices are not kept by this server"), nil)
	for _, path := range []string{"/inbox", "/inbox/{id}", "/inbox/{id}/attachments/{part}"} {
		op("GET "+path, submit, notHere("this server receives no messages"), nil)
	}
	op("POST /inbox/export", submit, notHere("this server receives no messages"), anyBody)
	op("POST /inbox/refresh", submit, notHere("this server receives no messages"), anyBody)
	noTokens := notHere("this server makes no tokens: use the user name and password, or an API key as the token")
	op("POST /auth/token", submit, noTokens, anyBody)
	op("POST /auth/token/refresh", submit, noTokens, anyBody)
	op("DELETE /auth/token/{id}", submit, noTokens, nil)
	guard.MountForeign(mux, gate.ForeignOperation{
		Pattern: Prefix + "/", Roles: submit, ServedBy: servers.API, Limit: limit, Answer: answerFault,
		Handle: func(_ http.ResponseWriter, r *http.Request) error { return guard.NoRoute(r) },
	})
}

// refusal is an error of this API alone, with the sentence that is answered.
type refusal struct {
	status int
	text   string
}

// Error implements error.
func (r *refusal) Error() string { return r.text }

func refuse(text string) error { return &refusal{http.StatusBadRequest, text} }

// notHere answers an operation that this server does not have.
func notHere(why string) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error { return &refusal{http.StatusNotImplemented, why} }
}

// refusing answers refusals of a handler, and leaves other errors to the gate.
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

// errorAnswer is the answer of a failure.
type errorAnswer struct {
	Message string     `json:"message"`
	Data    *errorData `json:"data,omitempty"`
}

type errorData struct {
	Reason    string `json:"reason"`
	RequestID string `json:"request_id"`
}

// answerFault answers a fault. What this API calls 400 is 422 elsewhere.
func answerFault(w http.ResponseWriter, r *http.Request, status int, f *fault.Error) {
	status, answer := faultAnswer(r, status, f)
	write(w, status, answer)
}

func faultAnswer(r *http.Request, status int, f *fault.Error) (int, errorAnswer) {
	x := gate.Of(r.Context())
	texts := []string{x.Text.Reason(f)}
	if f.Reason == fault.RequestInvalid && len(f.Fields) > 0 { // the fields say more
		texts = nil
	}
	for _, field := range f.Fields[:min(len(f.Fields), fieldsMost)] {
		texts = append(texts, x.Text.Remark(field))
	}
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	return status, errorAnswer{strings.Join(texts, "; "), &errorData{string(f.Reason), x.Origin.RequestID}}
}

// fieldsMost is how many wrong fields an answer names.
const fieldsMost = 10

// write writes an answer. A nil answer has no body.
func write(w http.ResponseWriter, status int, answer any) {
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // texts, numbers and times
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the caller has gone
}

// read reads the JSON of a body into v. Members that v does not have are left out, as SMSGate does. Fault: request.invalid, naming a field of
// another type.
func read(r *http.Request, v any) error {
	err := json.Unmarshal(gate.Of(r.Context()).Body.Plain, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return fault.InvalidField(wrong.Field, fault.WrongFormat, nil)
	default: // a number or time that cannot be, or no object
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}

// health answers whether requests can be served.
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
