package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A mutant that no longer changes the code would prove nothing about the soak. To save time, mutants that change different parts of the code are compiled
// together.
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
		cmd := exec.Command("go", "build", "-overlay", overlay, "./internal/dispatch/queue/...", "./internal/dispatch/template", "./internal/platform/access", "./internal/dispatch/push/...", "./internal/dispatch/received", "./internal/dispatch/caps", "./internal/audience/verification",
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
				later = append(later, m) // m changes the same part of the code as another mutant
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

// statements matches the statements of a generated file, and captures their names and texts.
var statements = regexp.MustCompile("(?m)^const (\\w+) = `(?s:(.*?))`$")

// The compiler does not check SQL. With an invalid statement, the soak would end with an error instead of a finding.
func TestPostgreSQLAcceptsTheStatementsOfEveryMutant(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, m := range All() {
		for original, changed := range m.files(t, root) {
			if !strings.HasSuffix(original, ".sql.go") {
				continue
			}
			before := map[string]string{}
			for _, s := range statements.FindAllStringSubmatch(contentOf(t, original), -1) {
				before[s[1]] = s[2]
			}
			for _, s := range statements.FindAllStringSubmatch(contentOf(t, changed), -1) {
				if s[2] == before[s[1]] {
					continue
				}
				if _, err := conn.Prepare(t.Context(), "", s[2]); err != nil {
					t.Errorf("mutant %s: prepare %s: %v", m.Name, s[1], err)
				}
			}
		}
	}
}

// files returns the paths of the changed files of a mutant, by the paths of the original files.
func (m Mutant) files(t *testing.T, root string) map[string]string {
	t.Helper()
	overlay, err := m.overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var files struct{ Replace map[string]string }
	if err := json.Unmarshal([]byte(contentOf(t, overlay)), &files); err != nil {
		t.Fatal(err)
	}
	return files.Replace
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
