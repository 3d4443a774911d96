package sqlinbox

import (
	"context"

	"lksms/gen/sqlinboxq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// HasEarlier reports whether the inbox still contains messages that were submitted before the erasure. They can be addressed to the person.
func (s *Service) HasEarlier(ctx context.Context, p *erase.Person) (bool, error) {
	has, err := s.q.SqlInboxHas(ctx, sqlinboxq.SqlInboxHasParams{CompanyID: p.CompanyID, Before: p.Since})
	return has, postgres.Wrap("search the inbox", err, nil)
}
