package gate

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
)

// No part of a request is without a bound: each list has a maxItems, each text a maxLength, each object of any members a maxProperties.
func TestEverythingInARequestIsBounded(t *testing.T) {
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, operation := range operationsOf(spec) {
		for _, p := range operation.Parameters {
			unbounded(t, name+" "+p.Value.Name, p.Value.Schema)
		}
		if operation.RequestBody != nil {
			for _, media := range operation.RequestBody.Value.Content {
				unbounded(t, name, media.Schema)
			}
		}
	}
	for path, item := range spec.Paths.Map() {
		for _, p := range item.Parameters {
			unbounded(t, path+" "+p.Value.Name, p.Value.Schema)
		}
	}
}

// unbounded complains of what has no bound in a schema.
func unbounded(t *testing.T, where string, ref *openapi3.SchemaRef) {
	t.Helper()
	s := ref.Value
	// An anchored pattern without repetition bounds a text as well.
	isFixed := strings.HasPrefix(s.Pattern, "^") && strings.HasSuffix(s.Pattern, "$") && !strings.ContainsAny(s.Pattern, "*+")
	isWholeBody := s.Format == "binary" // which has a limit as such
	isClosed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
	switch {
	case s.Type.Is(openapi3.TypeString) && s.Enum == nil && s.Format != "date-time" && s.MaxLength == nil && !isFixed && !isWholeBody:
		t.Errorf("%s: a text without maxLength", where)
	case s.Type.Is(openapi3.TypeArray) && s.MaxItems == nil:
		t.Errorf("%s: a list without maxItems", where)
	case s.Type.Is(openapi3.TypeObject) && !isClosed && s.MaxProps == nil:
		t.Errorf("%s: an object without maxProperties", where)
	case s.Type == nil:
		t.Errorf("%s: anything", where)
	}
	for name, property := range s.Properties {
		unbounded(t, where+"."+name, property)
	}
	if s.Items != nil {
		unbounded(t, where+".items", s.Items)
	}
}
