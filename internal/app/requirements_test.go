package app_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cited returns the requirements of docs/requirements.md that comments and test names cite. The value of a requirement is a file that cites it.
func cited(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	comment := regexp.MustCompile(`(?m)(?:^|\s)(?://|--|#|\*)\s.*$`)
	row := regexp.MustCompile(`\b(?:S[0-4]\.\d+|B(?:[1-9]|1\d|20)|R[1-8])\b`)
	ofTest := regexp.MustCompile(`\bTest(S[0-4]|B)_?(\d+)_`)
	root := filepath.Join("..", "..")
	for _, folder := range []string{"internal", "cmd", "test", "client", "clients", "db/queries", "db/migrations", "tools", "web/src", "api"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				if entry.Name() == "node_modules" {
					return filepath.SkipDir
				}
				return nil
			}
			if !slices.Contains([]string{".go", ".sql", ".ts", ".mjs", ".vue", ".py", ".yaml"}, filepath.Ext(path)) {
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, line := range comment.FindAllString(string(content), -1) {
				for _, id := range row.FindAllString(line, -1) {
					all[id] = path
				}
			}
			for _, found := range ofTest.FindAllStringSubmatch(string(content), -1) {
				all[strings.Replace(found[1]+"."+found[2], "B.", "B", 1)] = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestEachRequirementThatIsCitedIsListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\| ([SBR][\d.]+) \|`).FindAllStringSubmatch(string(page), -1) {
		listed[found[1]] = true
	}
	all := cited(t)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if !listed[id] {
			t.Errorf("%s cites %s, which docs/requirements.md does not have", all[id], id)
		}
	}
}
