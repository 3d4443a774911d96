package jsonbody

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestShapeReaderLimitsDepthAndLength(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"the longest list":              {"[" + strings.Repeat("1,", MaxListItems-1) + "1]", nil},
		"a list with one item too many": {"[" + strings.Repeat("1,", MaxListItems) + "1]", ErrTooMany},
		"the most members":              {"{" + strings.Repeat(`"a":1,`, maxMembers-1) + `"a":1}`, nil},
		"one member too many":           {"{" + strings.Repeat(`"a":1,`, maxMembers) + `"a":1}`, ErrTooMany},
		"commas in a text":              {`{"a":"` + strings.Repeat(`,\",`, MaxListItems) + `"}`, nil},
		"many short lists":              {"[" + strings.Repeat("[1,2,3],", MaxListItems-1) + "1]", nil},
		"the deepest nesting":           {strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), nil},
		"one level too deep":            {strings.Repeat("[", maxDepth+1), ErrTooDeep},
		"more closed than open":         {strings.Repeat("]", 100) + strings.Repeat("[", maxDepth), nil},
		"commas outside":                {strings.Repeat("1,", 2*MaxListItems), nil},
	} {
		if _, err := io.ReadAll(&ShapeReader{Reader: iotest.OneByteReader(strings.NewReader(c.body))}); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A number is written without an exponent only if a type can represent it: otherwise the numbers 1e99 in a body of 8 MB would become a gigabyte.
func TestWholeNumbersConvertsOnlyNumbersThatFitType(t *testing.T) {
	for number, want := range map[string]string{"1.0": "1", "1E5": "100000", "-2.50e1": "-25", "1e19": "10000000000000000000", "1e20": "1e20", "1e99": "1e99", "0.5": "0.5"} {
		if got := string(WholeNumbers([]byte("[" + number + "]"))); got != "["+want+"]" {
			t.Errorf("%s became %s", number, got)
		}
	}
}

func TestBodyWithTooManyValuesInTotalIsRejected(t *testing.T) {
	body := "[" + strings.Repeat("[1,2,3,4],", maxValues/5) + "1]"
	if _, err := io.ReadAll(&ShapeReader{Reader: strings.NewReader(body)}); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v", err)
	}
}
