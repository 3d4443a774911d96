package audit

import (
	"context"

	"lksms/gen/auditq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes a person from the recorded changes of contacts and default contents. It also removes the person from the records of the task jobs that the same
// transaction has erased.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	n, err := s.q.ErasureAudit(ctx, auditq.ErasureAuditParams{
		CompanyID: p.CompanyID, Pseudonym: p.Pseudonym, UserIds: p.UserIDs, Recipients: p.Recipients, JobIds: append([]string{}, p.Jobs...),
	})
	return erase.Counts{erase.Changes: n}, postgres.Wrap("erase audit", err, nil)
}
