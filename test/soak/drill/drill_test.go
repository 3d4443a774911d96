package drill

import (
	"strings"
	"testing"

	"lksms/test/soak/stack"
)

func TestShortDrillInjectsItsFaultsInOrder(t *testing.T) {
	t.Parallel()
	d := &driller{isShort: true, stack: &stack.Stack{}}
	d.deal()
	var names []string
	for _, f := range d.deck {
		names = append(names, f.name)
	}
	if got, want := strings.Join(names, ", "), strings.Join(shortFaults, ", "); got != want {
		t.Errorf("the faults are %s, want %s", got, want)
	}
}
