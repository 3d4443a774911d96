package history_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/insight/history"
	"lksms/internal/insight/statistics"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// age makes all rows older by the given number of days, as if the service had run at that time. It creates the partitions of these days.
func age(b *apptest.Bundle, days int) (firstDay time.Time) {
	b.T.Helper()
	firstDay = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	b.Exec("SELECT task_partitions_ahead('day', $1::timestamptz, $1::timestamptz)", firstDay.Add(time.Hour))
	id := fmt.Sprintf("'task_%s' || substr(task_id, 14)", firstDay.Format("20060102"))
	for _, table := range []string{"messages", "queue", "report_logs", "deliveries", "dedup_keys", "subscribe_messages", "fruitless_submissions"} {
		b.Exec(fmt.Sprintf("UPDATE %s SET task_id = %s WHERE task_id <> ''", table, id))
	}
	for _, column := range []string{
		"messages.created_at", "report_logs.created_at", "deliveries.created_at", "fruitless_submissions.created_at", "notifications.created_at",
		"renderings.created_at", "business_ends.ended_at", "events.created_at", "sender_ledger.created_at",
	} {
		table, name, _ := strings.Cut(column, ".")
		b.Exec(fmt.Sprintf("UPDATE %[1]s SET %[2]s = %[2]s - make_interval(days => $1)", table, name), days)
	}
	return firstDay
}

// withFolder returns a server that can export, and its export folder.
func withFolder(t *testing.T) (*apptest.Bundle, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "exports")
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.HistoryDir = dir })
	return b, dir
}

// set changes settings of history.
func set(b *apptest.Bundle, values map[string]any) {
	b.T.Helper()
	b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": values})
}

// keep applies the settings of history, as the sweep does.
func keep(b *apptest.Bundle) (int, error) {
	b.T.Helper()
	return b.App.History.Keep(b.T.Context())
}

// drop drops the partition that begins on a given day.
func drop(b *apptest.Bundle, day time.Time, onlyExported bool) {
	b.T.Helper()
	if err := b.App.History.Drop(b.T.Context(), day, onlyExported); err != nil {
		b.T.Fatal(err)
	}
}

// failure returns the error of a call and ignores its value.
func failure[T any](_ T, err error) error { return err }

// everything returns all rows of the exported tables and views, by name.
func everything(b *apptest.Bundle) map[string]string {
	b.T.Helper()
	all := map[string]string{}
	for _, table := range []string{"messages", "report_logs", "deliveries", "renderings", "tasks", "send_logs", "receive_logs"} {
		all[table] = apptest.Scan[string](b, fmt.Sprintf("SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM %s t", table))
	}
	return all
}

// countsOf returns the counts of tasks as the API shows them.
func countsOf(b *apptest.Bundle) string {
	b.T.Helper()
	return string(b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil).Body.Data)
}

// createStories creates tasks of all kinds: sent, retried, failed, cancelled, expired, with receipts, and with texts that are difficult to escape in CSV. It
// returns the ids of the tasks.
func createStories(b *apptest.Bundle) (ids []string) {
	b.T.Helper()
	for i, text := range []string{"plain", "a,b\"c\"\nd\\N\\.", "\\.", "中文，短信", " spaces ", "{\"json\": [1]}", "NULL"} {
		ids = append(ids, b.SubmitBody(map[string]any{
			"phone_number": apptest.Phone, "content": text, "dedup_key": fmt.Sprintf("key %d", i), "source": "test,\"1\"",
		}).TaskID)
	}
	b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": "x", "content": "refused"})
	leased := map[string]bool{}
	for _, task := range b.Claim("app", 3) {
		leased[task.TaskID] = true
		b.Report(task.TaskID, "app", 3, apptest.Report{"should_retry": true, "error_message": "a,\"b\"\n"})
	}
	b.Exec("UPDATE queue SET due_at = now() - interval '1 hour'")
	if _, err := b.App.Queue.Queue(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	for i, task := range b.Claim("app", 6) {
		b.Report(task.TaskID, "app", 2+i%2, nil)
		b.Report(task.TaskID, "app", 2, nil) // the repeated report changes nothing
		if i%2 == 0 {
			b.Exec("INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no) VALUES ($1, 1, 'app', '1', 'no,1')", task.TaskID)
		}
	}
	rest := apptest.Scan[string](b, "SELECT task_id FROM queue")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+rest+"/cancel", nil)
	return ids
}

// The import restores the exported and dropped rows unchanged. The counts never change.
func TestImportRestoresExport(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	today := b.Submit("of today")
	before, counts := everything(b), countsOf(b)
	set(b, map[string]any{"keep_days": 2})
	if n, err := keep(b); err != nil || n != 1 {
		t.Fatalf("%d partitions, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 || b.Task(today).Content != "of today" {
		t.Errorf("%d messages are left", n)
	}
	if _, err := b.App.Submissions.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM deliveries") + b.Count("SELECT count(*) FROM send_logs"); n != 0 {
		t.Errorf("%d deliveries and leases are left", n)
	}
	if got := countsOf(b); got != counts {
		t.Errorf("counts after the drop: %s, want %s", got, counts)
	}
	folders, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(folders) != 1 || !strings.HasPrefix(filepath.Base(folders[0]), day.Format(time.DateOnly)+"_") {
		t.Fatalf("%v, %v", folders, err)
	}
	tasks, err := b.App.History.Import(t.Context(), folders[0])
	if err != nil || tasks != 7 {
		t.Fatalf("%d tasks, %v", tasks, err)
	}
	for table, rows := range everything(b) {
		if rows != before[table] {
			t.Errorf("%s:\n%s\nwant:\n%s", table, rows, before[table])
		}
	}
	if got := countsOf(b); got != counts {
		t.Errorf("counts after the import: %s, want %s", got, counts)
	}
	indexes := func(day time.Time) string {
		return apptest.Scan[string](b, `SELECT string_agg(x, E'\n' ORDER BY x) FROM (
			SELECT parent.relname || ' ' || replace(pg_get_indexdef(i.inhrelid), '_' || $1, '') AS x
			FROM pg_inherits i JOIN pg_class part ON part.oid = i.inhrelid JOIN pg_index d ON d.indexrelid = i.inhrelid
			JOIN pg_class parent ON parent.oid = i.inhparent JOIN pg_class t ON t.oid = d.indrelid
			WHERE part.relkind = 'i' AND t.relname LIKE '%' || $1) y`, day.Format("20060102"))
	}
	names := func(text string) int { return strings.Count(text, "\n") }
	if got, want := indexes(day), indexes(time.Now().UTC()); names(got) != names(want) || names(got) < 5 {
		t.Errorf("the imported partition has the indexes\n%s\nand the partition of today has\n%s", got, want)
	}
	if n, err := keep(b); err != nil || n != 0 {
		t.Errorf("the imported partition is changed at once: %d, %v", n, err)
	}
}

// An export of an older version has no pools and no times of reports. It is imported without them, and the import counts no task again.
func TestExportOfOlderVersionIsImported(t *testing.T) {
	b, _ := withFolder(t)
	ids := createStories(b)
	figures := func() string {
		t.Helper()
		a, err := b.App.Statistics.Read(t.Context(), statistics.Query{From: time.Now().AddDate(0, 0, -9), Step: statistics.Day, By: statistics.BySender, Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(a.Series)
	}
	day := age(b, 3)
	counts, before := countsOf(b), figures()
	folder, err := b.App.History.Export(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	drop(b, day, true)
	path, manifest := filepath.Join(folder, "report_logs.csv.gz"), filepath.Join(folder, "manifest.json")
	older := regexp.MustCompile(`(?m),(?:pool_id,message_type,segments,entered_at,batch_id,country_no,is_test,lease_sign_mode,lease_sim|\d*,\d*,\d*,[0-9 :.+-]*,\d*,\w*,[tf],\w*,\d*)$`).ReplaceAllString(fileText(t, path), "")
	if strings.Contains(older, "entered_at") {
		t.Fatal(older)
	}
	was := sumOfFile(t, path)
	var text bytes.Buffer
	zip := gzip.NewWriter(&text)
	_, err = io.WriteString(zip, older)
	if err := errors.Join(err, zip.Close(), os.WriteFile(path, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, bytes.ReplaceAll(raw, []byte(was), []byte(sumOfFile(t, path))), 0o600); err != nil {
		t.Fatal(err)
	}
	if tasks, err := b.App.History.Import(t.Context(), folder); err != nil || tasks != 7 {
		t.Fatalf("%d tasks, %v", tasks, err)
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE pool_id IS NULL AND entered_at IS NULL AND outcome IS NOT NULL AND NOT is_test"); n != 7 {
		t.Errorf("%d tasks ended", n)
	}
	if got := apptest.Decode[api.TaskDetail](t, b.Expect(200, "", "GET", "/api/v1/sms/task/task_"+day.Format("20060102")+ids[0][13:], nil)); got.QueuedAt != nil || got.TotalSeconds != nil {
		t.Errorf("%+v", got)
	}
	if got := figures(); got != before || countsOf(b) != counts {
		t.Errorf("the import changed figures: %s, before %s", got, before)
	}
}

func sumOfFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// If rows are added after an export, the partition is exported again before it is dropped.
func TestRowsAddedAfterExportAreExportedBeforeDrop(t *testing.T) {
	b, dir := withFolder(t)
	ids := createStories(b)
	day := age(b, 3)
	if _, err := b.App.History.Export(t.Context(), day); err != nil {
		t.Fatal(err)
	}
	late := "task_" + day.Format("20060102") + ids[0][13:]
	b.Exec("INSERT INTO report_logs (task_id, company_id, app_id, event, effect) VALUES ($1, 1, 'app', 'reported', 'ignored')", late)
	drop(b, day, true)
	folders, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(folders) != 2 {
		t.Fatalf("exports: %v", folders)
	}
	if !strings.Contains(fileText(t, filepath.Join(folders[1], "report_logs.csv.gz")), "ignored") {
		t.Error("the second export lacks the late row")
	}
}

func fileText(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An export of several portions contains every row exactly once.
func TestExportOfSeveralPortionsContainsEveryRow(t *testing.T) {
	b, _ := withFolder(t)
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	b.Exec("SELECT task_partitions_ahead('day', $1::timestamptz, $1::timestamptz)", day)
	const n = 100_001
	b.Exec(`INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments)
		SELECT $1 || i, '1', '1', 'x', '', 1, 1, 1, 5, 1 FROM generate_series(1, $2::integer) i`, "task_"+day.Format("20060102")+"_", n)
	b.Exec("INSERT INTO report_logs (task_id, company_id, event, effect, outcome) SELECT task_id, 1, 'cancelled', 'cancelled', 4 FROM messages")
	folder, err := b.App.History.Export(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	drop(b, day, true)
	if tasks, err := b.App.History.Import(t.Context(), folder); err != nil || tasks != n {
		t.Fatalf("%d tasks, %v", tasks, err)
	}
	if got := b.Count("SELECT count(DISTINCT task_id) FROM tasks WHERE status = 4"); got != n {
		t.Errorf("%d tasks", got)
	}
}

// The settings decide when a partition becomes history, is exported and is dropped.
func TestSettingsDecideWhenPartitionsMoveAndDrop(t *testing.T) {
	b, dir := withFolder(t)
	day := age(b, 3)
	b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content, status) VALUES ($1, '', '', 'x', 2)", "task_"+day.Format("20060102")+"_settled")
	storage := func() api.Place {
		t.Helper()
		page := apptest.Decode[api.PartitionPage](t, b.Expect(200, "", "GET", "/api/v1/admin/history?limit=100", nil))
		for _, p := range page.Items {
			if p.FirstDay.Equal(day) {
				return p.Place
			}
		}
		return ""
	}
	expect := func(changed int, want api.Place) {
		t.Helper()
		if n, err := keep(b); err != nil || n != changed || storage() != want {
			t.Errorf("%d partitions changed, the partition is %s, %v; want %d and %s", n, storage(), err, changed, want)
		}
	}
	set(b, map[string]any{"after_days": 3, "keep_days": 0, "export": false})
	expect(0, api.PlaceRecent)
	set(b, map[string]any{"after_days": 2})
	expect(1, api.PlaceHistory)
	expect(0, api.PlaceHistory)
	set(b, map[string]any{"keep_days": 3})
	expect(0, api.PlaceHistory)
	if _, err := keep(b); err != nil || len(glob(t, dir)) != 0 {
		t.Errorf("exports: %v, %v", glob(t, dir), err)
	}
	set(b, map[string]any{"keep_days": 2})
	expect(1, api.PlaceDropped)
	expect(0, api.PlaceDropped)
	events := b.Count("SELECT count(*) FROM events WHERE event = 'partition.dropped' AND subject = $1", day.Format(time.DateOnly))
	if events != 1 || len(glob(t, dir)) != 0 {
		t.Errorf("%d events, exports %v", events, glob(t, dir))
	}
}

// A page of the task list shows which of its tasks are history. A task that is older than all partitions is not history.
func TestTaskListShowsWhichTasksAreHistory(t *testing.T) {
	b, _ := withFolder(t)
	day := age(b, 3).Format("20060102")
	for _, id := range []string{"20190101_1", day + "_1", day + "_2", day + "_3", time.Now().UTC().Format("20060102") + "_1"} {
		b.Exec("INSERT INTO tasks (task_id, phone_number, recipient, content, status) VALUES ('task_' || $1, '', '', 'x', 2)", id)
	}
	if n, err := keep(b); err != nil || n != 1 {
		t.Fatalf("%d partitions changed, %v", n, err)
	}
	for query, want := range map[string][]api.StorageOfItems{
		"limit=100": {{Place: api.PlaceRecent, Items: 1}, {Place: api.PlaceHistory, Items: 3}, {Place: api.PlaceRecent, Items: 1}},
		"limit=2":   {{Place: api.PlaceRecent, Items: 1}, {Place: api.PlaceHistory, Items: 1}},
		"status=0":  {},
	} {
		page := apptest.Decode[api.TaskPage](t, b.Expect(200, "", "GET", "/api/v1/sms/tasks?"+query, nil))
		if !slices.Equal(page.Places, want) || page.Places == nil {
			t.Errorf("%s: %v, want %v", query, page.Places, want)
		}
	}
}

func glob(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A server without an export folder does not drop a partition that must be exported.
func TestPartitionThatCannotBeExportedIsNotDropped(t *testing.T) {
	b := apptest.New(t)
	createStories(b)
	age(b, 3)
	set(b, map[string]any{"keep_days": 1})
	if n, err := keep(b); n != 0 || err == nil || !strings.Contains(err.Error(), "HISTORY_DIR") {
		t.Errorf("%d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 7 {
		t.Errorf("%d messages", n)
	}
}

// History moves to the configured tablespace with its indexes, and back. If the tablespace does not exist, no data is lost.
func TestHistoryMovesToConfiguredTablespace(t *testing.T) {
	b, _ := withFolder(t)
	createStories(b)
	day := age(b, 3)
	before := everything(b)
	admin, err := pgx.Connect(t.Context(), pgtest.Admin(t, b.Options.DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(context.Background()) })
	space := fmt.Sprintf("cold_%d", time.Now().UnixNano())
	for _, statement := range []string{
		"SET allow_in_place_tablespaces = on", "CREATE TABLESPACE " + space + " LOCATION ''", "GRANT CREATE ON TABLESPACE " + space + " TO PUBLIC",
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = admin.Exec(context.Background(), "DROP TABLESPACE "+space) }) // this fails if the test has failed
	moved := func() int {
		return b.Count(`SELECT count(*) FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace
			WHERE s.spcname = $1 AND c.relname LIKE '%' || $2 || '%'`, space, day.Format("20060102"))
	}
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"tablespace": "nowhere"}})
	b.Exec(`INSERT INTO settings (category, name, value) VALUES ('history', 'tablespace', '"nowhere"')`) // as if the tablespace had been dropped later
	set(b, map[string]any{"keep_days": 0})                                                               // makes the server read its settings again
	if _, err := keep(b); err == nil || !strings.Contains(err.Error(), `tablespace "nowhere" does not exist`) {
		t.Errorf("%v", err)
	}
	set(b, map[string]any{"tablespace": space})
	if n, err := keep(b); err != nil || n == 0 {
		t.Fatalf("%d, %v", n, err)
	}
	if n := moved(); n != 14 { // two tables, six indexes of messages, six of report_logs
		t.Errorf("%d tables and indexes moved", n)
	}
	for table, rows := range everything(b) {
		if rows != before[table] {
			t.Errorf("%s changed", table)
		}
	}
	set(b, map[string]any{"tablespace": "pg_default"})
	if _, err := keep(b); err != nil || moved() != 0 {
		t.Errorf("%d did not move back, %v", moved(), err)
	}
}

// An incomplete import changes nothing.
func TestIncompleteImportChangesNothing(t *testing.T) {
	b, _ := withFolder(t)
	createStories(b)
	day := age(b, 3)
	folder, err := b.App.History.Export(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(folder, text string) {
		t.Helper()
		if n, err := b.App.History.Import(t.Context(), folder); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("imported %d, %v; want %q", n, err, text)
		}
		if n := b.Count("SELECT count(*) FROM pg_class WHERE relname = 'messages_' || $1", day.Format("20060102")); n != 0 {
			t.Error("a table is left")
		}
	}
	if _, err := b.App.History.Import(t.Context(), folder); err == nil || !strings.Contains(err.Error(), "there are partitions for") {
		t.Errorf("twice: %v", err)
	}
	drop(b, day, true)
	refused(t.TempDir(), "manifest.json")
	change := func(name string, do func([]byte) []byte) string {
		t.Helper()
		other := t.TempDir()
		if err := os.CopyFS(other, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(other, name), do(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		return other
	}
	refused(change("report_logs.csv.gz", func(b []byte) []byte { return b[:len(b)-1] }), "the file was changed")
	manifest := func(edit func(*history.Manifest)) string {
		return change("manifest.json", func(raw []byte) []byte {
			var m history.Manifest
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			edit(&m)
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
	}
	refused(manifest(func(m *history.Manifest) { m.Format = 2 }), "format is 2")
	refused(manifest(func(m *history.Manifest) { m.Files = m.Files[:3] }), "files has 3 items")
	refused(manifest(func(m *history.Manifest) { m.Files[0].Name = "../" + m.Files[0].Name }), "path escapes")
	refused(manifest(func(m *history.Manifest) { m.Files[0], m.Files[1] = m.Files[1], m.Files[0] }), "files[0]")
	refused(manifest(func(m *history.Manifest) { m.Files[1].Rows++ }), "rows, not")
	refused(manifest(func(m *history.Manifest) { m.FirstDay, m.BeforeDay = "2020-01-01", "2020-01-02" }), "days")
	refused(manifest(func(m *history.Manifest) { m.FirstDay = "yesterday" }), "yesterday")
	if n, err := b.App.History.Import(t.Context(), folder); err != nil || n != 7 {
		t.Errorf("%d, %v", n, err)
	}
}

// Submissions continue while the DROP of a partition waits until a transaction that reads the partition ends.
func TestWaitingDropDoesNotBlockSubmissions(t *testing.T) {
	b, _ := withFolder(t)
	createStories(b)
	day := age(b, 3)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM messages"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- b.App.History.Drop(t.Context(), day, false) }()
	b.AwaitLockWait()
	b.Submit("meanwhile")
	select {
	case err := <-done:
		t.Fatalf("dropped under a reader: %v", err)
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A partition that can still receive tasks is neither exported nor dropped, and the error contains the reason. Its notifications remain.
func TestOpenPartitionIsNeitherExportedNorDropped(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	announcement := apptest.Scan[int64](b, "INSERT INTO announcements (payload, user_ids) VALUES ('{}', '{u}') RETURNING id")
	b.Exec(`INSERT INTO notifications (company_id, announcement_id, channel_id, biz_type, biz_id, ended_as, submitted_by, created_at)
		SELECT 1, $1, min(c.id), 0, 1, 3, '', $2 FROM channels c`, announcement, day)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for when, want := range map[time.Time]string{
		today: "can still arrive", day.AddDate(0, 0, -1): "no partition begins on this day",
	} {
		for name, err := range map[string]error{
			"drop": b.App.History.Drop(t.Context(), when, true), "lose": b.App.History.Drop(t.Context(), when, false),
			"export": failure(b.App.History.Export(t.Context(), when)),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), when.Format(time.DateOnly)) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if n := b.Count("SELECT count(*) FROM notifications WHERE forgotten_at IS NULL"); n != 1 || len(glob(t, dir)) != 0 {
		t.Errorf("%d notifications, exports %v", n, glob(t, dir))
	}
}

// A drop exports a partition again if the folder of the last export is missing or belongs to another server.
func TestDropExportsAgainIfExportFolderIsMissing(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	folder, err := b.App.History.Export(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	drop(b, day, true)
	if folders := glob(t, dir); len(folders) != 1 || folders[0] == folder {
		t.Errorf("exports: %v", folders)
	}
}

// A report that is stored during the drop of its partition exists again after the import.
func TestReportDuringDropIsRestoredByImport(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	id := apptest.Scan[string](b, "SELECT min(task_id) FROM messages")
	drop(b, day, true)
	b.Exec("INSERT INTO report_logs (task_id, company_id, app_id, event, effect) VALUES ($1, 1, 'late', 'reported', 'ignored')", id)
	if _, err := b.App.History.MakePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.History.Import(t.Context(), glob(t, dir)[0]); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE task_id = $1 AND app_id = 'late'", id); n != 1 ||
		b.Count("SELECT count(*) FROM report_logs_default") != 0 {
		t.Errorf("%d reports", n)
	}
}

// Sweeps that run during an import do not delete the rows that a drop has kept for these days.
func TestImportKeepsRowsThatDropKept(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	b.Exec(`WITH text AS (INSERT INTO renderings (title, content, template_id, params) VALUES ('', '', '', '{}') RETURNING id)
		UPDATE messages SET rendering_id = text.id FROM text`)
	day := age(b, 3)
	before := everything(b)
	drop(b, day, true)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ONLY report_logs IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- failure(b.App.History.Import(t.Context(), glob(t, dir)[0])) }()
	b.AwaitLockWait()
	for _, job := range []func(context.Context) (int, error){b.App.Submissions.DeleteExpired, b.App.Retention.DeleteUnusedTexts} {
		if _, err := job(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for table, rows := range everything(b) {
		if rows != before[table] {
			t.Errorf("%s:\n%s\nwant:\n%s", table, rows, before[table])
		}
	}
}

// An export fails if the partition is dropped meanwhile.
func TestExportFailsDuringDrop(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE deliveries"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- failure(b.App.History.Export(t.Context(), day)) }()
	b.AwaitLockWait()
	drop(b, day, false)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "dropped meanwhile") || len(glob(t, dir)) != 0 {
		t.Errorf("%v, exports %v", err, glob(t, dir))
	}
}

// S4.10: an erasure lists the exports that can contain the person because they read data before the end of the erasure. It does not list an export that began
// after the erasure ended, or that ended before the erasure began.
func TestErasureListsConcurrentExports(t *testing.T) {
	b, dir := withFolder(t)
	_, day := failLongAgo(b, 3)
	erase := func(user string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"user_id": user})
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	erase("before")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE deliveries"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- failure(b.App.History.Export(t.Context(), day)) }()
	b.AwaitLockWait()
	erase("ended")
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", `{"user_id":"running"}`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	erase("after")
	folder := filepath.Base(glob(t, dir)[0])
	if got, want := apptest.Scan[string](b, "SELECT string_agg(array_to_string(exports, ' '), ',' ORDER BY id) FROM erasures"), ","+folder+","+folder+","; got != want {
		t.Errorf("exports are %s, want %s", got, want)
	}
}

// A late task makes the service create a dropped partition again. The new partition is neither history nor exported.
func TestRecreatedPartitionIsNeitherHistoryNorExported(t *testing.T) {
	b, _ := withFolder(t)
	createStories(b)
	day := age(b, 3)
	if _, err := keep(b); err != nil {
		t.Fatal(err)
	}
	drop(b, day, true)
	insertMessages(b, "task_"+day.Format("20060102")+"_late")
	if _, err := b.App.History.MakePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT num_nulls(history_at, exported_at, exported_to, exported_messages, exported_reports, exported_late, dropped_at) "+
		"FROM task_partitions WHERE first_day = $1 AND imported_at IS NOT NULL", day); n != 7 {
		t.Errorf("%d columns of the past are null", n)
	}
	if got := apptest.Scan[string](b, "SELECT task_partition_drop($1, true)", day); got != "unexported" {
		t.Errorf("the drop without a new export returned %s", got)
	}
}

// An import waits for statements that already use one of the tables, because such a statement would see half of the import. Submissions continue.
func TestWaitingImportDoesNotBlockSubmissions(t *testing.T) {
	b, dir := withFolder(t)
	createStories(b)
	day := age(b, 3)
	drop(b, day, true)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ONLY report_logs IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- failure(b.App.History.Import(t.Context(), glob(t, dir)[0])) }()
	b.AwaitLockWait()
	b.Submit("meanwhile")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A dedup key of a single message or a batch stays reserved after its task was dropped. Other submitters can use the same key.
func TestDedupKeyOutlivesDroppedTask(t *testing.T) {
	b, _ := withFolder(t)
	createStories(b)
	day := age(b, 3)
	drop(b, day, true)
	again := map[string]any{"phone_number": apptest.Phone, "content": "plain", "dedup_key": "key 0"}
	b.Expect(409, "task.dropped", "POST", "/api/v1/sms/send", again)
	b.Expect(409, "task.dropped", "POST", "/api/v1/sms/send?dry_run=true", again)
	fresh := map[string]any{"phone_number": apptest.Phone, "content": "plain", "dedup_key": "key of today"}
	batch := b.Expect(200, "", "POST", "/api/v1/sms/send-batch", map[string]any{"messages": []any{again, fresh, again}})
	if got := batch.Raw; strings.Count(got, `"task.dropped"`) != 2 || strings.Count(got, `"code":409`) != 2 {
		t.Errorf("%s", got)
	}
	if n := b.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A notification disappears from lists when its tasks are dropped. Its dedup key still leads to the notification and its last state. A send-once message is not
// sent again.
func TestNotificationIsDeletedWithItsTasks(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	event := map[string]any{
		"event": "task_created", "task_id": 1001, "channels": []string{"dingtalk"}, "user_ids": []string{"u1", "u2"},
		"payload": map[string]any{"taskName": "n", "creatorName": "c", "createTime": "t"},
	}
	made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", event))
	id := made.Items[0].NotificationID
	b.AwaitNotification(id, api.NotificationSuccess)
	nameless := map[string]any{
		"biz_type": 0, "biz_id": 5, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"},
		"payload": map[string]any{"taskName": "n", "creatorName": "c", "createTime": "t"},
	}
	other := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", nameless)).Items[0].NotificationID
	b.AwaitNotification(other, api.NotificationSuccess)
	waiting := map[string]any{
		"biz_type": 0, "biz_id": 6, "channels": []string{"dingtalk"}, "user_ids": []string{"u1"}, "next_run_time": time.Now().Add(time.Hour),
		"payload": map[string]any{"taskName": "n", "creatorName": "c", "createTime": "t"},
	}
	later := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", waiting)).Items[0].NotificationID
	day := age(b, 3)
	drop(b, day, false)
	for _, gone := range []int64{id, other} {
		b.Expect(404, "notification.not_found", "GET", fmt.Sprintf("/api/v1/notifications/%d", gone), nil)
	}
	if page := apptest.Decode[api.NotificationPage](t, b.Expect(200, "", "GET", "/api/v1/notifications", nil)); len(page.Items) != 1 || page.Items[0].NotificationID != later {
		t.Errorf("%+v", page.Items)
	}
	sent := len(p.Seen())
	repeated := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications/events", event)).Items[0]
	if repeated.NotificationID != id || !repeated.Deduplicated || repeated.Status != api.NotificationSuccess || len(p.Seen()) != sent {
		t.Errorf("%+v", repeated)
	}
	if n, err := b.App.Retention.DeleteUnusedTexts(t.Context()); err != nil || n == 0 {
		t.Errorf("%d texts, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM renderings"); n != 0 {
		t.Errorf("%d renderings", n)
	}
	if n := b.Count("SELECT count(*) FROM announcements WHERE payload <> '{}'"); n != 1 || b.Count("SELECT count(*) FROM notifications") != 2 {
		t.Errorf("%d announcements with a text", n)
	}
}

// A notification that has ended is deleted with its first dropped task, because its state could not be computed any more. If a one-time notification is still
// being sent, its tasks are kept, because they record which people were reached.
func TestDropDeletesEndedNotificationsAndKeepsUnfinishedOnes(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	send := func(name string) int64 {
		made := apptest.Decode[api.NotificationsMade](t, b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
			"biz_type": 0, "biz_id": 5, "channels": []string{"dingtalk"}, "user_ids": []string{"u1", "u2"}, "dedup_key": name,
			"payload": map[string]any{"taskName": "n", "creatorName": "c", "createTime": "t"},
		}))
		b.AwaitNotification(made.Items[0].NotificationID, api.NotificationSuccess)
		return made.Items[0].NotificationID
	}
	ended, waits, repeats := send("ended"), send("waits"), send("repeats")
	day := age(b, 3)
	// The second task of each notification belongs to a later run on a later day.
	later := "task_" + time.Now().UTC().Format("20060102")
	second := `SELECT max(m.task_id) FROM messages m JOIN renderings r ON r.id = m.rendering_id WHERE r.notification_id = $1`
	for _, id := range []int64{ended, waits, repeats} {
		task := apptest.Scan[string](b, second, id)
		b.Exec(`WITH run AS (
				INSERT INTO renderings (notification_id, title, content, template_id, params)
				SELECT notification_id, title, content, template_id, params FROM renderings WHERE notification_id = $1 RETURNING id
			) UPDATE messages SET rendering_id = run.id FROM run WHERE task_id = $2`, id, task)
		for _, table := range []string{"messages", "report_logs", "deliveries"} {
			b.Exec(fmt.Sprintf("UPDATE %s SET task_id = $2 || substr(task_id, 14) WHERE task_id = $1", table), task, later)
		}
	}
	b.Exec("UPDATE notifications SET repeat_minutes = 60 WHERE id = $1", repeats)
	b.Exec("UPDATE notifications SET next_run_at = now() + interval '1 hour' WHERE id IN ($1, $2)", waits, repeats)
	drop(b, day, false)
	b.Expect(404, "notification.not_found", "GET", fmt.Sprintf("/api/v1/notifications/%d", ended), nil)
	b.Expect(200, "", "GET", fmt.Sprintf("/api/v1/notifications/%d", repeats), nil)
	if got := b.Notification(waits); got.People != 2 {
		t.Errorf("%+v", got)
	}
	b.Exec("UPDATE notifications SET next_run_at = NULL WHERE id = $1", waits)
	if _, err := b.App.History.MakePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	drop(b, day, false)
	b.Expect(404, "notification.not_found", "GET", fmt.Sprintf("/api/v1/notifications/%d", waits), nil)
}

// Logs are deleted at their configured age. The sums of the ledger are kept.
func TestOldLogsAreDeleted(t *testing.T) {
	b, _ := withFolder(t)
	b.AddSender(map[string]any{"sender_no": "app", "name": "a"})
	b.Expect(200, "", "POST", "/api/v1/admin/senders/app/balance", map[string]any{"change": 100})
	b.AddCompany("other", 1)
	b.SubmitMany("x", 10, nil)
	for _, task := range b.Claim("app", 10) {
		b.Report(task.TaskID, "app", 2, nil)
	}
	b.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": "x", "content": "refused"})
	ledger := func() string {
		return apptest.Scan[string](b, "SELECT sum(change) || ' ' || min(balance) || ' ' || count(*) || ' ' || count(lease_id) FROM sender_ledger")
	}
	run := func() {
		t.Helper()
		for _, job := range []func(context.Context) (int, error){b.App.Submissions.DeleteExpired, b.App.Alerts.DeleteExpired, b.App.Senders.SumUpLedger} {
			if _, err := job(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(b, map[string]any{"log_days": 30, "ledger_days": 30})
	run()
	if got := ledger(); got != "90 90 11 10" {
		t.Errorf("the ledger of today: %s", got)
	}
	age(b, 31)
	set(b, map[string]any{"log_days": 0, "ledger_days": 0})
	run()
	if n := b.Count("SELECT count(*) FROM fruitless_submissions"); n != 1 {
		t.Errorf("%d refused submissions", n)
	}
	set(b, map[string]any{"log_days": 30, "ledger_days": 30})
	run()
	if got := ledger(); got != "90 90 2 0" {
		t.Errorf("the ledger after ledger_days: %s", got)
	}
	if n := b.Count("SELECT count(*) FROM fruitless_submissions"); n != 0 {
		t.Errorf("%d refused submissions", n)
	}
	if n := b.Count("SELECT count(*) FROM events WHERE event = 'setting.changed' AND created_at < now() - interval '30 days'"); n != 0 {
		t.Errorf("%d old events", n)
	}
	page := b.Expect(200, "", "GET", "/api/v1/admin/senders/app/ledger", nil)
	if !strings.Contains(page.Raw, `"change":-10`) || !strings.Contains(page.Raw, `"balance":90`) {
		t.Errorf("%s", page.Raw)
	}
	reader := b.AddUser("reader of other", "read", map[string]any{"company_no": "other"})
	if page := b.Call("GET", "/api/v1/admin/senders/app/ledger", nil, reader...); page.Status == 200 && strings.Contains(page.Raw, `"change":-10`) {
		t.Errorf("a reader of another company sees %s", page.Raw)
	}
}

// After the task of a send-once message was dropped, its outcome is unknown. The message is not sent again.
func TestSendOnceMessageIsNotResentAfterTaskIsDropped(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	b.AwaitStatus(b.SendOnce(nil).TaskID, 2)
	day := age(b, 3)
	drop(b, day, false)
	b.Expect(409, "task.dropped", "POST", "/api/v1/subscribe-messages", apptest.SendOnceBody(nil))
	if n := apptest.SentToWeChat(p); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// The text of an unsent batch is kept, even if the text is old.
func TestTextOfUnsentBatchIsKept(t *testing.T) {
	b := apptest.New(t)
	b.Submit("x")
	b.Expect(200, "", "POST", "/api/v1/batches", map[string]any{
		"channel": "email", "name": "n", "subject": "{n}", "content": "x", "rows": []any{map[string]any{"email": "a@example.com", "n": "1"}},
	})
	b.Exec("INSERT INTO renderings (title, content) VALUES ('', 'of no task')")
	b.Exec("DELETE FROM queue")
	drop(b, age(b, 3), false)
	if n, err := b.App.Retention.DeleteUnusedTexts(t.Context()); err != nil || n != 1 {
		t.Errorf("%d texts, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM renderings r JOIN batches b ON b.rendering_id = r.id"); n != 1 {
		t.Errorf("%d texts of the batch are left", n)
	}
}
