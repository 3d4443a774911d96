package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// rowsOfPartitions returns the number of rows of messages and report_logs in each partition. Names omit the parent and the century.
func rowsOfPartitions(b *apptest.Bundle) string {
	b.T.Helper()
	return apptest.Scan[string](b, `SELECT coalesce(string_agg(place || ':' || n, ' ' ORDER BY place), '') FROM (
		SELECT regexp_replace(p.name, '^(messages|report_logs)_', substr(p.name, 1, 1) || '_') AS place, count(*) AS n
		FROM (SELECT tableoid::regclass::text AS name FROM messages UNION ALL SELECT tableoid::regclass::text FROM report_logs) p GROUP BY 1) x`)
}

// dropPartitions drops all partitions except the default partitions.
func dropPartitions(b *apptest.Bundle) {
	b.T.Helper()
	b.Exec(`DO $$ DECLARE p record; BEGIN
		FOR p IN DELETE FROM task_partitions RETURNING substr(first_id, 5) AS suffix LOOP
			EXECUTE format('DROP TABLE messages%s, report_logs%s', p.suffix, p.suffix);
		END LOOP;
	END $$`)
}

// insertMessages stores settled messages with these ids. Such ids can come from an older server or from a wrong clock.
func insertMessages(b *apptest.Bundle, ids ...string) {
	b.T.Helper()
	for _, id := range ids {
		b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content, status) VALUES ($1, '', '', 'x', 2)", id)
	}
}

// A task is stored in the partition of its day. A task whose day has no partition is accepted. It moves when the sweep creates the partition.
func TestTaskWithoutPartitionIsAcceptedAndMovedLater(t *testing.T) {
	b := apptest.New(t)
	today := time.Now().UTC()
	dropPartitions(b)
	b.Exec("SELECT task_partitions_ahead('day', now() - interval '20 days', now() - interval '20 days')")
	id := b.Submit("x")
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	yesterday := today.AddDate(0, 0, -1).Format("20060102")
	insertMessages(b, "of another shape", "task_20200101_old", "task_5", "task_"+yesterday+"_old")
	if got := rowsOfPartitions(b); got != "m_default:5 r_default:5" {
		t.Fatalf("before: %s", got)
	}
	n, err := b.App.History.MakePartitions(t.Context())
	if err != nil || n != 9 {
		t.Fatalf("made %d, %v", n, err)
	}
	day := today.Format("20060102")
	if got, want := rowsOfPartitions(b), fmt.Sprintf("m_%[2]s:1 m_%[1]s:1 m_default:3 r_%[2]s:1 r_%[1]s:1 r_default:3", day, yesterday); got != want {
		t.Errorf("after: %s, want %s", got, want)
	}
	if got := b.Task(id); got.Status != 2 {
		t.Errorf("%+v", got)
	}
	if n, err := b.App.History.MakePartitions(t.Context()); err != nil || n != 0 {
		t.Errorf("again made %d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM events WHERE event = 'partition.missing'"); n != 1 {
		t.Errorf("%d events", n)
	}
	if b.Submit("y"); !strings.Contains(rowsOfPartitions(b), fmt.Sprintf("m_%s:2", day)) {
		t.Errorf("a new task: %s", rowsOfPartitions(b))
	}
}

// A new width of partitions applies after the last existing partition.
func TestNewPartitionWidthStartsAfterExistingPartitions(t *testing.T) {
	b := apptest.New(t)
	dropPartitions(b)
	at := func(width, from, to string) int {
		return b.Count(fmt.Sprintf("SELECT task_partitions_ahead('%s', '%s+00', '%s+00')", width, from, to))
	}
	if n := at("day", "2031-01-05 10:00", "2031-01-06 23:59"); n != 2 {
		t.Errorf("%d days", n)
	}
	if n := at("week", "2031-01-06", "2031-01-15"); n != 2 { // the rest of the week of January 6, and the whole week of January 13
		t.Errorf("%d weeks", n)
	}
	if n := at("month", "2031-01-01", "2031-02-10"); n != 3 { // January before the 5th and after the 19th, and February
		t.Errorf("%d months", n)
	}
	got := apptest.Scan[string](b, "SELECT string_agg(first_day || '..' || last_day, ' ' ORDER BY first_day) FROM task_partitions")
	if want := "2031-01-01..2031-01-05 2031-01-05..2031-01-06 2031-01-06..2031-01-07 2031-01-07..2031-01-13 2031-01-13..2031-01-20 " +
		"2031-01-20..2031-02-01 2031-02-01..2031-03-01"; got != want {
		t.Errorf("partitions %s\nwant       %s", got, want)
	}
}

// Submissions and reports that wait for the creation of their partition succeed.
func TestSubmissionsAndReportsWaitForNewPartition(t *testing.T) {
	b := apptest.New(t)
	dropPartitions(b)
	b.Submit("reported")
	claimed := b.Claim("app", 1)[0]
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT task_partitions_ahead('day', now(), now())"); err != nil {
		t.Fatal(err)
	}
	statuses := make(chan int, 2)
	go func() {
		statuses <- b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "submitted"}).Status
	}()
	go func() {
		statuses <- b.Call("POST", "/api/v1/sms/report", map[string]any{"task_id": claimed.TaskID, "app_id": "app", "status": 2}).Status
	}()
	apptest.Eventually(t, "both wait", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 2
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status := <-statuses; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	if n := b.Count("SELECT count(*) FROM messages_default") + b.Count("SELECT count(*) FROM report_logs_default"); n != 0 {
		t.Errorf("%d rows are in the default partitions", n)
	}
}

// While a batch of messages is being stored in the default partition, their own partition is created. The batch is then stored again.
func TestBatchSucceedsAfterWaitingForNewPartition(t *testing.T) {
	b := apptest.New(t)
	dropPartitions(b)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT task_partitions_ahead('day', now(), now())"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan apptest.Answer, 1)
	go func() {
		answer <- b.Call("POST", apptest.BatchPath, map[string]any{"messages": []any{map[string]any{"phone_number": apptest.Phone, "content": "x"}}})
	}()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if items := apptest.Decode[api.SentBatch](t, <-answer).Items; items[0].Code != 200 {
		t.Errorf("code %d", items[0].Code)
	}
}

// Tasks move to their partition only while no statement uses both partitions. Submissions continue meanwhile.
func TestWaitingMoveDoesNotBlockSubmissions(t *testing.T) {
	b := apptest.New(t)
	dropPartitions(b)
	b.Submit("stray")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ONLY messages IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.App.History.MakePartitions(t.Context())
		done <- err
	}()
	b.AwaitLockWait()
	b.Submit("meanwhile")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := b.Count("SELECT count(*) FROM messages_default"); n != 0 {
		t.Errorf("%d tasks are left in the default partition", n)
	}
}

// A partition is dropped when all its tasks are settled and no new tasks can be added to it. After a change of the width, dropped days get a partition again
// only if tasks of these days arrive.
func TestPartitionIsDroppedWhenAllTasksAreSettled(t *testing.T) {
	b := apptest.New(t)
	dropPartitions(b)
	b.Exec("SELECT task_partitions_ahead('day', now() - interval '9 days', now() + interval '1 day')")
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format("20060102") }
	insertMessages(b, "task_"+day(9)+"_settled", "task_"+day(8)+"_settled")
	b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content) VALUES ($1, '', '', 'x')", "task_"+day(8)+"_waiting")
	drop := func(ago int) string {
		return apptest.Scan[string](b, "SELECT task_partition_drop($1::date)", day(ago))
	}
	for ago, want := range map[int]string{9: "dropped", 8: "unsettled", 0: "open", -1: "open", 20: "absent"} {
		if got := drop(ago); got != want {
			t.Errorf("the partition of %d days ago is %s, want %s", ago, got, want)
		}
	}
	if got := drop(9); got != "absent" {
		t.Errorf("the second time, the partition is %s", got)
	}
	if n := b.Count("SELECT count(*) FROM messages") + b.Count("SELECT count(*) FROM task_partitions WHERE dropped_at IS NOT NULL"); n != 2+1 {
		t.Errorf("%d messages and dropped partitions", n)
	}
	b.Exec("UPDATE tasks SET status = 4")
	if got := drop(8); got != "dropped" {
		t.Errorf("after its tasks are settled, the partition is %s", got)
	}
	drop(6)
	if n := b.Count("SELECT count(*) FROM task_partitions WHERE dropped_at IS NOT NULL"); n != 3 {
		t.Errorf("%d days are dropped", n)
	}
	for _, width := range []string{"week", "month", "day"} {
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"partition_width": width}})
		if _, err := b.App.History.MakePartitions(t.Context()); err != nil {
			t.Errorf("%s: %v", width, err)
		}
	}
	if n := b.Count("SELECT count(*) FROM task_partitions WHERE dropped_at IS NOT NULL"); n != 3 {
		t.Errorf("%d days are dropped with a new width", n)
	}
	insertMessages(b, "task_"+day(8)+"_late")
	if _, err := b.App.History.MakePartitions(t.Context()); err != nil || b.Count("SELECT count(*) FROM messages_default") != 0 {
		t.Errorf("a late task is left in the default partition, %v", err)
	}
	if n := b.Count("SELECT count(*) FROM task_partitions WHERE dropped_at IS NOT NULL"); n != 2 {
		t.Errorf("%d days are dropped although a task of one day was added", n)
	}
}
