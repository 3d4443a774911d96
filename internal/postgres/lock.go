package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Lock is a named lock of one server among all servers of a database. It holds a connection, and belongs to its
// session: PostgreSQL releases it if the server dies.
type Lock struct {
	conn *pgxpool.Conn
	name string
}

// lockSpace separates these locks from other advisory locks in the database.
const lockSpace = 0x6c6b7377 // "lksw"

// TryLock takes a named lock, or returns nil if another server holds it.
func (db *DB) TryLock(ctx context.Context, name string) (*Lock, error) {
	conn, err := db.locks.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	var held bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, hashtext($2))", int32(lockSpace), name).Scan(&held)
	if err == nil && held {
		return &Lock{conn, name}, nil
	}
	conn.Release()
	return nil, Wrap("lock "+name, err, nil)
}

// Unlock releases the lock. If unlocking fails, it closes the session, which releases the lock.
func (l *Lock) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	defer l.conn.Release()
	if _, err := l.conn.Exec(ctx, "SELECT pg_advisory_unlock($1, hashtext($2))", int32(lockSpace), l.name); err != nil {
		_ = l.conn.Conn().Close(ctx) // the pool drops a closed connection
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}
