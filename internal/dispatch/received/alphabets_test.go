package received_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"lksms/internal/dispatch/received"
	"lksms/internal/testkit/apptest"
)

// C1, C3: each alphabet in which a carrier sends a part of a message can be stored and read.
func TestEveryAlphabetOfCarriersIsStoredAndRead(t *testing.T) {
	b := apptest.New(t)
	quoted := func(text, quote string) (names []string) {
		for _, found := range regexp.MustCompile(quote+`(\w+)`+quote).FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	check := apptest.Scan[string](b, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'received_parts_alphabet_known'")
	if stored := quoted(check, "'"); !slices.Equal(stored, received.Alphabets()) {
		t.Errorf("the table stores %v, and received reads %v", stored, received.Alphabets())
	}
	files, err := filepath.Glob("../driver/carrier/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range regexp.MustCompile(`(?si)alphabets = map\[[^]]+\]string\{.*?\}`).FindAllString(string(source), -1) {
			named = append(named, quoted(list, `"`)...)
		}
	}
	if len(named) == 0 {
		t.Error("no file of carriers names an alphabet")
	}
	for _, name := range named {
		if !slices.Contains(received.Alphabets(), name) {
			t.Errorf("carriers name %s, which received does not read", name)
		}
	}
}
