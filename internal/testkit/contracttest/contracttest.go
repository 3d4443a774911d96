// Package contracttest checks the responses of a server under test against the contract.
package contracttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"lksms/gen/api"
)

type contract struct {
	spec   *openapi3.T
	router routers.Router
}

var loadContract = sync.OnceValues(func() (*contract, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	spec.Servers = openapi3.Servers{{URL: "/"}}
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, fmt.Errorf("read paths of contract: %w", err)
	}
	return &contract{spec, router}, nil
})

// answered contains the observed response statuses by operation, such as "sendSms 200".
var answered sync.Map

// Check returns an error if the response to r violates the contract: the operation does not have this status, or the header or body does not match its schema.
// Check ignores requests for paths outside the contract.
func Check(r *http.Request, status int, header http.Header, body []byte) error {
	c, err := loadContract()
	if err != nil {
		return err
	}
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return nil //nolint:nilerr // the path is not in the contract
	}
	answered.Store(fmt.Sprint(route.Operation.OperationID, " ", status), nil)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 status, Header: header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.WithoutCancel(r.Context()), input.SetBodyBytes(body)); err != nil {
		return fmt.Errorf("%s %s: the response violates the contract: %w", r.Method, r.URL, err)
	}
	return nil
}

// Handler forwards requests to next, and calls report for each response that violates the contract.
func Handler(next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(&recorder{next: w, answer: answer}, r)
		if r.Context().Err() != nil { // the caller has disconnected, so the response can be incomplete
			return
		}
		if err := Check(r, answer.Code, answer.Header(), answer.Body.Bytes()); err != nil {
			report(err)
		}
	})
}

// recorder forwards a response to next and stores a copy.
type recorder struct {
	next   http.ResponseWriter
	answer *httptest.ResponseRecorder
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.next.Header() }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	for name, values := range r.Header() {
		r.answer.Header()[name] = slices.Clone(values)
	}
	r.answer.WriteHeader(status)
	r.next.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if len(r.answer.Header()) == 0 {
		for name, values := range r.Header() {
			r.answer.Header()[name] = slices.Clone(values)
		}
	}
	_, _ = r.answer.Write(bytes.Clone(p)) // never fails
	return r.next.Write(p)                //nolint:wrapcheck // the handler expects the error unchanged
}

// Unwrap returns the wrapped writer, through which http.ResponseController reaches the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.next }

// Transport wraps base, and calls report for each response that violates the contract.
func Transport(base http.RoundTripper, report func(error)) http.RoundTripper {
	return transport{base, report}
}

type transport struct {
	base   http.RoundTripper
	report func(error)
}

// RoundTrip implements http.RoundTripper. It reads the whole response, and returns it with a copy of the body.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // callers of a transport expect its errors unchanged
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if err := Check(r, res.StatusCode, res.Header, body); err != nil {
		t.report(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// Save writes the statuses that this process has observed to a new file in dir.
func Save(dir string) error {
	var seen strings.Builder
	answered.Range(func(name, _ any) bool {
		fmt.Fprintln(&seen, name)
		return true
	})
	file, err := os.CreateTemp(dir, "answers-*")
	if err != nil {
		return fmt.Errorf("make file of answers: %w", err)
	}
	_, err = file.WriteString(seen.String())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write file of answers: %w", err)
	}
	return nil
}

// Missing reads the files that Save wrote to dir. It returns the statuses of the contract that no process observed, such as "sendSms 200".
func Missing(dir string) ([]string, error) {
	c, err := loadContract()
	if err != nil {
		return nil, err
	}
	folder := os.DirFS(dir)
	files, err := fs.Glob(folder, "answers-*")
	if err != nil {
		return nil, fmt.Errorf("find files of answers: %w", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, fmt.Errorf("read file of answers: %w", err)
		}
		for name := range strings.Lines(string(text)) {
			seen[strings.TrimSpace(name)] = true
		}
	}
	var missing []string
	for _, item := range c.spec.Paths.Map() {
		for _, o := range item.Operations() {
			for status := range o.Responses.Map() {
				if name := o.OperationID + " " + status; !seen[name] {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing, nil
}
