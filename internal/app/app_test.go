package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/contracttest"
	"lksms/internal/pgtest"
	"lksms/internal/queue"
)

// TestMain also looks, after a run of all tests, whether each status in the contract was the answer to something.
func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if isWhole() {
		missing, err := contracttest.Missing()
		if err != nil || len(missing) > 0 {
			fmt.Fprintf(os.Stderr, "statuses in the contract that no test saw: %s %v\n", strings.Join(missing, ", "), err)
			code = 1
		}
	}
	os.Exit(code)
}

// isWhole tells whether all tests were run.
func isWhole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

const (
	username = "admin"
	password = "秘密 with:colon"
	phone    = "13800138000"
)

// testBundle is a whole server on a database of its own.
type testBundle struct {
	t      testing.TB
	app    *app.App
	url    string
	client *api.ClientWithResponses
	db     *pgxpool.Pool
	log    *logBuffer

	options app.Options // of the server
}

var defaultRules = queue.Rules{MaxRetryCount: 3, RetryDelay: 5 * time.Minute, ProcessingTimeout: 30 * time.Minute}

func setup(t *testing.T) *testBundle { return setupWith(t, defaultRules, nil) }

func setupWith(t *testing.T, rules queue.Rules, change func(*app.Options)) *testBundle {
	t.Helper()
	t.Parallel()
	return newBundle(t, rules, change)
}

func newBundle(t testing.TB, rules queue.Rules, change func(*app.Options)) *testBundle {
	t.Helper()
	log := &logBuffer{}
	options := app.Options{
		DatabaseURL: pgtest.New(t), Username: username, Password: password, EnableDocs: true, Rules: rules,
		Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&options)
	}
	a, err := app.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	server := httptest.NewServer(obeying(t, a.Handler))
	t.Cleanup(server.Close)
	client, err := api.NewClientWithResponses(server.URL, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(username, password)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return &testBundle{t: t, app: a, url: server.URL, client: client, db: a.DB.Pool, log: log, options: options}
}

// obeying is a handler of which every answer must be as the contract says.
func obeying(t testing.TB, h http.Handler) http.Handler {
	return contracttest.Handler(h, func(err error) { t.Error(err) })
}

// answer is any answer of the server.
type answer struct {
	status int
	header http.Header
	raw    string
	body   struct {
		Code    int
		Message string
		Data    json.RawMessage
		Error   struct {
			Reason string
			Fields []api.FieldError
			Limit  int64
		}
		RequestID string `json:"request_id"`
	}
}

// fields lists the names of the wrong fields.
func (a answer) fields() string {
	names := make([]string, len(a.body.Error.Fields))
	for i, f := range a.body.Error.Fields {
		names[i] = f.Field
	}
	return strings.Join(names, ",")
}

// call sends body, a string as it is and anything else as JSON, with credentials unless the headers say otherwise.
func (b *testBundle) call(method, path string, body any, headers ...string) answer {
	b.t.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, reader)
	if err != nil {
		b.t.Fatal(err)
	}
	req.SetBasicAuth(username, password)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &a.body); err != nil {
			b.t.Fatalf("%s %s answered no envelope: %s", method, path, raw)
		}
	}
	return a
}

// expect calls and checks the status and, of an error, the reason; it returns the answer for more.
func (b *testBundle) expect(status int, reason, method, path string, body any, headers ...string) answer {
	b.t.Helper()
	a := b.call(method, path, body, headers...)
	if a.status != status || a.body.Error.Reason != reason {
		b.t.Fatalf("%s %s: got %d %q, want %d %q: %s", method, path, a.status, a.body.Error.Reason, status, reason, a.raw)
	}
	return a
}

// basic is the headers of a call as another user.
func basic(name, secret string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+secret))}
}

// submit sends text to phone and returns the task's id.
func (b *testBundle) submit(text string) string {
	b.t.Helper()
	return b.submitted(map[string]any{"phone_number": phone, "content": text}).TaskID
}

func (b *testBundle) submitted(body any) api.Submitted {
	b.t.Helper()
	return decode[api.Submitted](b.t, b.expect(200, "", "POST", "/api/v1/sms/send", body))
}

// claim polls as appID.
func (b *testBundle) claim(appID string, limit int) []api.ClaimedTask {
	b.t.Helper()
	res, err := b.client.ClaimTasksWithResponse(b.t.Context(), &api.ClaimTasksParams{AppID: appID, Limit: &limit})
	if err != nil || res.JSON200 == nil {
		b.t.Fatalf("claim: %v %s", err, res.Body)
	}
	return res.JSON200.Data
}

// claimIDs polls as app and returns the ids.
func (b *testBundle) claimIDs(limit int) []string {
	b.t.Helper()
	ids := []string{}
	for _, t := range b.claim("app", limit) {
		ids = append(ids, t.TaskID)
	}
	return ids
}

type report = map[string]any

// report reports as the documented app does, without a lease, and expects 200.
func (b *testBundle) report(id, appID string, status int, more report) {
	b.t.Helper()
	b.expect(200, "", "POST", "/api/v1/sms/report", reportBody(id, appID, status, more))
}

func reportBody(id, appID string, status int, more report) report {
	body := report{"task_id": id, "app_id": appID, "status": status}
	for k, v := range more {
		body[k] = v
	}
	return body
}

func (b *testBundle) task(id string) api.Task {
	b.t.Helper()
	return decode[api.Task](b.t, b.expect(200, "", "GET", "/api/v1/sms/task/"+id, nil))
}

// expire lets the leases of all tasks run out.
func (b *testBundle) expire() {
	b.t.Helper()
	b.exec("UPDATE tasks SET lease_until = now() - interval '1 second' WHERE status = 1")
}

// recover runs the sweep by hand and returns how many leases it took back.
func (b *testBundle) recover() int {
	b.t.Helper()
	return decode[api.Recovered](b.t, b.expect(200, "", "POST", "/api/v1/admin/recover-zombie-tasks", nil)).RecoveredCount
}

func (b *testBundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// count runs a query that gives one number.
func (b *testBundle) count(sql string, args ...any) int {
	b.t.Helper()
	return scan[int](b, sql, args...)
}

func scan[T any](b *testBundle, sql string, args ...any) T {
	b.t.Helper()
	var v T
	if err := b.db.QueryRow(b.t.Context(), sql, args...).Scan(&v); err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func decode[T any](t testing.TB, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.body.Data, &v); err != nil {
		t.Fatalf("data of %s: %v", a.raw, err)
	}
	return v
}

// someoneWaitsForALock returns when one statement waits for a lock of the database.
func (b *testBundle) someoneWaitsForALock() {
	b.t.Helper()
	eventually(b.t, "a statement waits for a lock", func() bool {
		return b.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 1
	})
}

// eventually waits for a condition, not for a time.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// together runs n calls that start at once.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
