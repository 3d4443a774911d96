package invariants

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/pgtest"
	"lksms/test/soak/check/checktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSnapshotInvariantsFindViolations(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const place, facts, copies = 0, 1, 2
	for what, c := range map[string]struct {
		sql  string
		find []int // indices of the broken invariants
	}{
		"nothing":                                   {sql: "SELECT"},
		"a message without a queue row":             {"DELETE FROM queue WHERE task_id = 'a'", []int{place}},
		"a message without an outcome":              {"DELETE FROM report_logs WHERE effect = 'cancelled'", []int{place}},
		"a settled message in the queue":            {"UPDATE report_logs SET outcome = 3 WHERE task_id = 'a'", []int{place}},
		"two outcomes":                              {"DROP INDEX report_logs_outcome_key; UPDATE report_logs SET outcome = 3 WHERE task_id = 'c'", []int{place}},
		"an outcome without a message":              {"DELETE FROM messages WHERE task_id = 'd'", []int{place, copies}},
		"a row of queue without a message":          {"DELETE FROM messages WHERE task_id = 'b'", []int{place}},
		"a lease without facts":                     {"UPDATE report_logs SET leased_at = NULL WHERE lease_id = 3", []int{facts}},
		"a lease with facts in two log rows":        {"UPDATE report_logs SET lease_id = 3 WHERE lease_id = 4", []int{facts}},
		"a lease with facts in both tables":         {"UPDATE report_logs SET lease_id = 2 WHERE lease_id = 1", []int{facts}},
		"a lost lease of an ignored report":         {"UPDATE report_logs SET lease_id = 98 WHERE effect = 'ignored'", []int{facts}},
		"a charge for no lease":                     {"INSERT INTO sender_ledger (sender_id, change, balance, lease_id) VALUES (1, -1, 9, 98)", []int{facts}},
		"a lease without its limit":                 {"UPDATE queue SET lease_limit = NULL WHERE task_id = 'b'", []int{facts}},
		"a lease from another time":                 {"UPDATE queue SET updated_at = created_at WHERE task_id = 'b'", []int{facts}},
		"a lease of an unknown sender":              {"UPDATE report_logs SET app_id = 'stranger' WHERE task_id = 'a'", []int{facts}},
		"a lease without its cost":                  {"UPDATE senders SET has_balance = true", []int{facts}},
		"another content":                           {"UPDATE queue SET content = 'x' WHERE task_id = 'a'", []int{copies}},
		"another recipient":                         {"UPDATE queue SET recipient = 'x' WHERE task_id = 'a'", []int{copies}},
		"a signature that differs from the message": {"UPDATE queue SET sign = 'x' WHERE task_id = 'a'", []int{copies}},
		"another company":                           {"UPDATE queue SET company_id = 2 WHERE task_id = 'b'", []int{copies}},
		"another company in the log":                {"UPDATE report_logs SET company_id = 2 WHERE effect = 'refused'", []int{copies}},
	} {
		t.Run(what, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), checktest.Sound+";"+c.sql); err != nil {
				t.Fatal(err)
			}
			verdicts, err := CheckSnapshots(t.Context(), conn, "")
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range verdicts {
				if is, want := v.Broken > 0, slices.Contains(c.find, i); is != want {
					t.Errorf("%s: broken %t, want %t: %v", v.Name, is, want, v.Samples)
				}
			}
		})
	}
}
