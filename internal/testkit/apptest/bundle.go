// Package apptest runs the whole service for the tests of a package: a server on a separate database, with helpers that call the server.
package apptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/config"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/contracttest"
	"lksms/internal/testkit/pgtest"
)

// Main is the TestMain of a package that uses New. It saves the response statuses that the tests observed, if LKSMS_TEST_ANSWERS is set.
func Main(m *testing.M) {
	code := pgtest.Run(m)
	if dir := config.TestAnswers(); dir != "" {
		if err := contracttest.Save(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// These constants are the credentials of the built-in admin, and a phone number.
const (
	Username = "admin"
	Password = "秘密 with:colon"
	Phone    = "13800138000"
)

// Bundle is a whole server on a separate database, with helpers for tests.
type Bundle struct {
	T      testing.TB
	App    *app.App
	URL    string
	Client *api.ClientWithResponses
	DB     *pgxpool.Pool
	Log    *LogBuffer

	Options app.Options // options of the server
}

// DefaultRules are the rules of a server that New starts.
var DefaultRules = setting.Rules{MaxRetryCount: 3, RetryDelay: 5 * time.Minute, ProcessingTimeout: 30 * time.Minute}

// New starts a server on a separate database for a test. The test runs in parallel with others.
func New(t *testing.T) *Bundle { return NewWith(t, DefaultRules, nil) }

// NewWith works like New with other rules. If change is not nil, it changes the options of the server.
func NewWith(t *testing.T, rules setting.Rules, change func(*app.Options)) *Bundle {
	t.Helper()
	t.Parallel()
	return Open(t, rules, change)
}

// passwordCost makes hashes of passwords cheap: with the cost of the service, they are a sixth of the work of all tests.
var passwordCost = &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// Open works like NewWith for a fuzz target, or for a test that must not run in parallel with others.
func Open(t testing.TB, rules setting.Rules, change func(*app.Options)) *Bundle {
	t.Helper()
	log := &LogBuffer{}
	options := app.Options{
		DatabaseURL: pgtest.New(t), Username: Username, Password: Password, EnableDocs: true, Rules: rules, PasswordCost: passwordCost,
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
	server := httptest.NewServer(CheckAnswers(t, a.Handler))
	t.Cleanup(server.Close)
	client, err := api.NewClientWithResponses(server.URL, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(Username, Password)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return &Bundle{T: t, App: a, URL: server.URL, Client: client, DB: a.DB.Pool(), Log: log, Options: options}
}

// CheckAnswers forwards requests to h, and fails t for each response that violates the contract.
func CheckAnswers(t testing.TB, h http.Handler) http.Handler {
	return contracttest.Handler(h, func(err error) { t.Error(err) })
}

// Answer is a response of the server.
type Answer struct {
	Status int
	Header http.Header
	Raw    string
	Body   struct {
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

// Fields returns the names of the invalid fields in an error response.
func (a Answer) Fields() string {
	names := make([]string, len(a.Body.Error.Fields))
	for i, f := range a.Body.Error.Fields {
		names[i] = f.Field
	}
	return strings.Join(names, ",")
}

// Call sends a request as the built-in admin, unless the headers contain other credentials. It sends a string body unchanged, and any other body as JSON.
func (b *Bundle) Call(method, path string, body any, headers ...string) Answer {
	b.T.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			b.T.Fatal(err)
		}
		reader = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(b.T.Context(), method, b.URL+path, reader)
	if err != nil {
		b.T.Fatal(err)
	}
	req.SetBasicAuth(Username, Password)
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
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	a := Answer{Status: res.StatusCode, Header: res.Header, Raw: string(raw)}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &a.Body); err != nil {
			b.T.Fatalf("the response to %s %s is no envelope: %s", method, path, raw)
		}
	}
	return a
}

// Expect sends a request. It fails the test unless the response has this status and, for an error, this reason.
func (b *Bundle) Expect(status int, reason, method, path string, body any, headers ...string) Answer {
	b.T.Helper()
	a := b.Call(method, path, body, headers...)
	if a.Status != status || a.Body.Error.Reason != reason {
		b.T.Fatalf("%s %s: got %d %q, want %d %q: %s", method, path, a.Status, a.Body.Error.Reason, status, reason, a.Raw)
	}
	return a
}

// Basic returns the headers for calls as another user. secret is a password or an API key.
func Basic(name, secret string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+secret))}
}

// Exec runs a statement.
func (b *Bundle) Exec(sql string, args ...any) {
	b.T.Helper()
	if _, err := b.DB.Exec(b.T.Context(), sql, args...); err != nil {
		b.T.Fatal(err)
	}
}

// Count runs a query that returns one number.
func (b *Bundle) Count(sql string, args ...any) int {
	b.T.Helper()
	return Scan[int](b, sql, args...)
}

// Scan runs a query that returns one value.
func Scan[T any](b *Bundle, sql string, args ...any) T {
	b.T.Helper()
	var v T
	if err := b.DB.QueryRow(b.T.Context(), sql, args...).Scan(&v); err != nil {
		b.T.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Decode decodes the data of a response.
func Decode[T any](t testing.TB, a Answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(a.Body.Data, &v); err != nil {
		t.Fatalf("data of %s: %v", a.Raw, err)
	}
	return v
}

// RunErasures runs the running erasures as often as an erasure needs that finds waiting and ended tasks.
func (b *Bundle) RunErasures() {
	b.T.Helper()
	for range 3 {
		b.Exec("UPDATE erasures SET next_at = now() WHERE status = 'running'")
		if _, err := b.App.Erasures.Run(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
}

// ExpectNowhere fails the test if a row of any table, or the log of the server, contains a text. In columns of bytes, it searches the text as hexadecimal digits.
func (b *Bundle) ExpectNowhere(text string) {
	b.T.Helper()
	for _, table := range strings.Fields(Scan[string](b, `SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c
		WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`)) {
		if n := b.Count("SELECT count(*) FROM "+table+" x WHERE x::text LIKE ANY ($1)", []string{"%" + text + "%", fmt.Sprintf("%%%x%%", text)}); n != 0 {
			b.T.Errorf("%d rows of %s contain %s", n, table, text)
		}
	}
	if strings.Contains(b.Log.String(), text) {
		b.T.Errorf("the log contains %s", text)
	}
}

// AwaitLockWait waits until exactly one statement in the database waits for a lock.
func (b *Bundle) AwaitLockWait() {
	b.T.Helper()
	Eventually(b.T, "a statement waits for a lock", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") == 1
	})
}

// Deadlock causes a deadlock between another transaction and the transaction of the server that call starts. It repeats this, each time with the results of
// prepare, until PostgreSQL aborts the transaction of the server, not the other transaction.
//
// The other transaction runs two SQL statements: lockFirst locks rows that the server will wait for, waitSecond waits for rows that the server has locked.
// call returns a text if its result is wrong. This text is ignored if PostgreSQL aborted the other transaction.
func (b *Bundle) Deadlock(prepare func() (lockFirst, waitSecond string, call func() (wrong string))) {
	b.T.Helper()
	for isOther := true; isOther; {
		lockFirst, waitSecond, call := prepare()
		other, err := b.DB.Begin(b.T.Context())
		if err != nil {
			b.T.Fatal(err)
		}
		defer other.Rollback(context.WithoutCancel(b.T.Context())) // has an effect only if the test fails, because otherwise the transaction has already ended
		if _, err := other.Exec(b.T.Context(), lockFirst); err != nil {
			b.T.Fatal(err)
		}
		called := make(chan string, 1)
		go func() { called <- call() }()
		Eventually(b.T, "the server waits", func() bool {
			return b.Count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()") > 0
		})
		// PostgreSQL aborts the transaction that first checks for a deadlock and finds one. Usually this is the transaction that has waited longer.
		_, err = other.Exec(b.T.Context(), waitSecond)
		var ended *pgconn.PgError
		if isOther = errors.As(err, &ended) && ended.Code == "40P01"; isOther { // the loop repeats the deadlock, because PostgreSQL aborted the other transaction
			err = other.Rollback(b.T.Context())
		} else {
			err = errors.Join(err, other.Commit(b.T.Context()))
		}
		if err != nil {
			b.T.Fatal(err)
		}
		if wrong := <-called; wrong != "" && !isOther {
			b.T.Error(wrong)
		}
	}
}

// Eventually waits until a condition is true. It fails the test after a minute. The longer it waits, the less often it looks: a look costs a request and statements, and
// the waits of many tests would keep the machine busy.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(min(5*time.Millisecond+time.Since(began)/10, 200*time.Millisecond)) {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// Together runs n calls that start at the same time, and waits for their end.
func Together(n int, call func(i int)) {
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

// LogBuffer is a log that can be read while it is written.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the log so far.
func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
