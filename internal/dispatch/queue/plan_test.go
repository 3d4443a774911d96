package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/pgtest"
)

// fill returns a statement that inserts 100,000 tasks into the queue. columns and values extend the columns and values of the statement.
func fill(columns, values string) string {
	return fmt.Sprintf(`INSERT INTO queue (
			task_id, pool_id, company_id, message_type, priority, segments, phone_number, recipient, content%s
		) SELECT 'b' || i, 1, 1, 1, 5, 1, '', '', 'x'%s FROM generate_series(1, 100000) i;`, columns, values)
}

// vacuumed makes the planner estimate that each page of the queue is empty.
var vacuumed = fill("", "") + "DELETE FROM queue; VACUUM (TRUNCATE false) queue;"

// tables contains statements that make the planner's estimates of the queue much too low or much too high.
var tables = map[string]string{
	"new":                               "",
	"a backlog that was never analysed": fill("", ""),
	"retries that are not due":          fill(", retry_count, due_at", ", 1 + i % 3, now() + interval '1 hour'") + "ANALYZE queue",
	"finished since it was analysed":    fill("", "") + "ANALYZE queue; DELETE FROM queue; VACUUM queue",
	"emptied after it was analysed":     fill("", "") + "ANALYZE queue; TRUNCATE queue",
	"a backlog that the statistics do not know": fill(", processing_app_id, lease_id, lease_until", ", 'app', i, now()") +
		"ANALYZE queue; TRUNCATE queue;" + fill(", lane, rank", ", 160, i"),
	"leases that came after a vacuum found no task":    vacuumed + fill(", processing_app_id, lease_id, lease_until", ", 'app', i, now() + interval '1 day'"),
	"retries that came after a vacuum found no task":   vacuumed + fill(", retry_count, due_at", ", 1, now() + interval '1 day'"),
	"a backlog that came after a vacuum found no task": vacuumed + fill(", lane, rank", ", 320, i"),
	"a backlog of flows that alternate":                vacuumed + fill(", lane, rank, flow_rank, submitted_by", ", 32, i, i - 0.5, i % 100"),
	"a backlog in quiet hours":                         fill(", lane, rank, quiet_from", ", 288, i, now()"),
	"a backlog that was analysed when empty":           "ANALYZE queue;" + fill(", created_at", ", now() - interval '1 day'"),
}

// For any estimates of the planner, the statements of dispatch walk the indexes of the queue and read rows by key. They never read a whole table. They read
// only the part of an index that they need.
func TestPlansDoNotDependOnStatistics(t *testing.T) {
	t.Parallel()
	for name, prepare := range tables {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				url := pgtest.New(t)
				prepareTable(t, url, mode, prepare)
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(t.Context())
				before := readsOf(t, conn)
				runDispatch(t, url)
				after := readsOf(t, conn)
				for table, reads := range after {
					if scans := reads.scans - before[table].scans; scans != 0 {
						t.Errorf("%s was read as a whole %d times", table, scans)
					}
					if rows := reads.rows - before[table].rows; rows > 20_000 { // the table has 100,000 rows, of which queries with limits read 5,010, and claims in quiet hours 1,000 each
						t.Errorf("%d rows of %s were read through its indexes", rows, table)
					}
				}
			})
		}
	}
}

// prepareTable runs prepare in a separate session. Later sessions plan in mode.
func prepareTable(t *testing.T, url, mode, prepare string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range append([]string{
		fmt.Sprintf("ALTER DATABASE %s SET plan_cache_mode = %s", conn.Config().Database, mode),
		"ALTER TABLE queue SET (autovacuum_enabled = false)",
		`INSERT INTO senders (sender_no, name, per_day) VALUES ('paced', 'paced', 1000000); INSERT INTO sender_states (sender_id) SELECT id FROM senders;
			INSERT INTO pools (channel_id, company_id, message_type) VALUES (1, 1, 2); INSERT INTO routes (pool_id, sender_id) SELECT 2, id FROM senders`,
	}, split(prepare)...) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		// While autovacuum analyses a catalog, it can hold a snapshot that prevents the removal of dead rows.
		for dead := 1; dead > 0 && strings.Contains(sql, "VACUUM"); {
			if err := conn.QueryRow(t.Context(), "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'queue'").Scan(&dead); err != nil {
				t.Fatal(err)
			}
			if dead > 0 {
				if _, err := conn.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// split returns the statements one by one, because VACUUM must run alone.
func split(sql string) []string {
	return slices.DeleteFunc(strings.Split(sql, ";"), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// expireLeases ends leases by their ids, so that no other row is read.
func expireLeases(t *testing.T, db *postgres.DB, rows []claim.Lease) {
	t.Helper()
	err := db.Tx(t.Context(), func(ctx context.Context) error {
		if _, err := db.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		for _, row := range rows {
			if _, err := db.Exec(ctx, "UPDATE queue SET lease_until = now() WHERE task_id = $1 AND coalesce(lease_until, 'infinity') < 'infinity'", row.TaskID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runDispatch runs every statement of dispatch three times. When it returns, its sessions have ended.
func runDispatch(t *testing.T, url string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, submissions := newServices(db, setting.Rules{MaxRetryCount: 3, ProcessingTimeout: time.Hour, RetryMaxWait: time.Minute})
	defer s.Close()
	for round := range int64(3) {
		batch := 1 + round
		submitTasks(t, db, submissions, batch)
		holdBatch(t, db, s, batch)
		if _, err := s.CloseGaps(t.Context()); err != nil {
			t.Fatal(err)
		}
		claimAndReport(t, db, s)
		changeWaitingTasks(t, db)
		claimPaced(t, db, s)
		readQueue(t, db)
	}
}

// submitTasks submits ten tasks, the last of which belongs to a batch.
func submitTasks(t *testing.T, db *postgres.DB, submissions *submit.Service, batch int64) {
	t.Helper()
	for i := range 10 {
		ofBatch := int64(0)
		if i == 9 {
			ofBatch = batch
		}
		made, err := submissions.Submit(t.Context(), submit.Submission{PhoneNumber: "13800138000", Content: "x", Raw: []byte("{}"), BatchID: ofBatch},
			submit.Origin{User: fmt.Sprint(batch, i), CompanyID: access.DefaultCompany})
		if err == nil {
			err = claim.Dispatch(t.Context(), db, func(q *dispatchq.Queries) error {
				_, err := q.TaskAhead(t.Context(), dispatchq.TaskAheadParams{TaskID: made.TaskID, MaxTasks: 3})
				return err
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// holdBatch holds and releases the task of a batch.
func holdBatch(t *testing.T, db *postgres.DB, s *queue.Service, batch int64) {
	t.Helper()
	setBatchStatus(t, db, batch, "paused")
	if n, err := s.HoldBatch(t.Context(), batch); err != nil || n != 1 {
		t.Fatalf("held %d, %v", n, err)
	}
	setBatchStatus(t, db, batch, "running")
	if n, err := s.ReleaseBatch(t.Context(), batch); err != nil || n != 1 {
		t.Fatalf("released %d, %v", n, err)
	}
}

// setBatchStatus adds a batch with a status, or changes its status.
func setBatchStatus(t *testing.T, db *postgres.DB, id int64, status string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), `INSERT INTO batches
			(id, company_id, submitted_by, name, message_type, phone_column, content, dedup, request_id, source_ip, user_agent, status)
		OVERRIDING SYSTEM VALUE VALUES ($1, 1, '', 'n', 2, '', 'x', 'none', '', '', '', $2)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status`, id, status); err != nil {
		t.Fatal(err)
	}
}

// claimAndReport claims ten tasks, reports six of them, releases one, and recovers the leases of the remaining three.
func claimAndReport(t *testing.T, db *postgres.DB, s *queue.Service) {
	t.Helper()
	rows, err := s.Claim(t.Context(), claim.Request{SenderNo: "app", Limit: 10})
	if err != nil || len(rows) != 10 {
		t.Fatalf("claimed %d, %v", len(rows), err)
	}
	var reports []queue.Report
	for i, row := range rows[:6] {
		reports = append(reports, queue.Report{
			TaskID: row.TaskID, SenderNo: "app", Status: int16(2 + i%2), ShouldRetry: i%4 == 1, Raw: []byte("{}"),
		})
	}
	if _, err := s.ReportAll(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Release(t.Context(), "app", []queue.Unused{{TaskID: rows[8].TaskID, LeaseID: rows[8].LeaseID, Tried: true}}); err != nil || n != 1 {
		t.Fatalf("released %d, %v", n, err)
	}
	expireLeases(t, db, rows)
	if n, err := s.Recover(t.Context()); err != nil || n != 3 { // each lease without a report or a release has expired
		t.Fatalf("recovered %d, %v", n, err)
	}
}

// changeWaitingTasks runs the jobs that queue, move, age and expire tasks.
func changeWaitingTasks(t *testing.T, db *postgres.DB) {
	t.Helper()
	if err := claim.Dispatch(t.Context(), db, func(q *dispatchq.Queries) error {
		wait := time.Hour
		_, err := q.TaskQueue(t.Context(), dispatchq.TaskQueueParams{BatchSize: 10, PriorityMaxWait: &wait, AgedPriority: 2})
		if err == nil {
			_, err = q.TaskMove(t.Context(), dispatchq.TaskMoveParams{BatchSize: 10})
		}
		if err == nil {
			_, err = q.TaskAge(t.Context(), dispatchq.TaskAgeParams{BatchSize: 10, RetryMaxWait: &wait, PriorityMaxWait: &wait, AgedPriority: 2})
		}
		if err == nil {
			_, err = q.TaskExpire(t.Context(), dispatchq.TaskExpireParams{BatchSize: 10})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// claimPaced claims three tasks for a sender with a limit, and recovers their leases.
func claimPaced(t *testing.T, db *postgres.DB, s *queue.Service) {
	t.Helper()
	rows, err := s.Claim(t.Context(), claim.Request{SenderNo: "paced", Limit: 3})
	if err != nil || len(rows) != 3 {
		t.Fatalf("claimed %d, %v", len(rows), err)
	}
	expireLeases(t, db, rows)
	if n, err := s.Recover(t.Context()); err != nil || n != 3 {
		t.Fatalf("recovered %d, %v", n, err)
	}
}

// readQueue runs the statements that only read the queue.
func readQueue(t *testing.T, db *postgres.DB) {
	t.Helper()
	if err := claim.Dispatch(t.Context(), db, func(q *dispatchq.Queries) error {
		_, err := q.TaskWaits(t.Context(), []int64{1, 2})
		if err == nil {
			_, err = q.TaskWaitsQueued(t.Context(), dispatchq.TaskWaitsQueuedParams{MaxPools: 100})
		}
		if err == nil {
			_, err = q.LongestWait(t.Context())
		}
		if err == nil {
			_, err = q.TasksLate(t.Context(), dispatchq.TasksLateParams{AfterSeconds: 60, MaxTasks: 10, Ignored: []int64{}})
		}
		if err == nil {
			_, err = q.PoolsWaiting(t.Context(), dispatchq.PoolsWaitingParams{MaxPools: 10, Ignored: []int64{}})
		}
		if err == nil {
			_, err = q.TasksLater(t.Context(), 10)
		}
		if err == nil {
			_, err = q.TasksDue(t.Context(), 10)
		}
		if err == nil {
			_, err = q.TaskIDsWaiting(t.Context(), dispatchq.TaskIDsWaitingParams{BatchID: 1, Portion: 10})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

type reads struct{ scans, rows int64 }

// readsOf returns, for each table of dispatch, the number of full scans and the number of rows that were read through indexes.
func readsOf(t *testing.T, conn *pgx.Conn) map[string]reads {
	t.Helper()
	// A session adds its reads to the statistics when the session ends.
	for others := 1; others > 0; time.Sleep(10 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(t.Context(), `SELECT t.relname, t.seq_scan, coalesce(sum(i.idx_tup_read), 0)::bigint
		FROM pg_stat_user_tables t JOIN pg_stat_user_indexes i USING (relid)
		WHERE t.relname IN ('queue', 'messages_default', 'report_logs_default') GROUP BY t.relname, t.seq_scan ORDER BY t.relname`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]reads{}
	var name string
	var r reads
	if _, err := pgx.ForEachRow(rows, []any{&name, &r.scans, &r.rows}, func() error { all[name] = r; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}
