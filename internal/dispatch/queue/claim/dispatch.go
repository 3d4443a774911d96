package claim

import (
	"context"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/postgres"
)

// Dispatch runs statements of package dispatchq in a transaction of their own, as postgres.DB.Dispatch does. No other function makes a
// dispatchq.Queries: with ordinary plans these statements could read the whole queue.
func Dispatch(ctx context.Context, db *postgres.DB, fn func(q *dispatchq.Queries) error) error {
	return db.Dispatch(ctx, func(tx postgres.Runner) error { return fn(dispatchq.New(tx)) })
}
