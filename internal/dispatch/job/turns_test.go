package job_test

import (
	"fmt"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

// Companies take turns, and so do the jobs of a company. A job that is created during a long run waits for one round, not for the end of the run.
func TestCompaniesWithJobsTakeTurns(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	parts := w.RecordUpdates("task_jobs", "skipped")
	names := map[int64]string{}
	add := func(name, batch string, n int) int64 {
		id := apptest.Scan[int64](w.Bundle, `INSERT INTO task_jobs (action, filter, total, created_by) VALUES ('cancel', jsonb_build_object('batch_id', $1::bigint), $2, 'admin')
			RETURNING id`, batch, n)
		w.Exec("INSERT INTO task_job_parts (job_id, part, task_ids) SELECT $1, n, ARRAY['missing-' || n] FROM generate_series(0, $2::integer - 1) n", id, n)
		names[id] = name
		return id
	}
	first := add("acme-1", w.IDs["batch"], 3)
	add("acme-2", w.IDs["batch"], 3)
	later := add("beta", w.BetaIDs["batch"], 2)
	w.Exec("UPDATE task_jobs SET status = 'stopped', finished_at = now() WHERE id = $1", later)
	w.OnUpdate("task_jobs", "skipped", fmt.Sprintf("UPDATE task_jobs SET status = 'running', finished_at = NULL WHERE id = %d AND status = 'stopped' AND NEW.id = %d", later, first))
	if _, err := w.App.Jobs.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, id := range parts() {
		order = append(order, names[id])
	}
	if got, want := strings.Join(order, " "), "acme-1 acme-2 beta acme-1 beta acme-2 acme-1 acme-2"; got != want {
		t.Errorf("parts of %s, want %s", got, want)
	}
}
