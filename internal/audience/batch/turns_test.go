package batch_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/testkit/apptest"
)

// Companies take turns, also if one of them has several batches.
func TestCompaniesWithBatchesTakeTurns(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	add := func(n int, headers ...string) int64 {
		at := createJSON(w.Bundle, map[string]any{"name": "n", "content": "x", "rows": people(n)}, headers...)
		check(w.Bundle)
		w.Expect(200, "", "POST", at+"/confirm", nil)
		id, err := strconv.ParseInt(at[strings.LastIndexByte(at, '/')+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first, second, beta := add(1100, w.Acme...), add(1000, w.Acme...), add(1, w.Beta...)
	portions := w.RecordUpdates("batches", "fed_row")
	if _, err := w.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(slices.Repeat([]int64{first}, 10), []int64{beta}, slices.Repeat([]int64{second}, 10), []int64{first})
	if got := portions(); !slices.Equal(got, want) {
		t.Errorf("portions of %v, want %v", got, want)
	}
}

func people(n int) []any {
	var all []any
	for i := range n {
		all = append(all, map[string]any{"phone_number": strconv.Itoa(13800000000 + i)})
	}
	return all
}

// Companies also take turns when lists are checked: the small lists of a company do not delay the larger list of another company.
func TestCompaniesWithListsToCheckTakeTurns(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	for range 5 {
		createJSON(w.Bundle, map[string]any{"name": "n", "content": "x", "rows": people(1)}, w.Acme...)
	}
	at := createJSON(w.Bundle, map[string]any{"name": "n", "content": "x", "rows": people(10)}, w.Beta...)
	first, err := batchq.New(w.DB).BatchesChecking(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 2 || fmt.Sprintf("%s/%d", path, first[1].ID) != at {
		t.Errorf("batches %v are checked first, without %s", first, at)
	}
}

// Long lists of one company do not take all slots: the list of another company is checked meanwhile.
func TestLongListsOfACompanyLeaveASlot(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	var long []int64
	for range 3 {
		at := createJSON(w.Bundle, map[string]any{"name": "n", "content": "x", "rows": people(10)}, w.Acme...)
		id, err := strconv.ParseInt(at[strings.LastIndexByte(at, '/')+1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		long = append(long, id)
	}
	lock, err := w.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.WithoutCancel(t.Context())) // has an effect only if the test fails
	// The checks of these batches do not end.
	if _, err := lock.Exec(t.Context(), "SELECT FROM batches WHERE id = ANY ($1) FOR UPDATE", long); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.App.Batches.Check(t.Context())
		done <- err
	}()
	apptest.Eventually(t, "checks wait", func() bool {
		return w.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") >= 2
	})
	at := createJSON(w.Bundle, map[string]any{"name": "n", "content": "x", "rows": people(1)}, w.Beta...)
	apptest.Eventually(t, "the list of another company is checked", func() bool { return get(w.Bundle, at).Status == "ready" })
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The sweep has no work for batches that only wait. Otherwise many of them would delay the batches of other companies.
func TestWaitingBatchesAreNoWorkForTheSweep(t *testing.T) {
	b := apptest.New(t)
	expectWork := func(want int) {
		t.Helper()
		feed(b)
		all, err := batchq.New(b.DB).BatchesUnsettled(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != want {
			t.Errorf("work for %+v, want %d batches", all, want)
		}
	}
	create(b, numbers(1), "content", "x", "auto_confirm", "true", "expect_send_time", time.Now().Add(time.Hour).Format(time.RFC3339))
	paused := checked(b, numbers(2), "content", "x", "auto_confirm", "true")
	expectWork(0)
	task := b.Claim("app", 1)[0].TaskID
	get(b, paused, "pause")
	expectWork(0)
	b.Report(task, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if all, err := batchq.New(b.DB).BatchesUnsettled(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the retry of a paused batch is no work: %+v, %v", all, err)
	}
	expectWork(0)
	invalid := checked(b, "phone\n1\n", "content", "x", "auto_confirm", "true", "expect_send_time", time.Now().Add(time.Hour).Format(time.RFC3339))
	expectWork(0)
	expect(b, get(b, invalid), "finished", "1 rows, 1 invalid")
	b.Exec("UPDATE batches SET expires_at = now(), expect_send_time = now() WHERE status = 'running'")
	expectWork(0)
	if n := b.Count("SELECT count(*) FROM batches WHERE status = 'finished' AND valid > 0"); n != 1 {
		t.Errorf("%d batches expired", n)
	}
	get(b, paused, "cancel")
	expectWork(0)
	expect(b, get(b, paused), "cancelled", "2 rows, 2 valid, 2 cancelled")
}
