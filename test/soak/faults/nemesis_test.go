package faults

import (
	"testing"
)

func TestEveryFaultHasAUniqueNameAndAFunction(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range kinds {
		if f.strike == nil || seen[f.Name] {
			t.Errorf("fault %q is empty or exists twice", f.Name)
		}
		seen[f.Name] = true
	}
}
