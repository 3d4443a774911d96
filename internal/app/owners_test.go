package app_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachRoomAloneRunsItsStatements(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	runs := 0
	for _, folder := range []string{"internal", "cmd", "client"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			rooms := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
			for _, imported := range file.Imports {
				name, isOurs := strings.CutPrefix(strings.Trim(imported.Path.Value, `"`), "lksms/gen/")
				room, hasStatements := strings.CutSuffix(name, "q")
				if !isOurs || !hasStatements {
					continue
				}
				runs++
				if room == "dispatch" {
					room = "queue" // its statements that need forced plans
				}
				if !slices.Contains(rooms, room) {
					t.Errorf("%s imports the statements of room %s: add a method to that room, or a statement that reads to this one", path, room)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if runs < 50 {
		t.Errorf("only %d files run statements", runs)
	}
}
