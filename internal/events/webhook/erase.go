package webhook

import (
	"context"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks deletes the responses of receivers to events of tasks, because a response can repeat the event. It returns no counts.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	return nil, s.eraseResponses(ctx, func() (int64, error) { return s.q.ErasureWebhooks(ctx, taskIDs) })
}

// Erase deletes the responses of receivers to events of received messages and verifications that are erased. It returns no counts.
func (s *Service) Erase(ctx context.Context, _ *erase.Person) (erase.Counts, error) {
	return nil, s.eraseResponses(ctx, func() (int64, error) {
		if _, err := s.q.ErasureWebhooksVerifications(ctx); err != nil {
			return 0, err
		}
		return s.q.ErasureWebhooksReceived(ctx)
	})
}

func (s *Service) eraseResponses(ctx context.Context, remove func() (int64, error)) error {
	if err := s.q.ErasureWebhooksHold(ctx); err != nil {
		return postgres.Wrap("lock webhooks", err, nil)
	}
	_, err := remove()
	return postgres.Wrap("erase responses of receivers", err, nil)
}
