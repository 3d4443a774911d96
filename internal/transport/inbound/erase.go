package inbound

import (
	"context"

	"lksms/gen/inboundq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes the numbers of a person from the inbounds, so that no inbound sends a further message to the person. It returns no counts.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	err := s.q.ErasureInbounds(ctx, inboundq.ErasureInboundsParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
	return nil, postgres.Wrap("remove numbers from inbounds", err, nil)
}
