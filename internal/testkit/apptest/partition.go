package apptest

import (
	"context"
	"testing"
	"time"
)

// LockDay creates the partitions of the day that was ago days before today, with a settled task that has the dedup key "locked". It then locks these partitions
// until unlock is called or the test ends. A move to a tablespace takes the same lock.
func (b *Bundle) LockDay(ago int) (id string, unlock func()) {
	b.T.Helper()
	day := time.Now().UTC().AddDate(0, 0, -ago)
	suffix := day.Format("_20060102")
	id = "task" + suffix + "_01KATM6S00ZZZZZZZZZZZZZZZZ"
	b.Exec("SELECT task_partitions_ahead('day', $1::timestamptz, $1::timestamptz)", day)
	b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content, status, submitted_by) VALUES ($1, $3, $3, 'x', 2, $2)", id, Username, Phone)
	b.Exec("INSERT INTO dedup_keys (company_id, submitted_by, dedup_key, task_id) VALUES (1, $2, 'locked', $1)", id, Username)
	tx, err := b.DB.Begin(b.T.Context())
	if err != nil {
		b.T.Fatal(err)
	}
	unlock = func() { _ = tx.Rollback(context.Background()) } // a second call has no effect
	b.T.Cleanup(unlock)
	if _, err := tx.Exec(b.T.Context(), "LOCK TABLE messages"+suffix+", report_logs"+suffix+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		b.T.Fatal(err)
	}
	return id, unlock
}

// Often is a number of executions after which PostgreSQL uses a generic plan. In a session, the first five executions of a prepared statement get plans for
// their parameters.
const Often = 8

// Promptly fails the test if do takes so long that it probably waited for a lock.
func Promptly(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

// NextNumberPartitions starts the next partitions of charges and of batch rows, as the sweep does when the current partitions are old enough.
func (b *Bundle) NextNumberPartitions() {
	b.T.Helper()
	b.Exec("UPDATE number_partitions SET entered_at = now() - interval '31 days' WHERE entered_at IS NOT NULL")
	if _, err := b.App.History.MakePartitions(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}
