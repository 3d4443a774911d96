package queue_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/apptest"
)

// Planning a submission takes as long as running it. PostgreSQL plans each run of a statement whose plan looks cheaper with known parameters: an estimate that
// depends on the length of an array, such as generate_series(1, cardinality($1)), is enough.
func TestSubmissionsClaimsAndReportsKeepTheirPlans(t *testing.T) {
	b := apptest.New(t)
	const runs = 20
	for range runs {
		id := b.Submit("x")
		b.Claim("app", 1)
		b.Report(id, "app", 2, nil)
	}
	kept := 0
	for _, conn := range b.DB.AcquireAllIdle(t.Context()) {
		rows, err := conn.Query(t.Context(), "SELECT statement, custom_plans, generic_plans FROM pg_prepared_statements WHERE custom_plans + generic_plans >= $1", runs/2)
		if err != nil {
			t.Fatal(err)
		}
		var (
			statement       string
			custom, generic int
		)
		if _, err := pgx.ForEachRow(rows, []any{&statement, &custom, &generic}, func() error {
			if custom > 5 { // PostgreSQL compares the plans after five runs
				t.Errorf("planned %d times, with a kept plan %d times: %.60s", custom, generic, statement)
			}
			kept++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	if kept < 5 {
		t.Errorf("only %d statements ran often", kept)
	}
}
