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

// Retention ends notifications whose tasks are dropped.
type Retention struct{ q *notificationq.Queries }

// NewRetention returns a Retention on db.
func NewRetention(db *postgres.DB) Retention { return Retention{notificationq.New(db)} }

// Sweeps are what the service does again and again.
func (f Retention) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-unused-texts", Interval: 10 * time.Minute, Run: f.DeleteUnusedTexts},
	}
}

// End ends what is known of the notifications that were made before a time, have ended, and have a task with an id from firstID on and before
// beforeID, or none: they leave all lists. A dedup key keeps the notification that it names, with its last state. It is called while the tasks
// still tell that state.
func (s Retention) End(ctx context.Context, before time.Time, firstID, beforeID string) error {
	_, err := postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.NotificationsEnd(ctx, notificationq.NotificationsEndParams{Before: before, FirstID: firstID, BeforeID: beforeID, BatchSize: deleteBatch})
		return n, postgres.Wrap("delete notifications", err, nil)
	})
	return err
}

// Held returns up to most tasks of that range of notifications that are still being sent: they say whom these have reached.
func (s Retention) Held(ctx context.Context, firstID, beforeID string, most int) ([]string, error) {
	ids, err := s.q.NotificationsHold(ctx, notificationq.NotificationsHoldParams{FirstID: firstID, BeforeID: beforeID, Most: int32(most)})
	return ids, postgres.Wrap("find notifications that are being sent", err, nil)
}

// DeleteUnusedTexts deletes the texts and the ends of business tasks of days that were dropped, and returns how many.
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
