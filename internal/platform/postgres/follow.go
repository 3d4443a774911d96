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
	// followEvery is the interval at which a server with several hosts probes its current host.
	followEvery = time.Second
	// followLimit is the time limit of one probe. A connection that does not answer is discarded, and the next probe opens a new connection.
	followLimit = 2 * time.Second
)

// followSoon is the time after failed probes within which a new connection to another host closes the connections to the previous host. Without failed probes,
// both hosts can be usable, for example if one of two proxies in front of the primary refused a connection.
const followSoon = 10 * time.Second

// follower closes the connections to a host that does not answer, once a newer connection leads to another host. New connections then try this other host
// first. A primary that hangs, or whose machine vanished, closes no connection. Without follower, each statement on an old connection would wait until its
// request times out, although another host is already the primary. Each new connection would wait for connectLimit if the hanging host came first.
type follower struct {
	mu   sync.Mutex
	open map[*pgx.Conn]string // the address of each connection

	resolved map[string][]string  // the addresses of hosts, by name
	writes   string               // the address of the newest connection; empty: this address does not answer
	wroteAt  time.Time            // when the newest connection was opened
	hangs    map[string]time.Time // addresses that do not answer, with the time of the last try
	missed   int                  // consecutive probes without an answer
	missedAt time.Time            // when the last of two or more consecutive probes got no answer
}

func newFollower() *follower {
	return &follower{open: map[*pgx.Conn]string{}, resolved: map[string][]string{}, hangs: map[string]time.Time{}}
}

// follow makes the pools of a configuration with several hosts follow the primary.
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

// order puts the host of the newest connection first, and hanging hosts last. It omits hanging hosts that were tried less than connectLimit ago, because an
// attempt that waits for a hanging host does not notice that another host was promoted. If this would omit every host, order omits none.
func (f *follower) order(cfg *pgconn.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, hosts := time.Now(), hostsOf(cfg)
	slices.SortStableFunc(hosts, func(a, b []*pgconn.FallbackConfig) int { return f.sortKey(a[0]).Compare(f.sortKey(b[0])) })
	available := slices.DeleteFunc(slices.Clone(hosts), func(host []*pgconn.FallbackConfig) bool { return now.Sub(f.sortKey(host[0])) < connectLimit })
	if len(available) > 0 {
		hosts = available
	}
	for _, host := range hosts {
		for _, address := range f.addresses(host[0]) {
			if !f.hangs[address].IsZero() {
				f.hangs[address] = now
			}
		}
	}
	all := slices.Concat(hosts...)
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// sortKey returns the sort key of a host: for a hanging host the time of the last attempt, for the host of the newest connection a time before the zero time,
// and for other hosts the zero time.
func (f *follower) sortKey(host *pgconn.FallbackConfig) (at time.Time) {
	for _, address := range f.addresses(host) {
		if address == f.writes {
			return time.Time{}.Add(-1)
		}
		if tried := f.hangs[address]; tried.After(at) {
			at = tried
		}
	}
	return at
}

// addresses returns the addresses of a host in the form that connections use.
func (f *follower) addresses(host *pgconn.FallbackConfig) (all []string) {
	for _, one := range append([]string{host.Host}, f.resolved[host.Host]...) {
		_, address := pgconn.NetworkAddress(one, host.Port)
		all = append(all, address)
	}
	return all
}

// add records a new connection, whose host was writable when it was opened, and closes connections to other hosts.
func (f *follower) add(conn *pgx.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	address := conn.PgConn().Conn().RemoteAddr().String()
	f.writes, f.wroteAt = address, time.Now()
	delete(f.hangs, address)
	hasMissed := time.Since(f.missedAt) < followSoon
	for old, its := range f.open {
		if hasMissed && its != address {
			_ = old.PgConn().Conn().Close() // a statement that waits on the connection gets an error, and the pool drops the connection
			delete(f.open, old)
		}
	}
	f.open[conn] = address
}

// addProbe records whether a probe that started at began got an answer. One probe without an answer possibly reached a busy server. After two consecutive
// probes without an answer, the host of the newest connection counts as hanging, unless this connection was opened after began.
func (f *follower) addProbe(began time.Time, isAnswered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isAnswered {
		f.missed = 0
		for _, its := range f.open {
			delete(f.hangs, its) // all remaining connections lead to the host that answers
		}
		return
	}
	if f.missed++; f.missed < 2 {
		return
	}
	if f.missedAt = time.Now(); f.writes != "" && f.wroteAt.Before(began) {
		f.hangs[f.writes] = f.missedAt
		f.writes, f.missed = "", 0
	}
}

func (f *follower) remove(conn *pgx.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, conn)
}

// probe probes the current host at intervals, until ctx ends. Each probe opens a connection. So a host that hangs is noticed soon, even if all other
// connections wait for the host.
func (db *DB) probe(ctx context.Context, f *follower) {
	every := time.NewTicker(followEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, followLimit)
		isAnswered := db.outside.Ping(limited) == nil // the error is ignored: requests fail with the same error, and log it
		cancel()
		if f.addProbe(began, isAnswered); !isAnswered {
			db.outside.Reset() // the next probe goes to the host of new connections
		}
	}
}
