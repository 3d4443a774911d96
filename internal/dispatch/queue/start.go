package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
)

// Held identifies a lease of a task.
type Held struct {
	TaskID  string
	LeaseID int64
}

// Start records that a sender starts to send leased tasks. It returns the leases that the sender still has, with the end of each lease. If a lease must be
// started, Start extends it to the lease time of the sender, counted from the claim. A repeated start changes nothing. The start of a lease that need not be
// started also changes nothing. The sender must not send the tasks of leases that Start does not return: these leases have ended or belong to another sender
// (S4.6).
func (s *Service) Start(ctx context.Context, senderNo string, leases []Held) (map[Held]time.Time, error) {
	leases = slices.Clone(leases)
	slices.SortFunc(leases, func(a, b Held) int { return strings.Compare(a.TaskID, b.TaskID) }) // all statements lock tasks in this order
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return nil, err
	}
	p := dispatchq.TaskStartParams{SenderNo: senderNo, Lease: rules.ProcessingTimeout}
	for _, l := range leases {
		p.TaskIds, p.LeaseIds = append(p.TaskIds, l.TaskID), append(p.LeaseIds, l.LeaseID)
	}
	var rows []dispatchq.TaskStartRow
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		rows, err = q.TaskStart(ctx, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start tasks: %w", err)
	}
	live := make(map[Held]time.Time, len(rows))
	for _, row := range rows {
		live[Held{row.TaskID, row.LeaseID}] = row.LeaseUntil
	}
	return live, nil
}
