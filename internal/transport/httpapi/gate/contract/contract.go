// Package contract reads the contract of the API and checks requests against the contract.
package contract

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"lksms/gen/api"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/servers"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/violation"
)

// Operation contains what the contract defines for one operation.
type Operation struct {
	ID         string   // operationId
	Roles      []string // roles that can call the operation; Public: no credentials are needed
	ServedBy   servers.Role
	IsStale    bool     // a replica is allowed to answer
	IsKeyed    bool     // the operation accepts an Idempotency-Key
	IsCostly   bool     // the operation needs a slot
	Parameters []string // names of the query parameters
	Limits     Limits
	Form       *Form  // nil: the operation accepts no form
	Batch      *Batch // nil: the body is not a batch
}

// Contract is the API contract as the gate enforces it.
type Contract struct {
	router     routers.Router // finds the operation of any request path
	routes     map[string]*routers.Route
	operations map[string]Operation          // by ServeMux pattern
	accepters  map[*openapi3.Schema]accepter // of the bodies of requests
	changes    Batch                         // checks a change of settings
}

// Operation returns an operation by its ServeMux pattern. isKnown reports whether the contract defines the operation.
func (c *Contract) Operation(pattern string) (o Operation, isKnown bool) {
	o, isKnown = c.operations[pattern]
	return o, isKnown
}

// Operations yields all operations with their ServeMux patterns, in no particular order.
func (c *Contract) Operations() iter.Seq2[string, Operation] { return maps.All(c.operations) }

// CheckSettings checks a change of settings against the contract.
func (c *Contract) CheckSettings(body []byte) error { return c.changes.Check(body) }

// The gate refers to these operations by name.
const (
	// SendBatch, ReportBatch, ExchangeTasks and Receive are the operations on lists of items.
	SendBatch       = "POST " + sendBatchPath
	ReportBatch     = "POST " + reportBatchPath
	ExchangeTasks   = "POST " + exchangePath
	Receive         = "POST " + receivePath
	sendBatchPath   = "/api/v1/sms/send-batch"
	reportBatchPath = "/api/v1/sms/report-batch"
	exchangePath    = "/api/v1/sms/exchange"
	receivePath     = "/api/v1/sms/received"

	// Callback is the operation whose body can have any format, because each provider defines its own format.
	Callback     = "POST " + callbackPath
	callbackPath = "/api/v1/callbacks/{sender_no}"
)

// AlwaysServed contains the operations that are answered even if all connections are in use. The metrics and the documentation are also answered, because
// they do not pass the guard.
var AlwaysServed = []string{"GET /health", "GET /ready"}

// LongestAnswer is the maximum time limit that the contract can define for a request.
const LongestAnswer = 45 * time.Second

// Read reads the contract once for all servers of a process, because reading is the slowest part of a start. The contract is not changed afterwards.
var Read = sync.OnceValues(func() (*Contract, error) {
	// The library checks formats with patterns, which accept February 30.
	openapi3.DefineStringFormatValidator("date-time", openapi3.NewCallbackValidator(checkTime))
	openapi3.DefineStringFormatValidator("date", openapi3.NewCallbackValidator(checkDay))
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	return Of(spec)
})

// Of returns the rules of spec that the gate enforces. It changes spec.
func Of(spec *openapi3.T) (*Contract, error) {
	spec.Security = nil // the gate authenticates the caller itself
	batches := map[string]Batch{
		SendBatch:     acceptAnyItems[api.SendRequest](spec, sendBatchPath, "messages"),
		ReportBatch:   acceptAnyItems[api.ReportRequest](spec, reportBatchPath, "reports"),
		ExchangeTasks: acceptAnyItems[api.ReportRequest](spec, exchangePath, "reports"),
		Receive:       acceptAnyItems[api.ReceivedInput](spec, receivePath, "messages"),
	}
	c := &Contract{
		operations: map[string]Operation{}, accepters: map[*openapi3.Schema]accepter{}, changes: batchOf(spec.Components.Schemas["SettingsChange"].Value),
	}
	for pattern, operation := range operationsOf(spec) {
		o, err := operationOf(spec, pattern, operation)
		if err != nil {
			return nil, err
		}
		if batch, is := batches[pattern]; is {
			o.Batch = &batch
		}
		o.IsCostly = isCostly(pattern, o)
		c.operations[pattern] = o
		if operation.RequestBody != nil {
			for _, media := range operation.RequestBody.Value.Content {
				if media.Schema != nil {
					c.accepters[media.Schema.Value] = accepterOf(media.Schema.Value)
				}
			}
		}
	}
	spec.Paths.Find(callbackPath).Post.RequestBody = nil // every body is valid; the validator would copy it
	spec.Servers = nil                                   // the API is served under any host name
	var err error
	if c.router, err = gorillamux.NewRouter(spec); err != nil {
		return nil, fmt.Errorf("route by contract: %w", err)
	}
	c.routes = routesOf(spec)
	return c, nil
}

// operationOf returns the rules that the contract defines for an operation, except Batch and IsCostly.
func operationOf(spec *openapi3.T, pattern string, operation *openapi3.Operation) (o Operation, err error) {
	if o.Roles, err = rolesOf(pattern, operation); err != nil {
		return o, err
	}
	if o.ServedBy, err = servedByOf(pattern, operation); err != nil {
		return o, err
	}
	if o.Limits, err = limitsOf(spec, pattern, operation, o.Roles); err != nil {
		return o, err
	}
	if o.Form, err = formOf(pattern, operation, o.Roles); err != nil {
		return o, err
	}
	o.ID = strings.ToLower(operation.OperationID[:1]) + operation.OperationID[1:] // the generated copy contains names of Go methods
	o.IsStale, _ = operation.Extensions[staleKey].(bool)
	o.IsKeyed = operation.Parameters.GetByInAndName(openapi3.ParameterInHeader, IdempotencyHeader) != nil
	_, path, _ := strings.Cut(pattern, " ")
	for _, p := range slices.Concat(spec.Paths.Value(path).Parameters, operation.Parameters) {
		if p.Value.In == openapi3.ParameterInQuery {
			o.Parameters = append(o.Parameters, p.Value.Name)
		}
	}
	return o, nil
}

// IdempotencyHeader is the header with the idempotency key of a request.
const IdempotencyHeader = "Idempotency-Key"

// staleKey is the extension of the contract that marks operations whose response can be some seconds old.
const staleKey = "x-lksms-stale"

// routesOf returns the routes of the operations without path parameters, by ServeMux pattern.
func routesOf(spec *openapi3.T) map[string]*routers.Route {
	routes := map[string]*routers.Route{}
	for pattern, operation := range operationsOf(spec) {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "{") {
			routes[pattern] = &routers.Route{Spec: spec, Path: path, PathItem: spec.Paths.Value(path), Method: method, Operation: operation}
		}
	}
	return routes
}

// route returns the route of a request and its path parameters. The library's router is slow because it tries each path of the contract in turn. It is used
// only for paths with parameters and for unknown paths. It interprets some paths differently from ServeMux (for example /users/%2F). A request without an
// operation in ServeMux has no route.
func (c *Contract) route(r *http.Request, operation string) (*routers.Route, map[string]string, error) {
	if route := c.routes[operation]; route != nil && route.Method == r.Method && route.Path == r.URL.EscapedPath() {
		return route, nil, nil
	}
	route, params, err := c.router.FindRoute(r)
	if err == nil && operation == "" {
		err = routers.ErrPathNotFound
	}
	for name, escaped := range params { // the library would check the escaped form of a value
		text, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, nil, fault.InvalidField(name, fault.WrongFormat, nil)
		}
		params[name] = text
	}
	return route, params, err
}

// Methods returns the methods that the contract defines for the path of a request.
func (c *Contract) Methods(r *http.Request) []string {
	if _, _, err := c.router.FindRoute(r); errors.Is(err, routers.ErrPathNotFound) { // unknown path: each of the searches below would scan the whole contract
		return nil
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		_, _, err := c.router.FindRoute(&other)
		if err == nil || method == http.MethodHead && slices.Contains(AlwaysServed, "GET "+r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// JSON is the body of a request.
type JSON struct {
	Raw    []byte // original body
	Plain  []byte // Raw, converted so that the generated types can decode it
	Value  any    // Plain, parsed by jsonbody.Parse
	Broken error  // reason why Plain is not valid JSON; nil: Plain is valid
}

// Check checks the route, parameters and body of a request. operation is its ServeMux pattern.
func (c *Contract) Check(r *http.Request, operation string, body JSON) error {
	route, params, err := c.route(r, operation)
	if err != nil {
		return violation.OfRoute(err)
	}
	schema, err := body.schema(route.Operation.RequestBody, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route, Options: parametersOnly,
	})
	var wrong error
	if accepts := c.accepters[schema]; schema != nil && (accepts == nil || !accepts(body.Value)) {
		wrong = schema.VisitJSON(body.Value, openapi3.MultiErrors(), openapi3.VisitAsRequest())
	}
	return violation.OfRequest(err, wrong)
}

// parametersOnly makes the validator check only parameters. Handlers apply the defaults.
var parametersOnly = &openapi3filter.Options{
	MultiError: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeRequestBody: true,
}

// schema returns the schema of a body. It returns nil if the contract defines no schema. Faults: request.malformed, request.media_type.
func (b JSON) schema(expected *openapi3.RequestBodyRef, contentType string) (*openapi3.Schema, error) {
	if expected == nil || len(b.Plain) == 0 && !expected.Value.Required {
		return nil, nil
	}
	media := expected.Value.Content.Get(contentType)
	switch {
	case len(b.Plain) == 0:
		return nil, fault.New(fault.Malformed, fault.RequestMalformed)
	case media == nil:
		return nil, fault.New(fault.UnsupportedMedia, fault.RequestMediaType)
	case b.Broken != nil:
		return nil, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	return media.Schema.Value, nil
}

// checkTime rejects text that is not a time. It also rejects times that could be stored but not returned: encoding/json accepts only the years 0 to 9999, and
// a time zone can move a time from the year 0 to the year before.
func checkTime(text string) error {
	var at time.Time
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	if year := at.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("the year %d is not between 1 and 9999", year)
	}
	return nil
}

// checkDay rejects text that is not a date in the years 1 to 9999.
func checkDay(text string) error {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return fmt.Errorf("read day: %w", err)
	}
	if day.Year() < 1 {
		return fmt.Errorf("the year %d is not between 1 and 9999", day.Year())
	}
	return nil
}

// limitsKey is the extension of the contract that contains the limits of all operations. An operation can override them.
const limitsKey = "x-lksms-limits"

// Limits contains the limits of a request.
type Limits struct {
	BodyBytes int64         // 0: the operation accepts no body
	Time      time.Duration // for processing, after the body was read and the slot was granted
}

// limitsOf returns the limits of an operation. A limit that is missing or above the maximum of the gate is an error: the largest allowed body must fit into
// the memory limit of one caller.
func limitsOf(spec *openapi3.T, pattern string, operation *openapi3.Operation, roles []string) (Limits, error) {
	usual, _ := spec.Info.Extensions[limitsKey].(map[string]any)
	own, _ := operation.Extensions[limitsKey].(map[string]any)
	number := func(name string) float64 {
		for _, from := range []map[string]any{own, usual} {
			if n, is := from[name].(float64); is {
				return n
			}
		}
		return 0
	}
	l := Limits{BodyBytes: int64(number("body_bytes")), Time: time.Duration(number("seconds") * float64(time.Second))}
	room := int64(capacity.MaxBodyBytesPerCaller)
	if slices.Contains(roles, Public) {
		room = capacity.MaxBodyBytesPerNetwork
	}
	if l.BodyBytes <= 0 || l.BodyBytes > room || l.Time <= 0 || l.Time > LongestAnswer {
		return Limits{}, fmt.Errorf("contract: %s of %s: %+v is out of range", limitsKey, pattern, l)
	}
	if operation.RequestBody == nil {
		l.BodyBytes = 0
	}
	return l, nil
}
