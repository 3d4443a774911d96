package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A mutant that no longer changes the code would prove nothing about the soak.
func TestEveryMutantStillAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			overlay, err := m.overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "build", "-overlay", overlay, "./internal/queue/...", "./internal/template", "./internal/access", "./internal/push/...",
				"./internal/feed", "./internal/webhook/...", "./internal/alert/...", "./db")
			cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("build: %v\n%s", err, out)
			}
		})
	}
}

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
