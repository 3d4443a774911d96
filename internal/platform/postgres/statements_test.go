package postgres_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lksms/internal/testkit/queries"
)

// special matches features of SQL that distributed PostgreSQL or PgBouncer do not support. docs/lab/scale.md and docs/operations.md document where each feature
// is used. Any database role can hold an advisory lock: a new statement locks a row instead.
var special = regexp.MustCompile(`(?i)\b(ctid|xmin|xmax|pg_notify|pg_current_xact_id|txid_current|pg_export_snapshot)\b|\bpg_(try_)?advisory_\w*lock\w*|\bTEMP(ORARY)? TABLE\b|(?-i:\b(LISTEN|NOTIFY) )`)

// comments matches comments of SQL and Go. No literal in the sources contains a comment.
var comments = regexp.MustCompile(`(?m)(^|\s)(--|//).*$`)

// sources returns the files below folders of the repository, except test files.
func sources(t *testing.T, ending string, folders ...string) []string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	var all []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := entry.Name(); entry.IsDir() && (name == "pgtest" || name == "apptest") {
				return filepath.SkipDir
			}
			if strings.HasSuffix(path, ending) && !strings.HasSuffix(path, "_test.go") {
				name, err := filepath.Rel(root, path)
				all = append(all, filepath.ToSlash(name))
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) == 0 {
		t.Fatalf("no file of %v ends with %s", folders, ending)
	}
	return all
}

func TestTheDocumentsListTheSpecialFeaturesOfStatements(t *testing.T) {
	t.Parallel()
	known := []string{
		"db/migrations/20261127000001_create_platform.sql pg_advisory_xact_lock",
		"db/migrations/20261127000001_create_platform.sql pg_current_xact_id",
		"db/migrations/20261127000001_create_platform.sql pg_try_advisory_xact_lock",
		"db/migrations/20261127000002_create_directory.sql pg_current_xact_id",
		"db/migrations/20261127000010_create_sql_inbox.sql pg_current_xact_id",
		"db/migrations/20261127000012_rename_sql_inbox_functions.sql pg_current_xact_id",
		"db/migrations/20261127173300_prefer_present_names_of_settings.sql xmin",
		"db/queries/contact/import.sql xmax",
		"db/queries/history/history.sql ctid",
		"db/queries/idempotency/idempotency.sql pg_try_advisory_xact_lock",
		"db/queries/reconcile/reconcile.sql xmax",
		"db/queries/statistics/statistics.sql ctid",
		"db/queries/verification/pumping.sql ctid",
		"internal/insight/history/export.go temporary table",
	}
	var found []string
	for _, name := range slices.Concat(sources(t, ".sql", "db/queries", "db/migrations"), sources(t, ".go", "internal", "cmd/lksms")) {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range special.FindAllString(comments.ReplaceAllString(string(content), ""), -1) {
			found = append(found, name+" "+strings.ToLower(word))
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	for _, use := range found {
		if !slices.Contains(known, use) {
			t.Errorf("%s is not listed: add it to docs/lab/scale.md, docs/operations.md and this test", use)
		}
	}
	for _, use := range known {
		if !slices.Contains(found, use) {
			t.Errorf("%s is no longer used: remove it from docs/lab/scale.md, docs/operations.md and this test", use)
		}
	}
}

func TestTheScaleDocumentNamesEachFileOfQueries(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "lab", "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\n### File by file\n")
	list, _, _ = strings.Cut(list, "\n### ")
	var listed, exist []string
	for _, found := range regexp.MustCompile("`([a-z_/]+\\.sql)`").FindAllStringSubmatch(list, -1) {
		listed = append(listed, found[1])
	}
	for _, name := range sources(t, ".sql", "db/queries") {
		exist = append(exist, strings.TrimPrefix(name, "db/queries/"))
	}
	slices.Sort(listed)
	slices.Sort(exist)
	if !slices.Equal(listed, exist) {
		t.Errorf("docs/lab/scale.md, File by file, lists %v, and there are %v", listed, exist)
	}
}

// maxLines is the maximum number of lines of a statement, so that a statement fits on a screen.
const maxLines = 80

func TestStatementsHaveALimitedNumberOfLines(t *testing.T) {
	t.Parallel()
	for _, s := range queries.All(t) {
		if lines := strings.Count(s.SQL, "\n") + 1; lines > maxLines {
			t.Errorf("%s: %s has %d lines, at most %d are allowed", s.File, s.Name, lines, maxLines)
		}
	}
}

// The two statements search the same tasks in two orders. A condition in one of them only would give a sender a task that it must not get.
func TestTaskOfferAndTaskFlowsHaveTheSameConditions(t *testing.T) {
	t.Parallel()
	conditions := map[string][]string{} // the statements by their conditions
	for _, s := range queries.All(t) {
		if s.Name != "TaskOffer" && s.Name != "TaskFlows" {
			continue
		}
		for _, part := range strings.Split(s.SQL, "task_fits(")[1:] {
			text, _, _ := strings.Cut(part, "ORDER BY")
			text = strings.Join(strings.Fields(text), " ")
			conditions[text] = append(conditions[text], s.Name)
		}
	}
	for text, names := range conditions {
		if !slices.Equal(names, []string{"TaskOffer", "TaskOffer", "TaskFlows"}) {
			t.Errorf("only %v have the conditions %s", names, text)
		}
	}
	if len(conditions) == 0 {
		t.Error("no statement has conditions")
	}
}
