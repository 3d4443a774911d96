package history_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// failLongAgo submits a message that a sender reports as failed, and makes its task the given number of days older.
func failLongAgo(b *apptest.Bundle, days int) (id string, day time.Time) {
	b.T.Helper()
	made := b.Submit("x")
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 3, nil)
	day = age(b, days)
	return "task_" + day.Format("20060102") + made[13:], day
}

func requeue(b *apptest.Bundle, id string) apptest.Answer {
	b.T.Helper()
	return b.Call("POST", "/api/v1/sms/task/"+id+"/requeue", nil)
}

// A task is requeued, and its day is dropped. The task is kept. After its second end, the task is exported and imported with both runs.
func TestRequeuedTaskIsExportedWithBothRuns(t *testing.T) {
	b, dir := withFolder(t)
	id, day := failLongAgo(b, 3)
	set(b, map[string]any{"after_days": 1})
	if n, err := keep(b); err != nil || n != 1 {
		t.Fatalf("%d partitions, %v", n, err)
	}
	if _, err := b.App.History.Export(t.Context(), day); err != nil {
		t.Fatal(err)
	}
	if a := requeue(b, id); a.Status != 200 {
		t.Fatal(a.Raw)
	}
	set(b, map[string]any{"keep_days": 1})
	if n, err := keep(b); err != nil || n != 1 {
		t.Errorf("%d partitions changed, %v", n, err)
	}
	if got := b.Claim("app", 1); len(got) != 1 || got[0].TaskID != id {
		t.Fatalf("claimed %v", got)
	}
	b.Report(id, "app", 2, nil)
	before, sums := everything(b), countsOf(b)
	if n, err := b.App.History.MakePartitions(t.Context()); err != nil || n != 1 {
		t.Fatalf("%d partitions made, %v", n, err)
	}
	b.Exec("UPDATE task_partitions SET imported_at = imported_at - interval '3 days' WHERE first_day = $1", day)
	if n, err := keep(b); err != nil || n != 1 {
		t.Fatalf("%d partitions, %v", n, err)
	}
	folders, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(folders) != 3 {
		t.Fatalf("exports: %v", folders)
	}
	if text := fileText(t, filepath.Join(folders[2], "report_logs.csv.gz")); !strings.Contains(text, "requeued") || strings.Count(text, "\n") != 4 {
		t.Errorf("the last export has\n%s", text)
	}
	a := requeue(b, id)
	if a.Status != 409 || a.Body.Error.Reason != "task.dropped" {
		t.Errorf("after the drop: %s", a.Raw)
	}
	if _, err := b.App.History.Import(t.Context(), folders[2]); err != nil {
		t.Fatal(err)
	}
	for table, rows := range everything(b) {
		if rows != before[table] {
			t.Errorf("%s:\n%s\nwant:\n%s", table, rows, before[table])
		}
	}
	if got := countsOf(b); got != sums {
		t.Errorf("counts %s, want %s", got, sums)
	}
}

// A task of an imported partition is requeued. It is kept when its day is dropped again, and the counts stay exact.
func TestTaskOfImportedPartitionCanBeRequeued(t *testing.T) {
	b, dir := withFolder(t)
	id, day := failLongAgo(b, 3)
	drop(b, day, true)
	folders, _ := filepath.Glob(filepath.Join(dir, "*"))
	if _, err := b.App.History.Import(t.Context(), folders[0]); err != nil {
		t.Fatal(err)
	}
	if a := requeue(b, id); a.Status != 200 {
		t.Fatal(a.Raw)
	}
	if got := apptest.Decode[api.Statistics](t, b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)); got.PendingNewTasks != 1 || got.FailedTasks != 0 {
		t.Errorf("%+v", got)
	}
	drop(b, day, true)
	if got := b.Task(id); got.Status != 0 {
		t.Errorf("the drop of the day kept %+v", got)
	}
}

// A requeue and a drop run at the same time. If the requeue is first, the task is kept. If the drop is first, the task is dropped.
func TestConcurrentRequeueAndDropLoseNothing(t *testing.T) {
	b := apptest.New(t)
	for days := 3; days < 9; days++ {
		id, day := failLongAgo(b, days)
		var a apptest.Answer
		var err error
		apptest.Together(2, func(i int) {
			if i == 0 {
				a = requeue(b, id)
			} else {
				err = b.App.History.Drop(t.Context(), day, false)
			}
		})
		waits := b.Count("SELECT count(*) FROM queue WHERE task_id = $1", id)
		isKept := b.Count("SELECT count(*) FROM messages WHERE task_id = $1", id)
		if waits != isKept || (a.Status == 200) != (waits == 1) || err != nil {
			t.Errorf("requeue %s, drop %v: %d rows of queue, %d messages", a.Raw, err, waits, isKept)
		}
		b.Exec("DELETE FROM queue")
		b.Exec("DELETE FROM report_logs")
		b.Exec("DELETE FROM messages")
	}
}

// A drop waits for an uncommitted requeue, and then keeps the task.
func TestDropWaitsForUncommittedRequeue(t *testing.T) {
	b := apptest.New(t)
	id, day := failLongAgo(b, 3)
	dropped := make(chan error, 1)
	err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		n, err := b.App.Tasks.RequeueAll(ctx, []string{id}, "admin", "")
		if n != 1 || err != nil {
			t.Errorf("requeued %d, %v", n, err)
		}
		go func() { dropped <- b.App.History.Drop(t.Context(), day, false) }()
		b.AwaitLockWait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil {
		t.Error(err)
	}
	if n := b.Count("SELECT count(*) FROM tasks WHERE status = 0"); n != 1 {
		t.Errorf("%d tasks wait", n)
	}
}
