package claim

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Dispatch runs fn in a transaction of postgres.DB.Dispatch. The statements of dispatchq could read the whole queue with the ordinary plans of PostgreSQL.
func Dispatch(ctx context.Context, db *postgres.DB, fn func(q *dispatchq.Queries) error) error {
	return db.Dispatch(ctx, func(tx postgres.Runner) error { return fn(dispatchq.New(tx)) })
}

// TaskStatements returns the statements of dispatchq for a transaction of postgres.DB.Tx. Use it only for statements that find tasks by task_id, because their
// ordinary plans also use this index.
func TaskStatements(db *postgres.DB) *dispatchq.Queries { return dispatchq.New(db) }
