package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/tracing"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func newServices(db *postgres.DB, rules setting.Rules) (*queue.Service, *submit.Service) {
	settings, directories := setting.NewWithRules(db, rules), directory.New(db)
	senders := sender.New(db, settings, directories, sender.NewConfigs(db, &secret.Box{}))
	admission := admit.New(db, directories, quiet.New(directories, settings), caps.New(db, directories, settings))
	tasks := queue.New(db, queue.Services{
		Directory: directories, Senders: senders, Settings: settings, Admit: admission, Sensitive: sensitive.NewBox(&secret.Box{}), Tracer: tracing.Off(),
	}, prometheus.NewRegistry())
	return tasks, submit.New(db, submit.Services{
		Queue: tasks, Admit: admission, Explain: explain.New(db, directories, senders, settings), Templates: template.New(db, settings), Directory: directories, Settings: settings,
	})
}

func service(t *testing.T) (*queue.Service, *submit.Service, *pgxpool.Pool) {
	t.Helper()
	db, err := postgres.Open(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, submissions := newServices(db, setting.Rules{MaxRetryCount: 3, ProcessingTimeout: time.Minute})
	t.Cleanup(s.Close)
	return s, submissions, db.Pool()
}

func exec(t *testing.T, db queueq.DBTX, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// The statement of a SUCCESS report begins before the sweep commits, and locks the row afterwards. The report settles the task, and its log row contains this
// effect.
func TestLateSuccessSettlesTheTaskAfterAConcurrentSweep(t *testing.T) {
	t.Parallel()
	s, _, db := service(t)
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

// If no message of a batch was stored before the deadline of the request, the whole batch fails. Its error must contain the deadline, because the error of
// the context only says that the context was cancelled.
func TestBatchFailsAtTheDeadlineOfItsRequest(t *testing.T) {
	t.Parallel()
	s, submissions, db := service(t)
	exec(t, db, `INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, '', '', 'x', 1, 'app', i, now() + interval '1 hour' FROM generate_series(1, 100) i`)
	messages, reports := make([]submit.Submission, 100), make([]queue.Report, 100)
	for i := range reports {
		messages[i] = submit.Submission{PhoneNumber: apptest.Phone, Content: "x", MessageType: submit.Notification, Raw: []byte("{}")}
		reports[i] = queue.Report{TaskID: fmt.Sprint("t", i+1), SenderNo: "app", Status: queue.Success, Raw: []byte("{}")}
	}
	for name, run := range map[string]func(context.Context) error{
		"messages": func(ctx context.Context) error {
			_, err := submissions.SubmitAll(ctx, messages, submit.Origin{CompanyID: 1, User: "u"})
			return err
		},
		"report_logs": func(ctx context.Context) error {
			_, err := s.ReportAll(ctx, reports)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			hanging, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer hanging.Rollback(t.Context())
			exec(t, hanging, "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE")
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			ended := make(chan error, 1)
			go func() { ended <- run(ctx) }()
			apptest.Eventually(t, "the batch waits", func() (waits bool) {
				err := db.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits)
				return err == nil && waits
			})
			end(context.DeadlineExceeded)
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the batch ended with %v", err)
			}
		})
	}
}
