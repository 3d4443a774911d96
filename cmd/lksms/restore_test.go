package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/platform/config"
	"lksms/internal/testkit/pgtest"
)

// restoreSeed is the seed of TestADatabaseCanBeRestoredToAPointInTime. make test-restore sets it.
var restoreSeed = flag.Uint64("restore.seed", 0, "seed of the test that restores a backup; 0: it is skipped")

// cluster is a PostgreSQL server on which the test runs the commands of docs/operations.md.
type cluster struct {
	t      *testing.T
	dir    string
	env    []string
	who    *syscall.Credential // account of PostgreSQL, because PostgreSQL refuses to run as root; nil: the user of the test
	blocks map[string]string   // the blocks of the document, by name
}

// asDebian replaces what the document expects of Debian: a root shell, and systemd.
const asDebian = `set -eu -o pipefail
sudo() { shift 2; "$@"; } # -u postgres: the test runs as this user
systemctl() {
    case "$*" in
    "stop lksms lksms@*") ;; # the test does it
    "start postgresql@15-main" | "stop postgresql@15-main") pg_ctl "$1" --silent --wait --log="$DIR/log" $([ "$1" = start ] || echo --mode=fast) ;;
    *) echo "systemctl $*: not expected" >&2; return 1 ;;
    esac
}
`

func newCluster(t *testing.T) *cluster {
	t.Helper()
	bin := ""
	for _, glob := range append([]string{config.PostgresBin(), "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"}, config.UnpackedPostgres()...) {
		found, _ := filepath.Glob(glob)
		for _, dir := range slices.Backward(found) {
			if _, err := os.Stat(filepath.Join(dir, "pg_basebackup")); err == nil && bin == "" {
				bin = dir
			}
		}
	}
	if bin == "" {
		t.Fatal("no PostgreSQL with pg_basebackup was found: install it, or set LKSMS_PG_BIN")
	}
	c := &cluster{t: t, dir: pgtest.Dir(t)}
	if os.Geteuid() == 0 {
		c.who = account(t)
	}
	lib := filepath.Join(c.dir, "lib")
	must(t, os.Mkdir(lib, 0o755))
	for _, name := range []string{"archive-wal", "base-backup", "after-restore.sql"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "backup", name))
		must(t, err, os.WriteFile(filepath.Join(lib, name), content, 0o755))
	}
	home := filepath.Join(c.dir, "db")
	must(t, os.Mkdir(home, 0o700))
	if c.who != nil {
		must(t, os.Chown(home, int(c.who.Uid), int(c.who.Gid)))
	}
	c.env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "TZ=UTC", "DIR=" + home, "PGHOST=" + home, "PGUSER=postgres", "LIB=" + lib,
		"PGDATA=" + home + "/main", "BASES=" + home + "/bases", "WAL=" + home + "/wal",
	}
	c.readBlocks()
	c.run(`initdb --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync >/dev/null
		cat >> "$PGDATA/postgresql.conf" <<-SETTINGS
			listen_addresses = ''
			unix_socket_directories = '$PGHOST'
			unix_socket_permissions = 0700
			fsync = off # the machine does not fail here
			max_connections = 200
		SETTINGS
		systemctl start postgresql@15-main
		psql -qc 'CREATE ROLE lksms LOGIN' -c 'CREATE DATABASE lksms OWNER lksms'`)
	t.Cleanup(func() {
		stop := c.command(context.Background(), `pg_ctl stop --silent --mode=immediate || true`)
		_ = stop.Run() // fails if PostgreSQL is already stopped
	})
	return c
}

// account returns the account that PostgreSQL runs as under root.
func account(t *testing.T) *syscall.Credential {
	t.Helper()
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, err := strconv.ParseUint(u.Uid, 10, 32)
			must(t, err)
			gid, err := strconv.ParseUint(u.Gid, 10, 32)
			must(t, err)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Fatal("no user postgres or nobody exists")
	return nil
}

// readBlocks reads the commands of the document. A block follows a line <!-- test-restore: its name -->.
func (c *cluster) readBlocks() {
	c.t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	must(c.t, err)
	c.blocks = map[string]string{}
	for i, part := range strings.Split(string(page), "<!-- test-restore: ") {
		if i == 0 {
			continue
		}
		name, rest, _ := strings.Cut(part, " -->\n```bash\n")
		block, _, isWhole := strings.Cut(rest, "\n```\n")
		if !isWhole {
			c.t.Fatalf("the block %q of the document has no end", name)
		}
		c.blocks[name] = block
	}
}

func (c *cluster) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", asDebian+script)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.who}
	return cmd
}

func (c *cluster) run(script string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Minute)
	defer cancel()
	out, err := c.command(ctx, script).CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, "db", "log"))
		c.t.Fatalf("%v\n%s\n%s\nlog of PostgreSQL:\n%s", err, script, out, log[max(0, len(log)-4000):])
	}
	return strings.TrimSpace(string(out))
}

// follow runs blocks of the document in one shell, and returns the output.
func (c *cluster) follow(before string, names ...string) string {
	c.t.Helper()
	script := before + "\n"
	for _, name := range names {
		block, exists := c.blocks[name]
		if !exists {
			c.t.Fatalf("the document has no block %q", name)
		}
		script += block + "\n"
	}
	return c.run(script)
}

func (c *cluster) url(role string) string {
	return "postgresql:///lksms?user=" + role + "&host=" + filepath.Join(c.dir, "db")
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// submitted is an accepted message, and the request that submitted it.
type submitted struct{ key, number, content, id string }

// life is the load: the submitted, claimed and reported messages.
type life struct {
	t        *testing.T
	dice     *rand.Rand
	messages []submitted
	leases   map[string]int64 // claims without a report, by task
	ended    map[string]int   // the reported status, by task
	retried  map[string]bool
}

func (l *life) submit(p *process, s submitted) string {
	l.t.Helper()
	res, err := p.client().SendSmsWithResponse(l.t.Context(), &api.SendSmsParams{IdempotencyKey: &s.key}, api.SendRequest{PhoneNumber: s.number, Content: &s.content})
	if err != nil || res.JSON200 == nil {
		l.t.Fatalf("submit: %v %s", err, res.Body)
	}
	var answer struct {
		Data struct {
			TaskID string `json:"task_id"`
		}
	}
	must(l.t, json.Unmarshal(res.Body, &answer))
	return answer.Data.TaskID
}

func (l *life) submitNew(p *process, n int) {
	l.t.Helper()
	for range n {
		s := submitted{key: fmt.Sprintf("key-%d", len(l.messages)), number: fmt.Sprintf("138%08d", l.dice.IntN(1e8)), content: fmt.Sprintf("message %d", len(l.messages))}
		s.id = l.submit(p, s)
		l.messages = append(l.messages, s)
	}
}

func (l *life) claim(p *process, app string, n int) (ids []string) {
	l.t.Helper()
	res, err := p.client().ClaimTasksNowWithResponse(l.t.Context(), api.ClaimRequest{AppID: app, Limit: &n})
	if err != nil || res.JSON200 == nil {
		l.t.Fatalf("claim: %v %s", err, res.Body)
	}
	for _, task := range res.JSON200.Data {
		ids, l.leases[task.TaskID] = append(ids, task.TaskID), task.LeaseID
	}
	return ids
}

// report reports a lease, and returns the status code of the response.
func (l *life) report(p *process, app, id string, status int, retry bool) int {
	l.t.Helper()
	lease := l.leases[id]
	res, err := p.client().ReportTaskWithResponse(l.t.Context(), api.ReportRequest{TaskID: id, AppID: app, Status: api.ReportStatus(status), ShouldRetry: &retry, LeaseID: &lease})
	must(l.t, err)
	if res.StatusCode() == 200 {
		delete(l.leases, id)
		if l.ended[id] = status; retry {
			delete(l.ended, id)
			l.retried[id] = true
		}
	}
	return res.StatusCode()
}

// work claims and reports at random, and keeps some leases.
func (l *life) work(p *process, app string, n int) {
	l.t.Helper()
	for _, id := range l.claim(p, app, n) {
		switch l.dice.IntN(6) {
		case 0: // the lease remains, because no report follows
		case 1:
			l.report(p, app, id, 3, true)
		case 2:
			l.report(p, app, id, 3, false)
		default:
			l.report(p, app, id, 2, false)
		}
	}
}

func (l *life) count(conn *pgx.Conn, what, sql string, args ...any) {
	l.t.Helper()
	if n := scan[int](l.t, conn, sql, args...); n != 0 {
		l.t.Errorf("%d %s", n, what)
	}
}

// restoring is a test of a restore: a cluster, a load, and the state at the restore point.
type restoring struct {
	t           *testing.T
	c           *cluster
	l           *life
	environment []string // environment of the servers
	admin       *pgx.Conn
	start       string // cursor of the feed before the load

	at     time.Time        // the restore point
	before []submitted      // messages accepted before the restore point
	leases map[string]int64 // leases at the restore point
	ended  map[string]int   // status at the restore point, by ended task
	kept   []string         // tasks leased at the restore point whose leases are valid after the restore
	lost   []string         // tasks that were leased at the restore point and whose leases expire before the restore

	sent     []string        // tasks that were pending at the restore point and sent after it
	known    map[string]bool // events that a receiver has already received; the receiver drops repetitions
	cursor   string          // cursor of that receiver
	greatest int64           // greatest lease id before the accident
}

// B19: a database is restored to a moment before an accident, with the commands of docs/operations.md. Messages that were accepted before the restore point
// exist exactly once. Leases of the restore point are recovered or reported. Repeated requests get the same responses as before. Requests that were sent
// after the restore point are accepted as new.
func TestADatabaseCanBeRestoredToAPointInTime(t *testing.T) {
	if *restoreSeed == 0 {
		t.Skip("make test-restore runs it")
	}
	c := newCluster(t)
	l := &life{
		t: t, dice: rand.New(rand.NewPCG(*restoreSeed, 0)), leases: map[string]int64{}, ended: map[string]int{}, retried: map[string]bool{},
	}
	c.follow("", "archive")
	r := &restoring{
		t: t, c: c, l: l, known: map[string]bool{},
		environment: []string{"DATABASE_URL=" + c.url("lksms"), "RETRY_DELAY_MINUTES=0.02", "SECRETS_KEY=cmVzdG9yZS1yZXN0b3JlLXJlc3RvcmUtcmVzdG9yZS0="},
	}
	long := serve(t, append(r.environment, "PROCESSING_TIMEOUT_MINUTES=30")...)
	short := serve(t, append(r.environment, "PROCESSING_TIMEOUT_MINUTES=0.1")...)
	r.workUntilTheMoment(long, short)
	r.workAfterTheMoment(long, short)
	r.destroyAndRestore(long, short)

	// First start servers without the roles that send.
	r.admin = connect(t, c.url("postgres"))
	quiet := serve(t, append(r.environment, "ROLES=api,console")...)
	r.expectTheStateOfTheMoment()
	r.cancelAndRepeat(quiet)
	must(t, quiet.stop(syscall.SIGTERM))

	// Then start servers with all roles.
	all := serve(t, append(r.environment, "PROCESSING_TIMEOUT_MINUTES=0.1")...)
	delivered := r.deliver(all)
	r.expectOneOutcomeEach(all)
	r.expectEvents(all, delivered)
}

// pull returns a page of the feed.
func (r *restoring) pull(p *process, after string) *api.EventFeed {
	r.t.Helper()
	limit := 1000
	res, err := p.client().PullEventsWithResponse(r.t.Context(), &api.PullEventsParams{After: optionalText(after), Limit: &limit})
	if err != nil || res.JSON200 == nil {
		r.t.Fatalf("pull after %q: %v %s", after, err, res.Body)
	}
	return &res.JSON200.Data
}

// awaitEvents waits until the feed has an event of every task that has ended.
func (r *restoring) awaitEvents(p *process) {
	r.t.Helper()
	eventually(r.t, "the events are in the feed", func() bool { return len(r.pull(p, r.start).Items) >= len(r.l.ended) })
}

// workUntilTheMoment runs a load, makes base backups, and records the state at the restore point.
func (r *restoring) workUntilTheMoment(long, short *process) {
	r.t.Helper()
	c, l := r.c, r.l
	r.start = r.pull(long, "").NextCursor // events are recorded from here on
	l.submitNew(long, 40+l.dice.IntN(40))
	l.work(long, "app_long", 30)
	c.follow("", "base")
	for range 3 + l.dice.IntN(5) {
		l.submitNew(long, 10+l.dice.IntN(20))
		l.work(long, "app_long", 5+l.dice.IntN(20))
		l.work(short, "app_short", 5+l.dice.IntN(10))
	}
	if l.dice.IntN(2) == 0 {
		c.follow("", "base") // the restore starts from this newer backup
	}
	l.submitNew(long, 20)
	r.kept = l.claim(long, "app_long", 5)
	r.lost = l.claim(short, "app_short", 5)

	// This is the restore point. No request is in progress, so every response so far is older than the restore point.
	r.admin = connect(r.t, c.url("postgres"))
	r.awaitEvents(long)
	r.before, r.leases, r.ended = slices.Clone(l.messages), cloned(l.leases), cloned(l.ended)
	r.at = scan[time.Time](r.t, r.admin, "SELECT clock_timestamp()")
	time.Sleep(1100 * time.Millisecond) // the operator knows the time of the accident only to the second
}

// workAfterTheMoment continues the load. The restore loses all of these changes.
func (r *restoring) workAfterTheMoment(long, short *process) {
	r.t.Helper()
	l := r.l
	// Use more numbers than the 32 that PostgreSQL reserves in advance per sequence, because a restore skips those anyway.
	l.submitNew(long, 60+l.dice.IntN(20))
	for _, id := range l.claim(long, "app_long", 100) {
		l.report(long, "app_long", id, 2, false)
		_, wasLeased := r.leases[id] // a task that was leased at the restore point cannot be cancelled after the restore, so it can be sent twice
		if !wasLeased && slices.ContainsFunc(r.before, func(s submitted) bool { return s.id == id }) {
			r.sent = append(r.sent, id)
		}
	}
	l.report(long, "app_long", r.kept[0], 2, false) // the task was leased at the restore point, and is reported after it
	l.work(short, "app_short", 5)
	r.awaitEvents(long)
	r.cursor = r.start
	for page := r.pull(long, r.cursor); len(page.Items) > 0; page = r.pull(long, r.cursor) {
		for _, event := range page.Items {
			r.known[event.ID] = true
		}
		r.cursor = page.NextCursor
	}
	r.greatest = scan[int64](r.t, r.admin, "SELECT last_value FROM lease_ids")
}

// destroyAndRestore causes an accident, stops the servers, and restores the database.
func (r *restoring) destroyAndRestore(servers ...*process) {
	r.t.Helper()
	accident := []string{"DELETE FROM messages", "DROP TABLE messages CASCADE", "TRUNCATE queue, report_logs", "DROP SCHEMA public CASCADE"}[r.l.dice.IntN(4)]
	if _, err := r.admin.Exec(r.t.Context(), "SET search_path = public; "+accident); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range servers {
		must(r.t, p.stop(syscall.SIGTERM))
	}
	must(r.t, r.admin.Close(r.t.Context()))
	point := r.at.UTC().Format("2006-01-02 15:04:05.999999") + "+00"
	r.t.Logf("seed %d: %d messages, %q, restored to %s", *restoreSeed, len(r.l.messages), accident, point)
	r.t.Log(r.c.follow("AT='"+point+"'", "stop", "restore", "look", "open"))
}

// expectTheStateOfTheMoment compares the restored rows with the state at the restore point.
func (r *restoring) expectTheStateOfTheMoment() {
	r.t.Helper()
	for _, s := range r.before {
		if n := scan[int](r.t, r.admin, "SELECT count(*) FROM messages WHERE content = $1 AND task_id = $2", s.content, s.id); n != 1 {
			r.t.Errorf("%s is there %d times", s.id, n)
		}
	}
	if n := scan[int](r.t, r.admin, "SELECT count(*) FROM messages"); n != len(r.before) {
		r.t.Errorf("%d messages, %d were accepted before the moment", n, len(r.before))
	}
	for id, status := range r.ended {
		if n := scan[int](r.t, r.admin, "SELECT coalesce(min(outcome), 0) FROM report_logs WHERE task_id = $1 AND outcome IS NOT NULL", id); n != status {
			r.t.Errorf("%s has the outcome %d, reported was %d", id, n, status)
		}
	}
	if n := scan[int](r.t, r.admin, "SELECT count(*) FROM queue WHERE lease_until IS NOT NULL AND lease_until > $1", r.at); n > len(r.leases) {
		r.t.Errorf("%d leases, %d were live", n, len(r.leases))
	}
}

// cancelAndRepeat cancels the tasks that were sent after the restore point, and repeats all submissions.
func (r *restoring) cancelAndRepeat(quiet *process) {
	r.t.Helper()
	for _, id := range r.sent { // holds the messages that were sent according to the list of the provider
		res, err := quiet.client().CancelTaskWithResponse(r.t.Context(), id)
		if err != nil || res.StatusCode() != 200 {
			r.t.Errorf("cancel %s: %v %s", id, err, res.Body)
		}
	}
	for i, s := range r.l.messages {
		id := r.l.submit(quiet, s)
		if isOld := i < len(r.before); isOld != (id == s.id) {
			r.t.Errorf("the repeat of %s, accepted before the moment: %v, got %s", s.id, isOld, id)
		} else if !isOld {
			r.l.messages[i].id = id
		}
	}
}

// deliver reports the leases of the restore point, waits until expired leases are recovered, and sends all other tasks. It returns the number of times that
// each task was sent.
func (r *restoring) deliver(all *process) map[string]int {
	r.t.Helper()
	l := r.l
	l.leases = r.leases
	for _, id := range r.kept {
		if code := l.report(all, "app_long", id, 2, false); code != 200 {
			r.t.Errorf("the report of a live lease got %d", code)
		}
	}
	for _, id := range r.lost {
		eventually(r.t, "a lease that ran out is taken back", func() bool {
			return scan[int](r.t, r.admin, "SELECT count(*) FROM queue WHERE task_id = $1 AND lease_until IS NULL AND retry_count > 0", id) == 1
		})
	}
	delivered := map[string]int{}
	if _, err := r.admin.Exec(r.t.Context(), "UPDATE queue SET lease_until = now() WHERE lease_until > now() AND processing_app_id = 'app_long'"); err != nil {
		r.t.Fatal(err) // ends the leases of senders that no longer exist, to save half an hour
	}
	eventually(r.t, "everything is delivered", func() bool {
		for _, id := range l.claim(all, "app_new", 100) {
			if l.leases[id] <= r.greatest {
				r.t.Errorf("the lease %d was given out before", l.leases[id])
			}
			if l.report(all, "app_new", id, 2, false) == 200 {
				delivered[id]++
			}
		}
		return scan[int](r.t, r.admin, "SELECT count(*) FROM queue") == 0
	})
	for id, n := range delivered {
		if n != 1 || slices.Contains(r.sent, id) || r.ended[id] != 0 {
			r.t.Errorf("%s was delivered %d times; it was sent after the moment: %v, settled before it: %v", id, n, slices.Contains(r.sent, id), r.ended[id] != 0)
		}
	}
	return delivered
}

// expectOneOutcomeEach checks that every message exists once and has one outcome, and that the counters equal the rows.
func (r *restoring) expectOneOutcomeEach(all *process) {
	r.t.Helper()
	for _, s := range r.l.messages {
		if n := scan[int](r.t, r.admin, "SELECT count(*) FROM messages m JOIN report_logs r USING (task_id) WHERE m.task_id = $1 AND r.outcome IS NOT NULL", s.id); n != 1 {
			r.t.Errorf("%s has %d outcomes", s.id, n)
		}
	}
	r.l.count(r.admin, "messages exist twice", "SELECT count(*) FROM (SELECT content FROM messages GROUP BY content HAVING count(*) > 1) x")
	statistics, err := all.client().TaskStatisticsWithResponse(r.t.Context())
	must(r.t, err)
	rows := scan[string](r.t, r.admin, `SELECT count(*) FILTER (WHERE outcome = 2) || ' sent, ' || count(*) FILTER (WHERE outcome = 3) || ' failed'
		FROM report_logs WHERE outcome IS NOT NULL`)
	if data := statistics.JSON200; data == nil || fmt.Sprintf("%d sent, %d failed", data.Data.SuccessTasks, data.Data.FailedTasks) != rows {
		r.t.Errorf("the counters say %s, the rows %s", statistics.Body, rows)
	}
}

// expectEvents pulls with the cursor that a receiver had before the accident. It checks that the receiver gets exactly one event of every delivery, apart from
// repetitions of events that it already has.
func (r *restoring) expectEvents(all *process, delivered map[string]int) {
	r.t.Helper()
	heard := map[string]bool{}
	eventually(r.t, "every delivery has its event", func() bool {
		page := r.pull(all, r.cursor)
		for _, event := range page.Items {
			if r.known[event.ID] {
				r.t.Errorf("the id %s was given out before", event.ID)
			}
			var data struct {
				TaskID string `json:"task_id"`
			}
			must(r.t, json.Unmarshal(event.Data, &data))
			heard[data.TaskID] = true
		}
		r.cursor = page.NextCursor
		for id := range delivered {
			if !heard[id] {
				return false
			}
		}
		return true
	})
}

func optionalText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func cloned[V any](m map[string]V) map[string]V {
	c := map[string]V{}
	for k, v := range m {
		c[k] = v
	}
	return c
}
