package gate

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"lksms/internal/fault"
)

// What one caller holds keeps others from nothing but the rest; what all hold keeps everybody waiting, and not for ever.
func TestRoomForBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(16, 8)
		take := func(caller string, n int64) func(int64) {
			t.Helper()
			give, err := r.take(t.Context(), caller, n)
			if err != nil {
				t.Fatalf("%s is refused %d: %v", caller, n, err)
			}
			return give
		}
		give := take("a", 8)
		var busy *fault.Error
		began := time.Now()
		if _, err := r.take(t.Context(), "a", 1); !errors.As(err, &busy) || busy.Kind != fault.TooMany || time.Since(began) != roomWait {
			t.Errorf("the ninth byte of a caller: %v after %s", err, time.Since(began))
		}
		giveB := take("b", 8)
		if _, err := r.take(t.Context(), "c", 1); err == nil {
			t.Error("there is room for more than all")
		}
		waited := make(chan func(int64))
		go func() { waited <- take("c", 4) }()
		synctest.Wait()
		give(4)
		(<-waited)(4)
		give(4)
		giveB(8)
		if len(r.callers) != 0 || !r.all.TryAcquire(16) {
			t.Errorf("%d callers are left", len(r.callers))
		}
	})
}

func TestRoomIsGivenBackByCallersThatLeave(t *testing.T) {
	r := newRoom(16, 8)
	gone, leave := context.WithCancel(t.Context())
	leave()
	give, err := r.take(t.Context(), "a", 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.take(gone, "a", 8); err == nil {
		t.Error("a caller that has gone is let in")
	}
	give(8)
	if len(r.callers) != 0 || !r.all.TryAcquire(16) {
		t.Errorf("%d callers are left", len(r.callers))
	}
}

func TestShapesOfBodies(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"as long as may be":     {"[" + strings.Repeat("1,", listMost-1) + "1]", nil},
		"one longer":            {"[" + strings.Repeat("1,", listMost) + "1]", errTooMany},
		"members":               {"{" + strings.Repeat(`"a":1,`, membersMost-1) + `"a":1}`, nil},
		"one member more":       {"{" + strings.Repeat(`"a":1,`, membersMost) + `"a":1}`, errTooMany},
		"commas in a text":      {`{"a":"` + strings.Repeat(`,\",`, listMost) + `"}`, nil},
		"many short lists":      {"[" + strings.Repeat("[1,2,3],", listMost-1) + "1]", nil},
		"as deep as may be":     {strings.Repeat("[", depthMost) + strings.Repeat("]", depthMost), nil},
		"one deeper":            {strings.Repeat("[", depthMost+1), errTooDeep},
		"more closed than open": {strings.Repeat("]", 100) + strings.Repeat("[", depthMost), nil},
		"commas outside":        {strings.Repeat("1,", 2*listMost), nil},
	} {
		if _, err := io.ReadAll(&shapeReader{Reader: iotest.OneByteReader(strings.NewReader(c.body))}); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No list that the contract allows is refused for its shape.
func TestTheContractsListsFit(t *testing.T) {
	c, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range c.spec.Components.Schemas {
		for property, of := range schema.Value.Properties {
			if most := of.Value.MaxItems; most != nil && *most > listMost {
				t.Errorf("%s.%s may have %d items, a body %d", name, property, *most, listMost)
			}
		}
	}
}

// A number is written out only where a type could hold it: 1e99 in a body of 8 MB would take a gigabyte.
func TestNumbersAreNotWrittenOutBeyondWhatTypesHold(t *testing.T) {
	for number, want := range map[string]string{"1.0": "1", "1E5": "100000", "-2.50e1": "-25", "1e19": "10000000000000000000", "1e20": "1e20", "1e99": "1e99", "0.5": "0.5"} {
		if got := string(wholeNumbers([]byte("[" + number + "]"))); got != "["+want+"]" {
			t.Errorf("%s became %s", number, got)
		}
	}
}

func TestAValueTooManyInAllIsRefused(t *testing.T) {
	body := "[" + strings.Repeat("[1,2,3,4],", valuesMost/5) + "1]"
	if _, err := io.ReadAll(&shapeReader{Reader: strings.NewReader(body)}); !errors.Is(err, errTooMany) {
		t.Errorf("%v", err)
	}
}
