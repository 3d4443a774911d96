package source

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/directory"
)

var update = flag.Bool("update", false, "write columns.json")

// The console suggests the columns that the server would use. It reads the usual names from a file, which -update writes.
func TestTheConsoleKnowsTheUsualNamesOfColumns(t *testing.T) {
	t.Parallel()
	addresses := map[string][]string{}
	for _, channel := range []string{directory.SMS, directory.Email, directory.DingTalk, directory.WeChat, directory.OA} {
		addresses[channel] = contact.AddressColumns(channel)
	}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"addresses": addresses, "signs": usualSigns}); err != nil {
		t.Fatal(err)
	}
	const file = "../../../../web/src/pages/batches/columns.json"
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want.String() {
		t.Errorf("%s is stale (%v): run go test ./internal/audience/batch/source -update", file, err)
	}
}
