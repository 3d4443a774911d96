package app_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lksms/gen/api"
	"lksms/internal/app"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// S4.6: the server works through a connection pooler that gives consecutive transactions different sessions.
func TestAServerWorksThroughPgBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			database := pgtest.New(t)
			through := pgtest.PgBouncer(t, database) + "&default_query_exec_mode=" + mode
			b := apptest.Open(t, apptest.DefaultRules, func(o *app.Options) {
				apptest.WithSecrets(o)
				o.DatabaseURL = through
			})
			w := apptest.FillTwoCompanies(b)
			for id, o := range apptest.Operations {
				body, headers := o.Content()
				if a := w.Call(o.Method, o.Path, body, headers...); a.Status >= 500 {
					t.Errorf("%s: %d: %s", id, a.Status, a.Raw)
				}
			}
			liveThroughPooler(t, b, w)
			if log := b.Log.String(); strings.Contains(log, `"level":"ERROR"`) {
				t.Error(log)
			}
		})
	}
}

// liveThroughPooler runs two servers. Their sweeps process a batch, a notification, and a message for a poll that waits.
func liveThroughPooler(t *testing.T, b *apptest.Bundle, w *apptest.TwoCompanies) {
	t.Helper()
	for _, server := range []*app.App{b.App, apptest.Another(b)} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop, served := apptest.ServeUntil(t, server, listener)
		defer func() {
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
	}
	waited := make(chan apptest.Answer, 1)
	w.AddSender(map[string]any{"sender_no": "waiting", "is_shared": false})
	w.AddRoute("default", "waiting", 1)
	poll := func() {
		go func() { waited <- w.Call("GET", "/api/v1/sms/tasks/pending?app_id=waiting&wait=20", nil) }()
	}
	poll()
	list := apptest.Form("file", "list.csv", "phone\n13800138001\n13800138002\n13800138003\n", "name", "n", "content", "hello")
	batch := apptest.Decode[api.BatchCreated](t, w.Expect(200, "", "POST", "/api/v1/batches", list, append([]string{"Content-Type", apptest.FormType}, w.Acme...)...))
	at := "/api/v1/batches/" + fmt.Sprint(batch.BatchID)
	is := func(status string) func() bool {
		return func() bool {
			return string(apptest.Decode[api.Batch](t, w.Expect(200, "", "GET", at, nil, w.Acme...)).Status) == status
		}
	}
	apptest.Eventually(t, "the batch is checked", is("ready"))
	w.Expect(200, "", "POST", at+"/confirm", nil, w.Acme...)
	id := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "wake up"}).TaskID
	for isWoken := false; !isWoken; { // the sender can first get tasks of the operations, which ran in random order
		select {
		case a := <-waited:
			for _, task := range apptest.Decode[[]api.ClaimedTask](t, a) {
				isWoken = isWoken || task.TaskID == id
				b.Report(task.TaskID, "waiting", 2, apptest.Report{"lease_id": task.LeaseID})
			}
			if !isWoken {
				poll()
			}
		case <-time.After(25 * time.Second):
			t.Fatal("the poll does not end")
		}
	}
	b.AwaitStatus(id, 2)
	apptest.Eventually(t, "the batch is sent", func() bool {
		for _, task := range w.Take("acme_sender", 10) {
			w.Report(task.TaskID, "acme_sender", 2, apptest.Report{"lease_id": task.LeaseID})
		}
		return is("finished")()
	})
	apptest.Eventually(t, "the facts are counted", func() bool { return b.Count("SELECT count(*) FROM facts") == 0 })
}

// If a session of the pooler keeps a lock or a setting, the next client gets this lock or setting.
func TestTheServerLeavesNoLockOrSettingInPoolerSessions(t *testing.T) {
	t.Parallel()
	database := pgtest.NewEmpty(t)
	through := pgtest.PgBouncer(t, database, "default_pool_size = 8") + "&default_query_exec_mode=cache_describe"
	migrated := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := migrate.Up(t.Context(), through, nil)
			migrated <- err
		}()
	}
	for range 2 {
		if err := <-migrated; err != nil {
			t.Fatal(err)
		}
	}
	db, err := postgres.Open(t.Context(), through)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.TryLock(t.Context(), "age-tasks")
	if err != nil || lock == nil {
		t.Fatalf("%v, %v", lock, err)
	}
	for range 20 {
		if again, err := db.TryLock(t.Context(), "age-tasks"); again != nil || err != nil {
			t.Fatalf("%v, %v", again, err)
		}
	}
	while, cancel := lock.While(t.Context())
	defer cancel()
	select {
	case <-while.Done():
		t.Error("the lock was lost")
	case <-time.After(3 * time.Second): // long enough that the lock has checked its connection
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	direct, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	var locks, sessions int
	const left = `SELECT (SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.relation = 'lock_age_tasks'::regclass AND d.datname = current_database()),
		(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())`
	if err := direct.QueryRow(t.Context(), left).Scan(&locks, &sessions); err != nil {
		t.Fatal(err)
	}
	if locks > 0 || sessions < 2 {
		t.Errorf("%d locks are left in %d sessions", locks, sessions)
	}
	jit := map[string]int{}
	for range 3 * sessions {
		var value string
		if err := db.QueryRow(t.Context(), "SELECT current_setting('jit')").Scan(&value); err != nil {
			t.Fatal(err)
		}
		jit[value]++
	}
	if jit["off"] > 3*3 { // the sessions in which that migration ran
		t.Errorf("the sessions have the setting jit: %v", jit)
	}
	var own string
	if err := direct.QueryRow(t.Context(), "SELECT current_setting('jit')").Scan(&own); err != nil || own != "off" {
		t.Errorf("a session of its own has jit = %s, %v", own, err)
	}
}
