// Package contracttest holds the answers of a server under test against the contract.
package contracttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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

var read = sync.OnceValues(func() (*contract, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	spec.Servers = openapi3.Servers{{URL: "/"}}
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, fmt.Errorf("read paths of contract: %w", err)
	}
	return &contract{spec, router}, nil
})

// given are the statuses that operations answered, as in "sendSms 200".
var given sync.Map

// Check tells what is not as the contract says in an answer to r: a status that the operation does not have, a header or a body of
// another shape. What is for no operation of the contract may be answered in any way.
func Check(r *http.Request, status int, header http.Header, body []byte) error {
	c, err := read()
	if err != nil {
		return err
	}
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return nil //nolint:nilerr // no operation
	}
	given.Store(fmt.Sprint(route.Operation.OperationID, " ", status), nil)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 status, Header: header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.WithoutCancel(r.Context()), input.SetBodyBytes(body)); err != nil {
		return fmt.Errorf("%s %s: the answer is not as the contract says: %w", r.Method, r.URL, err)
	}
	return nil
}

// Handler passes requests on to next, and tells wrong of each answer that is not as the contract says.
func Handler(next http.Handler, wrong func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next.ServeHTTP(&recorder{ResponseWriter: w, answer: answer}, r)
		if r.Context().Err() != nil { // the caller has gone, and an answer that it does not get may be none
			return
		}
		if err := Check(r, answer.Code, answer.Header(), answer.Body.Bytes()); err != nil {
			wrong(err)
		}
	})
}

// recorder passes an answer on and keeps it.
type recorder struct {
	http.ResponseWriter
	answer *httptest.ResponseRecorder
}

func (r *recorder) WriteHeader(status int) {
	for name, values := range r.Header() {
		r.answer.Header()[name] = slices.Clone(values)
	}
	r.answer.WriteHeader(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if len(r.answer.Header()) == 0 {
		for name, values := range r.Header() {
			r.answer.Header()[name] = slices.Clone(values)
		}
	}
	_, _ = r.answer.Write(bytes.Clone(p)) // it cannot fail
	return r.ResponseWriter.Write(p)      //nolint:wrapcheck // who answers gets its own error
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Transport is base, and tells wrong of each answer that is not as the contract says.
func Transport(base http.RoundTripper, wrong func(error)) http.RoundTripper {
	return transport{base, wrong}
}

type transport struct {
	http.RoundTripper
	wrong func(error)
}

// RoundTrip reads the whole answer, as its caller can do again.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // a transport gives its errors as they are
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if err := Check(r, res.StatusCode, res.Header, body); err != nil {
		t.wrong(err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// Missing are the statuses that the contract has and no answer of this process had, as in "sendSms 200".
func Missing() ([]string, error) {
	c, err := read()
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, item := range c.spec.Paths.Map() {
		for _, o := range item.Operations() {
			for status := range o.Responses.Map() {
				name := o.OperationID + " " + status
				if _, was := given.Load(name); !was {
					missing = append(missing, name)
				}
			}
		}
	}
	slices.Sort(missing)
	return missing, nil
}
