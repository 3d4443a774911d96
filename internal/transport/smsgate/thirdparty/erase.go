package thirdparty

import (
	"context"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks replaces the message ids that programs gave to the messages of tasks, because such an id can identify the person. It returns no counts.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	_, err := s.q.ErasureSmsgateIDs(ctx, taskIDs)
	return nil, postgres.Wrap("erase message ids", err, nil)
}
