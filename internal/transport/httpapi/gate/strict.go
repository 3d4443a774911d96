package gate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/gen/api"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/transport/httpapi/gate/contract"
	"lksms/internal/transport/httpapi/jsonbody"
	"lksms/internal/transport/httpapi/violation"
)

// strict reads the body and waits for the slot of the request. It rejects query parameters that the operation does not declare, and text that PostgreSQL
// cannot store. It also rejects bodies that JSON parsers read differently: duplicate names, invalid UTF-8 and lone surrogates. encoding/json keeps the last
// duplicate and replaces invalid text, so the server would store a changed body. The validator checks whether the body is JSON.
func (g *Gate) strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		asked, isKnown := g.contract.Operation(x.Operation)
		query, wrong := badAddress(r, x.Operation, asked.Parameters)
		if x.Operation == "" {
			wrong = nil
		}
		x.DryRun, _ = strconv.ParseBool(query.Get("dry_run")) // parsed as in the generated code
		limits := asked.Limits
		if !isKnown {
			limits.Time = LongestAnswer
		}
		hasBody := r.Body != nil && r.Body != http.NoBody && limits.BodyBytes > 0 // the body of an operation without a body is not read
		if wrong != nil && (!hasBody || x.Operation == contract.Callback) {
			g.Fail(w, r, wrong)
			return
		}
		began := time.Now()
		done, read := func() {}, func() error { r.Body = http.NoBody; return nil }
		if hasBody {
			var err error
			if done, read, err = g.receiveBody(w, r, x, limits.BodyBytes, wrong); err != nil {
				g.Fail(w, r, err)
				return
			}
			defer done()
		}
		leave, err := g.slot(r.Context(), x)
		if err != nil {
			g.Fail(w, r, err)
			return
		}
		defer leave()
		x.answering = func() { leave(); done() } // a slow reader must not occupy memory and slots for which other requests wait
		if hasBody && x.Caller.Authorise != nil && time.Since(began) > bodySoon {
			if err := x.Caller.Authorise(); err != nil { // the user can have been disabled while the body arrived
				g.Fail(w, r, err)
				return
			}
		}
		if err := read(); err != nil {
			g.Fail(w, r, err)
			return
		}
		x.within(limits.Time)
		next.ServeHTTP(w, r)
	})
}

// receiveBody receives a body. done frees its memory. read parses the body; the error of read also contains wrong, the fault of the address.
func (g *Gate) receiveBody(w http.ResponseWriter, r *http.Request, x *Exchange, maxBytes int64, wrong *fault.Error) (done func(), read func() error, err error) {
	asked, _ := g.contract.Operation(x.Operation)
	parse := g.parse
	if asked.Form != nil && isFormType(r) {
		parse = func(x *Exchange) error { return g.parseForm(x, *asked.Form) }
		done, err = g.receiveForm(w, r, x, *asked.Form)
	} else {
		done, err = g.receive(w, r, x, maxBytes)
	}
	return done, func() error {
		if x.Operation == contract.Callback { // each provider defines its own format; even an incomplete body is stored
			return nil
		}
		if x.Body.Cut != nil {
			return x.Body.Cut
		}
		err := parse(x)
		if wrong != nil { // the body can also be invalid
			if err == nil {
				err = g.check(r)
			}
			err = withFieldsOf(wrong, err)
		}
		if err == nil {
			r.Body = parsedBody{Reader: bytes.NewReader(x.Body.Plain), value: x.Body.Value}
		}
		return err
	}, err
}

// parse parses the JSON of a body. Faults: request.malformed, request.invalid.
func (g *Gate) parse(x *Exchange) (err error) {
	b := &x.Body
	b.Plain = jsonbody.WholeNumbers(b.Raw)
	if asked, _ := g.contract.Operation(x.Operation); asked.Batch != nil {
		body := b.json()
		b.Items, err = asked.Batch.Parse(&body)
		b.Value, b.Plain = body.Value, body.Plain
	} else {
		b.Value, err = jsonbody.Parse(b.Plain)
	}
	if errors.Is(err, jsonbody.ErrNotJSON) {
		b.Broken = err // reported later, because the validator checks the content type first
		return nil
	}
	return err
}

// parsedBody is the body of a request with its parsed value. The generated code decodes the value. If this fails, the generated code decodes the text of the
// body, because the error of that decoding names the field.
type parsedBody struct {
	io.Reader
	value any
}

func (parsedBody) Close() error { return nil }

// ValidatedValue is called by runtime.BindJSONBody.
func (b parsedBody) ValidatedValue() any { return b.value }

// badAddress returns a fault if the path or query contains text that PostgreSQL cannot store, or if the query contains parameters that the operation does not
// declare. The server must not silently ignore part of a request. Without a fault, badAddress returns the query. For a callback, it returns no query.
func badAddress(r *http.Request, operation string, parameters []string) (url.Values, *fault.Error) {
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	if !postgres.IsText(r.URL.Path) {
		_, pattern, _ := strings.Cut(operation, " ")
		names := strings.Split(pattern, "/")
		for i, escaped := range strings.Split(r.URL.EscapedPath(), "/") {
			if text, err := url.PathUnescape(escaped); err != nil || !postgres.IsText(text) {
				all.Fields = append(all.Fields, fault.Field{Name: strings.Trim(names[min(i, len(names)-1)], "{}"), Rule: fault.BadCharacters})
			}
		}
	}
	var query url.Values
	if r.URL.RawQuery != "" && operation != contract.Callback { // each provider defines the query of its callbacks
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			query = nil
			all.Fields = append(all.Fields, fault.Field{Name: "query", Rule: fault.WrongFormat})
		}
	}
	for name, values := range query {
		switch {
		case !slices.Contains(parameters, name):
			all.Fields = append(all.Fields, fault.Field{Name: postgres.Text(name), Rule: fault.UnknownParameter})
		case slices.ContainsFunc(values, func(value string) bool { return !postgres.IsText(value) }):
			all.Fields = append(all.Fields, fault.Field{Name: name, Rule: fault.BadCharacters})
		}
	}
	if len(all.Fields) == 0 {
		return query, nil
	}
	return nil, violation.Sorted(all)
}

// withFieldsOf returns the fault of the address (path and query), extended by the invalid fields of the body. It ignores the error of an unreadable body,
// which names no fields.
func withFieldsOf(address *fault.Error, err error) *fault.Error {
	var body *fault.Error
	if !errors.As(err, &body) || body.Reason != fault.RequestInvalid {
		return address
	}
	both := *address
	for _, field := range body.Fields {
		isKnown := func(known fault.Field) bool { return known.Name == field.Name }
		if !slices.ContainsFunc(address.Fields, isKnown) {
			both.Fields = append(both.Fields, field)
		}
	}
	return violation.Sorted(&both)
}

// Undecodable answers a request that the validator accepts but the generated code cannot decode, such as a number that matches the contract only after
// rounding, or a header that is given twice.
func (g *Gate) Undecodable(w http.ResponseWriter, r *http.Request, err error) {
	var param *api.InvalidParamFormatError
	var repeated *api.TooManyValuesForParamError
	switch {
	case errors.As(err, &repeated):
		g.Fail(w, r, fault.InvalidField(repeated.ParamName, fault.Duplicate, nil))
	case errors.As(err, &param):
		g.Fail(w, r, fault.InvalidField(param.ParamName, fault.WrongFormat, nil))
	default:
		g.Fail(w, r, violation.OfDecoding(err))
	}
}
