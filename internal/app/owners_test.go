package app_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestStatementsAreRunOnlyByTheirPackage(t *testing.T) {
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
					room = "queue" // dispatch contains the statements of queue that need forced plans
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

// sharedTables contains the tables that several rooms write. Each room writes them in the transaction of its own change.
var sharedTables = map[string][]string{
	"audit":          {"audit", "batch", "block", "contact"}, // triggers write the other rows
	"erasures":       {"erasure", "history"},                 // history adds the folder of an export that contains tasks of the person
	"events":         {"alert", "feed", "history", "queue", "sender", "setting", "webhook"},
	"fair_ranks":     {"directory", "queue"}, // directory deletes rows of deleted pools
	"feed_listeners": {"feed", "webhook"},
	"pools":          {"directory", "queue"}, // queue deletes a retired pool once it is empty
	"routes":         {"directory", "queue"}, // claims count the segments of each route
	"sender_ledger":  {"queue", "sender"},    // claims charge, reports refund
	"sender_links":   {"push", "sender"},     // sender begins and ends the traces of links
	"sender_states":  {"queue", "sender"},
	"users":          {"access", "mobile"}, // a phone has its own user
}

// writes finds the tables that statements change. The first group matches a lock or the action of an upsert, because neither is a separate write.
var writes = regexp.MustCompile(`(\bFOR (?:NO KEY )?|\bDO )?\b(?:INSERT INTO|DELETE FROM|UPDATE)\s+(?:ONLY\s+)?([a-z_]+)`)

func TestEachTableIsWrittenByOnePackage(t *testing.T) {
	t.Parallel()
	writers := map[string][]string{}
	files, err := filepath.Glob(filepath.Join("..", "..", "db", "queries", "*", "*.sql"))
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		room := filepath.Base(filepath.Dir(file))
		if room == "dispatch" {
			room = "queue"
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		statements := regexp.MustCompile(`--.*`).ReplaceAllString(string(text), "")
		for _, found := range writes.FindAllStringSubmatch(statements, -1) {
			table := found[2]
			if found[1] != "" {
				continue
			}
			if !slices.Contains(writers[table], room) {
				writers[table] = append(writers[table], room)
			}
		}
	}
	for table, rooms := range writers {
		slices.Sort(rooms)
		if len(rooms) > 1 && !slices.Equal(rooms, sharedTables[table]) {
			t.Errorf("%s is written by the statements of %v: let one room write it, or add it to sharedTables with the reason", table, rooms)
		}
	}
	for table, rooms := range sharedTables {
		if !slices.Equal(rooms, writers[table]) {
			t.Errorf("%s is written by the statements of %v, not of %v", table, writers[table], rooms)
		}
	}
}
