package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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
		x.plain = wholeNumbers(x.body)
		if b, is := s.contract.batches[x.operation]; is {
			x.items = b.items(x.body, x.plain)
			x.plain = b.typed(x.plain, x.items)
		}
		r.Body = io.NopCloser(bytes.NewReader(x.plain))
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
	var param *api.InvalidParamFormatError
	switch {
	case errors.As(err, &param):
		s.fail(w, r, fault.InvalidField(param.ParamName, fault.WrongFormat, nil))
	default:
		s.fail(w, r, undecoded(err))
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
		return unreadable(err)
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
		if err == nil && (bytes.Contains(body, []byte(`\u0000`)) || farNumber.Match(body)) {
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

// farNumber finds what may be a number with an exponent of more than two digits.
var farNumber = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{3}`)

// unkeepable names what a good body holds and PostgreSQL does not keep, or only at a hundred times its length: a text with a NUL, and
// a number with an exponent of more than two digits. Nil if there is none.
func unkeepable(body []byte) *fault.Error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		switch kind := token.Kind(); {
		case kind == '"' && strings.Contains(token.String(), "\x00"):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.BadCharacters, nil)
		case kind == '0' && farNumber.MatchString(token.String()):
			return fault.InvalidField(fieldAt(decoder.StackPointer()), fault.WrongFormat, nil)
		}
	}
	return nil
}

// pointedNumber finds what may be a whole number that is written with a point or an exponent.
var pointedNumber = regexp.MustCompile(`[0-9](?:\.0|[eE])`)

// wholeNumbers writes the whole numbers of a good body without point and exponent: 1.0 is an integer to the contract, and none to the
// generated types.
func wholeNumbers(body []byte) []byte {
	if !pointedNumber.Match(body) {
		return body
	}
	var plain []byte
	copied := 0
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for token, err := decoder.ReadToken(); err == nil; token, err = decoder.ReadToken() {
		text := token.String()
		if token.Kind() != '0' || !strings.ContainsAny(text, ".eE") {
			continue
		}
		if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			end := int(decoder.InputOffset())
			plain = strconv.AppendInt(append(plain, body[copied:end-len(text)]...), int64(n), 10)
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
