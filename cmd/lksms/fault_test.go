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

	"lksms/gen/api"
	"lksms/internal/pgtest"
)

// eventually waits for a condition, not for a time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
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

// recoveries returns how many recovered leases the process has counted.
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

func TestFiveProcessesTakeBackEachLeaseOnce(t *testing.T) {
	t.Parallel()
	const zombies, processes = 20_000, 5
	databaseURL := pgtest.New(t)
	conn := connect(t, databaseURL)
	var servers []*process
	for range processes {
		servers = append(servers, serve(t, "DATABASE_URL="+databaseURL, "PROCESSING_TIMEOUT_MINUTES=0.1"))
	}
	// The tasks are inserted in portions, so that several processes take some back.
	for portion := range 10 {
		if _, err := conn.Exec(t.Context(), `INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
			SELECT 't' || i, '13800138000', '+8613800138000', 'x', 1, 'gone', i, now() - interval '1 minute'
			FROM generate_series($1::int * $2::int / 10 + 1, ($1 + 1) * $2 / 10) i`, portion, zombies); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the sweeps of the processes run by the clock
	}
	eventually(t, "every lease is taken back", func() bool {
		return scan[int](t, conn, "SELECT count(*) FROM tasks WHERE status = 1") == 0
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
	if n := scan[int](t, conn, "SELECT count(*) FROM tasks WHERE retry_count = 1"); n != zombies {
		t.Errorf("%d tasks have one retry", n)
	}
	if n := scan[int](t, conn, "SELECT count(*) FROM report_logs"); n != zombies {
		t.Errorf("%d log rows of recovered leases", n)
	}
}

// A lease and its log row are one transaction: a server that is killed between the two leaves neither.
func TestAKillBetweenClaimAndLogLeavesNoLease(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.New(t)
	conn := connect(t, databaseURL)
	server := serve(t, "DATABASE_URL="+databaseURL)
	if _, err := conn.Exec(t.Context(), `INSERT INTO tasks (task_id, phone_number, recipient, content)
		SELECT 't' || i, '13800138000', '+8613800138000', 'x' FROM generate_series(1, 10) i`); err != nil {
		t.Fatal(err)
	}
	gate, err := connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(t.Context(), "LOCK TABLE send_logs IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	client, answered := server.client(), make(chan error, 1)
	go func() {
		_, err := client.ClaimTasksWithResponse(t.Context(), &api.ClaimTasksParams{AppID: "app"})
		answered <- err
	}()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	eventually(t, "the claim waits to write its log", func() bool { return scan[int](t, conn, waiting) == 1 })
	_ = server.stop(syscall.SIGKILL)
	if err := <-answered; err == nil {
		t.Error("the claim was answered")
	}
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the session of the dead server is gone", func() bool {
		return scan[int](t, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lksms'") == 0
	})
	held, logs := scan[int](t, conn, "SELECT count(*) FROM tasks WHERE status = 1"), scan[int](t, conn, "SELECT count(*) FROM send_logs")
	if held != 0 || logs != 0 {
		t.Errorf("%d leases and %d log rows are left", held, logs)
	}
}

// A task that another server stored reaches a sender that waits at this server.
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
		// A server asks the database for work only while senders wait. Its query takes a moment of every 200 ms.
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
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
	// A server that stops answers the claims that wait.
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
