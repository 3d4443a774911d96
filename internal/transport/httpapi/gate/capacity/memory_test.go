package capacity

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lksms/internal/platform/fault"
)

// One caller can use only its share of the memory, so that other callers can use the rest. If no memory is free, callers wait for a limited time.
func TestMemoryIsLimitedForEachCallerAndInTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewMemory(16, 8)
		take := func(caller string, n int64) func(int64) {
			t.Helper()
			give, err := r.Take(t.Context(), caller, n)
			if err != nil {
				t.Fatalf("%s is refused %d: %v", caller, n, err)
			}
			return give
		}
		give := take("a", 8)
		var busy *fault.Error
		began := time.Now()
		if _, err := r.Take(t.Context(), "a", 1); !errors.As(err, &busy) || busy.Kind != fault.TooMany || time.Since(began) != memoryWait {
			t.Errorf("one byte beyond the memory of a caller: %v after %s", err, time.Since(began))
		}
		giveB := take("b", 8)
		if _, err := r.Take(t.Context(), "c", 1); err == nil {
			t.Error("a byte beyond the memory of all callers is allowed")
		}
		waited := make(chan func(int64))
		go func() { waited <- take("c", 4) }()
		synctest.Wait()
		give(4)
		(<-waited)(4)
		give(4)
		giveB(8)
		if len(r.callers) != 0 || !r.total.TryAcquire(16) {
			t.Errorf("%d callers still occupy memory", len(r.callers))
		}
	})
}

func TestDisconnectedCallerReleasesMemory(t *testing.T) {
	r := NewMemory(16, 8)
	gone, leave := context.WithCancel(t.Context())
	leave()
	give, err := r.Take(t.Context(), "a", 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Take(gone, "a", 8); err == nil {
		t.Error("a disconnected caller gets memory")
	}
	give(8)
	if len(r.callers) != 0 || !r.total.TryAcquire(16) {
		t.Errorf("%d callers still occupy memory", len(r.callers))
	}
}
