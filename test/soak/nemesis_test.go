package main

import (
	"testing"
)

func TestADeckOfFaultsDealsEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range faults {
		if f.strike == nil || seen[f.name] {
			t.Errorf("fault %q is empty or exists twice", f.name)
		}
		seen[f.name] = true
	}
}
