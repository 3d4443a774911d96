package queue

import (
	"context"

	"lksms/gen/dispatchq"
)

// DeleteExpiredSimRecipients deletes the recipients of SIMs whose month is over and whose conversations have ended. It returns their number.
func (s *Service) DeleteExpiredSimRecipients(ctx context.Context) (int, error) {
	return s.inBatches(ctx, "delete expired recipients of SIMs", sweepBatch, func(q *dispatchq.Queries) (int64, error) {
		return q.SimRecipientsDeleteExpired(ctx, sweepBatch)
	})
}
