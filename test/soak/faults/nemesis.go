// Package faults injects faults into two servers and their PostgreSQL under load.
package faults

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

	"lksms/test/soak/load"
	"lksms/test/soak/proxy"
	"lksms/test/soak/stack"
)

// Fault is one kind of fault. strike injects the fault, undoes it, and returns a description.
type Fault struct {
	Name     string
	Database bool // the fault makes PostgreSQL unavailable; the time from the return of PostgreSQL until the servers answer is measured
	strike   func(n *Nemesis, ctx context.Context) (string, error)
}

var kinds = []Fault{
	{Name: "server killed", strike: (*Nemesis).killAtGate},
	{Name: "servers restarted in turn", strike: (*Nemesis).rollingRestart},
	{Name: "sessions terminated", Database: true, strike: (*Nemesis).terminateSessions},
	{Name: "PostgreSQL restarted at once", Database: true, strike: (*Nemesis).restartPostgres},
	{Name: "connections stalled", strike: (*Nemesis).stallConnections},
	{Name: "connections reset", strike: (*Nemesis).resetConnections},
	{Name: "replies to COMMIT lost", strike: (*Nemesis).loseCommitReplies},
	{Name: "replies to COMMIT stalled", strike: (*Nemesis).stallCommitReplies},
	{Name: "PostgreSQL stopped for seconds", Database: true, strike: (*Nemesis).freezePostgres},
	{Name: "connections exhausted", Database: true, strike: (*Nemesis).exhaustConnections},
	{Name: "disk full", Database: true, strike: (*Nemesis).fillDisk},
}

// Nemesis injects faults from a shuffled deck, so that even a short run has every kind of fault.
type Nemesis struct {
	Stack   *stack.Stack
	History *load.History
	Rng     *rand.Rand
	Say     func(format string, args ...any)

	deck    []Fault
	struck  map[string]int
	returns []time.Duration // times from the return of PostgreSQL until both servers answer
}

// NewNemesis returns a nemesis whose faults depend only on the seed.
func NewNemesis(seed uint64, s *stack.Stack, h *load.History, say func(string, ...any)) *Nemesis {
	return &Nemesis{Stack: s, History: h, Rng: rand.New(rand.NewPCG(seed, 0)), Say: say, struck: map[string]int{}}
}

// ServingLimit is the time within which the servers must answer again after a fault.
const ServingLimit = 30 * time.Second

// Run injects faults, one after another, until ctx ends. When Run returns, every fault is undone.
func (n *Nemesis) Run(ctx context.Context) error {
	for stack.Pause(ctx, n.Between(300, 1200)) {
		if len(n.deck) == 0 {
			n.deck = slices.Clone(kinds)
			if !n.Stack.Mounted {
				n.deck = slices.DeleteFunc(n.deck, func(f Fault) bool { return f.Name == "disk full" })
			}
			n.Rng.Shuffle(len(n.deck), func(i, j int) { n.deck[i], n.deck[j] = n.deck[j], n.deck[i] })
		}
		f := n.deck[0]
		n.deck = n.deck[1:]
		if err := n.deal(context.WithoutCancel(ctx), f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// deal injects one fault and waits until both servers answer again.
func (n *Nemesis) deal(ctx context.Context, f Fault) error {
	what, err := f.strike(n, ctx)
	if err != nil {
		return err
	}
	if err := n.Stack.RevivePostgres(ctx); err != nil {
		return err
	}
	if err := n.awaitPostgres(ctx); err != nil {
		return err
	}
	n.struck[f.Name]++
	n.AwaitAnswers(f, what)
	return nil
}

// AwaitAnswers waits until each server has answered a call that started after now. A server that does not answer within ServingLimit is a breach.
func (n *Nemesis) AwaitAnswers(f Fault, what string) {
	over := time.Now()
	for _, s := range n.Stack.Servers {
		for !n.History.ServedSince(s, over) {
			if time.Since(over) > ServingLimit {
				n.History.Breach("%s did not serve within %s after: %s", s.Name, ServingLimit, f.Name)
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	took := time.Since(over)
	if f.Database {
		n.returns = append(n.returns, took)
	}
	n.Say("%-32s%s; both serve %d ms later", f.Name, what, took.Milliseconds())
}

// awaitPostgres waits until PostgreSQL accepts connections, for at most a minute.
func (n *Nemesis) awaitPostgres(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := n.Stack.Query(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) })
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not accept connections again: %w", err)
		}
		if err := n.Stack.RevivePostgres(ctx); err != nil {
			return err
		}
	}
}

// Between returns a random duration between low and high milliseconds.
func (n *Nemesis) Between(low, high int) time.Duration {
	return time.Duration(low+n.Rng.IntN(high-low)) * time.Millisecond
}

func (n *Nemesis) server() *stack.Server { return n.Stack.Servers[n.Rng.IntN(len(n.Stack.Servers))] }

// gateLimit is the time for which a gate waits for its message. Under load the message arrives within milliseconds.
const gateLimit = 3 * time.Second

// killAtGate kills a server in the middle of a transaction. The proxy does not forward the message that triggered the gate.
func (n *Nemesis) killAtGate(context.Context) (string, error) {
	s, at := n.server(), proxy.Point(n.Rng.IntN(proxy.PointsOfATransaction))
	dead := make(chan struct{})
	s.Proxy.Arm(&proxy.Gate{Point: at, Strike: func() bool {
		s.Signal(syscall.SIGKILL)
		close(dead)
		return false
	}})
	select {
	case <-dead:
		return s.Name + " " + at.String(), nil
	case <-time.After(gateLimit):
		s.Proxy.Disarm()
		s.Signal(syscall.SIGKILL)
		return s.Name + " at any moment", nil
	}
}

func (n *Nemesis) rollingRestart(ctx context.Context) (string, error) {
	for _, s := range n.Stack.Servers {
		s.Drain()
		if err := n.Stack.AwaitServing(ctx, ServingLimit); err != nil {
			return "", err
		}
	}
	return "", nil
}

func (n *Nemesis) terminateSessions(ctx context.Context) (string, error) {
	var count int
	err := n.Stack.Query(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name LIKE 'server-%'`).Scan(&count)
	})
	return fmt.Sprintf("%d of them", count), err
}

func (n *Nemesis) restartPostgres(context.Context) (string, error) {
	pids, err := n.Stack.PostgresProcesses()
	if err != nil {
		return "", err
	}
	_ = syscall.Kill(pids[0], syscall.SIGQUIT) // immediate shutdown: uncommitted transactions are lost
	<-n.Stack.Postgres.Exited()
	away := n.Between(0, 2000)
	time.Sleep(away)
	return fmt.Sprintf("down for %d ms", away.Milliseconds()), nil
}

func (n *Nemesis) stallConnections(context.Context) (string, error) {
	s, d := n.server(), n.Between(500, 4000)
	s.Proxy.Stall()
	time.Sleep(d)
	ends := "then continued"
	if n.Rng.IntN(2) == 0 {
		s.Proxy.Reset()
		ends = "then reset"
	}
	s.Proxy.Resume()
	return fmt.Sprintf("%s, for %d ms, %s", s.Name, d.Milliseconds(), ends), nil
}

func (n *Nemesis) resetConnections(context.Context) (string, error) {
	s, count := n.server(), 0
	for range 3 {
		count += s.Proxy.Reset()
		time.Sleep(n.Between(50, 300))
	}
	return fmt.Sprintf("%s, %d of them", s.Name, count), nil
}

// gates arms gates on a server for d, one at a time, and returns the number of triggered gates.
func (n *Nemesis) gates(s *stack.Server, d time.Duration, strike func() bool) int64 {
	var triggered atomic.Int64
	for until := time.Now().Add(d); time.Now().Before(until); {
		done := make(chan struct{})
		s.Proxy.Arm(&proxy.Gate{Point: proxy.AtCommitReply, Strike: func() bool {
			defer close(done)
			triggered.Add(1)
			return strike()
		}})
		select {
		case <-done:
		case <-time.After(gateLimit):
		}
	}
	s.Proxy.Disarm()
	return triggered.Load()
}

func (n *Nemesis) loseCommitReplies(context.Context) (string, error) {
	s := n.server()
	count := n.gates(s, n.Between(500, 2000), func() bool { time.Sleep(20 * time.Millisecond); return false })
	return fmt.Sprintf("%s, %d of them", s.Name, count), nil
}

func (n *Nemesis) stallCommitReplies(context.Context) (string, error) {
	s, d := n.server(), n.Between(200, 1500)
	count := n.gates(s, n.Between(1000, 3000), func() bool { time.Sleep(d); return true })
	return fmt.Sprintf("%s, %d replies, for %d ms each", s.Name, count, d.Milliseconds()), nil
}

func (n *Nemesis) freezePostgres(context.Context) (string, error) {
	pids, err := n.Stack.PostgresProcesses()
	if err != nil {
		return "", err
	}
	d := n.Between(1000, 4000)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // an error means that the session has ended meanwhile
	}
	time.Sleep(d)
	for _, pid := range slices.Backward(pids) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return fmt.Sprintf("for %d ms", d.Milliseconds()), nil
}

// exhaustConnections opens all connections that PostgreSQL allows, so that the servers cannot open a connection.
func (n *Nemesis) exhaustConnections(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var taken []*pgx.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close(ctx) // the session holds no locks
		}
	}()
	grab := func() bool {
		conn, err := pgx.Connect(ctx, n.Stack.Postgres.AdminURL()) // as a superuser, who can also use the reserved connections
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
	for until := time.Now().Add(n.Between(1000, 2500)); time.Now().Before(until); {
		if !grab() {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return fmt.Sprintf("%d of them", len(taken)), err
}

// fillDisk uses up the disk space of PostgreSQL. Single statements can then fail, and PostgreSQL stops if it cannot write WAL.
func (n *Nemesis) fillDisk(ctx context.Context) (string, error) {
	filling, cancel := context.WithTimeout(ctx, n.Between(2000, 5000))
	defer cancel()
	if err := Ballast(filling, filepath.Join(n.Stack.DataDir(), "ballast")); err != nil {
		return "", err
	}
	ended := "PostgreSQL continued"
	select {
	case <-n.Stack.Postgres.Exited():
		ended = "PostgreSQL stopped itself"
	default:
	}
	return ended, nil
}

// Ballast fills a file system with one file until ctx ends. It also fills space that other processes free meanwhile.
func Ballast(ctx context.Context, path string) error {
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
			_ = syscall.Fallocate(int(f.Fd()), 0, info.Size(), int64(fs.Bavail)*fs.Bsize) // an error means that other processes used the space first
		}
		if !stack.Pause(ctx, 50*time.Millisecond) {
			return nil
		}
	}
}
