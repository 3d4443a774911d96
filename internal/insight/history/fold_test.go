package history_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lksms/internal/dispatch/fact"
	"lksms/internal/insight/history"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"
)

// folded returns everything that a fold changes, as one text.
func folded(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT coalesce((SELECT string_agg(c::text, ' ' ORDER BY c) FROM task_counts c), '')
		|| (SELECT string_agg((attempts, succeeded, failed, unreported, response_ms, attempts_today)::text, ' ' ORDER BY sender_id) FROM sender_states)
		|| (SELECT count(*) FROM facts)`)
}

// totals returns the numbers that readers see, as text.
func totals(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT (SELECT string_agg(c::text, ' ' ORDER BY c) FROM task_totals c)
		|| (SELECT string_agg(u::text, ' ' ORDER BY u) FROM sender_totals u)`)
}

func work(b *apptest.Bundle) {
	b.T.Helper()
	b.SubmitMany("x", 10, nil)
	for i, task := range b.Take("app", 5) {
		if i > 0 {
			b.Report(task.TaskID, "app", 2+i%2, nil)
		}
	}
}

// A server of an older version does not know all columns of facts. It must not fold facts.
func TestServerOfOlderVersionDoesNotFoldFacts(t *testing.T) {
	b := apptest.New(t)
	work(b)
	before := totals(b)
	for _, version := range []string{"", "SET LOCAL lksms.facts_version = '1'; ", "SET LOCAL lksms.facts_version = '2'; ", "SET LOCAL lksms.facts_version = '3'; "} {
		if _, err := b.DB.Exec(t.Context(), version+"DELETE FROM facts"); err == nil || !strings.Contains(err.Error(), "does not know all columns of facts") {
			t.Errorf("%sfolded: %v", version, err)
		}
	}
	if n, err := b.App.History.Fold(t.Context()); n == 0 || err != nil || totals(b) != before {
		t.Errorf("folded %d facts, %v; %s, want %s", n, err, totals(b), before)
	}
	const known = "accepted_at at batch_id cancelled company_id country_no delivered durations failed is_test leases message_type pending_new pending_retry pool_id processing " +
		"reported_failed reported_success requeued response_ms segments sender_no submitted success undelivered unreported waits"
	if got := apptest.Scan[string](b, `SELECT string_agg(column_name, ' ' ORDER BY column_name COLLATE "C") FROM information_schema.columns WHERE table_name = 'facts'`); got != known {
		t.Errorf("facts have the columns %s: give facts_guard and FactsKnow another version if one was added", got)
	}
}

// A fold fails after some consumers have added the facts. Nothing changes, and the next fold consumes each fact once.
func TestFailedFoldLosesNoFacts(t *testing.T) {
	b := apptest.New(t)
	work(b)
	seen, before := totals(b), folded(b)
	errFull := errors.New("the disk is full")
	for name, last := range map[string]history.Consumer{
		"the last consumer fails": func(context.Context, []fact.Sum) error { return errFull },
		"its session is killed": func(ctx context.Context, _ []fact.Sum) error {
			_, err := b.App.DB.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
			return err
		},
	} {
		dying := history.New(b.App.DB, setting.New(b.App.DB), history.Options{Consumers: []history.Consumer{b.App.Senders.AddFacts, last}})
		if n, err := dying.Fold(t.Context()); err == nil || n != 0 {
			t.Errorf("%s: folded %d, %v", name, n, err)
		}
		if after := folded(b); after != before {
			t.Errorf("%s: %s, before %s", name, after, before)
		}
	}
	want := b.Count("SELECT count(*) FROM facts")
	if n, err := b.App.History.Fold(t.Context()); n != want || err != nil {
		t.Errorf("folded %d of %d, %v", n, want, err)
	}
	if after := totals(b); after != seen {
		t.Errorf("after folding: %s, before %s", after, seen)
	}
	if n := b.Count("SELECT count(*) FROM facts"); n != 0 {
		t.Errorf("%d facts are left", n)
	}
	if n, err := b.App.History.Fold(t.Context()); n != 0 || err != nil {
		t.Errorf("folded %d again, %v", n, err)
	}
}

// Two folds read the same facts. The second fold waits for the first, and consumes only the remaining facts.
func TestTwoFoldsConsumeEachFactOnce(t *testing.T) {
	b := apptest.New(t)
	work(b)
	seen := totals(b)
	type run struct {
		n   int
		err error
	}
	second := make(chan run, 1)
	first := history.New(b.App.DB, setting.New(b.App.DB), history.Options{Consumers: []history.Consumer{b.App.Senders.AddFacts, func(context.Context, []fact.Sum) error {
		go func() {
			n, err := b.App.History.Fold(t.Context())
			second <- run{n, err}
		}()
		b.AwaitLockWait()
		return nil
	}}})
	want := b.Count("SELECT count(*) FROM facts")
	if n, err := first.Fold(t.Context()); n != want || err != nil {
		t.Errorf("the first folded %d of %d, %v", n, want, err)
	}
	if got := <-second; got.n != 0 || got.err != nil {
		t.Errorf("the second folded %d, %v", got.n, got.err)
	}
	if after := totals(b); after != seen {
		t.Errorf("after folding: %s, before %s", after, seen)
	}
}

// One call folds a backlog in several portions.
func TestOneCallFoldsWholeBacklog(t *testing.T) {
	b := apptest.New(t)
	work(b)
	b.Exec("INSERT INTO facts (company_id, sender_no, at, leases, processing) SELECT 1, 'app', now(), 1, 1 FROM generate_series(1, 25000)")
	seen, want := totals(b), b.Count("SELECT count(*) FROM facts")
	if n, err := b.App.History.Fold(t.Context()); n != want || err != nil {
		t.Errorf("folded %d of %d, %v", n, want, err)
	}
	if after := totals(b); after != seen {
		t.Errorf("after folding: %s, before %s", after, seen)
	}
}

// An app is unknown as a sender. Its facts change only the counts of tasks.
func TestFactsOfUnknownSenderAreFolded(t *testing.T) {
	b := apptest.New(t)
	work(b)
	b.Exec("INSERT INTO facts (company_id, sender_no, at, leases, processing) VALUES (1, 'nobody', now(), 1, 1)")
	seen := totals(b)
	if _, err := b.App.History.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := totals(b); after != seen {
		t.Errorf("after folding: %s, before %s", after, seen)
	}
}

// Observers receive the facts after the commit. They receive nothing from a failed fold.
func TestObserversReceiveFoldedFacts(t *testing.T) {
	b := apptest.New(t)
	work(b)
	var leases, submitted, waits, durations int
	observe := func(facts []fact.Sum) {
		if n := b.Count("SELECT count(*) FROM facts"); n != 0 {
			t.Errorf("the fold is not committed: %d facts", n)
		}
		for _, f := range facts {
			if f.Channel != "sms" || f.MessageType == "" {
				t.Errorf("%+v", f)
			}
			leases, submitted = leases+int(f.Leases), submitted+int(f.Submitted)
			waits, durations = waits+len(f.Waits), durations+len(f.Durations)
		}
	}
	failing := true
	h := history.New(b.App.DB, setting.New(b.App.DB), history.Options{
		Consumers: []history.Consumer{b.App.Senders.AddFacts, func(context.Context, []fact.Sum) error {
			if failing {
				return errors.New("the disk is full")
			}
			return nil
		}},
		Observers: []history.Observer{observe},
	})
	if _, err := h.Fold(t.Context()); err == nil || leases != 0 {
		t.Errorf("%v, %d leases were seen", err, leases)
	}
	failing = false
	if _, err := h.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leases != 5 || submitted != 10 || waits != 5 || durations != 4 {
		t.Errorf("%d leases, %d submitted, %d waits, %d durations", leases, submitted, waits, durations)
	}
}
