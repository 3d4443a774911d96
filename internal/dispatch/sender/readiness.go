package sender

import (
	"context"

	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
)

// maxNotReady is how many senders Readiness names.
const maxNotReady = 20

// Readiness says how many senders that are on can take tasks, and which ones cannot.
type Readiness struct {
	Ready, NotReady int64
	NotReadyFirst   []ReadyRow // by number, with the reason
}

// Readiness returns the readiness of all senders, or of those that the routes of a company name.
func (s *Service) Readiness(ctx context.Context, company *int64) (r Readiness, err error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return r, err
	}
	rows, err := s.q.SendersReady(ctx, senderq.SendersReadyParams{
		SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart, CompanyID: company, Most: maxNotReady,
	})
	if err != nil {
		return r, postgres.Wrap("read which senders are ready", err, nil)
	}
	for _, row := range rows {
		if row.Reason == "" {
			r.Ready = row.Number
			continue
		}
		r.NotReady = row.Number
		r.NotReadyFirst = append(r.NotReadyFirst, row)
	}
	return r, nil
}
