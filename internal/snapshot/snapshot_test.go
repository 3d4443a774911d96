package snapshot

import (
	"context"
	"testing"
)

func TestWhatWasReadBeforeAChangeIsNotKept(t *testing.T) {
	t.Parallel()
	stored := 1
	c := Cache[int]{}
	c.Load = func(context.Context) (int, error) {
		read := stored
		if stored == 1 { // the change commits while the answer is on its way
			stored = 2
			c.Forget()
		}
		return read, nil
	}
	for _, want := range []int{1, 2, 2} {
		if got, err := c.Get(t.Context()); got != want || err != nil {
			t.Errorf("got %d %v, want %d", got, err, want)
		}
	}
}
