package queue_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// zombies creates n tasks t1, t2, ... whose leases have expired.
func zombies(b *apptest.Bundle, n int) {
	b.T.Helper()
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, $1, $1, 'x', 1, 'gone', i, now() - interval '1 hour' FROM generate_series(1, $2::int) i`, apptest.Phone, n)
}

// cursedTask makes every update of the task t700 fail.
const cursedTask = `
	CREATE FUNCTION curse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'cursed'; END $$;
	CREATE TRIGGER curse BEFORE UPDATE ON queue FOR EACH ROW WHEN (OLD.task_id = 't700') EXECUTE FUNCTION curse()`

func TestRecoverHandlesThousandsOfLeasesAndOneFailure(t *testing.T) {
	b := apptest.Open(t, apptest.DefaultRules, nil) // does not run in parallel with other tests, because it measures the heap
	const n = 12_000
	zombies(b, n)
	b.Exec(cursedTask)
	// The memory of a sweep does not grow with the number of leases.
	var most atomic.Uint64
	stop, watched := make(chan struct{}), make(chan struct{})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	recovered, err := b.App.Queue.Recover(t.Context())
	close(stop)
	<-watched
	if recovered != n-1 || err == nil || !strings.Contains(err.Error(), "t700") {
		t.Errorf("recovered %d of %d leases, %v", recovered, n, err)
	}
	if left := b.Count("SELECT count(*) FROM tasks WHERE status = 1"); left != 1 {
		t.Errorf("%d tasks are still held, want 1", left)
	}
	if rows := b.Count("SELECT count(*) FROM report_logs WHERE event = 'recovered' AND app_id = 'gone' AND effect = 'retry'"); rows != n-1 {
		t.Errorf("%d log rows of recovered leases", rows)
	}
	if batch := b.Count("SELECT max(n) FROM (SELECT count(*) AS n FROM report_logs GROUP BY xmin) x"); batch > 1000 {
		t.Errorf("one transaction recovered %d leases, want at most 1000", batch)
	}
	if grown := int64(most.Load()) - int64(before.HeapInuse); grown > 20<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	// The response contains the number of recovered leases. The log contains the task that failed.
	b.Exec("UPDATE tasks SET status = 1, processing_app_id = 'gone', lease_until = now() - interval '1 hour' WHERE task_id < 't11' AND task_id <> 't700'")
	want := b.Count("SELECT count(*) FROM tasks WHERE status = 1") - 1
	if got := b.Recover(); got != want {
		t.Errorf("recovered %d leases, want %d", got, want)
	}
	if !strings.Contains(b.Log.String(), "some tasks could not be recovered") {
		t.Error("the task that failed is not in the log")
	}
}

func TestServerClockHasNoEffectOnTheQueue(t *testing.T) {
	for _, off := range []string{"1 hour", "-1 hour"} {
		t.Run(off, func(t *testing.T) {
			b := apptest.NewWithClock(t)
			b.Exec("UPDATE clock.hand SET ahead = $1", off)
			sinceNow := func(sql string) time.Duration {
				return time.Duration(apptest.Scan[float64](b, "SELECT extract(epoch FROM "+sql+" - now())::float8 FROM tasks") * float64(time.Second)).Round(10 * time.Second)
			}
			id := b.Submit("x")
			if ahead := time.Until(b.Task(id).CreatedAt).Round(time.Minute); ahead.Abs() != time.Hour {
				t.Fatalf("the clock is off by %s", ahead)
			}
			claimed := b.Claim("app", 1)
			if len(claimed) != 1 || sinceNow("lease_until") != apptest.DefaultRules.ProcessingTimeout {
				t.Fatalf("claimed %+v", claimed)
			}
			if n := b.Recover(); n != 0 {
				t.Error("a lease was recovered before it expired")
			}
			b.Report(id, "app", 3, apptest.Report{"should_retry": true})
			if wait := sinceNow("due_at"); wait != apptest.DefaultRules.RetryDelay {
				t.Errorf("due after %s", wait)
			}
			if early := b.ClaimIDs(1); len(early) != 0 {
				t.Error("claimed before it was due")
			}
			b.Exec("UPDATE queue SET due_at = now()")
			if due := b.ClaimIDs(1); len(due) != 1 {
				t.Error("not claimed when it was due")
			}
			b.ExpireLeases()
			if n := b.Recover(); n != 1 {
				t.Error("an expired lease was not recovered")
			}
			if got := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?status=0", nil)); len(got.Items) != 1 {
				t.Errorf("%d tasks are listed", len(got.Items))
			}
		})
	}
}

// If a row was inserted manually, either the table rejects the row, or the queue works although the row exists.
func TestManuallyInsertedRowDoesNotStopTheQueue(t *testing.T) {
	b := apptest.New(t)
	insert := func(columns, values string) {
		_, err := b.DB.Exec(t.Context(), fmt.Sprintf(
			"INSERT INTO tasks (task_id, phone_number, recipient, content%s) VALUES ('p%d', '?', '', ' '%s)", columns, time.Now().UnixNano(), values))
		var refused *pgconn.PgError
		if err != nil && (!errors.As(err, &refused) || refused.Code != "23514") {
			t.Fatalf("%s = %s: %v", columns, values, err)
		}
	}
	for _, status := range []string{"0", "1", "2"} {
		held := ", 'nobody', 1"
		for _, when := range []string{"'infinity'", "'-infinity'", "'0001-01-01'", "'290000-01-01'", "'1970-01-02'", "'9998-12-31'", "now()"} {
			insert(", status, processing_app_id, lease_id, lease_until, due_at", ", "+status+held+", "+map[bool]string{true: when, false: "NULL"}[status == "1"]+", "+when)
			insert(", status, processing_app_id, lease_id, lease_until, created_at, retry_count", ", "+status+held+", "+map[bool]string{true: "now()", false: "NULL"}[status == "1"]+", "+when+", 20")
		}
	}
	insert(", status", ", 9")
	insert(", status", ", 1")
	insert(", retry_count", ", 21")
	insert(", result, source", ", repeat('x', 501), ''")
	insert(", processing_app_id", ", repeat('x', 5000)")
	insert(", sent_at, reported_at", ", 'infinity', '-infinity'")
	if poison := b.Count("SELECT count(*) FROM tasks"); poison < 10 {
		t.Fatalf("the table accepted only %d rows", poison)
	}
	for range 3 {
		id := b.Submit("x")
		apptest.Eventually(t, "the task is claimed", func() bool {
			for _, claimed := range b.Claim("app", 50) {
				if claimed.TaskID == id {
					return true
				}
			}
			return false
		})
		b.Report(id, "app", 2, nil)
		b.ExpireLeases()
		b.Recover()
		b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
		b.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=100", nil)
		if metrics := b.Call("GET", "/metrics", nil).Raw; !strings.Contains(metrics, "lksms_queue_oldest_pending_seconds") {
			t.Error("/metrics lacks the age of the oldest waiting task")
		}
	}
}
