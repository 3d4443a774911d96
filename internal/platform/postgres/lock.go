package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lock is a named lock of one server among all servers of a database. It is a lock on an empty table in a transaction that stays open, so that
// it also works through a pooler that gives each transaction another session. PostgreSQL releases it if the server dies. An advisory lock could
// be taken by every role that may connect.
//
// The transaction is READ COMMITTED and writes nothing. Between its statements it has no snapshot and no transaction id, so that it does
// not hold vacuum back. A lock on a row would need an id.
type Lock struct {
	conn    *pgx.Conn
	release func() // gives the connection back
	name    string
	lost    chan struct{}      // closed when the connection is lost, and the lock with it
	end     context.CancelFunc // ends the watch
	watched chan struct{}      // closed when the watch has ended
}

const (
	// lockLimit bounds each statement of a lock.
	lockLimit = 5 * time.Second
	// lockCheckEvery is how often the holder of a lock looks whether its connection is alive. With lockLimit it bounds the time for which a
	// sweep runs on after its lock was lost, while another server may have taken the lock.
	lockCheckEvery = 2 * time.Second
)

// ErrLockLost is the cause of the end of a context of While.
var ErrLockLost = errors.New("the connection that held the lock was lost")

// TryLock takes a named lock, or returns nil if another server holds it. A migration has made the table of the lock: lock_table_try says how it is
// locked, and the name of the table is lock_ and the name with _ for each hyphen.
func (db *DB) TryLock(ctx context.Context, name string) (*Lock, error) {
	conn, err := db.locks.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	held, err := tryLock(ctx, conn.Conn(), "SELECT lock_table_try("+Literal("lock_"+strings.ReplaceAll(name, "-", "_"))+")")
	if err != nil || !held {
		conn.Release()
		return nil, Wrap("lock "+name, err, nil)
	}
	return hold(conn.Conn(), conn.Release, name), nil
}

// TryLockOn takes a lock in a transaction on conn with a statement that returns whether it did, or returns nil. The name is that in errors.
func TryLockOn(ctx context.Context, conn *pgx.Conn, name, statement string) (*Lock, error) {
	held, err := tryLock(ctx, conn, statement)
	if err != nil || !held {
		return nil, err
	}
	return hold(conn, func() {}, name), nil
}

// tryLock opens a transaction in which a statement takes a lock and returns whether it did. It reports whether it got the lock. Otherwise no
// transaction is open.
func tryLock(ctx context.Context, conn *pgx.Conn, statement string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	// A role or a database may have another default for the isolation. The transaction is idle while its holder works, but for the pings of watch:
	// PostgreSQL ends that of a machine that vanished, which else would keep the lock until TCP gives up, hours later.
	results, err := conn.PgConn().Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '15s'; "+
		statement).ReadAll()
	if err == nil {
		if last := results[len(results)-1]; len(last.Rows) == 1 && string(last.Rows[0][0]) == "t" {
			return true, nil
		}
	}
	if _, rollback := conn.Exec(ctx, "ROLLBACK"); rollback != nil {
		_ = conn.Close(ctx) // it must not go on with this transaction
		err = errors.Join(err, rollback)
	}
	return false, err
}

// hold returns the lock that a transaction on conn holds, and watches conn.
func hold(conn *pgx.Conn, release func(), name string) *Lock {
	ctx, end := context.WithCancel(context.Background())
	l := &Lock{conn: conn, release: release, name: name, lost: make(chan struct{}), end: end, watched: make(chan struct{})}
	go l.watch(ctx)
	return l
}

// watch looks whether the connection of the lock is alive, until ctx ends. The looks also show a pooler that the client is not idle.
func (l *Lock) watch(ctx context.Context) {
	defer close(l.watched)
	every := time.NewTicker(lockCheckEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if err := l.ping(ctx); err != nil {
			close(l.lost)
			return
		}
	}
}

func (l *Lock) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockLimit) // a cancelled statement would close the connection
	defer cancel()
	return l.conn.Ping(ctx)
}

// While returns a context that ends when the lock is lost, with the cause ErrLockLost. Call cancel when the work is done.
func (l *Lock) While(ctx context.Context) (while context.Context, cancel context.CancelFunc) {
	while, stop := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-l.lost:
			stop(ErrLockLost)
		case <-while.Done():
		}
	}()
	return while, func() { stop(context.Canceled) }
}

// Unlock releases the lock. If that fails, it closes the connection, which releases the lock.
func (l *Lock) Unlock(ctx context.Context) error {
	l.end()
	<-l.watched // which uses the connection
	defer l.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockLimit)
	defer cancel()
	if _, err := l.conn.Exec(ctx, "COMMIT"); err != nil {
		_ = l.conn.Close(ctx) // a pool drops a closed connection
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}
