package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"
)

// valuesFor returns values around the limits of a schema.
func valuesFor(s *openapi3.Schema) []any {
	values := []any{nil, true, "", "x", "8", "é", "\x00", "a\nb", ".", "..", "【", "EN", "2026-11-29T10:00:00Z", "verification", []any{}, []any{map[string]any{}}, map[string]any{}, map[string]any{"x": "y"}}
	for _, n := range []string{"0", "-1", "1", "2", "3", "9", "10", "1.0", "1e1", "0.5", "32768", "86401", "2147483648", "9007199254740993", "9223372036854775808"} {
		values = append(values, json.Number(n))
	}
	if s.MaxLength != nil {
		n := int(min(*s.MaxLength, 3000))
		values = append(values, strings.Repeat("x", n), strings.Repeat("x", n+1), strings.Repeat("é", n), strings.Repeat("😀", n), strings.Repeat("😀", n+1))
	}
	return append(values, s.Enum...)
}

// What an accepter accepts, the validator accepts.
func TestAcceptersAcceptOnlyWhatTheContractAccepts(t *testing.T) {
	c, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	schemas := maps.Clone(c.accepters)
	for _, o := range c.operations {
		if o.Batch != nil {
			schemas[o.Batch.item] = o.Batch.accepts
		}
	}
	schemas[c.changes.item] = c.changes.accepts
	var all []*openapi3.Schema
	for s := range schemas {
		if s.Type.Is(openapi3.TypeObject) && len(s.Properties) > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *openapi3.Schema) int {
		return strings.Compare(strings.Join(names(a), " ")+a.Description, strings.Join(names(b), " ")+b.Description)
	})
	if len(all) < 40 {
		t.Fatalf("only %d schemas are compared", len(all))
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(all).Draw(t, "schema")
		value := map[string]any{}
		for _, name := range names(s) {
			if slices.Contains(s.Required, name) && rapid.IntRange(0, 9).Draw(t, "missing") > 0 || rapid.IntRange(0, 3).Draw(t, "present") == 0 {
				value[name] = rapid.SampledFrom(valuesFor(s.Properties[name].Value)).Draw(t, name)
			}
		}
		if rapid.IntRange(0, 19).Draw(t, "unknown") == 0 {
			value["unknown"] = "x"
		}
		if !schemas[s](value) {
			return
		}
		accepted++
		if err := s.VisitJSON(value, openapi3.MultiErrors(), openapi3.VisitAsRequest()); err != nil {
			t.Fatalf("%v is accepted: %v", value, err)
		}
	})
	if accepted == 0 {
		t.Error("no value was accepted")
	}
}

// names returns the names of the properties of a schema, in order.
func names(s *openapi3.Schema) []string { return slices.Sorted(maps.Keys(s.Properties)) }

// Each value of each property is compared alone, because random bodies are rarely valid.
func TestAcceptersOfMembersAcceptOnlyWhatTheContractAccepts(t *testing.T) {
	c, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	schemas := slices.Collect(maps.Keys(c.accepters))
	for _, o := range c.operations {
		if o.Batch != nil {
			schemas = append(schemas, o.Batch.item)
		}
	}
	compared := 0
	for _, s := range schemas {
		for name, p := range s.Properties {
			for _, accepts := range []accepter{memberAccepterOf(p.Value), accepterOf(p.Value)} {
				for _, value := range valuesFor(p.Value) {
					compared++
					if err := p.Value.VisitJSON(value, openapi3.VisitAsRequest()); accepts(value) && err != nil {
						t.Errorf("%s: %v is accepted: %v", name, value, err)
					}
				}
			}
		}
	}
	if compared < 10_000 {
		t.Errorf("only %d values were compared", compared)
	}
}

// The bodies of the operations that are called most need no validator.
func TestAcceptersAcceptTheUsualBodies(t *testing.T) {
	c, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for pattern, item := range map[string]map[string]any{
		SendBatch:   {"phone_number": "+8613800138000", "content": "您的验证码是123456", "message_type": "verification", "source": "shop", "priority": json.Number("1"), "dedup_key": "7"},
		ReportBatch: {"task_id": "task_20261129_01", "app_id": "phone_1", "status": json.Number("2"), "lease_id": json.Number("7"), "should_retry": true},
		Receive:     {"from": "+8613800138000", "content": "STOP", "sim": json.Number("1")},
	} {
		batch := c.operations[pattern].Batch
		for name, value := range item {
			p := batch.item.Properties[name].Value
			if slow := len(p.OneOf)+len(p.AllOf) > 0 || p.Type.Is(openapi3.TypeString) && p.Format != ""; slow || !memberAccepterOf(p)(value) {
				t.Errorf("%s: %s is left to the validator", pattern, name)
			}
		}
		if !batch.accepts(item) {
			t.Errorf("%s: %v is left to the validator", pattern, item)
		}
	}
}
