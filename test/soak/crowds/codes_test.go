package crowds

import (
	"slices"
	"strings"
	"testing"
)

func TestCodesInALogAreFound(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{"0123456789": true, "123456": false}
	log := `{"msg":"code 0123456789"}
{"code":"0123456789"}
{"number":"86013401234567890","code":"123456"}
{"msg":"10123456789"}`
	var found []string
	if err := findCodes(strings.NewReader(log), codes, func(line string) { found = append(found, line) }); err != nil {
		t.Fatal(err)
	}
	if want := strings.Split(log, "\n")[:2]; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
