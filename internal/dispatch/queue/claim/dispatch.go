package claim

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Dispatch runs fn in a transaction of postgres.DB.Dispatch. The statements of dispatchq could read the whole queue with the ordinary plans of PostgreSQL.
func Dispatch(ctx context.Context, db *postgres.DB, fn func(q *dispatchq.Queries) error) error {
	return DispatchTx(ctx, db, func(_ postgres.Runner, q *dispatchq.Queries) error { return fn(q) })
}

// DispatchTx works like Dispatch. tx runs statements of other rooms in the same transaction.
func DispatchTx(ctx context.Context, db *postgres.DB, fn func(tx postgres.Runner, q *dispatchq.Queries) error) error {
	return db.Dispatch(ctx, func(tx postgres.Runner) error { return fn(tx, dispatchq.New(tx)) })
}

// TaskStatements returns the statements of dispatchq for a transaction of postgres.DB.Tx. Use it only for statements that find tasks by task_id, because their
// ordinary plans also use this index.
func TaskStatements(db *postgres.DB) *dispatchq.Queries { return dispatchq.New(db) }
