package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// fault is one kind of fault. strike returns after it has undone the fault, and describes it.
type fault struct {
	name     string
	database bool // PostgreSQL was away: the time from its return until the servers answer is measured
	strike   func(n *nemesis, ctx context.Context) (string, error)
}

var faults = []fault{
	{name: "server killed", strike: (*nemesis).killAtGate},
	{name: "servers restarted in turn", strike: (*nemesis).rollingRestart},
	{name: "sessions terminated", database: true, strike: (*nemesis).terminateSessions},
	{name: "PostgreSQL restarted at once", database: true, strike: (*nemesis).restartPostgres},
	{name: "connections stalled", strike: (*nemesis).stallConnections},
	{name: "connections reset", strike: (*nemesis).resetConnections},
	{name: "replies to COMMIT lost", strike: (*nemesis).loseCommitReplies},
	{name: "replies to COMMIT stalled", strike: (*nemesis).stallCommitReplies},
	{name: "PostgreSQL stopped for seconds", database: true, strike: (*nemesis).freezePostgres},
	{name: "connections exhausted", database: true, strike: (*nemesis).exhaustConnections},
	{name: "disk full", database: true, strike: (*nemesis).fillDisk},
}

// nemesis injects faults from a shuffled deck, so that a short run has every kind.
type nemesis struct {
	stack   *stack
	history *history
	rng     *rand.Rand
	say     func(format string, args ...any)

	deck    []fault
	struck  map[string]int
	returns []time.Duration // times from PostgreSQL's return until both servers answer
}

func newNemesis(seed uint64, s *stack, h *history, say func(string, ...any)) *nemesis {
	return &nemesis{stack: s, history: h, rng: rand.New(rand.NewPCG(seed, 0)), say: say, struck: map[string]int{}}
}

// servingLimit is how long the servers may take to serve again after a fault.
const servingLimit = 30 * time.Second

// run injects faults, one after another, until ctx ends. Every fault is undone when run returns.
func (n *nemesis) run(ctx context.Context) error {
	for pause(ctx, n.between(300, 1200)) {
		if len(n.deck) == 0 {
			n.deck = slices.Clone(faults)
			if !n.stack.mounted {
				n.deck = slices.DeleteFunc(n.deck, func(f fault) bool { return f.name == "disk full" })
			}
			n.rng.Shuffle(len(n.deck), func(i, j int) { n.deck[i], n.deck[j] = n.deck[j], n.deck[i] })
		}
		f := n.deck[0]
		n.deck = n.deck[1:]
		if err := n.deal(context.WithoutCancel(ctx), f); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// deal injects one fault and waits until both servers serve again.
func (n *nemesis) deal(ctx context.Context, f fault) error {
	what, err := f.strike(n, ctx)
	if err != nil {
		return err
	}
	if err := n.stack.revivePostgres(ctx); err != nil {
		return err
	}
	if err := n.awaitPostgres(ctx); err != nil {
		return err
	}
	n.struck[f.name]++
	n.awaitAnswers(f, what)
	return nil
}

// awaitAnswers waits until each server has answered a call that began after now. If one never does, that is a breach.
func (n *nemesis) awaitAnswers(f fault, what string) {
	over := time.Now()
	for _, s := range n.stack.servers {
		for !n.history.servedSince(s, over) {
			if time.Since(over) > servingLimit {
				n.history.breach("%s did not serve within %s after: %s", s.name, servingLimit, f.name)
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	took := time.Since(over)
	if f.database {
		n.returns = append(n.returns, took)
	}
	n.say("%-32s%s; both serve %d ms later", f.name, what, took.Milliseconds())
}

// awaitPostgres returns when PostgreSQL accepts connections.
func (n *nemesis) awaitPostgres(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := n.stack.query(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not return: %w", err)
		}
		if err := n.stack.revivePostgres(ctx); err != nil {
			return err
		}
	}
}

func (n *nemesis) between(low, high int) time.Duration {
	return time.Duration(low+n.rng.IntN(high-low)) * time.Millisecond
}

func (n *nemesis) server() *server { return n.stack.servers[n.rng.IntN(len(n.stack.servers))] }

// gateLimit is how long a gate waits for its message. Under load the message comes within milliseconds.
const gateLimit = 3 * time.Second

// killAtGate kills a server in the middle of a transaction. The message that triggered the gate is not forwarded.
func (n *nemesis) killAtGate(context.Context) (string, error) {
	s, at := n.server(), point(n.rng.IntN(pointsOfATransaction))
	dead := make(chan struct{})
	s.proxy.arm(&gate{point: at, strike: func() bool {
		s.signal(syscall.SIGKILL)
		close(dead)
		return false
	}})
	select {
	case <-dead:
		return s.name + " " + at.String(), nil
	case <-time.After(gateLimit):
		s.proxy.disarm()
		s.signal(syscall.SIGKILL)
		return s.name + " at any moment", nil
	}
}

func (n *nemesis) rollingRestart(ctx context.Context) (string, error) {
	for _, s := range n.stack.servers {
		s.drain()
		if err := n.stack.awaitServing(ctx, servingLimit); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (n *nemesis) terminateSessions(ctx context.Context) (string, error) {
	var count int
	err := n.stack.query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name LIKE 'server-%'`).Scan(&count)
	})
	return fmt.Sprintf("%d of them", count), err
}

func (n *nemesis) restartPostgres(context.Context) (string, error) {
	pids, err := n.stack.postgresProcesses()
	if err != nil {
		return "", err
	}
	_ = syscall.Kill(pids[0], syscall.SIGQUIT) // immediate shutdown: uncommitted work is lost
	<-n.stack.postgres.Exited()
	away := n.between(0, 2000)
	time.Sleep(away)
	return fmt.Sprintf("away for %d ms", away.Milliseconds()), nil
}

func (n *nemesis) stallConnections(context.Context) (string, error) {
	s, d := n.server(), n.between(500, 4000)
	s.proxy.stall()
	time.Sleep(d)
	ends := "and go on"
	if n.rng.IntN(2) == 0 {
		s.proxy.reset()
		ends = "and are reset"
	}
	s.proxy.resume()
	return fmt.Sprintf("%s, for %d ms, %s", s.name, d.Milliseconds(), ends), nil
}

func (n *nemesis) resetConnections(context.Context) (string, error) {
	s, count := n.server(), 0
	for range 3 {
		count += s.proxy.reset()
		time.Sleep(n.between(50, 300))
	}
	return fmt.Sprintf("%s, %d of them", s.name, count), nil
}

// gates arms gates on a server for d, one at a time, and returns how many were triggered.
func (n *nemesis) gates(s *server, d time.Duration, strike func() bool) int64 {
	var triggered atomic.Int64
	for until := time.Now().Add(d); time.Now().Before(until); {
		done := make(chan struct{})
		s.proxy.arm(&gate{point: atCommitReply, strike: func() bool {
			defer close(done)
			triggered.Add(1)
			return strike()
		}})
		select {
		case <-done:
		case <-time.After(gateLimit):
		}
	}
	s.proxy.disarm()
	return triggered.Load()
}

func (n *nemesis) loseCommitReplies(context.Context) (string, error) {
	s := n.server()
	count := n.gates(s, n.between(500, 2000), func() bool { time.Sleep(20 * time.Millisecond); return false })
	return fmt.Sprintf("%s, %d of them", s.name, count), nil
}

func (n *nemesis) stallCommitReplies(context.Context) (string, error) {
	s, d := n.server(), n.between(200, 1500)
	count := n.gates(s, n.between(1000, 3000), func() bool { time.Sleep(d); return true })
	return fmt.Sprintf("%s, %d of them, for %d ms each", s.name, count, d.Milliseconds()), nil
}

func (n *nemesis) freezePostgres(context.Context) (string, error) {
	pids, err := n.stack.postgresProcesses()
	if err != nil {
		return "", err
	}
	d := n.between(1000, 4000)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // a session may have ended meanwhile
	}
	time.Sleep(d)
	for _, pid := range slices.Backward(pids) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return fmt.Sprintf("for %d ms", d.Milliseconds()), nil
}

// exhaustConnections opens every connection that PostgreSQL allows, those of the servers included.
func (n *nemesis) exhaustConnections(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(ctx) // its server process holds no locks
		}
	}()
	grab := func() bool {
		conn, err := pgx.Connect(ctx, n.stack.postgres.AdminURL()) // as a superuser, who can use the reserved connections too
		if err == nil {
			taken = append(taken, conn)
		}
		return err == nil
	}
	for grab() {
	}
	if len(taken) == 0 {
		return "", fmt.Errorf("no connection could be opened")
	}
	_, err := taken[0].Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'server-%'")
	for until := time.Now().Add(n.between(1000, 2500)); time.Now().Before(until); {
		if !grab() {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return fmt.Sprintf("%d of them", len(taken)), err
}

// fillDisk leaves PostgreSQL no disk space. PostgreSQL may fail single statements, or end if it cannot write its WAL.
func (n *nemesis) fillDisk(ctx context.Context) (string, error) {
	filling, cancel := context.WithTimeout(ctx, n.between(2000, 5000))
	defer cancel()
	if err := ballast(filling, filepath.Join(n.stack.dataDir(), "ballast")); err != nil {
		return "", err
	}
	ended := "PostgreSQL went on"
	select {
	case <-n.stack.postgres.Exited():
		ended = "PostgreSQL ended itself"
	default:
	}
	return ended, nil
}

// ballast takes all space of a file system with a file until ctx ends, also space that others free meanwhile.
func ballast(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(path)
	}()
	for {
		var fs syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &fs); err != nil {
			return err
		}
		if fs.Bavail > 0 {
			info, err := f.Stat()
			if err != nil {
				return err
			}
			_ = syscall.Fallocate(int(f.Fd()), 0, info.Size(), int64(fs.Bavail)*fs.Bsize) // other processes may take the space first
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil
		}
	}
}
