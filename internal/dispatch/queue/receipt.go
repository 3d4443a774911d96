package queue

import (
	"context"
	"fmt"
	"slices"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/postgres"
)

// Final is a receipt. It reports whether the provider delivered the message of a task.
type Final struct {
	TaskID, SenderNo, Code string
	State                  int16  // callback.Delivered or callback.Undelivered
	LeaseID                *int64 // the lease under which the message was sent; nil: unknown
	IsHidden               bool   // Code cannot contain the text of a sensitive message
}

// hideCodes drops the codes of receipts of sensitive messages that are texts.
func (s *Service) hideCodes(ctx context.Context, all []Final) ([]Final, error) {
	var ids []string
	for _, one := range all {
		if !one.IsHidden && one.Code != sensitive.HideToken(one.Code) {
			ids = append(ids, one.TaskID)
		}
	}
	isSensitive, err := s.Sensitive(ctx, ids)
	if err != nil || len(isSensitive) == 0 {
		return all, err
	}
	all = slices.Clone(all)
	for i, one := range all {
		if isSensitive[one.TaskID] && !one.IsHidden {
			all[i].Code = sensitive.HideToken(one.Code)
		}
	}
	return all, nil
}

// SettleReceipts stores for tasks whether their messages were delivered, in the transaction of ctx (S3.11). Delivered overrides undelivered, so
// repeats and the order of receipts do not matter. left[i] is true if receipt i was not stored because the partition of its task is locked. The caller
// must repeat such a receipt.
func (s *Service) SettleReceipts(ctx context.Context, all []Final) (left []bool, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	store := func(ctx context.Context, all []Final) ([]struct{}, error) {
		all, err := s.hideCodes(ctx, all)
		if err != nil {
			return nil, err
		}
		var p queueq.TaskReceiptParams
		for _, one := range all {
			p.TaskIds, p.SenderNos = append(p.TaskIds, one.TaskID), append(p.SenderNos, one.SenderNo)
			p.Codes, p.States = append(p.Codes, one.Code), append(p.States, one.State)
			p.LeaseIds = append(p.LeaseIds, one.LeaseID)
		}
		if _, err := s.inParts.TaskReceiptHold(ctx, p.TaskIds); err != nil {
			return nil, err
		}
		return make([]struct{}, len(all)), s.inParts.TaskReceipt(ctx, p)
	}
	results, err := RunByDay(ctx, s.db, all, func(one Final) string { return one.TaskID }, store)
	if err != nil {
		return nil, fmt.Errorf("settle receipts: %w", err)
	}
	left = make([]bool, len(all))
	for i, r := range results {
		if r.Err != nil && !postgres.IsLockTimeout(r.Err) {
			return nil, fmt.Errorf("settle receipts: %w", r.Err)
		}
		left[i] = r.Err != nil
	}
	return left, nil
}
