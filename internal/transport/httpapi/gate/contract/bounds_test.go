package contract

import (
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
)

// Every part of a request has a limit: lists have maxItems, texts maxLength, and objects with arbitrary members maxProperties.
func TestEveryPartOfARequestHasALimit(t *testing.T) {
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, operation := range operationsOf(spec) {
		for _, p := range operation.Parameters {
			expectBounded(t, name+" "+p.Value.Name, p.Value.Schema)
		}
		if operation.RequestBody != nil {
			for _, media := range operation.RequestBody.Value.Content {
				expectBounded(t, name, media.Schema)
			}
		}
	}
	for path, item := range spec.Paths.Map() {
		for _, p := range item.Parameters {
			expectBounded(t, path+" "+p.Value.Name, p.Value.Schema)
		}
	}
}

// expectBounded reports the parts of a schema without a limit.
func expectBounded(t *testing.T, where string, ref *openapi3.SchemaRef) {
	t.Helper()
	s := ref.Value
	// An anchored pattern without repetition also limits a text.
	isFixed := strings.HasPrefix(s.Pattern, "^") && strings.HasSuffix(s.Pattern, "$") && !strings.ContainsAny(s.Pattern, "*+")
	isWholeBody := s.Format == "binary" // limited by the maximum size of bodies
	isClosed := s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has
	switch {
	case s.Type.Is(openapi3.TypeString) && s.Enum == nil && s.Format != "date-time" && s.MaxLength == nil && !isFixed && !isWholeBody:
		t.Errorf("%s: a text without maxLength", where)
	case s.Type.Is(openapi3.TypeArray) && s.MaxItems == nil:
		t.Errorf("%s: a list without maxItems", where)
	case s.Type.Is(openapi3.TypeObject) && !isClosed && s.MaxProps == nil:
		t.Errorf("%s: an object without maxProperties", where)
	case s.Type == nil && s.OneOf == nil:
		t.Errorf("%s: a value of any type", where)
	}
	for _, alternative := range s.OneOf {
		expectBounded(t, where, alternative)
	}
	if s.AdditionalProperties.Schema != nil {
		expectBounded(t, where+".*", s.AdditionalProperties.Schema)
	}
	for name, property := range s.Properties {
		expectBounded(t, where+"."+name, property)
	}
	if s.Items != nil {
		expectBounded(t, where+".items", s.Items)
	}
}
