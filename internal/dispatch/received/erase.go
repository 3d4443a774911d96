package received

import (
	"context"

	"lksms/gen/receivedq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase removes a person from received messages. An erased message is still known, so that a repeat of the message is not stored again.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for after, n := int64(0), erase.Portion; n == erase.Portion && len(p.Digits) > 0; {
		rows, err := s.q.ErasureReceivedCandidates(ctx, receivedq.ErasureReceivedCandidatesParams{
			CompanyID: p.CompanyID, Digits: p.Digits, AfterID: after, Portion: erase.Portion,
		})
		if err != nil {
			return postgres.Wrap("find received messages", err, nil)
		}
		n = len(rows)
		var ids []int64
		for _, row := range rows {
			if after = row.ID; p.Has(row.PhoneNumber) {
				ids = append(ids, row.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		err = run(ctx, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.q.ErasureReceived(ctx, ids)
			return erase.Counts{erase.Received: n}, err
		})
		if err != nil {
			return postgres.Wrap("erase received messages", err, nil)
		}
	}
	return nil
}
