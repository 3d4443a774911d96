package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/platform/fault"
)

// Form describes a multipart form that an operation accepts.
type Form struct {
	Schema *openapi3.Schema
	Fields []string // names of all fields except files
	Files  []string
}

// FormType is the media type of forms.
const FormType = "multipart/form-data"

// formOf returns the form of an operation. It returns nil if the operation accepts no form. A public operation with a form is an error.
func formOf(pattern string, operation *openapi3.Operation, roles []string) (*Form, error) {
	if operation.RequestBody == nil || operation.RequestBody.Value.Content[FormType] == nil {
		return nil, nil
	}
	if slices.Contains(roles, Public) {
		return nil, fmt.Errorf("contract: %s is public and takes a form", pattern)
	}
	f := &Form{Schema: operation.RequestBody.Value.Content[FormType].Schema.Value}
	for _, name := range slices.Sorted(maps.Keys(f.Schema.Properties)) {
		if f.Schema.Properties[name].Value.Format == "binary" {
			f.Files = append(f.Files, name)
		} else {
			f.Fields = append(f.Fields, name)
		}
	}
	return f, nil
}

// FormValue returns the JSON value of a form field, whose texts are the items of a list. It returns nil for an empty field, which counts as missing. A text
// that is not a value of the schema's type remains a JSON string, which the validator rejects.
func FormValue(name string, texts []string, schema *openapi3.Schema) (json.RawMessage, error) {
	if schema.Type.Is(openapi3.TypeArray) {
		items := []json.RawMessage{}
		for _, text := range texts {
			item, err := FormValue(name, []string{text}, schema.Items.Value)
			if err != nil {
				return nil, err
			}
			if item != nil {
				items = append(items, item)
			}
		}
		if len(items) == 0 {
			return nil, nil
		}
		return json.Marshal(items) //nolint:wrapcheck // strings and JSON cannot fail
	}
	text := texts[0]
	switch {
	case len(texts) > 1:
		return nil, fault.InvalidField(name, fault.Duplicate, nil)
	case text == "":
		return nil, nil
	case !schema.Type.Is(openapi3.TypeString) && json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	}
	return json.Marshal(text) //nolint:wrapcheck // a string cannot fail
}
