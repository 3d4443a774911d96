package gate

import (
	"errors"
	"fmt"
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

// contract is the API contract as the gate enforces it. The maps are by operation: its pattern in a ServeMux.
type contract struct {
	router     routers.Router // finds the operation of any request
	routes     map[string]*routers.Route
	roles      map[string][]string // roles that may call the operation
	servedBy   map[string]servers.Role
	ids        map[string]string   // operationId
	stale      map[string]bool     // whether a replica may answer
	keyed      map[string]bool     // whether the operation takes an Idempotency-Key
	parameters map[string][]string // names of the query parameters
	limits     map[string]limits

	forms   map[string]formOf // operations that take a form
	costly  map[string]bool   // whether the operation needs a slot
	batches map[string]Batch
	changes Batch // checks a change of settings
}

// readContract reads the contract once for all servers of a process, because reading takes longer than the rest of a start.
// Nobody changes the contract afterwards.
var readContract = sync.OnceValues(func() (*contract, error) {
	// The library's own checks are patterns that accept the 30th of February.
	openapi3.DefineStringFormatValidator("date-time", openapi3.NewCallbackValidator(checkTime))
	openapi3.DefineStringFormatValidator("date", openapi3.NewCallbackValidator(checkDay))
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	return contractOf(spec)
})

// contractOf returns what the gate enforces of a contract, which it changes.
func contractOf(spec *openapi3.T) (*contract, error) {
	roles, err := rolesOf(spec)
	if err != nil {
		return nil, err
	}
	servedBy, err := servedByOf(spec)
	if err != nil {
		return nil, err
	}
	spec.Security = nil // guard has authenticated the caller
	batches := map[string]Batch{
		"POST " + sendBatchPath:   relax[api.SendRequest](spec, sendBatchPath, "messages"),
		"POST " + reportBatchPath: relax[api.ReportRequest](spec, reportBatchPath, "reports"),
	}
	limits, err := limitsOf(spec, roles)
	if err != nil {
		return nil, err
	}
	forms, err := formsOf(spec, roles)
	if err != nil {
		return nil, err
	}
	spec.Paths.Find(callbackPath).Post.RequestBody = nil // any body is valid, and the validator would copy it
	spec.Servers = nil                                   // the API is served under any name
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, fmt.Errorf("route by contract: %w", err)
	}
	return &contract{
		router: router, routes: routesOf(spec), roles: roles, servedBy: servedBy, ids: idsOf(spec), stale: staleOperations(spec),
		keyed: keyedOperations(spec), parameters: parametersOf(spec), limits: limits,
		forms: forms, costly: costlyOperations(spec, maps.Keys(batches), maps.Keys(forms)), batches: batches,
		changes: Batch{item: spec.Components.Schemas["SettingsChange"].Value},
	}, nil
}

// staleKey is the extension of the contract that marks an operation whose answer may be some seconds old.
const staleKey = "x-lksms-stale"

// staleOperations returns the marked operations.
func staleOperations(spec *openapi3.T) map[string]bool {
	stale := map[string]bool{}
	for pattern, operation := range operationsOf(spec) {
		stale[pattern], _ = operation.Extensions[staleKey].(bool)
	}
	return stale
}

// routesOf returns the operations without path parameters as the validator knows them.
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

// route returns the operation of a request, and its path parameters. The router of the library tries each path of the contract in turn, so
// it is asked only for paths with parameters, and for paths that do not exist. It reads some paths otherwise than the ServeMux
// (/users/%2F): a request for which the ServeMux has no operation has no route.
func (c *contract) route(r *http.Request, operation string) (*routers.Route, map[string]string, error) {
	if route := c.routes[operation]; route != nil && route.Method == r.Method && route.Path == r.URL.EscapedPath() {
		return route, nil, nil
	}
	route, params, err := c.router.FindRoute(r)
	if err == nil && operation == "" {
		err = routers.ErrPathNotFound
	}
	for name, escaped := range params { // the library checks a name of any language as it is escaped
		text, err := url.PathUnescape(escaped)
		if err != nil {
			return nil, nil, fault.InvalidField(name, fault.WrongFormat, nil)
		}
		params[name] = text
	}
	return route, params, err
}

// methods returns the methods that the path of a request has.
func (c *contract) methods(r *http.Request) []string {
	if _, _, err := c.router.FindRoute(r); errors.Is(err, routers.ErrPathNotFound) { // each look reads the whole contract
		return nil
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		_, _, err := c.router.FindRoute(&other)
		if err == nil || method == http.MethodHead && slices.Contains(alwaysServed, "GET "+r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// check checks a request: its route, its parameters, and its body, which strict has parsed.
func (c *contract) check(r *http.Request) error {
	x := Of(r.Context())
	route, params, err := c.route(r, x.Operation)
	if err != nil {
		return violation.OfRoute(err)
	}
	schema, err := x.Body.schema(route.Operation.RequestBody, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	err = openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route, Options: parametersOnly,
	})
	var wrong error
	if schema != nil {
		wrong = schema.VisitJSON(x.Body.Value, openapi3.MultiErrors(), openapi3.VisitAsRequest())
	}
	return violation.OfRequest(err, wrong)
}

// parametersOnly make the validator check all parameters. The handlers apply the defaults.
var parametersOnly = &openapi3filter.Options{
	MultiError: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, ExcludeRequestBody: true,
}

// schema returns the schema to which the contract binds a body; nil if it binds the body to none. Faults: request.malformed,
// request.media_type.
func (b Body) schema(expected *openapi3.RequestBodyRef, contentType string) (*openapi3.Schema, error) {
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

// checkTime rejects text that is not a time, and a time that could be stored but not shown again: encoding/json writes only the
// years 0 to 9999, and a time zone can move a time of the year 0 into the year before.
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

// checkDay rejects text that is not a day of the years 1 to 9999.
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

// limitsKey is the extension of the contract that holds the limits of all operations. An operation can have its own.
const limitsKey = "x-lksms-limits"

// limits bound a request.
type limits struct {
	bodyBytes int64         // 0: the operation has no body
	time      time.Duration // for the work after the body and the slot have come
}

// limitsOf reads the limits of each operation from the contract, by its pattern in a ServeMux. A limit that is missing or above the
// bounds of the gate is an error: the largest allowed body must find room.
func limitsOf(spec *openapi3.T, roles map[string][]string) (map[string]limits, error) {
	usual, _ := spec.Info.Extensions[limitsKey].(map[string]any)
	all := map[string]limits{}
	for pattern, operation := range operationsOf(spec) {
		own, _ := operation.Extensions[limitsKey].(map[string]any)
		number := func(name string) float64 {
			for _, from := range []map[string]any{own, usual} {
				if n, is := from[name].(float64); is {
					return n
				}
			}
			return 0
		}
		l := limits{bodyBytes: int64(number("body_bytes")), time: time.Duration(number("seconds") * float64(time.Second))}
		room := int64(capacity.BodiesOfOne)
		if slices.Contains(roles[pattern], public) {
			room = capacity.BodiesOfSource
		}
		if l.bodyBytes <= 0 || l.bodyBytes > room || l.time <= 0 || l.time > LongestAnswer {
			return nil, fmt.Errorf("contract: %s of %s: %+v is out of range", limitsKey, pattern, l)
		}
		if operation.RequestBody == nil {
			l.bodyBytes = 0
		}
		all[pattern] = l
	}
	return all, nil
}
