package fault_test

import (
	"reflect"
	"testing"

	"lksms/internal/platform/fault"
)

// Encode and Decode preserve a field with any kind of limit.
func TestAStoredFaultStillNamesTheLimitOfTheField(t *testing.T) {
	t.Parallel()
	for _, f := range []fault.Field{
		{Name: "phone_number", Rule: fault.Required},
		{Name: "content", Rule: fault.TooLong, Limit: int64(200)},
		{Name: "content", Rule: fault.TooManyCharacters, Limit: fault.Lengths{Has: 300, Most: 200}},
		{Name: "file", Rule: fault.NotAValue, Limit: fault.Place{Row: 7, Column: "电话"}},
		{Name: "file", Rule: fault.CellTooLong, Limit: fault.Place{Row: 7, Most: 9}},
		{Name: "file", Rule: fault.NoColumn, Limit: "user_id"},
		{Name: "content", Rule: fault.MissingParameters, Limit: []string{"a", "b"}},
	} {
		text, err := fault.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fault.Decode(text); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%s: %#v, %v, want %#v", text, got, err, f)
		}
	}
}

// Decode parses the fields that earlier versions of batches and imports stored.
func TestDecodeReadsFieldsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault.Field{
		`{"Name":"content","Rule":"too_many_segments","Limit":{"Has":3,"Most":2}}`:   {Name: "content", Rule: fault.TooManySegments, Limit: fault.Lengths{Has: 3, Most: 2}},
		`{"Name":"file","Rule":"cut_short","Limit":{"Row":6,"Column":"","Most":0}}`:  {Name: "file", Rule: fault.CutShort, Limit: fault.Place{Row: 6}},
		`{"Name":"phone_number","Rule":"required","Limit":null}`:                     {Name: "phone_number", Rule: fault.Required},
		`{"name":"file","rule":"cut_short","place":{"Row":6,"Column":"a","Most":0}}`: {Name: "file", Rule: fault.CutShort, Limit: fault.Place{Row: 6, Column: "a"}},
		`{"name":"email","rule":"too_long","limit":254}`:                             {Name: "email", Rule: fault.TooLong, Limit: int64(254)},
		`{"Name":"content","Rule":"missing_parameters","Limit":["name"]}`:            {Name: "content", Rule: fault.MissingParameters, Limit: []string{"name"}},
	} {
		if got, err := fault.Decode([]byte(text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v, want %#v", text, got, err, want)
		}
	}
	if _, err := fault.Decode([]byte(`{`)); err == nil {
		t.Error("what is no JSON was read")
	}
}
