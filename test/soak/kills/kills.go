// Package kills kills servers, sessions and PostgreSQL at chosen moments of chosen transactions.
package kills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/check"
	"lksms/test/soak/faults"
	"lksms/test/soak/load"
	"lksms/test/soak/mutants"
	"lksms/test/soak/proxy"
	"lksms/test/soak/run"
	"lksms/test/soak/stack"
)

// killKind is the target and signal of a kill.
type killKind int

const (
	endSession killKind = iota
	killServer
	killSession
	stopPostgres
	killPostgres
	killKinds
)

var killKindNames = [killKinds]string{
	"session ended (SIGTERM)", "server killed", "session killed, PostgreSQL recovers", "PostgreSQL stopped at once, recovers", "PostgreSQL killed, recovers",
}

// killWeights are the frequencies of the kinds, in twentieths. Kinds that make PostgreSQL recover are rare, because a recovery takes a second or two.
var killWeights = [killKinds]int{9, 6, 2, 1, 2}

// killMoment names the moment of a kill. isServed is true if PostgreSQL had finished the statement or the COMMIT, but the server had not received the reply.
func killMoment(at proxy.Point, isServed bool) string {
	switch {
	case at == proxy.AtCommitReply:
		return "at the reply to COMMIT"
	case at == proxy.AtCommit && isServed:
		return "right after COMMIT"
	case at == proxy.AtCommit:
		return "at COMMIT"
	case isServed:
		return "between two statements"
	default:
		return "in a statement"
	}
}

// hit describes a kill during a transaction of the path at which the kill was aimed.
type hit struct {
	path   string
	kind   killKind
	moment string
}

// killer kills transactions of each path in turn, until the number of hits reaches budget.
type killer struct {
	*faults.Nemesis
	budget int
	hits   []hit
	misses int // number of kills for which no transaction of the path started in time
	until  time.Time
}

// killSubmitters is the number of submitting clients. It is small because a kill hits its path under any load, and because a long queue makes the end of a
// round slow.
const killSubmitters = 6

// These are the time limits of a killer.
const (
	aimLimit   = 2 * time.Second  // maximum time until a transaction of the path starts
	fallLimit  = 10 * time.Second // maximum time until the connection of an ended session closes
	roundLimit = 15 * time.Minute // time limit for all kills of a round
)

// Run implements run.Injector.
func (k *killer) Run(ctx context.Context) error {
	var deck []*proxy.Path
	k.until = time.Now().Add(roundLimit)
	for len(k.hits) < k.budget && time.Now().Before(k.until) && stack.Pause(ctx, k.Between(20, 350)) {
		if len(deck) == 0 {
			deck = slices.Clone(proxy.Paths)
			k.Rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		p := deck[0]
		deck = deck[1:]
		if err := k.killOn(context.WithoutCancel(ctx), p); err != nil {
			return fmt.Errorf("kill on the path %s: %w", p.Name, err)
		}
	}
	if len(k.hits) < k.budget && ctx.Err() == nil {
		k.History.Breach("only %d of %d kills hit within %s", len(k.hits), k.budget, roundLimit)
	}
	return nil
}

// deal returns a random kind of kill that is possible on the path.
func (k *killer) deal(p *proxy.Path) killKind {
	for {
		n, kind := k.Rng.IntN(20), endSession
		for n >= killWeights[kind] {
			n -= killWeights[kind]
			kind++
		}
		if !p.IsClient || kind != killServer {
			return kind
		}
	}
}

// killOn kills once on a path. If no transaction reaches the chosen point in time, killOn kills at the next statement of the path.
func (k *killer) killOn(ctx context.Context, p *proxy.Path) error {
	kind, at := k.deal(p), []proxy.Point{proxy.AtStatement, proxy.AtStatement, proxy.AtCommit, proxy.AtCommitReply}[k.Rng.IntN(4)]
	struck, err := k.kill(p, kind, at)
	if err == nil && struck == nil && at != proxy.AtStatement {
		at = proxy.AtStatement
		struck, err = k.kill(p, kind, at)
	}
	switch {
	case err != nil:
		return err
	case struck == nil:
		k.misses++
		return nil
	}
	moment := killMoment(at, struck.WasServed())
	k.hits = append(k.hits, hit{p.Name, kind, moment})
	what := fmt.Sprintf("%s, %s", p.Name, moment)
	if kind != endSession && kind != killServer {
		if err := k.returnPostgres(ctx); err != nil {
			return err
		}
	}
	if kind == endSession || k.Rng.IntN(4) > 0 {
		k.Say("%3d  %-41s%s", len(k.hits), killKindNames[kind], what)
		return nil // killOn does not wait, so that the next kill can hit servers that still start or reconnect
	}
	k.AwaitAnswers(faults.Fault{Name: killKindNames[kind], Database: kind != killServer}, fmt.Sprintf("  %3d  %s", len(k.hits), what))
	return nil
}

// kill waits for a transaction of the path at the point, and kills its session, its server or PostgreSQL. It returns the connection that was hit, or nil if no
// transaction reached the point.
func (k *killer) kill(p *proxy.Path, kind killKind, at proxy.Point) (struck *proxy.Link, err error) {
	isForwarded := k.Rng.IntN(2) == 0
	delay := time.Duration(k.Rng.IntN([]int{200, 2000}[k.Rng.IntN(2)])) * time.Microsecond // many statements take less than a millisecond
	var failure error
	links := make(chan *proxy.Link, 1)
	a := &proxy.Aim{Path: p, At: at}
	a.Strike = func(l *proxy.Link) (pass bool) {
		if kind == killServer {
			k.serverOf(l.Proxy).Signal(syscall.SIGKILL)
			links <- l
			return at != proxy.AtCommitReply && isForwarded
		}
		pid := l.Hold()
		strike := func() {
			failure = k.strikeSession(kind, pid)
			links <- l
		}
		if at == proxy.AtCommitReply {
			strike()
			return false
		}
		go func() {
			time.Sleep(delay)
			strike()
		}()
		return true
	}
	k.aimAll(a)
	defer k.aimAll(nil)
	var l *proxy.Link
	select {
	case l = <-links:
	case <-time.After(aimLimit):
		if a.Taken.CompareAndSwap(false, true) {
			return nil, nil
		}
		l = <-links
	}
	if errors.Is(failure, syscall.ESRCH) { // the session had already ended
		return nil, nil
	}
	if failure != nil {
		return nil, failure
	}
	select {
	case <-l.Over:
		return l, nil
	case <-time.After(fallLimit):
		k.History.Breach("a session survived: %s", killKindNames[kind])
		return nil, nil
	}
}

// aimAll sets the aim of all proxies.
func (k *killer) aimAll(a *proxy.Aim) {
	for _, s := range k.Stack.Servers {
		s.Proxy.Aim.Store(a)
	}
	k.Stack.ClientProxy.Aim.Store(a)
}

func (k *killer) serverOf(p *proxy.Proxy) *stack.Server {
	for _, s := range k.Stack.Servers {
		if s.Proxy == p {
			return s
		}
	}
	panic("a kill of a server was aimed at a client")
}

// strikeSession kills a session, or PostgreSQL.
func (k *killer) strikeSession(kind killKind, pid int) error {
	if kind == endSession { // has the same effect as pg_terminate_backend
		return syscall.Kill(pid, syscall.SIGTERM)
	}
	if kind == killSession {
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	pids, err := k.Stack.PostgresProcesses()
	if err != nil {
		return err
	}
	if kind == stopPostgres {
		return syscall.Kill(pids[0], syscall.SIGQUIT)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // a child can end meanwhile
	}
	return nil
}

// returnPostgres starts PostgreSQL if it has ended, and waits until it accepts connections.
func (k *killer) returnPostgres(ctx context.Context) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := k.Stack.RevivePostgres(ctx) // returns an error while processes of the killed PostgreSQL still run
		if err == nil {
			err = k.Stack.Query(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not accept connections again: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killedRound is the stored result of a round of kills.
type killedRound struct {
	Seed       uint64                    `json:"seed"`
	Code       string                    `json:"code"` // commit of the server
	Began      time.Time                 `json:"began"`
	Seconds    float64                   `json:"seconds"`
	Kills      int                       `json:"kills"`
	Misses     int                       `json:"misses"` // number of kills for which no transaction of the path started in time
	ByPath     map[string]map[string]int `json:"by_path"`
	ByMoment   map[string]int            `json:"by_moment"`
	Accepted   int                       `json:"accepted"`
	Leases     int                       `json:"leases"`
	Pushed     int                       `json:"pushed"` // number of messages that the provider accepted
	Unknown    int64                     `json:"unknown"`
	Lost       int                       `json:"lost"`
	Doubled    int                       `json:"doubled"`
	Invariants int                       `json:"invariants"`
	Broken     []string                  `json:"broken,omitempty"`
}

// lossInvariants and doubleInvariants are prefixes of the names of invariants. The invariants of lossInvariants count lost messages. The invariants of
// doubleInvariants count tasks that were leased twice although the first lease had not expired.
var (
	lossInvariants   = []string{"every accepted message exists", "every message has exactly one place", "the queue is empty", "an order is stored"}
	doubleInvariants = []string{
		"no message exists twice", "leases of a task never overlap", "a lease ends once", "a task ends once", "every message that the provider accepted",
		"a lease that its sender started",
	}
)

func countBroken(verdicts []check.Verdict, of []string) (n int) {
	for _, v := range verdicts {
		if slices.ContainsFunc(of, func(name string) bool { return strings.HasPrefix(v.Name, name) }) {
			n += v.Broken
		}
	}
	return n
}

// killLog is the file of the finished rounds, with which an interrupted run can continue.
type killLog struct {
	path   string
	Rounds []killedRound `json:"rounds"`
}

func openKillLog(dir string) (*killLog, error) {
	k := &killLog{path: filepath.Join(dir, "kills.json")}
	content, err := os.ReadFile(k.path)
	if errors.Is(err, os.ErrNotExist) {
		return k, os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = json.Unmarshal(content, k)
	}
	if err != nil {
		return nil, fmt.Errorf("read the rounds so far: %w", err)
	}
	return k, nil
}

// add stores a round. It replaces the whole file atomically.
func (k *killLog) add(r killedRound) error {
	k.Rounds = append(k.Rounds, r)
	content, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.WriteFile(k.path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(k.path+".new", k.path)
	}
	if err != nil {
		return fmt.Errorf("store the round: %w", err)
	}
	return nil
}

func (k *killLog) kills() (n int) {
	for _, r := range k.Rounds {
		n += r.Kills
	}
	return n
}

// Options are the flags of a run of kills.
type Options struct {
	Kills   int    // required number of hits
	Dir     string // folder of killLog
	Portion int    // kills per round
	Binary  string // path of a built server; empty: build it

	code string // commit of the server
}

// Run runs rounds of kills until o.Kills kills have hit their path. Each round has a fresh database and a different seed.
func Run(ctx context.Context, soak *run.Run, o Options) error {
	soak.Began = time.Now()
	soak.Duration, soak.RoundLength = 24*time.Hour, 24*time.Hour // the kills decide when a round ends
	o.code = codeOf(ctx)
	if soak.Seed != 0 { // repeats the round of this seed
		r, err := killRound(ctx, soak, o, soak.Seed, o.Kills, nil)
		if err == nil {
			(&killLog{Rounds: []killedRound{r}}).print(os.Stdout)
		}
		return err
	}
	log, err := openKillLog(o.Dir)
	if err != nil {
		return err
	}
	if done := log.kills(); done > 0 {
		fmt.Printf("soak: continues after %d kills in %d rounds, stored in %s\n", done, len(log.Rounds), log.path)
	}
	if o.Binary == "" {
		dir, err := filepath.Abs(o.Dir)
		if err == nil {
			o.Binary, err = stack.Build(ctx, dir, nil)
		}
		if err != nil {
			return err
		}
	}
	for log.kills() < o.Kills && ctx.Err() == nil {
		seed := rand.Uint64() >> 40
		r, err := killRound(ctx, soak, o, seed, min(o.Portion, o.Kills-log.kills()), nil)
		if err != nil && !errors.Is(err, run.ErrBroken) {
			if ctx.Err() != nil { // the run was interrupted before the check
				return fmt.Errorf("round with seed %d: %w", seed, err)
			}
			r.Seed, r.Broken = seed, append(r.Broken, err.Error()) // a PostgreSQL that does not return is also a violation
		}
		if keeping := log.add(r); keeping != nil {
			return keeping
		}
		fmt.Printf("soak: %d kills of %d, in %s\n", log.kills(), o.Kills, soak.Elapsed().Round(time.Second))
		if err != nil {
			return fmt.Errorf("seed %d, repeat with `make soak KILLS=%d SEED=%d`: %w", seed, r.Kills, seed, err)
		}
	}
	log.print(os.Stdout)
	hit := map[string]bool{}
	for _, r := range log.Rounds {
		if len(r.Broken) > 0 {
			return fmt.Errorf("round with seed %d: %w", r.Seed, run.ErrBroken)
		}
		for path := range r.ByPath {
			hit[path] = true
		}
	}
	for _, p := range proxy.Paths {
		if !hit[p.Name] && log.kills() >= manyKills && ctx.Err() == nil {
			return fmt.Errorf("no kill hit %q: its statements were renamed or never run", p.Name)
		}
	}
	return ctx.Err()
}

// manyKills is enough to hit every path, because the kills aim at the paths in turn.
const manyKills = 200

// killRound runs one round of kills. It returns run.ErrBroken if an invariant does not hold.
func killRound(ctx context.Context, soak *run.Run, o Options, seed uint64, budget int, m *mutants.Mutant) (r killedRound, err error) {
	began := time.Now()
	fmt.Printf("soak: seed %d, %d kills\n", seed, budget)
	dir, err := stack.NewDir()
	if err != nil {
		return r, err
	}
	binary := o.Binary
	if binary == "" {
		if binary, err = stack.Build(ctx, dir, m.OverlayOrNil()); err != nil {
			return r, errors.Join(err, os.RemoveAll(dir))
		}
	}
	stack, err := stack.Start(ctx, dir, binary)
	defer func() { err = soak.StopStack(stack, m != nil, err) }()
	if err != nil {
		return r, err
	}
	sc, err := run.NewScene(seed, stack)
	if err != nil {
		return r, err
	}
	defer sc.Close()
	sc.Load.Submitters, sc.HasAllClients = killSubmitters, true
	if err := sc.SetUp(ctx); err != nil {
		return r, err
	}
	k := &killer{Nemesis: faults.NewNemesis(seed, stack, sc.History, soak.Say), budget: budget}
	verdicts, err := soak.Round(ctx, 1, sc, k)
	if err != nil {
		return r, err
	}
	r = killedRound{
		Seed: seed, Code: o.code, Began: began, Seconds: time.Since(began).Seconds(), Kills: len(k.hits), Misses: k.misses,
		ByPath: map[string]map[string]int{}, ByMoment: map[string]int{},
		Accepted: sc.History.Accepted(), Leases: len(sc.History.Claims), Pushed: sc.Load.Provider.Total(), Unknown: sc.History.Calls[load.Unknown].Load(),
		Lost: countBroken(verdicts, lossInvariants), Doubled: countBroken(verdicts, doubleInvariants), Invariants: len(verdicts),
	}
	for _, h := range k.hits {
		if r.ByPath[h.path] == nil {
			r.ByPath[h.path] = map[string]int{}
		}
		r.ByPath[h.path][killKindNames[h.kind]]++
		r.ByMoment[h.moment]++
	}
	sc.Print()
	soak.Findings = nil
	for _, v := range check.Broken(verdicts) {
		soak.Findings = append(soak.Findings, v.Name)
		r.Broken = append(r.Broken, fmt.Sprintf("%s: %d times: %s", v.Name, v.Broken, strings.Join(v.Samples, "; ")))
	}
	if len(soak.Findings) > 0 {
		check.Print(verdicts)
		return r, run.ErrBroken
	}
	return r, nil // the result is also valid after an interruption, because the checks ran
}

// codeOf returns the current commit, or "unknown".
func codeOf(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// print prints the totals of all rounds.
func (k *killLog) print(out *os.File) {
	total := killedRound{ByPath: map[string]map[string]int{}, ByMoment: map[string]int{}}
	byKind := map[string]int{}
	var seeds []string
	for _, r := range k.Rounds {
		seeds = append(seeds, fmt.Sprint(r.Seed))
		total.Kills, total.Misses, total.Seconds = total.Kills+r.Kills, total.Misses+r.Misses, total.Seconds+r.Seconds
		total.Accepted, total.Leases, total.Pushed = total.Accepted+r.Accepted, total.Leases+r.Leases, total.Pushed+r.Pushed
		total.Unknown, total.Lost, total.Doubled = total.Unknown+r.Unknown, total.Lost+r.Lost, total.Doubled+r.Doubled
		total.Invariants = cmp.Or(total.Invariants, r.Invariants)
		for _, b := range r.Broken {
			total.Broken = append(total.Broken, fmt.Sprintf("seed %d: %s", r.Seed, b))
		}
		for path, kinds := range r.ByPath {
			if total.ByPath[path] == nil {
				total.ByPath[path] = map[string]int{}
			}
			for kind, n := range kinds {
				total.ByPath[path][kind] += n
				byKind[kind] += n
			}
		}
		for at, n := range r.ByMoment {
			total.ByMoment[at] += n
		}
	}
	say := func(format string, values ...any) { _, _ = fmt.Fprintf(out, format, values...) }
	say("\nsoak: %d kills in %d rounds, %s; %d kills found no transaction and do not count\n\n", total.Kills, len(k.Rounds),
		time.Duration(total.Seconds*float64(time.Second)).Round(time.Second), total.Misses)
	say("| path | kills |")
	for _, name := range killKindNames {
		say(" %s |", name)
	}
	say("\n|---%s|\n", strings.Repeat("|---", int(killKinds)+1))
	row := func(name string, kinds map[string]int) {
		n := 0
		for _, of := range kinds {
			n += of
		}
		say("| %s | %d |", name, n)
		for _, kind := range killKindNames {
			say(" %d |", kinds[kind])
		}
		say("\n")
	}
	for _, p := range proxy.Paths {
		row(p.Name, total.ByPath[p.Name])
	}
	row("**all**", byKind)
	say("\n")
	for _, at := range slices.Sorted(maps.Keys(total.ByMoment)) {
		say("  %6d  %s\n", total.ByMoment[at], at)
	}
	say("\n  %d messages accepted, %d leases, %d messages accepted by the provider, %d calls with an unknown outcome\n",
		total.Accepted, total.Leases, total.Pushed, total.Unknown)
	say("  %d lost, %d handed out twice without an expired lease; %d invariants after each round, %d broken\n", total.Lost, total.Doubled,
		total.Invariants, len(total.Broken))
	for _, b := range total.Broken {
		say("  BROKEN  %s\n", b)
	}
	say("  seeds: %s\n", strings.Join(seeds, ", "))
}

// mutantKills is the default number of kills to find a mutant.
const mutantKills = 100

// RunMutant runs a round of kills against a mutant.
func RunMutant(ctx context.Context, soak *run.Run, o Options, m *mutants.Mutant) error {
	soak.Began = time.Now()
	soak.Duration, soak.RoundLength = 24*time.Hour, 24*time.Hour // the kills decide when the round ends
	_, err := killRound(ctx, soak, o, cmp.Or(soak.Seed, rand.Uint64()>>40), cmp.Or(o.Kills, mutantKills), m)
	return err
}
