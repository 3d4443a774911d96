// Package queries parses the statements in db/queries, for tests that check rules about statements.
package queries

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Statement is a named statement of a file below db/queries.
type Statement struct {
	File string // below db/queries, for example dispatch/claim.sql
	Room string // folder of the file
	Name string
	SQL  string // without the line that contains the name, and without the semicolon
}

// name matches the line before a statement, and captures the name of the statement.
var name = regexp.MustCompile(`(?m)^-- name: (\w+) :\w+\n`)

// All returns all statements, in the order of the names of their files.
func All(t testing.TB) (all []Statement) {
	t.Helper()
	folder := os.DirFS(filepath.Join(root(t), "db", "queries"))
	files, err := fs.Glob(folder, "*/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range name.FindAllSubmatchIndex(text, -1) {
			sql, _, _ := strings.Cut(string(text[at[1]:]), ";\n")
			room, _, _ := strings.Cut(file, "/")
			all = append(all, Statement{File: file, Room: room, Name: string(text[at[2]:at[3]]), SQL: sql})
		}
	}
	if len(all) == 0 {
		t.Fatal("db/queries contains no statement")
	}
	return all
}

// root returns the folder of the module. Each test runs in the folder of its package.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "db", "queries")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			t.Fatal("no folder above the test contains db/queries")
		}
		folder = parent
	}
}
