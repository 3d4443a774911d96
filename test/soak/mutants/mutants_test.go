package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// A mutant that no longer changes the code would prove nothing about the soak. Mutants that change different places are compiled together, to save time.
func TestEveryMutantStillAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	build := func(m Mutant) (string, error) {
		overlay, err := m.overlay(root, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-overlay", overlay, "./internal/dispatch/queue/...", "./internal/dispatch/template", "./internal/platform/access", "./internal/dispatch/push/...",
			"./internal/events/feed", "./internal/transport/sqlinbox", "./internal/events/webhook/...", "./internal/insight/alert/...", "./db")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for waiting := All(); len(waiting) > 0; {
		var together, later []Mutant
		all := Mutant{Name: "together"}
		for _, m := range waiting {
			with := Mutant{Name: all.Name, changes: slices.Concat(all.changes, m.changes)}
			if _, err := with.overlay(root, t.TempDir()); err == nil {
				all, together = with, append(together, m)
			} else if _, err := m.overlay(root, t.TempDir()); err == nil {
				later = append(later, m) // it changes the same place as another mutant
			} else {
				t.Error(err)
			}
		}
		if _, err := build(all); err != nil {
			for _, m := range together {
				if out, err := build(m); err != nil {
					t.Errorf("build mutant %s: %v\n%s", m.Name, err, out)
				}
			}
		}
		waiting = later
	}
}
