package queue

import (
	"context"
	"fmt"
	"slices"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/secret"
)

// open replaces the masks of sensitive texts in leases by the texts. If the server has not the key of a text, open reports a failed attempt and removes the
// lease, so that a server with the key can send the message later.
func (s *Service) open(ctx context.Context, senderNo string, leases []claim.Lease) ([]claim.Lease, error) {
	if !slices.ContainsFunc(leases, func(l claim.Lease) bool { return l.Sealed != nil }) {
		return leases, nil
	}
	opened := make([]claim.Lease, 0, len(leases))
	var failed []Report
	for _, l := range leases {
		if l.Sealed == nil {
			opened = append(opened, l)
			continue
		}
		text, err := s.sensitive.Open(l.TaskID, *l.Sealed)
		if err != nil {
			failed = append(failed, Report{
				TaskID: l.TaskID, SenderNo: senderNo, LeaseID: new(l.LeaseID), Status: Failed, ShouldRetry: true, ErrorMessage: new(result.Sealed),
			})
			continue
		}
		masked := l.Content
		l.Content, l.Values = sensitive.Restore(masked, text.Content), text.Values
		l.Secrets = sensitive.Words(l.Content, masked)
		opened = append(opened, l)
	}
	if len(failed) > 0 {
		if _, err := s.ReportAll(ctx, failed); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

// RotateSecrets encrypts the texts of waiting sensitive messages again with the first key of box. It returns the number of changed texts.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q, texts := queueq.New(db), sensitive.NewBox(box)
	rows, err := q.SealedList(ctx)
	if err != nil {
		return 0, postgres.Wrap("read sensitive texts", err, nil)
	}
	changed := 0
	for _, row := range rows {
		sealed, err := texts.Renew(row.TaskID, row.Sealed)
		if err != nil {
			return changed, fmt.Errorf("task %s: %w", row.TaskID, err)
		}
		if sealed == row.Sealed {
			continue
		}
		n, err := q.SealedStore(ctx, queueq.SealedStoreParams{TaskID: row.TaskID, Before: row.Sealed, Sealed: sealed})
		if err != nil {
			return changed, postgres.Wrap("store sensitive text", err, nil)
		}
		changed += int(n)
	}
	return changed, nil
}
