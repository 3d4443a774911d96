package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/jsonbody"
)

// A caller cannot hold more than its part of the room, so that others find room. When the room is full, callers wait for a bounded time.
func TestTheRoomForBodiesIsBoundedForACallerAndInAll(t *testing.T) {
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
			t.Errorf("one byte beyond the part of a caller: %v after %s", err, time.Since(began))
		}
		giveB := take("b", 8)
		if _, err := r.take(t.Context(), "c", 1); err == nil {
			t.Error("a byte beyond the room of all callers is admitted")
		}
		waited := make(chan func(int64))
		go func() { waited <- take("c", 4) }()
		synctest.Wait()
		give(4)
		(<-waited)(4)
		give(4)
		giveB(8)
		if len(r.callers) != 0 || !r.all.TryAcquire(16) {
			t.Errorf("%d callers still hold room", len(r.callers))
		}
	})
}

func TestACallerThatLeavesHoldsNoRoom(t *testing.T) {
	r := newRoom(16, 8)
	gone, leave := context.WithCancel(t.Context())
	leave()
	give, err := r.take(t.Context(), "a", 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.take(gone, "a", 8); err == nil {
		t.Error("a caller that has left gets room")
	}
	give(8)
	if len(r.callers) != 0 || !r.all.TryAcquire(16) {
		t.Errorf("%d callers still hold room", len(r.callers))
	}
}

// The shape of a body does not refuse a list that the contract allows.
func TestListsOfTheContractFitIntoABody(t *testing.T) {
	c, err := readContract()
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range c.routes["GET /health"].Spec.Components.Schemas {
		for property, of := range schema.Value.Properties {
			if most := of.Value.MaxItems; most != nil && *most > jsonbody.ListMost {
				t.Errorf("%s.%s may have %d items, a list in a body at most %d", name, property, *most, jsonbody.ListMost)
			}
		}
	}
}
