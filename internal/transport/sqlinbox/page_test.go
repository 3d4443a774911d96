package sqlinbox_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// block returns a code block of docs/integrations.md. The block follows a line <!-- test-sql: name -->.
func block(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "integrations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- test-sql: "+name+" -->\n```")
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, isWhole := strings.Cut(rest, "\n```\n")
	if !isWhole {
		t.Fatalf("docs/integrations.md has no block %q with an end", name)
	}
	return text + "\n"
}

// example returns the text and path of a file in docs/examples/sql.
func example(t *testing.T, name string) (text, path string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "docs", "examples", "sql", name))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content), path
}

// need returns the path of a program. It skips the test if the program is not installed. debian is the name of its package.
func need(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := osexec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed: apt-get install %s", program, debian)
	}
	return path
}

// outbox is a database with the outbox of docs/examples/sql, and a server to which the loop of the example submits.
type outbox struct {
	*apptest.Bundle
	t       *testing.T
	conn    *pgx.Conn
	dir     string
	env     []string
	asked   atomic.Int64                     // number of requests of the loop
	instead atomic.Pointer[http.HandlerFunc] // non-nil: answers instead of the server
}

func newOutbox(t *testing.T) *outbox {
	t.Helper()
	for program, debian := range map[string]string{"psql": "postgresql-client", "jq": "jq", "curl": "curl"} {
		need(t, program, debian)
	}
	o := &outbox{Bundle: apptest.New(t), t: t, dir: pgtest.Dir(t)}
	o.AddCompany("acme", 1)
	o.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"max_content_notification":1024}`)
	key := apptest.Decode[api.NewKey](t, o.Expect(200, "", "POST", "/api/v1/admin/users/user-of-acme/keys", `{"name":"outbox"}`)).Key
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		if instead := o.instead.Load(); instead != nil {
			(*instead)(w, r)
			return
		}
		o.App.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	database := pgtest.NewEmpty(t)
	o.conn = connect(t, database)
	table, _ := example(t, "outbox.sql")
	exec(t, o.conn, table)
	program, _ := example(t, "outbox.sh")
	for name, content := range map[string]string{
		"outbox.sh": program,
		"sleep":     "#!/bin/sh\nexec /bin/sleep 0.05\n", // shortens the waits of the loop
	} {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o.env = append(os.Environ(), "PATH="+o.dir+":"+os.Getenv("PATH"), "LKSMS_URL="+front.URL, "LKSMS_KEY="+key, "DATABASE_URL="+database, "no_proxy=*")
	return o
}

// add inserts n messages into the outbox.
func (o *outbox) add(n int, number, text string) {
	o.t.Helper()
	exec(o.t, o.conn, "INSERT INTO outbox (phone_number, content) SELECT $1, $2 FROM generate_series(1, $3)", number, text, n)
}

func (o *outbox) waiting() int {
	o.t.Helper()
	return scan[int](o.t, o.conn, "SELECT count(*) FROM outbox")
}

func (o *outbox) tasks() int { o.t.Helper(); return o.Count("SELECT count(*) FROM tasks") }

// loop is a running process of the example's loop.
type loop struct {
	t      *testing.T
	cmd    *osexec.Cmd
	said   apptest.LogBuffer
	exited chan struct{}
}

// run starts the loop in its own process group. The loop ends with the test.
func (o *outbox) run() *loop {
	o.t.Helper()
	l := &loop{t: o.t, cmd: osexec.Command("sh", filepath.Join(o.dir, "outbox.sh")), exited: make(chan struct{})}
	l.cmd.Env, l.cmd.Stdout, l.cmd.Stderr = o.env, &l.said, &l.said
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	go func() { _ = l.cmd.Wait(); close(l.exited) }() // the tests check the result of the loop, not its exit status
	o.t.Cleanup(func() {
		l.kill()
		if o.t.Failed() {
			o.t.Logf("the loop said: %s", l.said.String())
		}
	})
	return l
}

// kill kills the loop and the programs that it runs.
func (l *loop) kill() {
	_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL) // the processes possibly have ended already
	<-l.exited
}

// awaitEmpty waits until the loop has deleted all messages. It fails the test if the loop ends.
func (l *loop) awaitEmpty(o *outbox) {
	l.t.Helper()
	apptest.Eventually(l.t, "the outbox is empty", func() bool {
		select {
		case <-l.exited:
			l.t.Fatalf("the loop ended: %s", l.said.String())
		default:
		}
		return o.waiting() == 0
	})
}

// B12: the loop of docs/examples/sql submits each message of its outbox exactly once, including the longest messages. The loop continues after a message
// that the server rejects.
func TestOutboxLoopSubmitsAllMessages(t *testing.T) {
	o := newOutbox(t)
	l := o.run()
	o.add(250, apptest.Phone, `short "'\ $(x) %s`)
	l.awaitEmpty(o)
	long := strings.Repeat("长", 1024) // 3 kB
	o.add(100, apptest.Phone, long)
	l.awaitEmpty(o)
	if n := o.tasks(); n != 350 {
		t.Errorf("%d tasks of 350 messages", n)
	}
	if n := o.Count("SELECT count(*) FROM tasks WHERE content = $1", long); n != 100 {
		t.Errorf("%d tasks have the long text", n)
	}
	if n := o.Count(`SELECT count(*) FROM tasks WHERE content = 'short "''\ $(x) %s'`); n != 250 {
		t.Errorf("%d tasks have the short text", n)
	}
	o.add(99, apptest.Phone, long)
	o.add(1, "12", long)
	refused := scan[int64](t, o.conn, "SELECT max(id) FROM outbox")
	o.add(1, apptest.Phone, "the next one")
	l.awaitEmpty(o)
	if n := o.tasks(); n != 450 {
		t.Errorf("%d tasks of 450 good messages", n)
	}
	if want := fmt.Sprintf(`{"id":%d,"code":422,`, refused); !strings.Contains(l.said.String(), want) {
		t.Errorf("the output of the loop does not contain the refused message: %s", want)
	}
	if _, err := o.conn.Exec(t.Context(), "INSERT INTO outbox (phone_number, content) VALUES ('13800138000', $1)", long+"长"); refusal(err).Code != "23514" {
		t.Errorf("a text that LKSMS never accepts: %v", err)
	}
}

// B12: if the server is unavailable or its response is lost, the loop sends the same messages again.
func TestOutboxLoopRepeatsUnansweredRequests(t *testing.T) {
	o := newOutbox(t)
	away := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code":503,"message":"away","data":null}`)) // even without this body, the loop retries
	})
	o.instead.Store(&away)
	o.add(150, apptest.Phone, strings.Repeat("长", 1024))
	l := o.run()
	apptest.Eventually(t, "the loop asks again after 503", func() bool { return o.asked.Load() >= 3 })
	if n := o.waiting(); n != 150 || !strings.Contains(l.said.String(), `"message":"away"`) {
		t.Errorf("%d messages are in the outbox after 503, and the loop said: %s", n, l.said.String())
	}
	lost := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		o.App.Handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
	asked := o.asked.Load()
	o.instead.Store(&lost)
	apptest.Eventually(t, "the loop asks again after a lost answer", func() bool { return o.asked.Load() >= asked+3 })
	if waiting, tasks := o.waiting(), o.tasks(); waiting != 150 || tasks != 100 {
		t.Errorf("%d messages are in the outbox, and %d tasks, after lost answers", waiting, tasks)
	}
	o.instead.Store(nil)
	l.awaitEmpty(o)
	if n := o.tasks(); n != 150 {
		t.Errorf("%d tasks of 150 messages", n)
	}
}

// B12: a loop that is killed between the response and its DELETE neither loses nor duplicates messages.
func TestOutboxLoopKilledBeforeDeleteSendsNoDuplicate(t *testing.T) {
	o := newOutbox(t)
	o.add(150, apptest.Phone, strings.Repeat("长", 1024))
	holder := begin(t, connect(t, o.conn.Config().ConnString()))
	exec(t, holder, "SELECT FROM outbox FOR UPDATE")
	l := o.run()
	const deletes = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM outbox%'"
	apptest.Eventually(t, "the loop deletes what the server has", func() bool { return scan[int](t, o.conn, "SELECT count(*) "+deletes) == 1 })
	l.kill()
	// End the session, because PostgreSQL would finish the DELETE although its client was killed.
	exec(t, o.conn, "SELECT pg_terminate_backend(pid) "+deletes)
	apptest.Eventually(t, "the DELETE has ended", func() bool { return scan[int](t, o.conn, "SELECT count(*) "+deletes) == 0 })
	if err := holder.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if waiting, tasks := o.waiting(), o.tasks(); waiting != 150 || tasks != 100 {
		t.Fatalf("%d messages are in the outbox, and %d tasks, after the kill", waiting, tasks)
	}
	o.run().awaitEmpty(o)
	if n := o.tasks(); n != 150 {
		t.Errorf("%d tasks of 150 messages", n)
	}
}
