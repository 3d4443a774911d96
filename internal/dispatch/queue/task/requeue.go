package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// requeueTries is how often a task is requeued that was requeued and ended again meanwhile.
const requeueTries = 3

// Requeue lets a task that is FAILED or CANCELLED wait again as if it were new, and logs that by did it and why. Faults: task.not_found,
// task.dropped, task.not_ended, task.succeeded, task.delivered, task.expired, task.unreachable, task.erased, task.withdrawn,
// task.sender_gone, task.tests_off, task.recipient_refused.
func (s *Service) Requeue(ctx context.Context, viewer Viewer, id, by, remark string) (Row, error) {
	if err := s.requeueable(ctx, viewer, id); err != nil {
		return Row{}, err
	}
	for range requeueTries {
		n, err := s.RequeueAll(ctx, []string{id}, by, remark)
		switch {
		case err != nil:
			return Row{}, err
		case n == 1:
			return s.Get(ctx, viewer, id)
		}
		if err := s.requeueable(ctx, viewer, id); err != nil {
			return Row{}, err
		}
	}
	return Row{}, fault.New(fault.Conflict, fault.TaskNotEnded)
}

// RequeueAll requeues those of ids that allow it, and returns how many. In a transaction of ctx it is a part of that.
func (s *Service) RequeueAll(ctx context.Context, ids []string, by, remark string) (int, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return 0, fmt.Errorf("requeue tasks: %w", err)
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("requeue tasks: %w", err)
	}
	rows, err := postgres.Again(ctx, s.db, func() (rows []queueq.TaskRequeueRow, err error) {
		err = s.db.Briefly(ctx, func(ctx context.Context) (err error) {
			if _, err = s.inParts.RequeueHold(ctx, ids); err != nil {
				return err
			}
			admitted, err := s.readmit(ctx, ids)
			if err != nil || len(admitted) == 0 {
				return err
			}
			rows, err = s.inParts.TaskRequeue(ctx, queueq.TaskRequeueParams{
				TaskIds: admitted, SendTests: values.SMS.SendTests, Remark: remark, RequestData: detail,
			})
			return err
		})
		return rows, err
	})
	if err != nil {
		return 0, fmt.Errorf("requeue tasks: %w", err)
	}
	s.db.AfterCommit(ctx, func() {
		s.requeued.Add(float64(len(rows)))
		news := map[int64]int{}
		for _, row := range rows {
			news[row.PoolID]++
		}
		s.queue.Wake(news)
	})
	return len(rows), nil
}

// readmit returns those of ids whose recipients may get a message now: that a message was accepted once does not admit it again. It makes the pools of
// one sender that the tasks need, and holds them until the end of the transaction of ctx: the statement that follows leaves out the tasks of a pool that
// is gone.
func (s *Service) readmit(ctx context.Context, ids []string) (admitted []string, err error) {
	rows, verdicts, err := s.judge(ctx, ids)
	if err != nil {
		return nil, err
	}
	var pools []int64
	for i, row := range rows {
		var refused *fault.Error
		switch pool := verdicts[i].Pool.ID; {
		case errors.As(verdicts[i].Err, &refused):
			continue
		case verdicts[i].Err != nil:
			return nil, verdicts[i].Err
		case row.SenderNo != "" && !slices.Contains(pools, pool):
			pools = append(pools, pool)
		}
		admitted = append(admitted, row.TaskID)
	}
	if len(pools) > 0 {
		_, err = s.directory.HoldSenderPools(ctx, pools)
	}
	return admitted, err
}

// judge decides whether the recipients of tasks may get their messages now.
func (s *Service) judge(ctx context.Context, ids []string) ([]queueq.RequeueMessagesRow, []admit.Verdict, error) {
	rows, err := s.inParts.RequeueMessages(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	messages, asOf := make([]admit.Message, len(rows)), time.Now()
	for i, row := range rows {
		messages[i] = admit.Message{
			Channel: row.Channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Recipient: row.Recipient, IsSigned: row.Sign != "",
			SenderNo: row.SenderNo, AsOf: asOf,
		}
	}
	return rows, s.admit.Admit(ctx, messages), nil
}

// RefusalOf returns why a task may not be requeued, by the verdict of RequeueVerdict.
func RefusalOf(verdict string) (reason fault.Reason, isRefused bool) {
	reason, isRefused = refusedVerdicts[verdict]
	return reason, isRefused
}

// refusedVerdicts has the faults of a task that may not be requeued, by the verdict of RequeueVerdict.
var refusedVerdicts = map[string]fault.Reason{
	"not_ended": fault.TaskNotEnded, "succeeded": fault.TaskSucceeded, "delivered": fault.TaskDelivered, "expired": fault.TaskExpired,
	"unreachable": fault.TaskUnreachable, "erased": fault.TaskErased, "withdrawn": fault.TaskWithdrawn, "sender_gone": fault.TaskSenderGone,
	"test": fault.TaskTestsOff,
}

// requeueable returns the fault because of which a task may not be requeued, or nil.
func (s *Service) requeueable(ctx context.Context, viewer Viewer, id string) error {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return s.orDropped(ctx, id, err)
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return fmt.Errorf("judge task: %w", err)
	}
	verdict, err := s.inParts.RequeueVerdict(ctx, queueq.RequeueVerdictParams{TaskID: id, SendTests: values.SMS.SendTests})
	if err != nil {
		return postgres.Wrap("judge task", err, fault.New(fault.NotFound, fault.TaskNotFound))
	}
	if reason, isRefused := refusedVerdicts[verdict]; isRefused {
		return fault.New(fault.Conflict, reason)
	}
	_, verdicts, err := s.judge(ctx, []string{id})
	if err != nil {
		return fmt.Errorf("judge recipient of task: %w", err)
	}
	for _, verdict := range verdicts {
		var refused *fault.Error
		switch {
		case errors.As(verdict.Err, &refused):
			return fault.New(fault.Conflict, fault.TaskRecipientRefused)
		case verdict.Err != nil:
			return verdict.Err
		}
	}
	return nil
}

// orDropped returns task.dropped for a task that was not found because the tasks of its day are no longer kept, otherwise err.
func (s *Service) orDropped(ctx context.Context, id string, err error) error {
	var missing *fault.Error
	if !errors.As(err, &missing) || missing.Reason != fault.TaskNotFound {
		return err
	}
	switch isDropped, failure := s.q.TaskDropped(ctx, id); {
	case failure != nil:
		return fmt.Errorf("find partition of task: %w", failure)
	case isDropped:
		return fault.New(fault.Conflict, fault.TaskDropped)
	}
	return err
}
