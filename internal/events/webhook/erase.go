package webhook

import (
	"context"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks deletes the responses of receivers to events of tasks, because a response can repeat the event. It returns no counts.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	_, err := s.q.ErasureWebhooks(ctx, taskIDs)
	return nil, postgres.Wrap("erase responses of receivers", err, nil)
}
