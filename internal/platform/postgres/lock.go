package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lock is a named lock that one server of a database holds. It is a table lock on an empty table, which an open transaction holds. Such a lock also works
// through a pooler that assigns each transaction to another session. PostgreSQL releases the lock if the server dies. Advisory locks are not used, because
// every role that can connect could take them.
//
// The transaction is READ COMMITTED and writes nothing. Between its statements it has no snapshot and no transaction id, and so it does not delay vacuum. A row
// lock would need a transaction id.
type Lock struct {
	conn    *pgx.Conn
	release func() // returns the connection to its pool
	name    string
	lost    chan struct{}      // closed when the connection, and with it the lock, is lost
	end     context.CancelFunc // ends watch
	watched chan struct{}      // closed when watch has ended
}

const (
	// lockLimit is the time limit of each statement of a lock.
	lockLimit = 5 * time.Second
	// lockCheckEvery is the interval at which the holder of a lock checks its connection. Together with lockLimit, this interval limits how long a sweep continues
	// after its lock was lost, while another server possibly has the lock.
	lockCheckEvery = 2 * time.Second
)

// ErrLockLost is the cause of a context of While that ended because the lock was lost.
var ErrLockLost = errors.New("the connection that held the lock was lost")

// TryLock takes a named lock, or returns nil if another server holds it. The lock needs a table that a migration created: lock_ and name, with _ in place of
// hyphens. The SQL function lock_table_try locks this table.
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

// TryLockOn takes a lock in a transaction on conn. statement takes the lock and returns true, or returns false if it cannot take the lock: TryLockOn then
// returns nil. name appears in errors.
func TryLockOn(ctx context.Context, conn *pgx.Conn, name, statement string) (*Lock, error) {
	held, err := tryLock(ctx, conn, statement)
	if err != nil || !held {
		return nil, err
	}
	return hold(conn, func() {}, name), nil
}

// tryLock opens a transaction, runs statement (see TryLockOn) and returns its result. If the result is false, no transaction remains open.
func tryLock(ctx context.Context, conn *pgx.Conn, statement string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	// The role or the database can have another default isolation level. While the holder of the lock works, only the pings of watch use the transaction. If the
	// machine of the holder vanishes, the timeout ends the idle transaction. Otherwise the lock would last until TCP gives up, hours later.
	results, err := conn.PgConn().Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '15s'; "+
		statement).ReadAll()
	if err == nil {
		if last := results[len(results)-1]; len(last.Rows) == 1 && string(last.Rows[0][0]) == "t" {
			return true, nil
		}
	}
	if _, rollback := conn.Exec(ctx, "ROLLBACK"); rollback != nil {
		_ = conn.Close(ctx) // the connection must not be used again with this transaction
		err = errors.Join(err, rollback)
	}
	return false, err
}

// hold returns the lock that a transaction on conn holds, and starts to watch conn.
func hold(conn *pgx.Conn, release func(), name string) *Lock {
	ctx, end := context.WithCancel(context.Background())
	l := &Lock{conn: conn, release: release, name: name, lost: make(chan struct{}), end: end, watched: make(chan struct{})}
	go l.watch(ctx)
	return l
}

// watch checks whether the connection of the lock is alive, until ctx ends. The checks also show a pooler that the client is active.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockLimit) // the ping must not be cancelled, because this would close the connection
	defer cancel()
	return l.conn.Ping(ctx)
}

// While returns a context that ends with the cause ErrLockLost when the lock is lost. Call cancel when the work has ended.
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

// Unlock releases the lock. If that fails, Unlock closes the connection, which also releases the lock.
func (l *Lock) Unlock(ctx context.Context) error {
	l.end()
	<-l.watched // watch uses the connection
	defer l.release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockLimit)
	defer cancel()
	if _, err := l.conn.Exec(ctx, "COMMIT"); err != nil {
		_ = l.conn.Close(ctx) // a pool drops a closed connection
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}
