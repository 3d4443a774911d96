package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"lksms/gen/dbq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// requeueTries is how often a task is requeued that was requeued and ended again meanwhile.
const requeueTries = 3

// Requeue lets a task that is FAILED or CANCELLED wait again as if it were new, and logs that by did it and why. Faults: task.not_found,
// task.dropped, task.not_ended, task.succeeded, task.delivered, task.expired, task.unreachable, task.erased, task.withdrawn,
// task.sender_gone, task.tests_off.
func (s *Service) Requeue(ctx context.Context, viewer Viewer, id, by, remark string) (dbq.Task, error) {
	if err := s.requeueable(ctx, viewer, id); err != nil {
		return dbq.Task{}, err
	}
	for range requeueTries {
		n, err := s.RequeueAll(ctx, []string{id}, by, remark)
		switch {
		case err != nil:
			return dbq.Task{}, err
		case n == 1:
			return s.Get(ctx, viewer, id)
		}
		if err := s.requeueable(ctx, viewer, id); err != nil {
			return dbq.Task{}, err
		}
	}
	return dbq.Task{}, fault.New(fault.Conflict, fault.TaskNotEnded)
}

// RequeueAll requeues those of ids that allow it, and returns how many. In a transaction of ctx it is a part of that.
func (s *Service) RequeueAll(ctx context.Context, ids []string, by, remark string) (int, error) {
	rows, err := s.requeue(ctx, ids, by, remark)
	return len(rows), err
}

// RequeueEach is RequeueAll that also counts the others by the reason why each was not requeued. ids are distinct.
func (s *Service) RequeueEach(ctx context.Context, ids []string, by, remark string) (requeued int, refused map[fault.Reason]int, err error) {
	rows, err := s.requeue(ctx, ids, by, remark)
	if err != nil || len(rows) == len(ids) {
		return len(rows), nil, err
	}
	isRequeued := make(map[string]bool, len(rows))
	for _, row := range rows {
		isRequeued[row.TaskID] = true
	}
	left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return isRequeued[id] })
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("judge tasks: %w", err)
	}
	verdicts, err := s.inParts.RequeueVerdicts(ctx, dbq.RequeueVerdictsParams{TaskIds: left, SendTests: values.SMS.SendTests})
	if err != nil {
		return 0, nil, fmt.Errorf("judge tasks: %w", err)
	}
	refused = map[fault.Reason]int{}
	for _, v := range verdicts {
		reason, isRefused := refusedVerdicts[v.Verdict]
		if !isRefused { // it became fit since then
			reason = fault.TaskNotEnded
		}
		refused[reason]++
	}
	if gone := len(left) - len(verdicts); gone > 0 {
		refused[fault.TaskDropped] = gone
	}
	return len(rows), refused, nil
}

func (s *Service) requeue(ctx context.Context, ids []string, by, remark string) ([]dbq.TaskRequeueRow, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return nil, fmt.Errorf("requeue tasks: %w", err)
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("requeue tasks: %w", err)
	}
	rows, err := postgres.Again(ctx, s.db, func() (rows []dbq.TaskRequeueRow, err error) {
		err = s.db.Briefly(ctx, func(ctx context.Context) (err error) {
			if _, err = s.inParts.RequeueHold(ctx, ids); err != nil {
				return err
			}
			if err = s.requeuePools(ctx, ids); err != nil {
				return err
			}
			rows, err = s.inParts.TaskRequeue(ctx, dbq.TaskRequeueParams{
				TaskIds: ids, SendTests: values.SMS.SendTests, Remark: remark, RequestData: detail,
			})
			return err
		})
		return rows, err
	})
	if err != nil {
		return nil, fmt.Errorf("requeue tasks: %w", err)
	}
	s.db.AfterCommit(ctx, func() {
		s.requeued.Add(float64(len(rows)))
		news := map[int64]int{}
		for _, row := range rows {
			news[row.PoolID]++
		}
		for pool, n := range news {
			s.line.Wake(pool, n)
		}
	})
	return rows, nil
}

// requeuePools makes the pools of one sender that tasks need to wait again, and holds them until the end of the transaction of ctx. A sender that does
// not serve the company any more gets none: its tasks cannot be requeued.
func (s *Service) requeuePools(ctx context.Context, ids []string) error {
	wanted, err := s.inParts.RequeueSenders(ctx, ids)
	if err != nil || len(wanted) == 0 {
		return err
	}
	var pools []int64
	for _, w := range wanted {
		pool, err := s.directory.SenderPool(ctx, w.Channel, w.CompanyID, w.MessageType, w.SenderNo)
		var refused *fault.Error
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return err
		}
		pools = append(pools, pool)
	}
	_, err = s.directory.HoldSenderPools(ctx, pools) // the statement that follows leaves out the tasks of a pool that is gone
	return err
}

// RefusalOf returns why a task may not be requeued, by the verdict of RequeueVerdicts.
func RefusalOf(verdict string) (reason fault.Reason, isRefused bool) {
	reason, isRefused = refusedVerdicts[verdict]
	return reason, isRefused
}

// refusedVerdicts has the faults of a task that may not be requeued, by the verdict of RequeueVerdicts.
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
	rows, err := s.inParts.RequeueVerdicts(ctx, dbq.RequeueVerdictsParams{TaskIds: []string{id}, SendTests: values.SMS.SendTests})
	verdict, err := postgres.One(rows, err, "judge task", fault.New(fault.NotFound, fault.TaskNotFound))
	if err != nil {
		return err
	}
	if reason, isRefused := refusedVerdicts[verdict.Verdict]; isRefused {
		return fault.New(fault.Conflict, reason)
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
