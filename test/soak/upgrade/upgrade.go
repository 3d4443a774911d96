// Package upgrade replaces servers of an earlier version with servers of this version under load, and then downgrades again.
package upgrade

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/run"
	"lksms/test/soak/stack"
)

const (
	// shortUpgrade is the duration up to which all phases share one round and one check.
	shortUpgrade = time.Minute
	// upgradeLimit is the time limit for a new server to become ready. Its migrations wait for the long transaction.
	upgradeLimit = 2 * time.Minute
	// longTransaction is the maximum duration of the long transaction.
	longTransaction = 15 * time.Second
	// waitsOfMigration is the number of times that a migration must wait for the long transaction before this transaction ends.
	waitsOfMigration = 2
)

// version is a build of the server.
type version struct{ name, binary, contract string }

// Run replaces servers of an earlier version with servers of this version, downgrades, and upgrades again. Meanwhile the load of the soak runs.
func Run(ctx context.Context, soak *run.Run, from string) (err error) {
	fmt.Printf("upgrade: seed %d, from %s, %s\n", soak.Seed, from, soak.Duration)
	soak.Began = time.Now()
	dir, err := stack.NewDir()
	if err != nil {
		return err
	}
	older, newer, err := buildVersions(ctx, dir, from)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	soak.Say("both versions are built")
	stack, err := stack.Start(ctx, dir, older.binary)
	defer func() { err = soak.StopStack(stack, false, err) }()
	if err != nil {
		return err
	}
	sc, err := run.NewScene(soak.Seed, stack)
	if err != nil {
		return err
	}
	defer sc.Close()
	sc.Load.Contract = older.contract
	f := newTraffic(stack.Servers)
	sc.History.OnAnswer = f.record
	for _, pool := range sc.Load.Pools {
		pool.DialContext = f.dial
	}
	if err := sc.SetUp(ctx); err != nil {
		return err
	}
	u := &upgrader{stack: stack, history: sc.History, traffic: f, rng: rand.New(rand.NewPCG(soak.Seed, 0)), say: soak.Say}
	phases := []phase{{"forward", older, newer}, {"back", newer, older}, {"forward again", older, newer}}
	rounds := [][]phase{phases}
	if soak.Duration > shortUpgrade {
		rounds = [][]phase{phases[:1], phases[1:2], phases[2:]}
	}
	soak.Began = time.Now()
	u.load = soak.Duration / time.Duration(len(phases))
	soak.RoundLength = soak.Duration // the phases decide when a round ends
	var verdicts []check.Verdict
	for i, these := range rounds {
		u.phases = these
		if verdicts, err = soak.Round(ctx, i+1, sc, u); err != nil {
			return err
		}
		if len(check.Broken(verdicts)) > 0 || ctx.Err() != nil {
			break
		}
	}
	ofLogs, err := u.logVerdict()
	if err != nil {
		return err
	}
	verdicts = append(verdicts, f.verdict(u.unready), ofLogs)
	fmt.Printf("\nupgrade: seed %d, from %s, in %s\n\n", soak.Seed, from, soak.Elapsed().Round(time.Second))
	u.print()
	sc.Print()
	check.Print(verdicts)
	if len(check.Broken(verdicts)) > 0 {
		return run.ErrBroken
	}
	return ctx.Err()
}

// buildVersions builds the server of a commit, and the server of the working tree.
func buildVersions(ctx context.Context, dir, ref string) (older, newer version, err error) {
	root, err := stack.ProjectRoot(ctx)
	if err != nil {
		return older, newer, err
	}
	git := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		return cmd.Output()
	}
	commit, err := git("rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if err != nil {
		return older, newer, fmt.Errorf("git does not have %s, the version to upgrade from. In a shallow clone, fetch it: git fetch --unshallow", ref)
	}
	source := filepath.Join(dir, "older")
	if err := os.Mkdir(source, 0o755); err != nil {
		return older, newer, fmt.Errorf("create folder: %w", err)
	}
	packed, err := git("archive", strings.TrimSpace(string(commit)))
	if err != nil {
		return older, newer, fmt.Errorf("read %s from git: %w", ref, err)
	}
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", source)
	unpack.Stdin = bytes.NewReader(packed)
	if out, err := unpack.CombinedOutput(); err != nil {
		return older, newer, fmt.Errorf("unpack %s: %w\n%s", ref, err, out)
	}
	contract, err := os.ReadFile(filepath.Join(source, "api", "openapi.yaml"))
	if err != nil {
		return older, newer, fmt.Errorf("read the contract of %s: %w", ref, err)
	}
	older = version{"older", filepath.Join(dir, "lksms-older"), string(contract)}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-X main.version="+ref+" -X lksms/internal/platform/build.version="+ref, "-o", older.binary, "./cmd/lksms")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return older, newer, fmt.Errorf("build %s: %w\n%s", ref, err, out)
	}
	newer.name = "newer"
	newer.binary, err = stack.Build(ctx, dir, nil)
	return older, newer, errors.Join(err, os.RemoveAll(source))
}

// phase is the replacement of all servers, one after another.
type phase struct {
	name     string
	from, to version
}

// restart is the measured replacement of one server.
type restart struct {
	phase, server   string
	stop, wait      time.Duration // stop: time until the old process ended; wait: time from then until the new process was ready
	waitsOfMigrator int
}

// upgrader is an injector that replaces servers.
type upgrader struct {
	stack   *stack.Stack
	history *load.History
	traffic *traffic
	rng     *rand.Rand
	say     func(format string, args ...any)
	phases  []phase
	load    time.Duration // duration of each phase

	restarts []restart
	laps     []lap
	unready  map[*stack.Server][]stack.Window // for each server, the time spans from SIGTERM until the next process was ready
}

// lap is the time span of a phase.
type lap struct {
	name string
	span stack.Window
}

// Run implements run.Injector.
func (u *upgrader) Run(ctx context.Context) error {
	for _, t := range u.phases {
		began := time.Now()
		if err := u.replaceAll(context.WithoutCancel(ctx), t, began); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		u.laps = append(u.laps, lap{t.name, stack.Window{From: began, To: time.Now()}})
	}
	return nil
}

// replaceAll replaces the servers with servers of another version, one after another. The load also runs before, between and after the replacements.
func (u *upgrader) replaceAll(ctx context.Context, t phase, began time.Time) error {
	share := u.load / time.Duration(len(u.stack.Servers)+1)
	for i, s := range u.stack.Servers {
		until := began.Add(time.Duration(i)*share + time.Duration(float64(share)*(0.5+u.rng.Float64()/2)))
		stack.Pause(ctx, time.Until(until))
		isFirst := len(u.restarts) == 0 // the first new server runs the migrations
		var over func() int
		if isFirst {
			var err error
			if over, err = u.beginLongTransaction(ctx); err != nil {
				return err
			}
		}
		r, err := u.replace(ctx, t, s)
		if over != nil {
			r.waitsOfMigrator = over()
		}
		if err != nil {
			return err
		}
		u.restarts = append(u.restarts, r)
		u.say("%-14s%s: stopped in %d ms, then ready after %d ms%s", t.name, s.Name, r.stop.Milliseconds(), r.wait.Milliseconds(), r.suffix())
	}
	stack.Pause(ctx, time.Until(began.Add(u.load)))
	return nil
}

func (r restart) suffix() string {
	if r.waitsOfMigrator == 0 {
		return ""
	}
	return fmt.Sprintf("; a migration waited %d times for a long transaction", r.waitsOfMigrator)
}

// replace stops a server with SIGTERM, and waits until its successor is ready.
func (u *upgrader) replace(ctx context.Context, t phase, s *stack.Server) (restart, error) {
	began := time.Now()
	log := filepath.Join(u.stack.Dir, s.Name+"-"+t.to.name+".log")
	s.Binary, s.LogPath = t.to.binary, log // the next process uses these values
	s.Drain()
	stopped := time.Now()
	err := stack.Await(ctx, upgradeLimit, s.Name+" is not ready (see "+log+")", s.Ready)
	now := time.Now()
	if u.unready == nil {
		u.unready = map[*stack.Server][]stack.Window{}
	}
	u.unready[s] = append(u.unready[s], stack.Window{From: began, To: now})
	return restart{phase: t.name, server: s.Name, stop: stopped.Sub(began), wait: now.Sub(stopped)}, err
}

// beginLongTransaction starts a transaction that locks every table for reading, like a backup. The transaction ends when a migration has waited
// waitsOfMigration times for the transaction, or when over is called. over returns the number of waits.
func (u *upgrader) beginLongTransaction(ctx context.Context) (over func() int, err error) {
	begun, end, done := make(chan error, 1), make(chan struct{}), make(chan int, 1)
	go func() {
		waits := 0
		err := u.stack.Query(ctx, func(conn *pgx.Conn) error {
			tx, err := conn.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx) //nolint:errcheck // the transaction changes nothing
			if _, err := tx.Exec(ctx, `DO $$ BEGIN EXECUTE (
				SELECT 'LOCK TABLE ' || string_agg(c.oid::regclass::text, ', ') || ' IN ACCESS SHARE MODE' FROM pg_class c
				WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			); END $$`); err != nil {
				return err
			}
			begun <- nil
			deadline, wasWaiting := time.After(longTransaction), false
			for waits < waitsOfMigration || wasWaiting {
				isWaiting := false
				if err := u.stack.Query(ctx, func(other *pgx.Conn) error {
					return other.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
						WHERE NOT l.granted AND l.locktype = 'relation' AND starts_with(a.application_name, 'lksms migrate'))`).Scan(&isWaiting)
				}); err != nil {
					return err
				}
				if isWaiting && !wasWaiting {
					waits++
				}
				wasWaiting = isWaiting
				select {
				case <-deadline:
					return nil
				case <-end:
					return nil
				case <-time.After(20 * time.Millisecond):
				}
			}
			return nil
		})
		if err != nil {
			u.history.Breach("the long transaction failed: %v", err)
		}
		select {
		case begun <- err:
		default:
		}
		done <- waits
	}()
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("begin a long transaction: %w", err)
	}
	return sync.OnceValue(func() int { close(end); return <-done }), nil
}

// schemaStates contains classes of SQLSTATE. A statement fails with a code of these classes if it does not fit the schema, could not get a lock, or has a
// cached plan that became invalid.
var schemaStates = []string{"SQLSTATE 42", "SQLSTATE 23", "SQLSTATE 0A", "SQLSTATE 55", "SQLSTATE 40", "SQLSTATE 22", "SQLSTATE XX"}

// logVerdict searches the logs of all servers for errors.
func (u *upgrader) logVerdict() (check.Verdict, error) {
	v := check.Verdict{Name: "no server logs an error, or a statement that failed because of the schema"}
	paths, err := filepath.Glob(filepath.Join(u.stack.Dir, "server-*.log"))
	if err != nil {
		return v, err
	}
	for _, path := range paths {
		isOlder := strings.HasSuffix(path, "-older.log")
		file, err := os.Open(path)
		if err != nil {
			return v, fmt.Errorf("read log: %w", err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			isKnown := isOlder && strings.Contains(lines.Text(), "does not know all columns of facts") // an older version cannot fold facts with new columns: see facts_guard
			if isTrouble(lines.Bytes()) && !isKnown {
				v.Add(filepath.Base(path) + ": " + lines.Text())
			}
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			return v, fmt.Errorf("read log: %w", err)
		}
	}
	return v, nil
}

// isTrouble reports whether a line of a server's log describes an error of the server, or a statement that failed because of the schema.
func isTrouble(line []byte) bool {
	var entry struct {
		Level, Msg, Error string
	}
	if json.Unmarshal(line, &entry) != nil {
		return false // the line is the banner and not JSON
	}
	if entry.Level == "ERROR" {
		// The clients count 5xx responses themselves. Cancelled requests and timeouts are expected on a slow machine.
		return entry.Msg != "request" && !strings.Contains(entry.Error, "context canceled") && !strings.Contains(entry.Error, "context deadline exceeded")
	}
	return entry.Level == "WARN" && slices.ContainsFunc(schemaStates, func(state string) bool { return strings.Contains(entry.Error, state) }) &&
		!strings.HasPrefix(entry.Msg, "a migration waits")
}

// traffic records the responses of the servers while they are replaced.
type traffic struct {
	byHost map[string]*stack.Server

	mu       sync.Mutex
	answers  [load.KindsOfCalls][]span
	failures []failure
	refusals atomic.Int64 // refused connections
}

// span is the time span of a successful call.
type span struct{ began, ended time.Time }

// failure is a 5xx response.
type failure struct {
	server *stack.Server
	span
	status int
	path   string
}

func newTraffic(servers []*stack.Server) *traffic {
	f := &traffic{byHost: map[string]*stack.Server{}}
	for _, s := range servers {
		f.byHost[strings.TrimPrefix(s.URL, "http://")] = s
	}
	return f
}

// dial opens a connection, and counts failures.
func (f *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		f.refusals.Add(1)
	}
	return conn, err
}

// record records a response. It is used as History.OnAnswer.
func (f *traffic) record(r *http.Request, began time.Time, status int) {
	one := span{began, time.Now()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if status >= http.StatusInternalServerError {
		f.failures = append(f.failures, failure{f.byHost[r.URL.Host], one, status, r.URL.Path})
	}
	if kind, ok := load.KindsByPath[r.URL.Path]; ok && status == http.StatusOK {
		f.answers[kind] = append(f.answers[kind], one)
	}
}

// verdict counts the 5xx responses, except a 503 of a server that was not ready.
func (f *traffic) verdict(unready map[*stack.Server][]stack.Window) check.Verdict {
	v := check.Verdict{Name: "every 5xx is a 503 of a server that is not ready"}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.failures {
		isUnready := slices.ContainsFunc(unready[one.server], func(w stack.Window) bool { return w.Holds(one.ended) || w.Holds(one.began) })
		if !isUnready || one.status != http.StatusServiceUnavailable {
			v.Add(fmt.Sprintf("%d of %s for %s at %s", one.status, one.server.Name, one.path, one.ended.Format("15:04:05.000")))
		}
	}
	return v
}

// longest returns, for a kind of calls, the longest time within w without a response (outage), and the duration of the longest call that ended in w (took).
func (f *traffic) longest(kind int, w stack.Window) (outage, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := w.From
	for _, one := range slices.SortedFunc(slices.Values(f.answers[kind]), func(a, b span) int { return cmp.Compare(a.ended.UnixNano(), b.ended.UnixNano()) }) {
		if !w.Holds(one.ended) {
			continue
		}
		outage, took, last = max(outage, one.ended.Sub(last)), max(took, one.ended.Sub(one.began)), one.ended
	}
	return max(outage, w.To.Sub(last)), took
}

// failuresIn returns the number of 5xx responses within w.
func (f *traffic) failuresIn(w stack.Window) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.failures {
		if w.Holds(one.ended) {
			n++
		}
	}
	return n
}

// print prints the effect of each phase on the clients.
func (u *upgrader) print() {
	fmt.Printf("  %-14s%8s%10s%10s%14s%14s%14s%14s\n", "", "503", "stop", "ready", load.KindNames[load.SubmitCall], load.KindNames[load.ClaimCall], load.KindNames[load.WaitCall], load.KindNames[load.ReportCall])
	for _, p := range u.laps {
		var stop, wait time.Duration
		for _, r := range u.restarts {
			if r.phase == p.name {
				stop, wait = max(stop, r.stop), max(wait, r.wait)
			}
		}
		fmt.Printf("  %-14s%8d%8.1f s%8.1f s", p.name, u.traffic.failuresIn(p.span), stop.Seconds(), wait.Seconds())
		for kind := range load.KindsOfCalls {
			without, took := u.traffic.longest(kind, p.span)
			fmt.Printf("%6.2f /%4.1f s", without.Seconds(), took.Seconds())
		}
		fmt.Println()
	}
	fmt.Println("  503: responses of servers that were not ready. stop, ready: of the slower server. Other columns: longest gap between responses / longest successful call.")
	fmt.Printf("  %5d  connections refused\n\n", u.traffic.refusals.Load())
}
