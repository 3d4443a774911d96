package push_test

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"lksms/internal/testkit/apptest"
)

// The statements of this package write only tables whose COMMENT names it: deliveries belong to the queue.
func TestPushWritesItsOwnTablesOnly(t *testing.T) {
	b := apptest.New(t)
	statements, err := os.ReadFile("../../../db/queries/push.sql")
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`(?:INSERT INTO|UPDATE|DELETE FROM) ([a-z_]+)`).FindAllSubmatch(statements, -1)
	if len(written) < 5 {
		t.Fatalf("only %d statements that write were found", len(written))
	}
	for _, found := range written {
		comment := fmt.Sprintf("SELECT count(*) FROM pg_class WHERE oid = '%s'::regclass AND obj_description(oid, 'pg_class') ~ 'Written by .*internal/dispatch/push'", found[1])
		if b.Count(comment) == 0 {
			t.Errorf("%s is written by the statements of push, which its comment does not name", found[1])
		}
	}
}
