package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"lksms/gen/api"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/testkit/contracttest"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/text"
	"lksms/internal/transport/httpapi/violation"
)

// pipeline decodes requests. After serve, typed contains the request object of the handler.
type pipeline struct {
	t          *testing.T
	guard      *gate.Gate
	router     routers.Router
	operations *http.ServeMux
	typed      any
}

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	guard, err := gate.New(gate.Services{}, gate.Options{Roles: servers.All(), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	spec.Servers, spec.Security = nil, nil
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline{t: t, guard: guard, router: router, operations: http.NewServeMux()}
	keep := func(api.StrictHandlerFunc, string) api.StrictHandlerFunc {
		return func(_ context.Context, _ http.ResponseWriter, _ *http.Request, request any) (any, error) {
			p.typed = request
			return nil, fault.New(fault.NotFound, fault.RouteNotFound)
		}
	}
	api.HandlerWithOptions(
		api.NewStrictHandlerWithOptions(&Server{}, []api.StrictMiddlewareFunc{keep}, api.StrictHTTPServerOptions{
			RequestErrorHandlerFunc: guard.Undecodable, ResponseErrorHandlerFunc: guard.Fail,
		}),
		api.StdHTTPServerOptions{BaseRouter: p.operations, ErrorHandlerFunc: guard.Undecodable},
	)
	return p
}

// serve sends a request to a handler. It returns the response, and the request object that the handler of the operation receives. The request object is nil
// if the request is rejected.
func (p *pipeline) serve(handler http.Handler, r *http.Request) (typed any, answer apiError) {
	p.typed = nil
	x := &gate.Exchange{Text: text.For("en"), InTransaction: true} // prevents the logging of a rejected submission
	_, x.Operation = p.operations.Handler(r)
	w := httptest.NewRecorder()
	ctx, cancel := x.In(r.Context())
	defer cancel()
	handler.ServeHTTP(w, r.WithContext(ctx))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		p.t.Fatalf("%s: %v", w.Body, err)
	}
	return p.typed, answer
}

type apiError struct {
	Code  int
	Error api.ErrorDetail
}

// general returns a handler that validates bodies with the library and decodes them with encoding/json. The gate checks more
// before it checks the contract; general omits these checks.
func (p *pipeline) general() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, params, err := p.router.FindRoute(r)
		if err != nil {
			p.t.Fatal(err)
		}
		for name, value := range params { // the router does not unescape the values
			if params[name], err = url.PathUnescape(value); err != nil {
				p.t.Fatal(err)
			}
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		plain := jsonbody.WholeNumbers(body)
		r.Body = io.NopCloser(bytes.NewReader(plain))
		if err := openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
			Request: r, Route: route, PathParams: params, Options: &openapi3filter.Options{MultiError: true, SkipSettingDefaults: true},
		}); err != nil {
			p.guard.Fail(w, r, generalFault(err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(plain))
		p.operations.ServeHTTP(w, r)
	})
}

// generalFault returns the fault of an error of the library.
func generalFault(err error) error {
	var all, parameters openapi3.MultiError
	var body error
	if !errors.As(err, &all) {
		return err
	}
	for _, one := range all {
		var request *openapi3filter.RequestError
		var parse *openapi3filter.ParseError
		switch {
		case !errors.As(one, &request):
			return err
		case request.Parameter != nil:
			parameters = append(parameters, one)
		case errors.As(request.Err, &parse), errors.Is(request.Err, openapi3filter.ErrInvalidRequired):
			return fault.New(fault.Malformed, fault.RequestMalformed)
		case request.Err == nil:
			return fault.New(fault.UnsupportedMedia, fault.RequestMediaType)
		default:
			body = request.Err
		}
	}
	return violation.OfRequest(parameters, body)
}

// The gate parses a body once, and fills the generated types from the parsed value. The library can validate the body alone, and encoding/json can decode it.
// Both ways agree on any body: they accept each example of the contract, reject incomplete bodies, and decode changed bodies in the same way.
func TestBodyIsDecodedLikeTheStandardLibrary(t *testing.T) {
	t.Parallel()
	p := newPipeline(t)
	all, err := contracttest.Operations()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o contracttest.Operation) bool {
		// Items have their own outcomes, and a callback can have any format.
		return len(o.Bodies) == 0 || slices.Contains([]string{"sendSmsBatch", "reportTasks", "exchangeTasks", "receiveMessages", "takeCallback"}, o.ID)
	})
	// isAccepted compares both ways for one body. path contains the values of path parameters, in the form that Operation.Target expects.
	isAccepted := func(t rapid.TB, o contracttest.Operation, path string, body []byte, mediaType string) bool {
		t.Helper()
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(p.t.Context(), o.Method, "http://localhost"+o.Target(path, ""), bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", mediaType)
			return r
		}
		got, answer := p.serve(p.guard.Checked(p.operations), request())
		want, wanted := p.serve(p.general(), request())
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(answer, wanted) {
			gotText, _ := json.Marshal(answer)
			wantText, _ := json.Marshal(wanted)
			t.Fatalf("%s %s %q is read as %+v, %s\nthe general way reads %+v, %s", o.ID, body, mediaType, got, gotText, want, wantText)
		}
		return got != nil
	}
	for _, o := range all {
		for _, body := range o.Bodies {
			if !isAccepted(t, o, validPath(o), body, jsonType) {
				t.Errorf("%s rejects its example %s", o.ID, body)
			}
			if isAccepted(t, o, validPath(o), body[:len(body)/2], jsonType) {
				t.Errorf("%s accepts a part of its example %s", o.ID, body)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom(all).Draw(t, "operation")
		var value any
		d := json.NewDecoder(bytes.NewReader(rapid.SampledFrom(o.Bodies).Draw(t, "example")))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			value = mutated(t, value)
		}
		body, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
			body = body[:rapid.IntRange(0, len(body)).Draw(t, "length")]
		}
		mediaType, path := jsonType, validPath(o)
		if rapid.IntRange(0, 9).Draw(t, "other media type") == 0 {
			mediaType = rapid.SampledFrom([]string{"", "text/plain", "Application/JSON; charset=utf-8", "application/json, text/plain"}).Draw(t, "media type")
		}
		if rapid.IntRange(0, 9).Draw(t, "other path") == 0 {
			path = "1/1"
		}
		if _, err := jsonbody.Parse(body); err != nil && !errors.Is(err, jsonbody.ErrNotJSON) {
			return // the library does not make this check
		}
		isAccepted(t, o, path, body, mediaType)
	})
}

const jsonType = "application/json"

// validPath returns valid values of the path parameters of an operation.
func validPath(o contracttest.Operation) string {
	if o.ID == "putSettingsCategory" {
		return "queue"
	}
	return strings.TrimSuffix(strings.Repeat("1/", strings.Count(o.Path, "{")), "/")
}

// mutated returns value with one random change.
func mutated(t *rapid.T, value any) any {
	switch value := value.(type) {
	case map[string]any:
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range value {
				if !yield(name) {
					return
				}
			}
		})
		switch how := rapid.IntRange(0, 9).Draw(t, "how"); {
		case how == 0:
			value[rapid.SampledFrom([]string{"", "x", "a.b", "content", "Phone_Number", "priority", "expires_at", "test"}).Draw(t, "name")] = some(t)
			return value
		case len(names) == 0:
			return some(t)
		case how == 1:
			delete(value, rapid.SampledFrom(names).Draw(t, "name"))
			return value
		case how < 9:
			name := rapid.SampledFrom(names).Draw(t, "name")
			value[name] = mutated(t, value[name])
			return value
		}
	case []any:
		switch how := rapid.IntRange(0, 9).Draw(t, "how"); {
		case how == 0:
			return append(value, some(t))
		case how < 9 && len(value) > 0:
			i := rapid.IntRange(0, len(value)-1).Draw(t, "item")
			value[i] = mutated(t, value[i])
			return value
		}
	}
	return some(t)
}

// some returns a random JSON value, often at a limit.
func some(t *rapid.T) any {
	return rapid.OneOf(
		rapid.SampledFrom([]any{
			nil, true, false, "", " ", "x", map[string]any{}, []any{}, []any{"x", "x"}, map[string]any{"a": []any{json.Number("1.5")}},
			"2026-11-21T08:00:00Z", "2026-02-30T08:00:00+08:00", "0000-01-01T00:00:00+01:00", "13800138000", "<&>\u2028", "/a?b=%zz", "【x】",
		}),
		rapid.Map(rapid.SampledFrom([]string{
			"0", "-0", "1", "1.0", "10e-1", "1e3", "-1", "0.5", "9", "10", "32767", "32768", "2147483648", "9007199254740993", "9223372036854775807",
			"9223372036854775808", "1e19", "1e21", "1e99", "1e-99", "123456789012345678901234567890",
		}), func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.StringN(0, 300, 1000), func(s string) any { return s }),
	).Draw(t, "value")
}
