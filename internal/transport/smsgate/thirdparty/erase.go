package thirdparty

import (
	"context"

	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// EraseTasks replaces the ids that programs gave to the messages of tasks, because such an id can contain the person. It counts nothing.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	_, err := s.q.ErasureSmsgateIDs(ctx, taskIDs)
	return nil, postgres.Wrap("erase message ids", err, nil)
}
