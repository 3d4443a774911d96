package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"lksms/internal/postgres"
)

// olderTasks makes a task in each state, with the log rows that the version before store_facts_once wrote.
const olderTasks = `
	INSERT INTO senders (sender_no, name, sign, per_day, has_balance) VALUES ('s', 's', '通知', 100, true);
	INSERT INTO tasks (task_id, phone_number, recipient, content, submitted_by, dedup_key, source, created_at, updated_at, due_at, lane, rank) VALUES
		('task_20260101_1', '13800138000', '+8613800138000', 'waiting', 'u', 'k', 'shop', '2026-01-01', '2026-01-01', '2026-01-01', 160, 1);
	INSERT INTO tasks (task_id, phone_number, recipient, content, status, retry_count, processing_app_id, lease_id, lease_until, failed_app_id,
		result, created_at, updated_at, due_at, lane, rank, expires_at, sign) VALUES
		('task_20260102_2', '13800138000', '+8613800138000', 'leased', 1, 1, 's', 3, '2026-01-02', 's', 'busy', '2026-01-01', '2026-01-01 01:00', '2026-01-01 00:59', 161, 2, '2026-02-01', NULL),
		('task_3', '13800138000', '+8613800138000', 'taken back', 0, 1, NULL, 4, NULL, 'a', '处理超时', '2026-01-01', '2026-01-01 02:00', '2026-01-01 02:00', NULL, NULL, NULL, '店'),
		('task_4', '13800138000', '+8613800138000', 'sent', 2, 0, 's', 5, NULL, NULL, '发送成功', '2026-01-01', '2026-01-01 03:00', '2026-01-01', NULL, NULL, NULL, NULL),
		('task_5', '13800138000', '+8613800138000', 'exhausted', 3, 0, NULL, 6, NULL, NULL, '超过最大重试次数: x', '2026-01-01', '2026-01-01 04:00', '2026-01-01', NULL, NULL, NULL, NULL),
		('task_6', '13800138000', '+8613800138000', 'cancelled', 4, 0, NULL, NULL, NULL, NULL, NULL, '2026-01-01', '2026-01-01 05:00', '2026-01-01', NULL, NULL, NULL, NULL),
		('task_7', '', '', 'nobody', 3, 0, NULL, NULL, NULL, NULL, '收件人在该通道没有地址', '2026-01-01', '2026-01-01', '2026-01-01', NULL, NULL, NULL, NULL),
		('task_20260102_8', '13800138000', '+8613800138000', 'late', 2, 1, 'a', 7, NULL, NULL, '发送成功', '2026-01-01', '2026-01-01 07:00', '2026-01-01', NULL, NULL, NULL, NULL);
	INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until, created_at, updated_at, due_at) VALUES
		('task_9', '13800138000', '+8613800138000', 'C:\dir\', 1, 's', 8, '2026-01-02', '2026-01-01', '2026-01-01 08:00', '2026-01-01');
	UPDATE tasks SET rendering_id = 1 WHERE task_id = 'task_7';
	UPDATE tasks SET submitted_by = '' WHERE submitted_by IS NULL; -- which an upgrade does
	UPDATE tasks SET reported_at = updated_at WHERE status IN (2, 3);
	UPDATE tasks SET sent_at = updated_at WHERE status = 2;
	UPDATE tasks SET delivery = 1, delivery_code = 'DELIVRD', delivered_at = '2026-01-01 03:30' WHERE task_id = 'task_4';
	INSERT INTO receive_logs (request_id, task_id, phone_number, recipient, content, use_template, source_ip, user_agent, request_data, response_data, status_code, created_at)
		SELECT 'r' || task_id, task_id, phone_number, nullif(recipient, ''), CASE task_id WHEN 'task_5' THEN 'x=1' ELSE content END, false, '::1', 'test', '{}',
			jsonb_build_object('code', 200, 'message', 'success', 'data', jsonb_build_object('task_id', task_id, 'status', 0,
				'final_content', coalesce('【' || sign || '】', '') || content)), 200, created_at FROM tasks;
	INSERT INTO receive_logs (request_id, task_id, content, response_data, status_code) VALUES
		('again', 'task_20260101_1', 'waiting', '{"code": 200, "data": {"task_id": "task_1", "deduplicated": true}}', 200), ('no', NULL, 'x', '{"code": 422}', 422);
	INSERT INTO send_logs (id, task_id, app_id, phone_number, content, attempt, lease_until, created_at, segments, request_data, response_data)
		SELECT l.id, t.task_id, l.app_id, t.phone_number, coalesce('【' || coalesce(t.sign, l.sign) || '】', '') || t.content, l.attempt, '2026-01-02'::timestamptz,
			l.at::timestamptz, l.segments, jsonb_build_object('app_id', l.app_id, 'limit', 10),
			jsonb_build_object('lease_id', l.id, 'attempt', l.attempt, 'lease_until', '2026-01-02'::timestamptz)
		FROM (VALUES (2, 'task_20260102_2', 's', '通知', 1, '2026-01-01 00:30', 1), (3, 'task_20260102_2', 's', '通知', 2, '2026-01-01 01:00', 1),
			(4, 'task_3', 'a', NULL, 1, '2026-01-01 01:30', NULL), (5, 'task_4', 's', NULL, 1, '2026-01-01 02:30', 1),
			(6, 'task_5', 'a', NULL, 1, '2026-01-01 03:30', NULL), (7, 'task_20260102_8', 'a', NULL, 1, '2026-01-01 06:00', NULL), (8, 'task_9', 's', '通知', 1, '2026-01-01 08:00', 1)
		) AS l (id, task_id, app_id, sign, attempt, at, segments) JOIN tasks t USING (task_id);
	INSERT INTO report_logs (task_id, app_id, lease_id, event, status, effect, error_message, created_at) VALUES
		('task_20260102_2', 's', 2, 'reported', 3, 'retry', 'busy', '2026-01-01 00:40'), ('task_3', 'a', 4, 'recovered', NULL, 'retry', NULL, '2026-01-01 02:00'),
		('task_4', 's', 5, 'reported', 2, 'success', NULL, '2026-01-01 03:00'), ('task_4', 's', NULL, 'receipt', NULL, 'delivered', NULL, '2026-01-01 03:30'),
		('task_4', 's', 5, 'reported', 2, 'ignored', NULL, '2026-01-01 03:40'), ('task_5', 'a', 6, 'reported', 3, 'exhausted', 'x', '2026-01-01 04:00'),
		('task_6', NULL, NULL, 'cancelled', NULL, 'cancelled', NULL, '2026-01-01 05:00'),
		('task_20260102_8', 'a', 7, 'recovered', NULL, 'retry', NULL, '2026-01-01 06:30'), ('task_20260102_8', 'a', 7, 'reported', 2, 'success', NULL, '2026-01-01 07:00');
	INSERT INTO report_logs (task_id, app_id, lease_id, event, effect, created_at) SELECT 'task_3', 'a', NULL, 'released', 'troubled', '2026-01-01' FROM generate_series(1, 50);
	INSERT INTO receive_logs (task_id, content, response_data, status_code) VALUES ('deleted', 'x', '{"code": 200}', 200);
	INSERT INTO report_logs (task_id, app_id, event, effect) VALUES ('deleted', 'a', 'reported', 'ignored');
	INSERT INTO sender_ledger (sender_id, change, balance, lease_id) SELECT id, -1, 0, 3 FROM senders`

// facts returns each table as text, without what an upgrade drops: the place in the queue of tasks that are settled.
func facts(t *testing.T, db *postgres.DB) map[string]string {
	t.Helper()
	var isOlder bool
	if err := db.Pool().QueryRow(t.Context(), "SELECT to_regclass('task_totals') IS NULL").Scan(&isOlder); err != nil {
		t.Fatal(err)
	}
	counts := "SELECT * FROM task_totals"
	if isOlder {
		counts = `SELECT company_id, sum(pending_new) AS pending_new, sum(pending_retry) AS pending_retry, sum(processing) AS processing,
			sum(success) AS success, sum(failed) AS failed FROM task_count_changes GROUP BY company_id`
	}
	all := map[string]string{}
	for table, key := range map[string]string{"tasks": "task_id", "receive_logs": "id", "send_logs": "id", "report_logs": "id", "counts": "company_id"} {
		columns := map[string]string{
			"tasks":       "to_jsonb(t) - '{lane,rank,failed_app_id,batch_id,sender_no}'::text[] || CASE WHEN status < 2 THEN jsonb_build_object('lane', lane, 'rank', rank, 'failed', failed_app_id) ELSE '{}' END",
			"report_logs": "jsonb_build_object('id', id, 'task', task_id, 'app', app_id, 'lease', lease_id, 'event', event, 'status', status, 'effect', effect, 'error', error_message, 'at', created_at)",
		}[table]
		if columns == "" {
			columns = "to_jsonb(t)"
		}
		from := map[string]string{"report_logs": "report_logs t WHERE event <> 'unreachable'", "counts": "(" + counts + ") t"}[table]
		if from == "" {
			from = table + " t"
		}
		rows, err := db.Pool().Query(t.Context(), "SELECT ("+columns+")::text FROM "+from+" ORDER BY "+key)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			all[table] += line + "\n"
		}
	}
	return all
}

// The migrations that store facts once lose nothing: the views show what the tables held, and the tables come back when they are undone.
func TestTheMigrationThatStoresFactsOnceKeepsThem(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261123000101")
	if _, err := db.Pool().Exec(t.Context(), olderTasks); err != nil {
		t.Fatal(err)
	}
	before := facts(t, db)
	compare := func(when string) {
		t.Helper()
		after := facts(t, db)
		for table, was := range before {
			if after[table] != was {
				t.Errorf("%s %s:\n%swas:\n%s", table, when, after[table], was)
			}
		}
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	compare("after the upgrade")
	var days int
	if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM generate_series(0, 7) d JOIN task_partitions p
		ON (now() AT TIME ZONE 'UTC')::date + d >= p.first_day AND (now() AT TIME ZONE 'UTC')::date + d < p.last_day`).Scan(&days); err != nil || days < 7 {
		t.Errorf("after the upgrade, %d of the next 8 days have partitions, %v", days, err)
	}
	var outside int
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM messages_default WHERE task_id LIKE 'task\\_2%'").Scan(&outside); err != nil || outside != 0 {
		t.Errorf("%d tasks are in no partition of their day, %v", outside, err)
	}
	var keys, queued, company, troubles int
	if err := db.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM dedup_keys WHERE task_id = 'task_20260101_1' AND dedup_key = 'k'), (SELECT count(*) FROM queue),
		(SELECT company_id FROM sender_ledger), (SELECT troubles FROM queue WHERE task_id = 'task_3')`).Scan(&keys, &queued, &company, &troubles); err != nil ||
		keys != 1 || queued != 4 || company != 1 || troubles != 20 {
		t.Errorf("%d dedup keys, %d queued tasks, the ledger names company %d, %d troubles, %v", keys, queued, company, troubles, err)
	}
	migrateBefore(t, url, "20261123000101")
	compare("after the upgrade was undone")
}

// A server of the version before that still runs would see notifications without their tasks, and end them as failed. It would fold facts without
// their new columns.
func TestUpgradesRefuseToRunBesideServersOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	const move, measure = "20261123000101", "20261124000103"
	for name, c := range map[string]struct{ before, more string }{
		"move of tasks, usual name": {move, ""}, "move of tasks, name of the URL": {move, "&application_name=server-1"}, "new facts": {measure, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, db := migratedBefore(t, c.before)
			url += c.more
			server, err := postgres.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if err := server.Pool().Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n, err := postgres.MigrateUp(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "stop all servers") {
				t.Fatalf("%d migrations were applied beside a server: %v", n, err)
			}
			var isApplied bool
			if err := db.Pool().QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM schema_migrations WHERE version >= $1)", c.before).Scan(&isApplied); err != nil || isApplied {
				t.Errorf("the refused upgrade changed the database: %v", err)
			}
			// A session that was told to end is still listed for a moment.
			if _, err := db.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name <> 'test' AND backend_type = 'client backend'`); err != nil {
				t.Fatal(err)
			}
			if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
				t.Errorf("after the server stopped: %v", err)
			}
		})
	}
}

// The session of a killed process may still move a portion when the upgrade is started again.
func TestTheMoveOfTasksWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261123000101")
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status) VALUES ('task_1', '', '', 'x', 2), ('task_2', '', '', 'x', 2);
		INSERT INTO send_logs (task_id, app_id, phone_number, content, attempt, lease_until) VALUES ('deleted', 'a', '', 'x', 1, now())`)
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(20261123000103)"); err != nil {
		t.Fatal(err)
	}
	moved := make(chan error, 1)
	go func() {
		_, err := postgres.MigrateUp(t.Context(), url, nil)
		moved <- err
	}()
	for isWaiting := false; !isWaiting; {
		select {
		case err := <-moved:
			t.Fatalf("the move did not wait: %v", err)
		default:
		}
		if err := db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&isWaiting); err != nil {
			t.Fatal(err)
		}
	}
	// The one before commits its portion.
	if _, err := tx.Exec(t.Context(), `INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments)
		VALUES ('task_1', '', '', 'x', '', 1, 1, 1, 5, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	var tasks, leases int
	if err := db.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM report_logs WHERE task_id = 'deleted')").Scan(&tasks, &leases); err != nil ||
		tasks != 2 || leases != 1 {
		t.Errorf("%d tasks and %d leases of the deleted task were moved, %v", tasks, leases, err)
	}
}

// A move that is interrupted goes on where it was.
func TestAnInterruptedMoveGoesOn(t *testing.T) {
	t.Parallel()
	url, db := migratedBefore(t, "20261123000101")
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status) SELECT 'task_' || lpad(i::text, 6, '0'), '', '', 'x', 2 FROM generate_series(1, 45000) i;
		INSERT INTO receive_logs (status_code) SELECT 422 FROM generate_series(1, 10);
		ALTER TABLE report_logs DROP CONSTRAINT report_logs_event_known;
		INSERT INTO report_logs (task_id, event, effect) VALUES ('task_030000', 'unheard of', 'success');
		ANALYZE tasks`)
	if text, err := postgres.PendingUpgrade(t.Context(), url); err != nil || !strings.Contains(text, "about 45000 tasks") {
		t.Errorf("before: %q, %v", text, err)
	}
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "report_logs_event_known") {
		t.Fatalf("the migration did not fail: %v", err)
	}
	var moved int
	count := func(sql string) int {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), sql).Scan(&moved); err != nil {
			t.Fatal(err)
		}
		return moved
	}
	if n := count("SELECT count(*) FROM messages"); n != 20000 {
		t.Errorf("%d tasks were moved", n)
	}
	if text, err := postgres.PendingUpgrade(t.Context(), url); err != nil || text == "" {
		t.Errorf("after the interruption: %q, %v", text, err)
	}
	exec("UPDATE old_report_logs SET event = 'reported'")
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if n := count("SELECT count(*) FROM tasks WHERE status = 2"); n != 45000 {
		t.Errorf("%d tasks are there", n)
	}
	if n := count("SELECT count(*) FROM receive_logs WHERE task_id IS NULL"); n != 10 {
		t.Errorf("%d refused submissions are there", n)
	}
	if n := count("SELECT sum(success) FROM task_totals"); n != 45000 {
		t.Errorf("%d tasks are counted", n)
	}
	if text, err := postgres.PendingUpgrade(t.Context(), url); err != nil || text != "" {
		t.Errorf("afterwards: %q, %v", text, err)
	}
}

// The migration to one stream of facts keeps what was counted, folded or not, and so does its undoing.
func TestTheMigrationToOneStreamOfFactsKeepsAllFigures(t *testing.T) {
	t.Parallel()
	const version = "20261123000201"
	url, db := migratedBefore(t, version)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	figures := func(counts, senders string) (text string) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), `SELECT (SELECT string_agg(c::text, ' ' ORDER BY c) FROM (`+counts+`) c) || ' ' ||
			(SELECT string_agg(s::text, ' ' ORDER BY s) FROM (`+senders+`) s)`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	const older = `SELECT company_id, sum(pending_new), sum(pending_retry), sum(processing), sum(success), sum(failed) FROM task_count_changes GROUP BY 1`
	const totals = "SELECT company_id, pending_new, pending_retry, processing, success, failed FROM task_totals"
	exec(`INSERT INTO senders (sender_no, name, time_zone) VALUES ('s', 's', 'Asia/Shanghai'), ('idle', 'idle', 'UTC');
		INSERT INTO sender_states (sender_id, attempts, succeeded, failed, response_ms, attempts_on, attempts_today, seen_at)
			SELECT id, 100, 90, 5, 9000, '2026-01-01', 7, '2026-01-01 12:00+08' FROM senders WHERE sender_no = 's';
		INSERT INTO sender_states (sender_id) SELECT id FROM senders WHERE sender_no = 'idle';
		INSERT INTO sender_changes (sender_no, sent, succeeded, failed, response_ms, at) VALUES
			('s', 3, 0, 0, 0, '2026-01-01 15:00Z'), ('s', 2, 0, 0, 0, '2026-01-01 16:30Z'), ('s', 0, 2, 1, 300, '2026-01-01 17:00Z'), ('s', 0, 0, 1, 50, '2026-01-01 18:00Z'),
			('nobody', 1, 0, 0, 0, '2026-01-01 18:00Z');
		INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed) VALUES (1, 9, 1, 2, 7, 3), (1, -4, 0, 4, 0, 0), (2, 1, 0, 0, 0, 0)`)
	counts := figures(older, "SELECT 1")
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if now := figures(totals, "SELECT 1"); now != counts {
		t.Errorf("the counts are %s, want %s", now, counts)
	}
	// In Shanghai the second claim is of the next day; claims that are folded together count for it.
	const want = "(1) (idle,0,0,0,0,,,0) (s,105,92,7,9350,t,2026-01-02,5)"
	const senders = `SELECT s.sender_no, u.attempts, u.succeeded, u.failed, u.response_ms,
			(u.seen_at, u.sent_at) = ('2026-01-01 18:00Z', '2026-01-01 17:00Z') AS times, st.attempts_on, st.attempts_today
		FROM sender_totals u JOIN senders s ON s.id = u.sender_id JOIN sender_states st ON st.sender_id = s.id`
	if now := figures("SELECT 1", senders); now != want {
		t.Errorf("the senders are %s, want %s", now, want)
	}
	exec(`INSERT INTO facts (company_id, sender_no, at, processing, leases) VALUES (2, 's', '2026-01-02 00:00Z', 1, 1);
		INSERT INTO facts (company_id, at, pending_new) VALUES (2, '2026-01-02 00:00Z', -1), (3, '2026-01-02 00:00Z', 5);
		INSERT INTO facts (company_id, sender_no, at, success, reported_success, response_ms) VALUES (2, 's', '2026-01-02 00:01Z', 1, 1, 60)`)
	counts = figures(totals, "SELECT 1")
	migrateBefore(t, url, version)
	if now := figures(older, "SELECT 1"); now != counts {
		t.Errorf("undone, the counts are %s, want %s", now, counts)
	}
	if now := figures("SELECT 1", "SELECT sender_no, sum(sent), sum(succeeded), sum(failed), sum(response_ms), count(*) FROM sender_changes GROUP BY 1"); now != "(1) (s,1,1,0,60,2)" {
		t.Errorf("undone, the changes of senders are %s", now)
	}
}

// The migration that measures waits keeps the facts that are not folded, and waiting tasks, which have no time of entry. A claim of such a task is
// counted, without a wait. Its undoing keeps all counts.
func TestTheMigrationThatMeasuresWaitsKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	const version = "20261124000101"
	url, db := migratedBefore(t, version)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	text := func(sql string) (text string) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	const totals = "SELECT string_agg(t::text, ' ' ORDER BY t) FROM task_totals t"
	exec(`INSERT INTO facts (company_id, sender_no, at, success, failed) VALUES (7, 's', now(), 2, 1);
		INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content) VALUES
			('task_1', 1, 1, 1, 5, 1, '1', '1', 'x'), ('task_2', 1, 1, 1, 5, 1, '1', '1', 'x')`)
	before := text(totals)
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if now := text(totals); now != before {
		t.Errorf("the counts are %s, want %s", now, before)
	}
	if got := text("SELECT count(*) || ' ' || count(entered_at) || ' ' || count(*) FILTER (WHERE was_claimed) FROM queue"); got != "2 0 0" {
		t.Errorf("waiting tasks, with a time, claimed before: %s", got)
	}
	if got := text("SELECT (SELECT count(*) FROM pools) - (SELECT count(*) FROM pool_channels) || ' ' || (SELECT string_agg(channel, ' ') FROM pool_channels WHERE pool_id = 1)"); got != "0 sms" {
		t.Errorf("channels of pools: %s", got)
	}
	exec("UPDATE queue SET processing_app_id = 's', lease_id = 1, lease_until = now() + interval '1 minute', updated_at = now() WHERE task_id = 'task_1'")
	if got := text("SELECT sum(leases) || ' ' || count(waits) FROM facts"); got != "1 0" {
		t.Errorf("leases and waits: %s", got)
	}
	before = text(totals)
	migrateBefore(t, url, version)
	exec("INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content) VALUES ('task_3', 1, 9, 1, 5, 1, '1', '1', 'x')")
	exec("DELETE FROM queue WHERE task_id = 'task_3'")
	exec("DELETE FROM facts WHERE company_id = 9")
	if now := text(totals); now != before {
		t.Errorf("undone, the counts are %s, want %s", now, before)
	}
}

// The migrations that add dimensions keep the facts that are not folded, and tasks that wait, are leased or have ended: they are of no batch. The
// migration cannot run beside a server of the version before, which would fold facts without their batch. Their undoing keeps all counts, and a task
// that was held is due again.
func TestTheMigrationsThatAddDimensionsKeepWhatIsThere(t *testing.T) {
	t.Parallel()
	const version = "20261124100101"
	url, db := migratedBefore(t, version)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	text := func(sql string) (text string) {
		t.Helper()
		if err := db.Pool().QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	exec(`INSERT INTO messages (task_id, phone_number, recipient, content, submitted_by, company_id, pool_id, message_type, priority, segments, is_test)
			SELECT 'task_' || i, '1', '1', 'x', '', 1, 1, 1, 5, 1, true FROM generate_series(1, 3) i;
		INSERT INTO queue (task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content) VALUES
			('task_1', 1, 1, 1, 5, 1, '1', '1', 'x'), ('task_2', 1, 1, 1, 5, 1, '1', '1', 'x');
		INSERT INTO report_logs (task_id, company_id, event, effect, outcome) VALUES ('task_3', 1, 'reported', 'failed', 3)`)
	const totals = "SELECT string_agg(t::text, ' ' ORDER BY t) FROM task_totals t"
	const states = "SELECT string_agg(task_id || ' ' || status || ' ' || is_test, ',' ORDER BY task_id) FROM tasks"
	counts, tasks := text(totals), text(states)
	exec("SET application_name = 'lksms'")
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "stop all servers") {
		t.Errorf("beside a server: %v", err)
	}
	exec("SET application_name = 'test'")
	if _, err := postgres.MigrateUp(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	if got := text("SELECT count(*) || ' ' || count(batch_id) || ' ' || count(*) FILTER (WHERE is_test) FROM facts"); got != "2 0 0" {
		t.Errorf("facts, of a batch, of tests: %s", got)
	}
	exec(`UPDATE queue SET due_at = held_due_at() WHERE task_id = 'task_1';
		UPDATE queue SET processing_app_id = 's', lease_id = 1, lease_until = now() + interval '1 minute' WHERE task_id = 'task_2';
		UPDATE queue SET processing_app_id = NULL, lease_id = NULL, lease_until = NULL WHERE task_id = 'task_2'`)
	if now := text(totals); now != counts {
		t.Errorf("the counts are %s, want %s", now, counts)
	}
	if now := text(states); now != tasks || text("SELECT count(due_at)::text FROM tasks") != "2" {
		t.Errorf("the tasks are %s, want %s", now, tasks)
	}
	migrateBefore(t, url, version)
	if now := text(totals); now != counts {
		t.Errorf("undone, the counts are %s, want %s", now, counts)
	}
	if now := text(states); now != tasks || text("SELECT count(*)::text FROM queue WHERE due_at <= now()") != "2" {
		t.Errorf("undone, the tasks are %s, want %s", now, tasks)
	}
}

// Statements of servers that still run lock these tables in the other order than the migrations stand in. A migration that held the lock of one while
// it waited for the other would end in a deadlock.
func TestMigrationsBesideServersLockOneTableAtATime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ version, first, second string }{
		{"20261124000101", "report_logs", "queue"},
		{"20261124000101", "pools", "facts"},
		{"20261124000501", "subscribe_messages", "report_logs"},
		{"20261124000601", "queue", "messages"},
	} {
		t.Run(c.first+" before "+c.second, func(t *testing.T) {
			t.Parallel()
			url, db := migratedBefore(t, c.version)
			tx, err := db.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			if _, err := tx.Exec(t.Context(), "LOCK TABLE "+c.first+" IN ROW EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			migrated := make(chan error, 1)
			go func() {
				_, err := postgres.MigrateUp(t.Context(), url, nil)
				migrated <- err
			}()
			for isWaiting := false; !isWaiting; {
				if err := db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND NOT granted
					AND relation = $1::text::regclass)`, c.first).Scan(&isWaiting); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Exec(t.Context(), "LOCK TABLE "+c.second+" IN ROW EXCLUSIVE MODE"); err != nil {
				t.Errorf("a statement beside the migration: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-migrated; err != nil {
				t.Error(err)
			}
		})
	}
}
