package app_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lksms/internal/platform/sweep"
	"lksms/internal/testkit/apptest"
)

var update = flag.Bool("update", false, "write the lists of docs/architecture.md: make lists")

const architecture = "../../docs/architecture.md"

// The lists of rooms, sweeps and tables in docs/architecture.md are generated. make lists writes them.
func TestTheListsOfTheArchitectureAreCurrent(t *testing.T) {
	b := apptest.New(t)
	page, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	current := page
	for name, list := range map[string]string{"rooms": roomsList(t), "sweeps": sweepsList(t, b.App.Sweeps()), "tables": tablesList(b)} {
		begin, end := []byte("<!-- "+name+": make lists -->\n"), []byte("<!-- end -->\n")
		before, rest, found := bytes.Cut(current, begin)
		_, after, closed := bytes.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("docs/architecture.md has no %q followed by %q", begin, end)
		}
		current = slices.Concat(before, begin, []byte("\n"+list+"\n"), end, after)
	}
	switch {
	case bytes.Equal(page, current):
	case *update:
		if err := os.WriteFile(architecture, current, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the lists of docs/architecture.md are stale: run make lists and commit")
	}
}

// synopsis returns the first sentence of a comment as a cell of a table, without its leading words.
func synopsis(text string, leading ...string) string {
	sentence := strings.TrimSuffix(new(doc.Package).Synopsis(text), ".")
	for _, words := range leading {
		sentence = strings.TrimPrefix(sentence, words+" ")
	}
	return strings.ReplaceAll(sentence, "|", `\|`)
}

// parsePackage parses the files of a package except its tests. It returns nil if the folder contains no package.
func parsePackage(t *testing.T, folder string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// roomsList lists the packages with the first sentences of their comments. It fails t for a package without a comment.
func roomsList(t *testing.T) string {
	t.Helper()
	list, wing := "| room | |\n|---|---|\n", ""
	for _, top := range []string{"cmd", "client", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if name := entry.Name(); name == "testdata" || name == "node_modules" {
				return filepath.SkipDir
			}
			files := parsePackage(t, path)
			if len(files) == 0 {
				return nil
			}
			text := ""
			for _, file := range files {
				text = max(text, file.Doc.Text()) // only one file has the comment
			}
			room, err := filepath.Rel(filepath.Join("..", ".."), path)
			if err != nil {
				return err
			}
			room = filepath.ToSlash(room)
			if text == "" {
				t.Errorf("%s: the package has no comment", room)
			}
			if parts := strings.Split(room, "/"); parts[0] == "internal" && len(parts) > 1 && parts[1] != wing {
				wing = parts[1]
				list += fmt.Sprintf("| **%s** | |\n", wing)
			} else if parts[0] != "internal" && parts[0] != wing {
				wing = parts[0]
				list += fmt.Sprintf("| **%s** | |\n", wing)
			}
			list += fmt.Sprintf("| `%s` | %s |\n", strings.TrimPrefix(room, "internal/"), synopsis(text, "Package "+files[0].Name.Name, "Command "+filepath.Base(room)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// sweepsList lists the sweeps with their intervals, their roles, and the first sentences of the comments of their methods.
func sweepsList(t *testing.T, jobs []sweep.Job) string {
	t.Helper()
	list := "| sweep | every | on | |\n|---|---|---|---|\n"
	slices.SortFunc(jobs, func(a, b sweep.Job) int { return strings.Compare(a.Name, b.Name) })
	for _, job := range jobs {
		every := strings.NewReplacer("1h0m0s", "1 h", "m0s", " min", "ms", " ms", "s", " s").Replace(job.Interval.String())
		if job.AtStart {
			every += ", and at the start"
		}
		on := "each server"
		if len(job.Roles) > 0 {
			on = "`" + strings.Join(job.Roles.Names(), "`, `") + "`"
		}
		list += fmt.Sprintf("| `%s` | %s | %s | %s |\n", job.Name, every, on, commentOf(t, job))
	}
	return list
}

// commentOf returns the package and the comment of the method that a job runs.
func commentOf(t *testing.T, job sweep.Job) string {
	t.Helper()
	// The name has the form lksms/internal/dispatch/queue.(*Service).Recover-fm.
	name := strings.TrimSuffix(runtime.FuncForPC(reflect.ValueOf(job.Run).Pointer()).Name(), "-fm")
	slash := strings.LastIndex(name, "/") + 1
	pkg, method, _ := strings.Cut(name[slash:], ".")
	method = method[strings.LastIndex(method, ".")+1:]
	for _, file := range parsePackage(t, filepath.Join("..", "..", strings.TrimPrefix(name[:slash], "lksms/"), pkg)) {
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv != nil && f.Name.Name == method && f.Doc.Text() != "" {
				does, _, _ := strings.Cut(synopsis(f.Doc.Text(), method), " and returns how many")
				return fmt.Sprintf("`%s.%s` %s", pkg, method, strings.TrimSuffix(does, ","))
			}
		}
	}
	t.Errorf("%s: %s is no method with a comment", job.Name, name)
	return ""
}

// tablesList lists the tables with the first sentences of their comments. It fails the test for a table without a comment.
func tablesList(b *apptest.Bundle) string {
	b.T.Helper()
	rows, err := b.DB.Query(b.T.Context(), `SELECT c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), '')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname IN ('public', 'lksms') AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'schema_migrations'
			AND c.relname NOT LIKE 'lock\_%' -- one for each lock: internal/platform/sweep and internal/platform/postgres name them
		ORDER BY c.relname COLLATE "C"`)
	if err != nil {
		b.T.Fatal(err)
	}
	defer rows.Close()
	list := "| table | one row is |\n|---|---|\n"
	for rows.Next() {
		var name, comment string
		if err := rows.Scan(&name, &comment); err != nil {
			b.T.Fatal(err)
		}
		if comment == "" {
			b.T.Errorf("the table %s has no comment", name)
		}
		list += fmt.Sprintf("| `%s` | %s |\n", name, synopsis(comment, "One row is"))
	}
	if err := rows.Err(); err != nil {
		b.T.Fatal(err)
	}
	return list
}
