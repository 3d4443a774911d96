package queue

import (
	"context"

	"lksms/gen/dbq"
	"lksms/internal/postgres"
)

// Final is what a provider says at last of the message of a task that it accepted.
type Final struct {
	TaskID, SenderNo, Code string
	State                  int16 // callback.Delivered or callback.Undelivered
}

// SettleReceipts keeps with tasks whether their messages were delivered, in the transaction of ctx (S3.11). What comes twice, or in another
// order, has the same result: delivered stands above undelivered.
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
