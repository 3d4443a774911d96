package reconcile_test

import (
	"fmt"
	"testing"

	"lksms/internal/testkit/apptest"
)

// A file that arrives during a run is compared in the same run, in turn with the others.
func TestFileThatArrivesDuringComparisonIsComparedInTurn(t *testing.T) {
	b := apptest.New(t)
	b.Claim("app", 1)
	first := upload(b, statement("a", 1, 10), "day", day(b, 0)).ReconciliationID
	later := upload(b, statement("b", 1, 10), "day", day(b, 0)).ReconciliationID
	file := apptest.Scan[int64](b, "SELECT upload_id FROM reconciliations WHERE id = $1", later)
	b.Exec("UPDATE reconciliations SET status = 'finished', phase = NULL, upload_id = NULL, finished_at = now() WHERE id = $1", later)
	portions := b.RecordUpdates("reconciliations", "row_no")
	b.OnUpdate("reconciliations", "row_no", fmt.Sprintf(
		"UPDATE reconciliations SET status = 'running', phase = 'read', upload_id = %d, finished_at = NULL WHERE id = %d AND row_no = 0 AND status = 'finished' AND NEW.id = %d", file, later, first))
	run(b)
	ids := portions()
	if len(ids) < 4 || ids[0] != first || ids[2] != later {
		t.Errorf("portions of %v, first %d, later %d", ids, first, later)
	}
	if got := get(b, later); got.Status != "finished" || got.Matches == nil {
		t.Errorf("the later file: %s", summary(got))
	}
}
