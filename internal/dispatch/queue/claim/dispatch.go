package claim

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Dispatch runs fn in a transaction of postgres.DB.Dispatch. No other function creates a dispatchq.Queries in a separate transaction, because the statements of
// dispatchq could read the whole queue with the ordinary plans of PostgreSQL.
func Dispatch(ctx context.Context, db *postgres.DB, fn func(q *dispatchq.Queries) error) error {
	return db.Dispatch(ctx, func(tx postgres.Runner) error { return fn(dispatchq.New(tx)) })
}
