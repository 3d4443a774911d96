package push

import (
	"context"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks deletes the answers of providers about tasks. It counts nothing.
func (p *Pusher) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	return nil, postgres.Wrap("delete answers of providers", p.q.ErasureSenderAnswers(ctx, taskIDs), nil)
}
