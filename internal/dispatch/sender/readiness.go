package sender

import (
	"context"

	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
)

// maxNotReady is the maximum number of senders that Readiness names.
const maxNotReady = 20

// Readiness contains how many enabled senders can claim tasks, and which senders cannot.
type Readiness struct {
	Ready, NotReady int64
	NotReadyFirst   []ReadyRow // by number, with the reason
}

// Readiness returns the readiness of all senders, or only of the senders in the routes of a company.
func (s *Service) Readiness(ctx context.Context, company *int64) (r Readiness, err error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return r, err
	}
	rows, err := s.q.SendersReady(ctx, senderq.SendersReadyParams{
		SilentAfter: values.Queue.SilentAfter(), RecordedApart: SeenApart, CompanyID: company, MaxSenders: maxNotReady,
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
