package received

import (
	"context"

	"lksms/gen/receivedq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes a person from received messages. An erased message is still known, so that a repeat of the message is not stored again.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	if len(p.Digits) == 0 {
		return nil
	}
	next := func(ctx context.Context, after int64) (all []erase.Candidate, err error) {
		rows, err := s.q.ErasureReceivedCandidates(ctx, receivedq.ErasureReceivedCandidatesParams{
			CompanyID: p.CompanyID, Digits: p.Digits, AfterID: after, Portion: erase.Portion,
		})
		for _, row := range rows {
			all = append(all, erase.Candidate{ID: row.ID, Matches: p.Has(row.PhoneNumber)})
		}
		return all, postgres.Wrap("find received messages", err, nil)
	}
	err := run.Matching(ctx, next, func(ctx context.Context, ids []int64) (erase.Counts, error) {
		n, err := s.q.ErasureReceived(ctx, ids)
		return erase.Counts{erase.Received: n}, err
	})
	return postgres.Wrap("erase received messages", err, nil)
}
