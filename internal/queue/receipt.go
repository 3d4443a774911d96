package queue

import (
	"context"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// Final is a receipt: whether the message of a task, which the provider accepted, was delivered.
type Final struct {
	TaskID, SenderNo, Code string
	State                  int16 // callback.Delivered or callback.Undelivered
}

// SettleReceipts stores with tasks whether their messages were delivered, in the transaction of ctx (S3.11). Repeats and another order
// give the same result: delivered wins over undelivered.
func (s *Service) SettleReceipts(ctx context.Context, all []Final) error {
	if len(all) == 0 {
		return nil
	}
	var p dbq.TaskReceiptParams
	for _, one := range all {
		p.TaskIds, p.SenderNos = append(p.TaskIds, one.TaskID), append(p.SenderNos, one.SenderNo)
		p.Codes, p.States = append(p.Codes, one.Code), append(p.States, one.State)
	}
	return postgres.Wrap("settle receipts", s.q.TaskReceipt(ctx, p), nil)
}
