package migrate_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lksms/db"
	"lksms/internal/platform/migrate"
)

// locking matches a statement of a migration that locks a table against the statements of servers, and captures the table.
var locking = regexp.MustCompile(`(?is)^\s*(?:ALTER TABLE (?:IF EXISTS )?(?:ONLY )?(\w+)|(?:CREATE (?:CONSTRAINT )?|DROP )TRIGGER .*?\sON\s+(\w+)|CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON (?:ONLY )?(\w+)|LOCK TABLE (\w+))`)

// comments matches SQL comments.
var comments = regexp.MustCompile(`(?m)(^|\s)--.*$`)

// bodies matches the bodies of functions, which do not run during the migration.
var bodies = regexp.MustCompile(`(?s)\bAS \$\$.*?\$\$`)

// A migration that has locked one table and waits for a second table can deadlock with a statement that reads both tables.
func TestAMigrationLocksAtMostOneTableThatServersUse(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(db.Migrations, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if migrate.IsBaseline(strings.TrimPrefix(file, "migrations/")) {
			continue // no server runs on an empty database
		}
		content, err := fs.ReadFile(db.Migrations, file)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(content), "-- migrate:down")
		if locked := lockedBy(bodies.ReplaceAllString(comments.ReplaceAllString(up, ""), "")); len(locked) > 1 {
			t.Errorf("%s locks %v: split it", file, locked)
		}
	}
	if locked := lockedBy("CREATE TABLE new (a int);\nCREATE INDEX new_a ON new (a);\nALTER TABLE one ADD b int;\nALTER TABLE three VALIDATE CONSTRAINT c;\nCREATE TRIGGER t AFTER UPDATE OF b\nON two;"); !slices.Equal(locked, []string{"one", "two"}) {
		t.Errorf("found %v", locked)
	}
}

// lockedBy returns the tables that a migration locks and that exist before the migration. VALIDATE CONSTRAINT blocks no statement of a server.
func lockedBy(up string) (locked []string) {
	for statement := range strings.SplitSeq(up, ";") {
		found := locking.FindStringSubmatch(statement)
		if found == nil || strings.Contains(statement, " VALIDATE CONSTRAINT ") {
			continue
		}
		table := strings.Join(found[1:], "")
		if !slices.Contains(locked, table) && !regexp.MustCompile(`(?i)CREATE TABLE `+table+`\b`).MatchString(up) {
			locked = append(locked, table)
		}
	}
	return locked
}
