package app_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/config"
	"lksms/internal/pgtest"
	"lksms/internal/postgres"
)

// zombies makes n tasks t1, t2, ... whose leases ran out.
func (b *testBundle) zombies(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, status, processing_app_id, lease_id, lease_until)
		SELECT 't' || i, $1, $1, 'x', 1, 'gone', i, now() - interval '1 hour' FROM generate_series(1, $2::int) i`, phone, n)
}

// cursedTask lets every change of one task fail.
const cursedTask = `
	CREATE FUNCTION curse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'cursed'; END $$;
	CREATE TRIGGER curse BEFORE UPDATE ON tasks FOR EACH ROW WHEN (OLD.task_id = 't700') EXECUTE FUNCTION curse()`

func TestF5_AHundredThousandZombiesAndOneThatFails(t *testing.T) {
	b := newBundle(t, defaultRules, nil) // beside no other test: it looks at the memory
	const n = 100_000
	b.zombies(n)
	b.exec(cursedTask)
	// What a sweep keeps in memory does not grow with what it finds.
	var most atomic.Uint64
	stop, watched := make(chan struct{}), make(chan struct{})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	recovered, err := b.app.Tasks.Recover(t.Context())
	close(stop)
	<-watched
	if recovered != n-1 || err == nil || !strings.Contains(err.Error(), "t700") {
		t.Errorf("took back %d of %d, %v", recovered, n, err)
	}
	if left := b.count("SELECT count(*) FROM tasks WHERE status = 1"); left != 1 {
		t.Errorf("%d are left", left)
	}
	if rows := b.count("SELECT count(*) FROM report_logs WHERE event = 'recovered' AND app_id = 'gone' AND effect = 'retry'"); rows != n-1 {
		t.Errorf("%d log rows", rows)
	}
	if batch := b.count("SELECT max(n) FROM (SELECT count(*) AS n FROM report_logs GROUP BY xmin) x"); batch > 1000 {
		t.Errorf("%d were taken back at once", batch)
	}
	if grown := int64(most.Load()) - int64(before.HeapInuse); grown > 20<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	// Through HTTP: what could be done is answered, and what failed is in the log.
	b.exec("UPDATE tasks SET status = 1, processing_app_id = 'gone', lease_until = now() - interval '1 hour' WHERE task_id < 't2' AND task_id <> 't700'")
	want := b.count("SELECT count(*) FROM tasks WHERE status = 1") - 1
	if got := b.recover(); got != want {
		t.Errorf("took back %d, want %d", got, want)
	}
	if !strings.Contains(b.log.String(), "some tasks could not be recovered") {
		t.Error("the row that failed is not in the log")
	}
}

func TestF17_TheServersClockDoesNotMatter(t *testing.T) {
	for _, off := range []string{"1 hour", "-1 hour"} {
		t.Run(off, func(t *testing.T) {
			b := withClock(t)
			b.exec("UPDATE clock.hand SET ahead = $1", off)
			sinceNow := func(sql string) time.Duration {
				return time.Duration(scan[float64](b, "SELECT extract(epoch FROM "+sql+" - now())::float8 FROM tasks") * float64(time.Second)).Round(10 * time.Second)
			}
			id := b.submit("x")
			if ahead := time.Until(b.task(id).CreatedAt).Round(time.Minute); ahead.Abs() != time.Hour {
				t.Fatalf("the clock is off by %s", ahead)
			}
			claimed := b.claim("app", 1)
			if len(claimed) != 1 || sinceNow("lease_until") != defaultRules.ProcessingTimeout {
				t.Fatalf("claimed %+v", claimed)
			}
			if n := b.recover(); n != 0 {
				t.Error("a live lease was taken back")
			}
			b.report(id, "app", 3, report{"should_retry": true})
			if wait := sinceNow("due_at"); wait != defaultRules.RetryDelay {
				t.Errorf("due after %s", wait)
			}
			if early := b.claimIDs(1); len(early) != 0 {
				t.Error("claimed before it was due")
			}
			b.exec("UPDATE tasks SET due_at = now()")
			if due := b.claimIDs(1); len(due) != 1 {
				t.Error("not claimed when it was due")
			}
			b.expire()
			if n := b.recover(); n != 1 {
				t.Error("a lease that ran out was not taken back")
			}
			if got := decode[api.TaskPage](t, b.expect(200, "", "GET", "/api/v1/sms/tasks?status=0", nil)); len(got.Items) != 1 {
				t.Errorf("%d tasks are listed", len(got.Items))
			}
		})
	}
}

func TestF22_RefusalsAndFailuresAreCounted(t *testing.T) {
	b := setup(t)
	const route = `lksms_http_requests_total{route="POST /api/v1/sms/send",status="%d"} 1`
	body := map[string]any{"phone_number": phone, "content": "x"}
	b.expect(401, "auth.required", "POST", "/api/v1/sms/send", body, "Authorization", "")
	b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", `{}`)
	b.exec("ALTER TABLE tasks RENAME TO tasks_gone")
	b.expect(500, "internal", "POST", "/api/v1/sms/send", body)
	b.exec("ALTER TABLE tasks_gone RENAME TO tasks")
	metrics := b.call("GET", "/metrics", nil).raw
	for _, status := range []int{401, 422, 500} {
		if line := fmt.Sprintf(route, status); !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
}

func TestF22_ReadinessFollowsTheDatabase(t *testing.T) {
	options := postgres.ServerOptions{
		Dir: pgtest.Dir(t), Ephemeral: true, Log: slog.New(slog.DiscardHandler),
		BinDir: config.PostgresBin(), MoreBins: config.UnpackedPostgres(),
	}
	start := func() *postgres.Server {
		server, err := postgres.StartServer(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	if _, err := postgres.MigrateUp(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	b := setupWith(t, defaultRules, func(o *app.Options) { o.DatabaseURL = server.URL() })
	b.expect(200, "", "GET", "/ready", nil)
	id := b.submit("x")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	b.expect(503, "unavailable", "GET", "/ready", nil)
	b.expect(200, "", "GET", "/health", nil)
	b.expect(503, "unavailable", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "y"})
	server = start()
	defer server.Stop()
	eventually(t, "ready again", func() bool { return b.call("GET", "/ready", nil).status == http.StatusOK })
	if got := b.claimIDs(10); len(got) != 1 || got[0] != id {
		t.Errorf("claimed %v", got)
	}
}

// Rows that no submission makes: the table refuses them, or the queue goes on beside them.
func TestF24_ARowMadeByHandCannotStopTheQueue(t *testing.T) {
	b := setup(t)
	insert := func(columns, values string) {
		_, err := b.db.Exec(t.Context(), fmt.Sprintf(
			"INSERT INTO tasks (task_id, phone_number, recipient, content%s) VALUES ('p%d', '?', '', ' '%s)", columns, time.Now().UnixNano(), values))
		var refused *pgconn.PgError
		if err != nil && (!errors.As(err, &refused) || refused.Code != "23514") {
			t.Fatalf("%s = %s: %v", columns, values, err)
		}
	}
	for _, status := range []string{"0", "1", "2"} {
		held := ", 'nobody', 1"
		for _, when := range []string{"'infinity'", "'-infinity'", "'0001-01-01'", "'290000-01-01'", "'1970-01-02'", "'9998-12-31'", "now()"} {
			insert(", status, processing_app_id, lease_id, lease_until, due_at", ", "+status+held+", "+map[bool]string{true: when, false: "NULL"}[status == "1"]+", "+when)
			insert(", status, processing_app_id, lease_id, lease_until, created_at, retry_count", ", "+status+held+", "+map[bool]string{true: "now()", false: "NULL"}[status == "1"]+", "+when+", 20")
		}
	}
	insert(", status", ", 9")
	insert(", status", ", 1")
	insert(", retry_count", ", 21")
	insert(", result, source", ", repeat('x', 501), ''")
	insert(", processing_app_id", ", repeat('x', 5000)")
	insert(", sent_at, reported_at", ", 'infinity', '-infinity'")
	if poison := b.count("SELECT count(*) FROM tasks"); poison < 10 {
		t.Fatalf("only %d rows were let in", poison)
	}
	for range 3 {
		id := b.submit("x")
		eventually(t, "the task is claimed", func() bool {
			for _, claimed := range b.claim("app", 50) {
				if claimed.TaskID == id {
					return true
				}
			}
			return false
		})
		b.report(id, "app", 2, nil)
		b.expire()
		b.recover()
		b.expect(200, "", "GET", "/api/v1/admin/task-statistics", nil)
		b.expect(200, "", "GET", "/api/v1/sms/tasks?limit=100", nil)
		if metrics := b.call("GET", "/metrics", nil).raw; !strings.Contains(metrics, "lksms_queue_oldest_pending_seconds") {
			t.Error("the queue is not measured any more")
		}
	}
}

func TestF8_AUserAgentOfAnyLengthIsTaken(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": phone, "content": "x"}, "User-Agent", strings.Repeat("浏", 5000))
	if n := b.count("SELECT char_length(user_agent) FROM receive_logs"); n != 500 {
		t.Errorf("%d characters of it are kept", n)
	}
}

func TestF11_AValueIsNeverExpandedAgain(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/template", `{"template_name":"n","template_content":"您的验证码是{code}，用户{name}"}`)
	for _, params := range []string{"code={name}&name=张三", "name=张三&code={name}"} {
		got := b.submitted(map[string]any{"phone_number": phone, "content": params, "use_template": true})
		if got.FinalContent != "您的验证码是{name}，用户张三" {
			t.Errorf("%s: %q", params, got.FinalContent)
		}
	}
}

func TestF12_ParametersThatWouldExpandToMegabytesAreRefused(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/template", map[string]any{"template_name": "n", "template_content": strings.Repeat("{a}", 60)})
	body := map[string]any{"phone_number": phone, "content": "a=" + strings.Repeat("x", 100_000), "use_template": true}
	if a := b.expect(422, "request.invalid", "POST", "/api/v1/sms/send", body); a.fields() != "content" {
		t.Errorf("fields %q", a.fields())
	}
}

func TestF19_ASecondDefaultContentIsAConflictAndShowsNoSQL(t *testing.T) {
	b := setup(t)
	b.expect(200, "", "POST", "/api/v1/admin/default-sms", map[string]any{"phone_number": phone, "content": "x"})
	a := b.expect(409, "default_content.exists", "POST", "/api/v1/admin/default-sms", `{"phone_number":"+86 138-0013-8000","content":"x"}`)
	for _, word := range []string{"SQL", "constraint", "default_contents_recipient_key", "23505"} {
		if strings.Contains(a.raw, word) {
			t.Errorf("the answer says %q: %s", word, a.raw)
		}
	}
}

func TestF20_PasswordsInAnyScript(t *testing.T) {
	b := setup(t)
	const secret = "秘密的密码 пароль:🔑"
	b.expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": "reader", "password": secret, "role": "read"})
	for given, status := range map[string]int{
		secret: 200, secret + "x": 401, secret[:len(secret)-1]: 401, "": 401, strings.Repeat(secret, 20): 401, "\xff": 401,
	} {
		if a := b.call("GET", "/api/v1/admin/task-statistics", nil, basic("reader", given)...); a.status != status {
			t.Errorf("%q: %d, want %d", given, a.status, status)
		}
		if a := b.call("GET", "/api/v1/admin/task-statistics", nil, basic(username, strings.Replace(given, secret, password, 1))...); a.status != status && a.status != 429 {
			t.Errorf("the configured account, %q: %d, want %d", given, a.status, status)
		}
	}
}
