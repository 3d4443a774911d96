package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// followEvery is how often a server with several hosts looks whether its host answers.
	followEvery = time.Second
	// followLimit bounds one look. A connection that does not answer is given up, and the next look makes a new one.
	followLimit = 2 * time.Second
)

// followSoon is how long after a look that failed a new connection to another host ends those to the host before. Without a failure both hosts may be
// well: two proxies in front of one primary, of which one refused a connection.
const followSoon = 10 * time.Second

// follower ends the connections to a host that does not answer when a newer one leads to another host, and lets new ones try that host first. A primary
// that hangs, or whose machine vanished, closes nothing: each statement on an old connection would wait for the end of its request's time, also when
// another host writes since long, and each new connection would wait for connectLimit if this host came first.
type follower struct {
	mu   sync.Mutex
	open map[*pgx.Conn]string // by the address that it leads to

	resolved map[string][]string // the addresses of hosts, by their names
	writes   string              // the address to which the newest connection leads; empty: it does not answer
	hangs    string              // the address to which the newest connection led when a look got no answer
	failedAt time.Time           // the last look that got no answer
}

// follow makes the pools of a configuration with several hosts follow the host that writes.
func (f *follower) follow(cfg *pgxpool.Config) {
	resolve, after := cfg.ConnConfig.LookupFunc, cfg.AfterConnect
	cfg.ConnConfig.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addresses, err := resolve(ctx, host)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.resolved[host] = addresses
		return addresses, err
	}
	cfg.BeforeConnect = func(_ context.Context, own *pgx.ConnConfig) error {
		f.order(&own.Config)
		return nil
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := after(ctx, conn); err != nil {
			return err
		}
		f.add(conn)
		return nil
	}
	cfg.BeforeClose = f.remove
}

// order puts the host that wrote last in front, and the one that hangs behind all others.
func (f *follower) order(cfg *pgconn.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hosts := hostsOf(cfg)
	slices.SortStableFunc(hosts, func(a, b []*pgconn.FallbackConfig) int { return f.place(a[0]) - f.place(b[0]) })
	all := slices.Concat(hosts...)
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

func (f *follower) place(host *pgconn.FallbackConfig) int {
	is := func(address string) bool {
		return slices.ContainsFunc(append([]string{host.Host}, f.resolved[host.Host]...), func(one string) bool {
			_, itsAddress := pgconn.NetworkAddress(one, host.Port)
			return itsAddress == address
		})
	}
	switch {
	case is(f.writes):
		return 0
	case is(f.hangs):
		return 2
	default:
		return 1
	}
}

// add notes a new connection, whose host wrote when it was made, and ends those to other hosts.
func (f *follower) add(conn *pgx.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	address := conn.PgConn().Conn().RemoteAddr().String()
	if f.writes = address; f.hangs == address {
		f.hangs = ""
	}
	hasFailed := time.Since(f.failedAt) < followSoon
	for old, its := range f.open {
		if hasFailed && its != address {
			_ = old.PgConn().Conn().Close() // what waits for an answer on it gets an error, and its pool drops it
			delete(f.open, old)
		}
	}
	f.open[conn] = address
}

func (f *follower) failed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failedAt = time.Now()
	if f.writes != "" {
		f.writes, f.hangs = "", f.writes
	}
}

func (f *follower) remove(conn *pgx.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

// look asks the host something at intervals, until ctx ends. So there is soon a new connection after a host hangs, although all others wait for it.
func (db *DB) look(ctx context.Context, f *follower) {
	every := time.NewTicker(followEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		limited, cancel := context.WithTimeout(ctx, followLimit)
		if db.outside.Ping(limited) != nil { // requests tell what fails
			f.failed()
		}
		cancel()
	}
}
