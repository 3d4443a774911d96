package batch

import (
	"context"

	"lksms/gen/batchq"
	"lksms/internal/dispatch/fact"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// AddFacts is the history.Consumer that adds facts to the counts of batches.
func (s *Service) AddFacts(ctx context.Context, facts []fact.Sum) error {
	var p batchq.BatchCountsAddParams
	for _, f := range facts {
		if f.BatchID == nil {
			continue
		}
		p.BatchIds, p.SenderNos = append(p.BatchIds, *f.BatchID), append(p.SenderNos, optional.Value(f.SenderNo))
		p.Waiting, p.Processing = append(p.Waiting, f.PendingNew+f.PendingRetry), append(p.Processing, f.Processing)
		p.Success, p.Failed = append(p.Success, f.Success), append(p.Failed, f.Failed)
		p.Delivered, p.Undelivered = append(p.Delivered, f.Delivered), append(p.Undelivered, f.Undelivered)
		p.Segments = append(p.Segments, f.Segments)
	}
	if len(p.BatchIds) == 0 {
		return nil
	}
	return postgres.Wrap("count tasks of batches", s.q.BatchCountsAdd(ctx, p), nil)
}
