// Package violation converts the errors of the validator, and of reading a body, to faults. A fault names each invalid field and the broken rule, but not the
// value.
package violation

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/jsonbody"
)

// OfRoute returns the fault of a request that matches no operation. It returns any other error unchanged.
func OfRoute(err error) error {
	switch {
	case errors.Is(err, routers.ErrMethodNotAllowed):
		return fault.New(fault.MethodNotAllowed, fault.RouteMethodNotAllowed)
	case errors.Is(err, routers.ErrPathNotFound):
		return fault.New(fault.NotFound, fault.RouteNotFound)
	}
	return err
}

// OfRequest returns the fault of a request whose parameters or body violate the contract. It returns nil if the request is valid. Both arguments are errors
// of the validator; OfRequest returns any other error unchanged.
func OfRequest(parameters, body error) error {
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	for _, e := range flatten(parameters) {
		var request *openapi3filter.RequestError
		if !errors.As(e, &request) || request.Parameter == nil {
			return parameters
		}
		all.Fields = append(all.Fields, fieldsOf(request)...)
	}
	for _, e := range flatten(body) {
		var schema *openapi3.SchemaError
		if !errors.As(e, &schema) {
			return body
		}
		for _, one := range unfold(schema) {
			all.Fields = append(all.Fields, bodyFields(one)...)
		}
	}
	if len(all.Fields) == 0 {
		return nil
	}
	return Sorted(all)
}

// Sorted sorts the fields of a fault by name and removes duplicates.
func Sorted(f *fault.Error) *fault.Error {
	slices.SortFunc(f.Fields, func(a, b fault.Field) int { return strings.Compare(a.Name, b.Name) })
	f.Fields = slices.CompactFunc(f.Fields, func(a, b fault.Field) bool { return a.Name == b.Name && a.Rule == b.Rule })
	return f
}

func fieldsOf(e *openapi3filter.RequestError) []fault.Field {
	name := e.Parameter.Name
	switch {
	case errors.Is(e.Err, openapi3filter.ErrInvalidRequired):
		return []fault.Field{{Name: name, Rule: fault.Required}}
	case errors.Is(e.Err, openapi3filter.ErrInvalidEmptyValue):
		return []fault.Field{{Name: name, Rule: fault.Empty}}
	}
	var fields []fault.Field
	for _, inner := range flatten(e.Err) {
		var (
			schema *openapi3.SchemaError
			parse  *openapi3filter.ParseError
		)
		switch {
		case errors.As(inner, &schema):
			fields = append(fields, schemaField(name, false, schema))
		case errors.As(inner, &parse) && e.Parameter.Schema != nil:
			fields = append(fields, fault.Field{Name: name, Rule: fault.WrongType, Limit: typeOf(e.Parameter.Schema.Value)})
		default:
			fields = append(fields, fault.Field{Name: name, Rule: fault.NothingElseIsKnown})
		}
	}
	return fields
}

// bodyFields returns the invalid fields of a body. If items of a list of texts are repeated, these are the items.
func bodyFields(e *openapi3.SchemaError) []fault.Field {
	field := schemaField("body", true, e)
	list, isList := e.Value.([]any)
	if e.SchemaField != "uniqueItems" || !isList {
		return []fault.Field{field}
	}
	texts := make([]string, len(list))
	for i, item := range list {
		var isText bool
		if texts[i], isText = item.(string); !isText {
			return []fault.Field{field}
		}
	}
	var repeated fault.Fields
	fault.RepeatedItems(&repeated, field.Name, texts)
	return repeated
}

func schemaField(name string, inBody bool, e *openapi3.SchemaError) fault.Field {
	within := ""
	if path := e.JSONPointer(); inBody && len(path) > 0 {
		name = strings.Join(path, ".")
		within = name + "."
	}
	field := fault.Field{Name: name, Rule: fault.NothingElseIsKnown}
	switch e.SchemaField {
	case "required":
		field.Rule = fault.Required
	case "properties":
		if quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(e.Reason, "property ")); err == nil {
			if unknown, err := strconv.Unquote(quoted); err == nil {
				field = fault.Field{Name: within + unknown, Rule: fault.UnknownField}
			}
		}
	case "type", "nullable", "oneOf":
		field.Rule, field.Limit = fault.WrongType, typeOf(e.Schema)
	case "format":
		switch {
		case e.Schema.Type.Is(openapi3.TypeInteger):
			field.Rule, field.Limit = fault.WrongType, typeOf(e.Schema)
		case e.Schema.Format == "date-time":
			field.Rule = fault.NotATime
		default:
			field.Rule = fault.WrongFormat
		}
	case "enum":
		field.Rule, field.Limit = fault.NotAllowed, e.Schema.Enum
	case "minLength":
		field.Rule, field.Limit = fault.TooShort, e.Schema.MinLength
		if e.Schema.MinLength == 1 {
			field.Rule = fault.Empty
		}
	case "maxLength":
		field.Rule, field.Limit = fault.TooLong, *e.Schema.MaxLength
	case "minimum":
		field.Rule, field.Limit = fault.TooSmall, *e.Schema.Min
	case "maximum":
		field.Rule, field.Limit = fault.TooBig, *e.Schema.Max
	case "pattern":
		field.Rule = fault.BadCharacters
	case "minProperties", "minItems":
		field.Rule = fault.Empty
	case "maxItems":
		field.Rule, field.Limit = fault.TooManyItems, *e.Schema.MaxItems
	case "maxProperties":
		field.Rule, field.Limit = fault.TooManyItems, *e.Schema.MaxProps
	case "uniqueItems":
		field.Rule = fault.Duplicate
	}
	return field
}

func typeOf(schema *openapi3.Schema) string {
	if types := schema.Type.Slice(); len(types) > 0 {
		return types[0]
	}
	alternatives := make([]string, len(schema.OneOf))
	for i, one := range schema.OneOf {
		alternatives[i] = typeOf(one.Value)
	}
	return cmp.Or(strings.Join(alternatives, ", "), "object")
}

// unfold returns the errors of a oneOf. It skips the alternatives whose type is not the type of the value. If no alternative has this type, or e is not the
// error of a oneOf, it returns e.
func unfold(e *openapi3.SchemaError) []*openapi3.SchemaError {
	var alternatives openapi3.MultiError
	if e.SchemaField != "oneOf" || !errors.As(e.Origin, &alternatives) {
		return []*openapi3.SchemaError{e}
	}
	var all []*openapi3.SchemaError
	for _, one := range flatten(alternatives) {
		var inner *openapi3.SchemaError
		if !errors.As(one, &inner) {
			continue
		}
		isOfAnotherType := (inner.SchemaField == "type" || inner.SchemaField == "nullable") && len(inner.JSONPointer()) == len(e.JSONPointer())
		if !isOfAnotherType {
			all = append(all, unfold(inner)...)
		}
	}
	if len(all) == 0 {
		return []*openapi3.SchemaError{e}
	}
	return all
}

// flatten returns the errors of the validator's nested lists as one list.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	var list openapi3.MultiError
	if me, ok := err.(openapi3.MultiError); ok { //nolint:errorlint // a RequestError that wraps a list is not a list
		for _, inner := range me {
			list = append(list, flatten(inner)...)
		}
		return list
	}
	return []error{err}
}

// OfReading returns the fault of a body that could not be read completely. start is the part that was read.
func OfReading(err error, start []byte) *fault.Error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fault.New(fault.TooLarge, fault.RequestTooLarge)
	case errors.Is(err, jsonbody.ErrTooDeep):
		return fault.New(fault.Malformed, fault.RequestTooDeep)
	case errors.Is(err, jsonbody.ErrTooMany):
		return jsonbody.TooMany(start)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Malformed, fault.RequestTooSlow)
	default:
		return fault.New(fault.Malformed, fault.RequestMalformed)
	}
}

// OfDecoding returns a fault that names the field whose value does not fit its generated type. It returns nil if err is nil.
func OfDecoding(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fault.InvalidField(wrong.Field, fault.WrongFormat, nil)
	default:
		return OfReading(err, nil)
	}
}
