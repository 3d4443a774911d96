package contract

import (
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/jsonbody"
)

// Every operation of the contract has an id, a summary, a tag, examples, and the statuses that all operations of its kind can return.
func TestContractDescribesEveryOperationCompletely(t *testing.T) {
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	tags := map[string]bool{}
	for _, tag := range spec.Tags {
		tags[tag.Name] = tag.Description != ""
	}
	for name, operation := range operationsOf(spec) {
		if operation.OperationID == "" || operation.Summary == "" || len(operation.Tags) != 1 || !tags[operation.Tags[0]] {
			t.Errorf("%s lacks an id, a summary or a described tag", name)
		}
		roles, err := rolesOf(name, operation)
		if err != nil {
			t.Error(err)
		}
		open := slices.Equal(roles, []string{Public})
		if open != (operation.Security != nil && len(*operation.Security) == 0) {
			t.Errorf("%s: access %v and security %v disagree", name, roles, operation.Security)
		}
		if operation.Responses.Status(200) == nil {
			t.Errorf("%s has no answer 200", name)
		}
		for _, status := range []int{401, 429, 500} {
			if !open && operation.Responses.Status(status) == nil {
				t.Errorf("%s has no answer %d", name, status)
			}
		}
		if body := operation.RequestBody; body != nil {
			for kind, media := range body.Value.Content {
				if (kind == "application/json" || kind == FormType) && media.Example == nil && len(media.Examples) == 0 {
					t.Errorf("%s has no example of its body in %s", name, kind)
				}
			}
			for _, status := range []int{400, 413, 422} {
				if operation.Responses.Status(status) == nil {
					t.Errorf("%s takes a body and has no answer %d", name, status)
				}
			}
		}
	}
}

func TestLimitAboveMemoryOfCallerIsError(t *testing.T) {
	for access, wrong := range map[string]bool{Public: true, "submit": false} {
		spec, err := api.GetSpec()
		if err != nil {
			t.Fatal(err)
		}
		callbacks := spec.Paths.Find(callbackPath).Post
		callbacks.Extensions[limitsKey] = map[string]any{"body_bytes": float64(capacity.MaxBodyBytesPerNetwork + 1)}
		_, err = limitsOf(spec, Callback, callbacks, []string{access})
		if (err != nil) != wrong {
			t.Errorf("access %s: %v", access, err)
		}
	}
}

// The generated types replace some schemas of the contract (api/go.overlay.yaml). A field that is missing in a replaced schema would be rejected.
func TestGeneratedSchemasContainAllFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	contract, err := openapi3.NewLoader().LoadFromFile("../../../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	generated, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	fields := func(s *openapi3.SchemaRef) []string { return slices.Sorted(maps.Keys(s.Value.Properties)) }
	for name, of := range map[string]func(spec *openapi3.T) *openapi3.SchemaRef{
		"contacts": func(spec *openapi3.T) *openapi3.SchemaRef {
			return spec.Components.Schemas["ContactsRequest"].Value.Properties["contacts"].Value.Items
		},
		"limits": func(spec *openapi3.T) *openapi3.SchemaRef {
			return spec.Components.Schemas["SenderPatch"].Value.Properties["limits"]
		},
	} {
		if want, got := fields(of(contract)), fields(of(generated)); len(want) == 0 || !slices.Equal(want, got) {
			t.Errorf("%s: %v in the contract, %v in the generated types", name, want, got)
		}
	}
}

// The limits of the shape of a body allow every list that the contract allows.
func TestLimitsOfBodiesAllowTheListsOfTheContract(t *testing.T) {
	c, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range c.routes["GET /health"].Spec.Components.Schemas {
		for property, of := range schema.Value.Properties {
			if limit := of.Value.MaxItems; limit != nil && *limit > jsonbody.MaxListItems {
				t.Errorf("%s.%s may have %d items, a list in a body at most %d", name, property, *limit, jsonbody.MaxListItems)
			}
		}
	}
}

func TestEveryCostlyOperationIsInContract(t *testing.T) {
	c, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range namedCostly {
		if _, isKnown := c.Operation(pattern); !isKnown {
			t.Errorf("%s is no operation", pattern)
		}
	}
}
