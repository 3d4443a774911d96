package template

import (
	"context"

	"lksms/gen/templateq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase deletes the default contents for a person.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	deleted, err := s.q.ErasureDefaults(ctx, templateq.ErasureDefaultsParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	return erase.Counts{erase.DefaultContents: int64(len(deleted))}, postgres.Wrap("delete default contents", err, nil)
}
