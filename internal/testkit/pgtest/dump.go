package pgtest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"lksms/internal/platform/config"
	"lksms/internal/platform/pgserver"
)

// Dump returns a backup of a whole database as text. It backs the database up in the custom format, as operators do, and reads this backup.
func Dump(t testing.TB, database string) string {
	t.Helper()
	bin, err := pgserver.Binaries(config.PostgresBin(), config.UnpackedPostgres())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dump")
	run := func(program string, args ...string) []byte {
		t.Helper()
		var errors bytes.Buffer
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, program), args...)
		cmd.Stderr = &errors
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v %s", program, err, &errors)
		}
		return out
	}
	run("pg_dump", "--format=custom", "--file="+file, "--dbname="+database)
	return string(run("pg_restore", "--file=-", file))
}
