package received

import (
	"context"
	"slices"

	"lksms/gen/receivedq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
)

// Erase deletes the messages of a person, in portions.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for isMore := true; isMore; {
		err := run(ctx, func(ctx context.Context) (erase.Counts, error) {
			n, err := s.q.ErasureReceived(ctx, receivedq.ErasureReceivedParams{
				CompanyID: p.CompanyID, PhoneNumbers: slices.Concat(p.Recipients, p.AtHome), Most: erase.Portion,
			})
			isMore = n == erase.Portion
			return erase.Counts{erase.Received: n}, postgres.Wrap("delete received messages", err, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
