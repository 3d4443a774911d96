package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"

	"lksms/gen/api"
	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// strict refuses query parameters that the operation does not declare, what is no text that PostgreSQL keeps, in the address
// and in the body, and bodies that JSON parsers read differently: a name that stands twice, and bytes or escapes that are no text. encoding/json takes the last of two names and
// replaces what is no text, so that what is stored would not be what was sent. Whether it is JSON at all the validator says.
func (s *Server) strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		if f := badAddress(r, x.operation, s.contract.parameters[x.operation]); x.operation != "" && f != nil {
			s.fail(w, r, f)
			return
		}
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		var err error
		if x.body, err = io.ReadAll(r.Body); err != nil {
			x.cut = unreadable(err)
		}
		if x.operation == callbackOperation { // a provider writes as it likes, and what was read is kept
			x.request = r
		} else if x.cut != nil {
			s.fail(w, r, x.cut)
			return
		} else if f := ambiguity(x.body); f != nil {
			s.fail(w, r, f)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(x.body))
		next.ServeHTTP(w, r)
	})
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

// badAddress names the parameters in the path or the query that are no text, and those of the query that the operation does
// not declare: what a caller asked for must not be passed over in silence. Nil if all are good.
func badAddress(r *http.Request, operation string, parameters []string) *fault.Error {
	if !postgres.IsText(r.URL.Path) {
		_, pattern, _ := strings.Cut(operation, " ")
		names := strings.Split(pattern, "/")
		for i, escaped := range strings.Split(r.URL.EscapedPath(), "/") {
			if text, err := url.PathUnescape(escaped); err != nil || !postgres.IsText(text) {
				return fault.InvalidField(strings.Trim(names[min(i, len(names)-1)], "{}"), fault.BadCharacters, nil)
			}
		}
	}
	if r.URL.RawQuery == "" || operation == callbackOperation { // a provider calls as it likes
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.InvalidField("query", fault.WrongFormat, nil)
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
		return nil
	}
	return sorted(all)
}

// unreadable is why a body could not be read to its end.
func unreadable(err error) *fault.Error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fault.New(fault.TooLarge, fault.RequestTooLarge)
	case errors.Is(err, errTooDeep):
		return fault.New(fault.Malformed, fault.RequestTooDeep)
	default:
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}

// undecodable answers what the validator let through and the generated code cannot take: a number that fits the contract
// only when it is rounded.
func (s *Server) undecodable(w http.ResponseWriter, r *http.Request, err error) {
	var (
		wrong *json.UnmarshalTypeError
		param *api.InvalidParamFormatError
	)
	switch {
	case errors.As(err, &wrong):
		s.fail(w, r, fault.InvalidField(wrong.Field, fault.WrongFormat, nil))
	case errors.As(err, &param):
		s.fail(w, r, fault.InvalidField(param.ParamName, fault.WrongFormat, nil))
	default:
		s.fail(w, r, unreadable(err))
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
		if err == nil && bytes.Contains(body, []byte(`\u0000`)) {
			return withNUL(body)
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

// withNUL names the text of a good body that holds a NUL, which is JSON, and no text that PostgreSQL keeps; nil if none does.
func withNUL(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		if token.Kind() == '"' && strings.Contains(token.String(), "\x00") {
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.BadCharacters, nil)
		}
	}
	return nil
}

// fieldAt names a place in a body as faults do.
func fieldAt(pointer jsontext.Pointer) string {
	field := strings.ReplaceAll(strings.TrimPrefix(string(pointer), "/"), "/", ".")
	if field == "" {
		return "body"
	}
	return field
}
