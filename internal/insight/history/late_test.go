package history_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// lateWorld is a server with an old day. The day contains a settled task, a task that waits for a month, and a leased task.
type lateWorld struct {
	*apptest.Bundle
	dir                      string
	day                      time.Time
	settled, waiting, leased string
}

func newLateWorld(t *testing.T) lateWorld {
	t.Helper()
	b, dir := withFolder(t)
	settled := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "settled", "dedup_key": "settled"}).TaskID
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 3, nil)
	waiting := b.SubmitBody(map[string]any{
		"phone_number": apptest.Phone, "content": "waiting", "dedup_key": "waiting", "expect_send_time": time.Now().AddDate(0, 1, 0),
	}).TaskID
	b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) VALUES ($1, 1, 'app', '1', 'one'), ($2, 2, 'app', '1', 'two')", settled, waiting)
	leased := b.Submit("leased")
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 3, apptest.Report{"should_retry": true})
	b.Exec("UPDATE queue SET due_at = now() - interval '1 hour' WHERE task_id = $1", leased)
	if got := b.Claim("app", 1); len(got) != 1 || got[0].TaskID != leased {
		t.Fatalf("claimed %v", got)
	}
	day := age(b, 3)
	of := func(id string) string { return "task_" + day.Format("20060102") + id[13:] }
	return lateWorld{b, dir, day, of(settled), of(waiting), of(leased)}
}

// storage returns the state of the day and its number of late tasks.
func (w lateWorld) storage() string {
	w.T.Helper()
	page := apptest.Decode[api.PartitionPage](w.T, w.Expect(200, "", "GET", "/api/v1/admin/history?limit=100", nil))
	for _, p := range page.Items {
		if p.FirstDay.Equal(w.day) {
			late := int64(0)
			if p.LateTasks != nil {
				late = *p.LateTasks
			}
			return fmt.Sprintf("%s %d", p.Place, late)
		}
	}
	return ""
}

// A drop of a day keeps its waiting and leased tasks. These tasks do not change: they can be found, counted, sent, cancelled and requeued. When all of them are
// settled, they form a separate day, which is kept, exported and dropped like any other day.
func TestDropKeepsUnfinishedTasks(t *testing.T) {
	w := newLateWorld(t)
	before := map[string][]string{w.waiting: w.Effects(w.waiting), w.leased: w.Effects(w.leased)}
	counts := countsOf(w.Bundle)
	set(w.Bundle, map[string]any{"keep_days": 2})
	if n, err := keep(w.Bundle); err != nil || n != 1 || w.storage() != "dropped 2" {
		t.Fatalf("%d partitions, %v; the day is %s", n, err, w.storage())
	}
	if n, err := keep(w.Bundle); err != nil || n != 0 {
		t.Errorf("again: %d partitions, %v", n, err)
	}
	w.expectLateTasksLeftBehind()
	w.Expect(404, "task.not_found", "GET", "/api/v1/sms/task/"+w.settled, nil)
	for id, want := range before {
		if got := w.Effects(id); !slices.Equal(got, want) {
			t.Errorf("%s: effects %v, want %v", id, got, want)
		}
	}
	if got := w.Task(w.waiting); got.Content != "waiting" || got.Status != 0 {
		t.Errorf("%+v", got)
	}
	page := apptest.Decode[api.TaskPage](t, w.Expect(200, "", "GET", "/api/v1/sms/tasks?limit=10", nil))
	if len(page.Items) != 2 || countsOf(w.Bundle) != counts {
		t.Errorf("%+v, counts %s, want %s", page.Items, countsOf(w.Bundle), counts)
	}
	again := map[string]any{"phone_number": apptest.Phone, "content": "waiting", "dedup_key": "waiting"}
	if got := w.SubmitBody(again); got.TaskID != w.waiting {
		t.Errorf("the repeated key of the waiting task gave %+v", got)
	}
	w.endLateTasks()
	w.expectDayOfLateTasks()
}

// expectLateTasksLeftBehind fails the test if the export contains a late task, if it lacks the settled task, or if sweeps change the rows of late tasks.
func (w lateWorld) expectLateTasksLeftBehind() {
	w.T.Helper()
	folder := glob(w.T, w.dir)[0]
	for _, file := range []string{"messages", "report_logs", "deliveries"} {
		text := fileText(w.T, filepath.Join(folder, file+".csv.gz"))
		if strings.Contains(text, w.waiting) || strings.Contains(text, w.leased) || !strings.Contains(text, w.settled) {
			w.T.Errorf("%s has\n%s", file, text)
		}
	}
	if _, err := w.App.Submissions.DeleteExpired(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	if got := apptest.Scan[string](w.Bundle, "SELECT string_agg(task_id, ' ') FROM deliveries"); got != w.waiting {
		w.T.Errorf("deliveries of %s", got)
	}
	if _, err := w.App.History.MakePartitions(w.T.Context()); err != nil || w.storage() != "dropped 2" {
		w.T.Errorf("%v, the day is %s while its tasks wait", err, w.storage())
	}
	if n := w.Count("SELECT count(*) FROM events WHERE event = 'partition.missing'"); n != 0 {
		w.T.Errorf("%d events about a missing partition", n)
	}
}

// endLateTasks makes the leased task fail, and requeues and sends the waiting task.
func (w lateWorld) endLateTasks() {
	w.T.Helper()
	w.Report(w.leased, "app", 3, nil)
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.waiting+"/cancel", nil)
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.waiting+"/requeue", nil)
	if _, err := w.App.History.MakePartitions(w.T.Context()); err != nil || w.storage() != "dropped 2" {
		w.T.Errorf("%v, the day is %s while a requeued task waits", err, w.storage())
	}
	w.Exec("UPDATE queue SET due_at = now()")
	if _, err := w.App.Queue.Queue(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	if got := w.Claim("app", 1); len(got) != 1 || got[0].TaskID != w.waiting {
		w.T.Fatalf("claimed %v", got)
	}
	w.Report(w.waiting, "app", 2, nil)
	w.ExpectEffects(w.leased, "reported retry", "reported failed")
}

// expectDayOfLateTasks fails the test unless the late tasks form a separate day that is kept, exported, dropped and imported.
func (w lateWorld) expectDayOfLateTasks() {
	w.T.Helper()
	if n, err := w.App.History.MakePartitions(w.T.Context()); err != nil || n != 1 || w.storage() != "recent 0" {
		w.T.Fatalf("%d partitions made, %v; the day is %s", n, err, w.storage())
	}
	if n, err := keep(w.Bundle); err != nil || n != 1 || w.storage() != "history 0" {
		w.T.Errorf("%d partitions, %v; the day is %s: its time begins anew", n, err, w.storage())
	}
	rows := everything(w.Bundle)
	w.Exec("UPDATE task_partitions SET imported_at = imported_at - interval '3 days' WHERE first_day = $1", w.day)
	if n, err := keep(w.Bundle); err != nil || n != 1 || w.storage() != "dropped 0" {
		w.T.Fatalf("%d partitions, %v; the day is %s", n, err, w.storage())
	}
	if tasks, err := w.App.History.Import(w.T.Context(), glob(w.T, w.dir)[1]); err != nil || tasks != 2 {
		w.T.Fatalf("%d tasks, %v", tasks, err)
	}
	for table, want := range everything(w.Bundle) {
		if want != rows[table] {
			w.T.Errorf("%s:\n%s\nwant:\n%s", table, want, rows[table])
		}
	}
}

// A day is imported while its late tasks still wait. All tasks then form one day again. A waiting task keeps its current state; the state in the export is
// ignored.
func TestImportIsMergedWithKeptTasks(t *testing.T) {
	w := newLateWorld(t)
	before := everything(w.Bundle)
	drop(w.Bundle, w.day, true)
	older := glob(t, w.dir)[0]
	if tasks, err := w.App.History.Import(t.Context(), older); err != nil || tasks != 1 {
		t.Fatalf("%d tasks, %v", tasks, err)
	}
	for table, rows := range everything(w.Bundle) {
		if rows != before[table] {
			t.Errorf("%s:\n%s\nwant:\n%s", table, rows, before[table])
		}
	}
	// The settled task waits again and is excluded from the next drop. The first export contains the task in its earlier state.
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.settled+"/requeue", nil)
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.waiting+"/cancel", nil)
	drop(w.Bundle, w.day, true)
	if tasks, err := w.App.History.Import(t.Context(), older); err != nil || tasks != 1 {
		t.Fatalf("%d tasks, %v", tasks, err)
	}
	w.ExpectEffects(w.settled, "reported failed", "requeued requeued")
	if got := w.Task(w.settled); got.Status != 0 || w.Count("SELECT count(*) FROM messages WHERE task_id = $1", w.settled) != 1 {
		t.Errorf("%+v", got)
	}
}

// If the waiting tasks at the drop differ from the waiting tasks at the export, the drop exports again, even if the numbers of rows are equal.
func TestADropExportsAgainIfOtherTasksWait(t *testing.T) {
	w := newLateWorld(t)
	w.Report(w.leased, "app", 2, nil)
	if _, err := w.App.History.Export(t.Context(), w.day); err != nil {
		t.Fatal(err)
	}
	// One task is settled, and another task waits again. Each of the two tasks has two rows in report_logs.
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.waiting+"/cancel", nil)
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+w.settled+"/requeue", nil)
	w.Exec("INSERT INTO report_logs (task_id, company_id, event, effect) VALUES ($1, 1, 'reported', 'ignored')", w.waiting)
	w.Exec("DELETE FROM report_logs WHERE task_id = $1 AND event = 'requeued'", w.settled)
	w.Exec("DELETE FROM report_logs WHERE task_id = $1 AND effect = 'ignored'", w.waiting)
	drop(w.Bundle, w.day, true)
	folders := glob(t, w.dir)
	if len(folders) != 2 {
		t.Fatalf("exports: %v", folders)
	}
	if text := fileText(t, filepath.Join(folders[1], "messages.csv.gz")); !strings.Contains(text, w.waiting) || strings.Contains(text, w.settled) {
		t.Errorf("the second export has\n%s", text)
	}
}

// A day becomes history even if one of its tasks waits for a long time. A day with a leased task does not become history, because the report of the task would
// wait for the move.
func TestDayWithLongWaitingTaskBecomesHistory(t *testing.T) {
	w := newLateWorld(t)
	if n, err := keep(w.Bundle); err != nil || n != 0 {
		t.Errorf("%d partitions, %v while a task is leased", n, err)
	}
	w.Report(w.leased, "app", 2, nil)
	for _, at := range []string{"now()", "now() + interval '23 hours'", "now() - interval '23 hours'"} {
		w.Exec("UPDATE queue SET due_at = " + at)
		if n, err := keep(w.Bundle); err != nil || n != 0 {
			t.Errorf("%d partitions, %v while a task is due at %s", n, err, at)
		}
	}
	w.Exec("UPDATE queue SET due_at = now() + interval '25 hours', expires_at = now() + interval '23 hours'")
	if n, err := keep(w.Bundle); err != nil || n != 0 {
		t.Errorf("%d partitions, %v while a task is about to expire", n, err)
	}
	w.Exec("UPDATE queue SET expires_at = now() + interval '25 hours'")
	if n, err := keep(w.Bundle); err != nil || n != 1 || w.storage() != "history 0" {
		t.Errorf("%d partitions, %v; the day is %s", n, err, w.storage())
	}
	w.Exec("UPDATE task_partitions SET history_at = NULL")
	w.Exec("UPDATE queue SET due_at = now() - interval '25 hours', expires_at = NULL") // no sender claims this task
	if n, err := keep(w.Bundle); err != nil || n != 1 {
		t.Errorf("%d partitions, %v while a task waits", n, err)
	}
}

// A day with more waiting tasks than a drop can keep is not dropped. The reason is stored.
func TestDayWithTooManyWaitingTasksIsNotDropped(t *testing.T) {
	w := newLateWorld(t)
	w.Exec(`INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content, due_at)
		SELECT $1 || '_' || i, 1, 1, 1, 5, 1, '1', '1', 'x', now() + interval '9 days' FROM generate_series(1, 10000) i`, "task_"+w.day.Format("20060102"))
	set(w.Bundle, map[string]any{"keep_days": 1})
	held := func() string {
		return apptest.Scan[string](w.Bundle, "SELECT coalesce(held_by, '') FROM task_partitions WHERE first_day = $1", w.day)
	}
	if n, err := keep(w.Bundle); n != 0 || err == nil || !strings.Contains(err.Error(), "more than 10000 tasks") || held() != "too_many_late" {
		t.Errorf("%d partitions, %v, held by %q", n, err, held())
	}
	w.Exec("DELETE FROM queue WHERE content = 'x'")
	if n, err := keep(w.Bundle); n != 1 || err != nil || held() != "" {
		t.Errorf("%d partitions, %v, held by %q", n, err, held())
	}
}

// The day of an unfinished notification is dropped. The tasks that record which people were reached are kept.
func TestDropKeepsTasksOfUnfinishedNotification(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 0, "biz_id": 5, "channels": []string{"dingtalk"}, "user_ids": []string{"u1", "u2"},
		"payload": map[string]any{"taskName": "n", "creatorName": "c", "createTime": "t"},
	})).Items[0].NotificationID
	b.AwaitNotification(made, api.NotificationSuccess)
	settled := b.Submit("settled")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+settled+"/cancel", nil)
	day := age(b, 3)
	b.Exec("UPDATE notifications SET next_run_at = now() + interval '1 hour' WHERE id = $1", made)
	drop(b, day, false)
	if n := b.Count("SELECT count(*) FROM messages WHERE rendering_id IS NOT NULL"); n != 2 || b.Count("SELECT count(*) FROM messages") != 2 {
		t.Errorf("%d messages of the notification are left", n)
	}
	if got := b.Notification(made); got.People != 2 {
		t.Errorf("%+v", got)
	}
}

// A report and a drop run at the same time. One waits for the other, and no data is lost.
func TestConcurrentReportAndDropLoseNothing(t *testing.T) {
	w := newLateWorld(t)
	done := make(chan error, 1)
	err := w.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		if _, err := w.App.DB.Exec(ctx, "INSERT INTO report_logs (task_id, company_id, event, effect) VALUES ($1, 1, 'reported', 'ignored')", w.leased); err != nil {
			return err
		}
		go func() { done <- w.App.History.Drop(t.Context(), w.day, false) }()
		w.AwaitLockWait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.ExpectEffects(w.leased, "reported retry", "reported ignored")
}

// A server of the previous version drops a day without a list of late tasks. If the day has waiting tasks, the drop is rejected.
func TestDropWithoutListOfLateTasksIsRejected(t *testing.T) {
	w := newLateWorld(t)
	for _, call := range []string{"($1)", "($1, false)", "($1, false, NULL)", "($1, false, '{}')"} {
		if got := apptest.Scan[string](w.Bundle, "SELECT task_partition_drop"+call, w.day); got != "unsettled" {
			t.Errorf("%s: it is %s", call, got)
		}
	}
}
