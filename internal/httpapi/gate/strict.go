package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// strict refuses query parameters that the operation does not declare, what is no text that PostgreSQL keeps, in the address
// and in the body, and bodies that JSON parsers read differently: a name that stands twice, and bytes or escapes that are no text. encoding/json takes the last of two names and
// replaces what is no text, so that what is stored would not be what was sent. Whether it is JSON at all the validator says.
func (g *Gate) strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := Of(r.Context())
		query, f := badAddress(r, x.Operation, g.contract.parameters[x.Operation])
		if x.Operation != "" && f != nil {
			g.Fail(w, r, f)
			return
		}
		x.DryRun, _ = strconv.ParseBool(query.Get("dry_run")) // as the generated code reads it
		most := g.contract.bodies[x.Operation]
		if r.Body == nil || r.Body == http.NoBody || most == 0 { // nothing is read where no operation asks for a body
			r.Body = http.NoBody
			leave, err := g.turn(r.Context(), x)
			if err != nil {
				g.Fail(w, r, err)
				return
			}
			defer leave()
			x.answering = leave
			g.within(next, w, r)
			return
		}
		began := time.Now()
		done, err := g.receive(w, r, x, most)
		if err != nil {
			g.Fail(w, r, err)
			return
		}
		defer done()
		leave, err := g.turn(r.Context(), x)
		if err != nil {
			g.Fail(w, r, err)
			return
		}
		defer leave()
		x.answering = func() { leave(); done() } // who reads its answer slowly must not hold what others wait for
		if x.Authorise != nil && time.Since(began) > bodySoon {
			if err := x.Authorise(); err != nil { // the user may have been disabled while its body came
				g.Fail(w, r, err)
				return
			}
		}
		if x.Operation == callbackOperation { // a provider writes as it likes, and what was read is kept
			g.within(next, w, r)
			return
		}
		if x.Cut != nil {
			g.Fail(w, r, x.Cut)
			return
		}
		if f := ambiguity(x.Body); f != nil {
			g.Fail(w, r, f)
			return
		}
		x.Plain = wholeNumbers(x.Body)
		if b, is := g.contract.batches[x.Operation]; is {
			if x.Items, err = b.items(x.Body, x.Plain); err != nil {
				g.Fail(w, r, err)
				return
			}
			x.Plain = b.typed(x.Plain, x.Items)
		}
		r.Body = io.NopCloser(bytes.NewReader(x.Plain))
		g.within(next, w, r)
	})
}

// within gives a request its deadline, now that it is whole.
func (g *Gate) within(next http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), deadlineOf(r.URL.Path))
	defer cancel()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// parametersOf gives the names of what each operation takes from the query, by its pattern in a ServeMux.
func parametersOf(spec *openapi3.T) map[string][]string {
	names := map[string][]string{}
	for path, item := range spec.Paths.Map() {
		for method, operation := range item.Operations() {
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				if p.Value.In == openapi3.ParameterInQuery {
					names[method+" "+path] = append(names[method+" "+path], p.Value.Name)
				}
			}
		}
	}
	return names
}

// bodiesOf tells how many bytes the body of each operation may have, by its pattern in a ServeMux; those without one are left out.
func bodiesOf(spec *openapi3.T) map[string]int64 {
	bodies := map[string]int64{}
	for pattern, operation := range operationsOf(spec) {
		if operation.RequestBody != nil {
			bodies[pattern] = bodyMost
		}
	}
	bodies["POST "+sendBatchPath], bodies["POST "+reportBatchPath] = batchBodyMost, batchBodyMost
	return bodies
}

// badAddress names the parameters in the path or the query that are no text, and those of the query that the operation does
// not declare: what a caller asked for must not be passed over in silence. Nil if all are good; then the query is what it says.
func badAddress(r *http.Request, operation string, parameters []string) (url.Values, *fault.Error) {
	if !postgres.IsText(r.URL.Path) {
		_, pattern, _ := strings.Cut(operation, " ")
		names := strings.Split(pattern, "/")
		for i, escaped := range strings.Split(r.URL.EscapedPath(), "/") {
			if text, err := url.PathUnescape(escaped); err != nil || !postgres.IsText(text) {
				return nil, fault.InvalidField(strings.Trim(names[min(i, len(names)-1)], "{}"), fault.BadCharacters, nil)
			}
		}
	}
	if r.URL.RawQuery == "" || operation == callbackOperation { // a provider calls as it likes
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.InvalidField("query", fault.WrongFormat, nil)
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
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
	return nil, sorted(all)
}

// unreadable is why no more of a body could be read than its start.
func unreadable(err error, start []byte) *fault.Error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fault.New(fault.TooLarge, fault.RequestTooLarge)
	case errors.Is(err, errTooDeep):
		return fault.New(fault.Malformed, fault.RequestTooDeep)
	case errors.Is(err, errTooMany):
		return tooMany(start)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Malformed, fault.RequestTooSlow)
	default:
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}

// Undecodable answers what the validator let through and the generated code cannot take: a number that fits the contract
// Only when it is rounded.
func (g *Gate) Undecodable(w http.ResponseWriter, r *http.Request, err error) {
	var param *api.InvalidParamFormatError
	switch {
	case errors.As(err, &param):
		g.Fail(w, r, fault.InvalidField(param.ParamName, fault.WrongFormat, nil))
	default:
		g.Fail(w, r, undecoded(err))
	}
}

// undecoded is a fault that names the field which the generated type cannot take.
func undecoded(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fault.InvalidField(wrong.Field, fault.WrongFormat, nil)
	default:
		return unreadable(err, nil)
	}
}

func ambiguity(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	_, err := decoder.ReadValue()
	if err == nil {
		if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
			return fault.New(fault.Malformed, fault.RequestMalformed) // something stands behind it
		}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		if err == nil && (bytes.Contains(body, []byte(`\u0000`)) || hasNumber(body, isFar)) {
			return unkeepable(body)
		}
		return nil
	}
	field := fieldAt(syntax.JSONPointer)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fault.InvalidField(field, fault.Duplicate, nil)
	case strings.Contains(syntax.Err.Error(), "UTF-8"), strings.Contains(syntax.Err.Error(), "surrogate"):
		return fault.InvalidField(field, fault.BadCharacters, nil)
	}
	return nil
}

// numberMost is how long a number may be.
const numberMost = 100

// isFar tells of a number that it is too long, or has an exponent of more than two digits.
func isFar(number []byte) bool {
	e := bytes.IndexAny(number, "eE")
	return len(number) > numberMost || e >= 0 && len(bytes.TrimLeft(number[e+1:], "+-")) > 2
}

// isPointed tells of a number that it is written with a point or an exponent, and may be whole.
func isPointed(number []byte) bool {
	return bytes.Contains(number, []byte(".0")) || bytes.ContainsAny(number, "eE")
}

// isLong tells of a number that it may be more than a generated type holds, of which the smallest has 32 bits.
func isLong(number []byte) bool { return len(number) > 9 || bytes.ContainsAny(number, "eE") }

// hasNumber tells whether any number in a body is such. It looks at each byte once, at what stands between texts.
func hasNumber(body []byte, is func(number []byte) bool) bool {
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case c >= '0' && c <= '9':
			end := i + 1
			for end < len(body) && strings.IndexByte("0123456789.eE+-", body[end]) >= 0 {
				end++
			}
			if is(body[i:end]) {
				return true
			}
			i = end - 1
		}
	}
	return false
}

// unkeepable names what a good body holds and PostgreSQL does not keep, or only at many times its length: a text with a NUL, and a
// number that isFar. Nil if there is none.
func unkeepable(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		switch kind := token.Kind(); {
		case kind == '"' && strings.Contains(token.String(), "\x00"):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.BadCharacters, nil)
		case kind == '0' && isFar([]byte(token.String())):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.WrongFormat, nil)
		}
	}
	return nil
}

// wholeMost is how many characters a whole number has that a generated type can hold. Longer ones are left: 1e99 is a fifth as long.
const wholeMost = 20

// wholeNumbers writes the whole numbers of a good body without point and exponent: 1.0 is an integer to the contract, and none to the
// generated types.
func wholeNumbers(body []byte) []byte {
	if !hasNumber(body, isPointed) {
		return body
	}
	var plain []byte
	copied := 0
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		if token.Kind() != '0' {
			continue
		}
		text := token.String()
		if !isPointed([]byte(text)) || isFar([]byte(text)) { // of a body that is no JSON: others with such a number were refused
			continue
		}
		if n, ok := new(big.Rat).SetString(text); ok && n.IsInt() && len(n.Num().String()) <= wholeMost {
			end := int(decoder.InputOffset())
			plain = append(append(plain, body[copied:end-len(text)]...), n.Num().String()...)
			copied = end
		}
	}
	return append(plain, body[copied:]...)
}

// fieldAt names a place in a body as faults do.
func fieldAt(pointer jsontext.Pointer) string {
	field := strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
	if field == "" {
		return "body"
	}
	return field
}
