package apptest

import (
	"context"
	"testing"
	"time"
)

// LockDay makes the partitions of a day, with a settled task that has the dedup key "locked", and holds them as a move to a tablespace does, until
// the test ends or unlock is called.
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
	unlock = func() { _ = tx.Rollback(context.Background()) } // the second time does nothing
	b.T.Cleanup(unlock)
	if _, err := tx.Exec(b.T.Context(), "LOCK TABLE messages"+suffix+", report_logs"+suffix+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		b.T.Fatal(err)
	}
	return id, unlock
}

// Often is more than the five times that PostgreSQL plans a prepared statement for its parameters, in each session.
const Often = 8

// Promptly fails if do takes so long that it may have waited for the end of a lock.
func Promptly(t *testing.T, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

// NextNumberPartitions begins the next partitions of charges and of rows of batches, as the sweep does when the present ones are old enough.
func (b *Bundle) NextNumberPartitions() {
	b.T.Helper()
	b.Exec("UPDATE number_partitions SET entered_at = now() - interval '31 days' WHERE entered_at IS NOT NULL")
	if _, err := b.App.History.MakePartitions(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}
