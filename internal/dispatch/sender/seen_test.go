package sender_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/testkit/apptest"
)

// A statement that changes the states of several senders locks them in a fixed order: while the first row is locked, the statement locks no other row.
func TestTheStatesOfSendersAreLockedInAFixedOrder(t *testing.T) {
	b := withPolls(t)
	holder := holdFirstState(b)
	done := make(chan error, 1)
	go func() { _, err := b.App.History.Fold(t.Context()); done <- err }()
	apptest.Eventually(t, "the change waits", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	if n := b.Count(`SELECT count(*) FROM (
		SELECT FROM sender_states WHERE sender_id > (SELECT min(sender_id) FROM sender_states) FOR UPDATE SKIP LOCKED) s`); n != 49 {
		t.Errorf("%d of 49 states are free while the change waits for the first", n)
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Claims of other senders can wait for rows that the sweep has locked, but the sweep never waits for a claim.
func TestPollsAreStoredWithoutWaitingForLocks(t *testing.T) {
	b := withPolls(t)
	holder := holdFirstState(b)
	if n, err := b.App.Senders.SweepSeen(t.Context()); n != 49 || err != nil {
		t.Errorf("stored %d polls, %v", n, err)
	}
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// withPolls starts a server at which 50 senders have polled.
func withPolls(t *testing.T) *apptest.Bundle {
	t.Helper()
	b := apptest.New(t)
	b.Exec("INSERT INTO senders (sender_no, name) SELECT 'app-' || i, 'x' FROM generate_series(1, 50) i")
	b.Exec("INSERT INTO sender_states (sender_id) SELECT id FROM senders ORDER BY id DESC")
	b.Exec("INSERT INTO facts (company_id, sender_no, leases, at) SELECT 1, sender_no, 1, now() FROM senders ORDER BY id DESC")
	for i := range 50 {
		if err := b.App.Senders.RecordPoll(t.Context(), fmt.Sprintf("app-%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func holdFirstState(b *apptest.Bundle) pgx.Tx {
	b.T.Helper()
	holder, err := b.DB.Begin(b.T.Context())
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { _ = holder.Rollback(context.Background()) })
	if _, err := holder.Exec(b.T.Context(), "SELECT FROM sender_states ORDER BY sender_id LIMIT 1 FOR UPDATE"); err != nil {
		b.T.Fatal(err)
	}
	return holder
}

func TestPollsAreStoredLaterIfTheDatabaseFails(t *testing.T) {
	b := apptest.New(t)
	if err := b.App.Senders.RecordPoll(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.App.Senders.SweepSeen(ended); err == nil {
		t.Fatal("the sweep did not fail")
	}
	if n, err := b.App.Senders.SweepSeen(t.Context()); n != 1 || err != nil {
		t.Errorf("stored %d polls, %v", n, err)
	}
}
