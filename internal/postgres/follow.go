package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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

// follower ends the connections to a host that does not answer when a newer one leads to another host. A primary that hangs, or whose machine vanished, closes nothing:
// each statement on an old connection would wait for the end of its request's time, also when another host writes since long.
type follower struct {
	mu   sync.Mutex
	open map[*pgx.Conn]string // by the address that it leads to

	failedAt time.Time // the last look that got no answer
}

// follow makes the pools of a configuration with several hosts follow the host that writes.
func (f *follower) follow(cfg *pgxpool.Config) {
	after := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := after(ctx, conn); err != nil {
			return err
		}
		f.add(conn)
		return nil
	}
	cfg.BeforeClose = f.remove
}

// add notes a new connection, whose host wrote when it was made, and ends those to other hosts.
func (f *follower) add(conn *pgx.Conn) {
	address := conn.PgConn().Conn().RemoteAddr().String()
	f.mu.Lock()
	defer f.mu.Unlock()
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
