package notification

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/notificationq"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
)

// deleteBatch is the number of rows that one statement deletes.
const deleteBatch = 500

// Retention marks notifications as ended before their tasks are dropped.
type Retention struct{ q *notificationq.Queries }

// NewRetention returns a Retention on db.
func NewRetention(db *postgres.DB) Retention { return Retention{notificationq.New(db)} }

// Sweeps returns the periodic jobs of the service.
func (f Retention) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-unused-texts", Interval: 10 * time.Minute, Run: f.DeleteUnusedTexts},
	}
}

// End removes ended notifications from all lists. It selects notifications that were created before a time, and that have no tasks or a task with an id from
// firstID (included) to beforeID (excluded). If the dedup key of a notification is still needed, the row is kept with its last state. Call End before the tasks
// are dropped, because this state is computed from the tasks.
func (s Retention) End(ctx context.Context, before time.Time, firstID, beforeID string) error {
	_, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.NotificationsForget(ctx, notificationq.NotificationsForgetParams{Before: before, FirstID: firstID, BeforeID: beforeID, BatchSize: deleteBatch})
		return n, postgres.Wrap("delete notifications", err, nil)
	})
	return err
}

// Held returns up to limit tasks whose notifications are still being sent. Their ids are in the range from firstID (included) to beforeID (excluded). These
// tasks record which recipients were reached.
func (s Retention) Held(ctx context.Context, firstID, beforeID string, limit int) ([]string, error) {
	ids, err := s.q.NotificationsHold(ctx, notificationq.NotificationsHoldParams{FirstID: firstID, BeforeID: beforeID, MaxTasks: int32(limit)})
	return ids, postgres.Wrap("find notifications that are being sent", err, nil)
}

// DeleteUnusedTexts deletes unused texts that were stored on dropped days, and ends of business tasks that were recorded on such days. It returns the number of
// deleted rows.
func (s Retention) DeleteUnusedTexts(ctx context.Context) (int, error) {
	ends, err := s.q.BusinessEndsDeleteUnused(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete ends of business tasks: %w", err)
	}
	texts, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.RenderingsDeleteUnused(ctx, deleteBatch)
		return n, postgres.Wrap("delete renderings", err, nil)
	})
	return int(ends) + texts, err
}
