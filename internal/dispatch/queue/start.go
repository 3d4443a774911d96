package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
)

// Held identifies a lease of a task.
type Held struct {
	TaskID  string
	LeaseID int64
}

// Renew extends leases that a sender holds, to `lease` from now. It never makes a lease shorter.
func (s *Service) Renew(ctx context.Context, senderNo string, leases []Held, lease time.Duration) error {
	p := dispatchq.TaskRenewParams{SenderNo: senderNo, Lease: lease}
	p.TaskIds, p.LeaseIds = sortedHeld(leases)
	err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) error { return q.TaskRenew(ctx, p) })
	return postgres.Wrap("renew leases", err, nil)
}

// sortedHeld returns the ids of leases in the order in which all statements lock tasks.
func sortedHeld(leases []Held) (taskIDs []string, leaseIDs []int64) {
	leases = slices.Clone(leases)
	slices.SortFunc(leases, func(a, b Held) int { return strings.Compare(a.TaskID, b.TaskID) })
	for _, l := range leases {
		taskIDs, leaseIDs = append(taskIDs, l.TaskID), append(leaseIDs, l.LeaseID)
	}
	return taskIDs, leaseIDs
}

// Start records that a sender starts to send leased tasks. It returns the leases that the sender still has, with the end of each lease. If a lease must be
// started, Start extends it to the lease time of the sender, counted from the claim. A repeated start changes nothing. The start of a lease that need not be
// started also changes nothing. The sender must not send the tasks of leases that Start does not return: these leases have ended or belong to another sender
// (S4.6).
func (s *Service) Start(ctx context.Context, senderNo string, leases []Held) (map[Held]time.Time, error) {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return nil, err
	}
	p := dispatchq.TaskStartParams{SenderNo: senderNo, Lease: rules.ProcessingTimeout}
	p.TaskIds, p.LeaseIds = sortedHeld(leases)
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
