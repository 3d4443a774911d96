package contract

import (
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
)

// Form describes a multipart form that an operation accepts.
type Form struct {
	Schema *openapi3.Schema
	Fields []string // names of all fields except files
	Files  []string
}

// FormType is the media type of forms.
const FormType = "multipart/form-data"

// formOf returns the form of an operation; nil if it accepts none. A public operation with a form is an error.
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
