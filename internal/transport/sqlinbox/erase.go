package sqlinbox

import (
	"context"

	"lksms/gen/sqlinboxq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// HasEarlier reports whether the inbox contains messages from before an erasure, which can be to the person.
func (s *Service) HasEarlier(ctx context.Context, p *erase.Person) (bool, error) {
	has, err := s.q.SqlInboxHas(ctx, sqlinboxq.SqlInboxHasParams{CompanyID: p.CompanyID, Before: p.Since})
	return has, postgres.Wrap("look into the inbox", err, nil)
}
