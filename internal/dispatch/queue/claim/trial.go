package claim

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dispatchq"
	"lksms/internal/platform/fault"
)

// Trial leases one waiting task to a sender in any state and charges the sender, in the transaction of q. If the sender or the task is missing, Trial
// returns the error for no rows. Fault: request.invalid if the balance would become negative.
func Trial(ctx context.Context, q *dispatchq.Queries, senderNo, taskID string, lease time.Duration) (Lease, error) {
	t, err := q.TaskTest(ctx, dispatchq.TaskTestParams{SenderNo: senderNo, TaskID: taskID, LeaseSeconds: lease.Seconds()})
	if err != nil {
		return Lease{}, err
	}
	if t.IsBroke {
		return Lease{}, fault.InvalidField("balance", fault.BelowZero, nil)
	}
	rows, err := q.TaskLease(ctx, dispatchq.TaskLeaseParams{
		SenderNo: senderNo, Asked: 1, IsPaced: t.IsPaced, LeaseSeconds: lease.Seconds(), Sign: t.Sign, SignMode: t.SignMode,
		TaskIds: []string{taskID}, Segments: []int64{t.Segments}, Ranks: []*float64{}, Sims: []int16{},
	})
	if err != nil {
		return Lease{}, err
	}
	if len(rows) != 1 { // cannot happen: TaskTest has locked the row
		return Lease{}, fmt.Errorf("leased %d tasks", len(rows))
	}
	row := rows[0]
	err = q.SenderCharge(ctx, dispatchq.SenderChargeParams{
		SenderID: t.SenderID, LeaseIds: []int64{row.LeaseID}, CompanyIds: []int64{t.CompanyID}, Segments: []int64{t.Segments}, At: &row.LeasedAt, Calls: 1,
		RouteIds: []int64{}, Served: []float64{}, LastTurns: []float64{}, NextTurns: []float64{},
	})
	return Lease{
		TaskID: row.TaskID, PhoneNumber: row.PhoneNumber, Content: row.Content, Sign: row.Sign, SignMode: t.SignMode, LeaseID: row.LeaseID,
		Attempt: row.Attempt, LeaseUntil: row.LeaseUntil, Traceparent: row.Traceparent,
	}, err
}
