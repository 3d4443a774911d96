package queue_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/dbq"
	"lksms/internal/apptest"
	"lksms/internal/directory"
	"lksms/internal/pgtest"
	"lksms/internal/postgres"
	"lksms/internal/queue"
	"lksms/internal/secret"
	"lksms/internal/sender"
	"lksms/internal/setting"
	"lksms/internal/template"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func newService(db *postgres.DB, rules queue.Rules) *queue.Service {
	settings, directories := setting.New(db), directory.New(db)
	senders := sender.New(db, settings, directories, sender.NewConfigs(db, &secret.Box{}))
	return queue.New(db, template.New(db), directories, senders, settings, rules, prometheus.NewRegistry())
}

func service(t *testing.T) (*queue.Service, *pgxpool.Pool) {
	t.Helper()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s := newService(db, queue.Rules{MaxRetryCount: 3, ProcessingTimeout: time.Minute})
	t.Cleanup(s.Close)
	return s, db.Pool()
}

func exec(t *testing.T, db dbq.DBTX, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// A SUCCESS whose statement began before the sweep committed, and locked the row afterwards, settles the task. Its log row says what it
// did.
func TestALateSuccessThatWaitedForTheSweepSettlesTheTask(t *testing.T) {
	t.Parallel()
	s, db := service(t)
	exec(t, db, `INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
		VALUES ('t', '', '', 'x', 1, 'app', 1, now() - interval '1 second')`)
	sweep, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, sweep, `UPDATE queue SET retry_count = 1, lease_until = NULL, failed_app_id = processing_app_id, processing_app_id = NULL`)
	reported := make(chan error, 1)
	go func() {
		reported <- s.Report(t.Context(), queue.Report{TaskID: "t", SenderNo: "app", Status: queue.Success, Raw: []byte("{}")})
	}()
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		if err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock')`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-reported; err != nil {
		t.Fatal(err)
	}
	var status int
	var effect string
	if err := db.QueryRow(t.Context(), "SELECT t.status, effect FROM tasks t JOIN report_logs USING (task_id)").Scan(&status, &effect); err != nil {
		t.Fatal(err)
	}
	if status != int(queue.Success) || effect != "success" {
		t.Errorf("the task is %d, and the log says %s", status, effect)
	}
}
