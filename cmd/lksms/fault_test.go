package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/testkit/pgtest"
)

// eventually waits until the condition is true. After 30 seconds, it fails the test.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func scan[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// recoveries returns the number of recovered leases in the metrics of the process.
func (p *process) recoveries() int {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.SetBasicAuth("admin", testPassword)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	total := 0
	for _, match := range regexp.MustCompile(`(?m)^lksms_tasks_recovered_total\{.*\} (\d+)$`).FindAllSubmatch(body, -1) {
		n, err := strconv.Atoi(string(match[1]))
		if err != nil {
			p.t.Fatal(err)
		}
		total += n
	}
	return total
}

func TestFiveProcessesRecoverEachLeaseOnce(t *testing.T) {
	t.Parallel()
	const zombies, processes = 20_000, 5
	databaseURL := pgtest.New(t)
	conn := connect(t, databaseURL)
	var servers []*process
	for range processes {
		servers = append(servers, serve(t, "DATABASE_URL="+databaseURL, "PROCESSING_TIMEOUT_MINUTES=0.1"))
	}
	// Insert the tasks in portions, so that each of several processes recovers some of the tasks.
	for portion := range 10 {
		if _, err := conn.Exec(t.Context(), `INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
			SELECT 't' || i, '13800138000', '+8613800138000', 'x', 1, 'gone', i, now() - interval '1 minute'
			FROM generate_series($1::int * $2::int / 10 + 1, ($1 + 1) * $2 / 10) i`, portion, zombies); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the sweeps of the processes run in real time
	}
	eventually(t, "every lease is recovered", func() bool {
		return scan[int](t, conn, "SELECT count(*) FROM queue WHERE lease_until IS NOT NULL") == 0
	})
	counted := func() (total int) {
		for _, server := range servers {
			total += server.recoveries()
		}
		return total
	}
	eventually(t, "every expiry is counted", func() bool { return counted() >= zombies })
	if n := counted(); n != zombies {
		t.Errorf("the processes counted %d recovered leases, want %d", n, zombies)
	}
	if n := scan[int](t, conn, "SELECT count(*) FROM queue WHERE retry_count = 1"); n != zombies {
		t.Errorf("%d tasks have one retry", n)
	}
	if n := scan[int](t, conn, "SELECT count(*) FROM report_logs"); n != zombies {
		t.Errorf("%d log rows of recovered leases", n)
	}
	if n := scan[int](t, conn, "SELECT count(DISTINCT lease_id) FROM report_logs WHERE leased_at IS NOT NULL"); n != zombies {
		t.Errorf("the log has the facts of %d leases", n)
	}
}

// A claim and a report are one transaction each. A server that is killed after it changed the queue, but before COMMIT, must leave no change in tasks, logs and
// counts.
func TestAKilledServerLeavesNoPartOfAClaimOrReport(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	conn := connect(t, databaseURL)
	if _, err := conn.Exec(t.Context(), `INSERT INTO tasks (task_id, phone_number, recipient, content)
		SELECT 't' || i, '13800138000', '+8613800138000', 'x' FROM generate_series(1, 10) i`); err != nil {
		t.Fatal(err)
	}
	// A trigger counts the changed tasks after the statement has written its other rows. So a lock on the counts stops the statement in the middle.
	killWithin := func(statement string, call func(*api.ClientWithResponses) error) {
		t.Helper()
		server := serve(t, "DATABASE_URL="+databaseURL)
		// Otherwise TaskQueue could wait at the gate, and claims would skip the tasks that it holds.
		eventually(t, "all waiting tasks are queued", func() bool {
			return scan[int](t, conn, "SELECT count(*) FROM queue WHERE lease_until IS NULL AND lane IS NULL") == 0
		})
		gate, err := connect(t, databaseURL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := gate.Exec(t.Context(), "LOCK TABLE facts IN EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		client, answered := server.client(), make(chan error, 1)
		go func() { answered <- call(client) }()
		eventually(t, statement+" waits to count its tasks", func() bool {
			return scan[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, $1))`, "-- name: "+statement+" ")
		})
		_ = server.stop(syscall.SIGKILL)
		if err := <-answered; err == nil {
			t.Errorf("%s was answered", statement)
		}
		if err := gate.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the sessions of the dead server have ended", func() bool {
			return scan[int](t, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lksms'") == 0
		})
	}
	expect := func(held int) {
		t.Helper()
		for sql, want := range map[string]int{
			"count(*) FROM queue":                               10,
			"count(*) FROM queue WHERE lease_until IS NOT NULL": held,
			"count(*) FROM send_logs":                           held,
			"count(*) FROM report_logs":                         0,
			"coalesce(sum(attempts), 0) FROM sender_totals":     held,
			"coalesce(sum(succeeded), 0) FROM sender_totals":    0,
			"sum(processing) FROM task_totals":                  held,
			"sum(pending_new) FROM task_totals":                 10 - held,
			"sum(success) FROM task_totals":                     0,
		} {
			if n := scan[int](t, conn, "SELECT "+sql); n != want {
				t.Errorf("%s: %d, want %d", sql, n, want)
			}
		}
	}
	// claim repeats a claim without tasks: TaskQueue of the new server can hold the tasks, and a claim skips locked tasks.
	claim := func(client *api.ClientWithResponses) (*api.ClaimTasksResponse, error) {
		for {
			res, err := client.ClaimTasksWithResponse(t.Context(), &api.ClaimTasksParams{AppID: "app"})
			if err != nil || res.JSON200 == nil || len(res.JSON200.Data) > 0 {
				return res, err
			}
		}
	}
	killWithin("TaskLease", func(client *api.ClientWithResponses) error {
		_, err := claim(client)
		return err
	})
	expect(0)
	server := serve(t, "DATABASE_URL="+databaseURL)
	res, err := claim(server.client())
	if err != nil || res.JSON200 == nil {
		t.Fatalf("claim: %v %s", err, res.Body)
	}
	held := res.JSON200.Data
	if err := server.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	killWithin("TaskReport", func(client *api.ClientWithResponses) error {
		_, err := client.ReportTaskWithResponse(t.Context(), api.ReportRequest{
			TaskID: held[0].TaskID, AppID: "app", Status: api.ReportSuccess, LeaseID: &held[0].LeaseID,
		})
		return err
	})
	expect(len(held))
}

// A task that another server stored must reach a sender that waits at this server.
func TestAWaitingSenderIsWokenAcrossProcesses(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	here, there := serve(t, "DATABASE_URL="+databaseURL), serve(t, "DATABASE_URL="+databaseURL)
	conn := connect(t, databaseURL)
	type answer struct {
		res  *api.ClaimTasksNowResponse
		err  error
		took time.Duration
	}
	answers := make(chan answer, 1)
	go func() {
		limit, wait, began := 10, 30, time.Now()
		res, err := here.client().ClaimTasksNowWithResponse(t.Context(), api.ClaimRequest{AppID: "app", Limit: &limit, Wait: &wait})
		answers <- answer{res, err, time.Since(began)}
	}()
	waits := func() {
		t.Helper()
		// A server queries the database for work only while senders wait. Its query takes only a moment of every 200 ms, so poll until one is visible.
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if scan[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%TaskWaits%')`) {
				return
			}
		}
		t.Fatal("no sender waits")
	}
	waits()
	text := "x"
	sent, err := there.client().SendSmsWithResponse(t.Context(), nil, api.SendRequest{PhoneNumber: "13800138000", Content: &text})
	if err != nil || sent.JSON200 == nil {
		t.Fatalf("submit: %v", err)
	}
	got := <-answers
	if got.err != nil || got.res.JSON200 == nil || len(got.res.JSON200.Data) != 1 || got.res.JSON200.Data[0].TaskID != sent.JSON200.Data.TaskID {
		t.Fatalf("got %+v", got)
	}
	if got.took > 15*time.Second {
		t.Errorf("the claim waited for %s", got.took)
	}
	// During its shutdown, a server answers the claims that wait.
	go func() {
		wait := 30
		res, err := here.client().ClaimTasksWithResponse(t.Context(), &api.ClaimTasksParams{AppID: "app", Wait: &wait})
		if err == nil && (res.JSON200 == nil || len(res.JSON200.Data) != 0) {
			t.Errorf("while stopping: %s", res.Status())
		}
		answers <- answer{err: err}
	}()
	waits()
	if err := here.stop(syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
	if got := <-answers; got.err != nil {
		t.Errorf("the waiting claim got no answer: %v", got.err)
	}
}
