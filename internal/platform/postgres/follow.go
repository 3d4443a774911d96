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

// followSoon is how long after looks that got no answer a new connection to another host ends those to the host before. Otherwise both hosts may be well:
// two proxies in front of one primary, of which one refused a connection.
const followSoon = 10 * time.Second

// follower ends the connections to a host that does not answer when a newer one leads to another host, and lets new ones try that host first. A primary
// that hangs, or whose machine vanished, closes nothing: each statement on an old connection would wait for the end of its request's time, also when
// another host writes since long, and each new connection would wait for connectLimit if this host came first.
type follower struct {
	mu   sync.Mutex
	open map[*pgx.Conn]string // by the address that it leads to

	resolved map[string][]string  // the addresses of hosts, by their names
	writes   string               // the address to which the newest connection leads; empty: it does not answer
	wroteAt  time.Time            // when that connection was made
	hangs    map[string]time.Time // the addresses that answered no more, and when they were tried last, until they answer again
	missed   int                  // looks in a row that got no answer
	missedAt time.Time            // the last of two or more
}

func newFollower() *follower {
	return &follower{open: map[*pgx.Conn]string{}, resolved: map[string][]string{}, hangs: map[string]time.Time{}}
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

// order puts the host that wrote last in front. A host that hangs comes last, and is tried once in connectLimit: a connection that waits for it does not
// see which of the others is promoted meanwhile.
func (f *follower) order(cfg *pgconn.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, hosts := time.Now(), hostsOf(cfg)
	slices.SortStableFunc(hosts, func(a, b []*pgconn.FallbackConfig) int { return f.place(a[0]).Compare(f.place(b[0])) })
	rested := slices.DeleteFunc(slices.Clone(hosts), func(host []*pgconn.FallbackConfig) bool { return now.Sub(f.place(host[0])) < connectLimit })
	if len(rested) > 0 {
		hosts = rested
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

// place returns when a host that hangs was tried last; a time in the year 1 for others, and one before for the host that wrote last.
func (f *follower) place(host *pgconn.FallbackConfig) (at time.Time) {
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

// addresses returns the addresses of a host as connections name them.
func (f *follower) addresses(host *pgconn.FallbackConfig) (all []string) {
	for _, one := range append([]string{host.Host}, f.resolved[host.Host]...) {
		_, address := pgconn.NetworkAddress(one, host.Port)
		all = append(all, address)
	}
	return all
}

// add records a new connection, whose host wrote when it was made, and ends those to other hosts.
func (f *follower) add(conn *pgx.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	address := conn.PgConn().Conn().RemoteAddr().String()
	f.writes, f.wroteAt = address, time.Now()
	delete(f.hangs, address)
	hasMissed := time.Since(f.missedAt) < followSoon
	for old, its := range f.open {
		if hasMissed && its != address {
			_ = old.PgConn().Conn().Close() // what waits for an answer on it gets an error, and its pool drops it
			delete(f.open, old)
		}
	}
	f.open[conn] = address
}

// looked records whether a probe that began at a time got an answer. A probe without an answer may have met a busy server: two in a row say that the host hangs
// whose connection is the newest, unless that was made meanwhile.
func (f *follower) looked(began time.Time, isAnswered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isAnswered {
		f.missed = 0
		for _, its := range f.open {
			delete(f.hangs, its) // only connections to the host that answers are left
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
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, followLimit)
		isAnswered := db.outside.Ping(limited) == nil // requests tell what fails
		cancel()
		if f.looked(began, isAnswered); !isAnswered {
			db.outside.Reset() // the next look asks the host to which new connections lead
		}
	}
}
