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
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// requeueTries is the maximum number of attempts to requeue a task that another request holds, or requeues at the same time and that ends again.
const requeueTries = 3

// Requeue makes a FAILED or CANCELLED task wait again like a new task, and logs by as the user, and the remark. Faults: task.not_found, task.dropped,
// task.not_ended, task.succeeded, task.delivered, task.expired, task.unreachable, task.erased, task.sensitive, task.withdrawn, task.sender_gone, task.tests_off,
// task.recipient_refused, recipient.blocked, recipient.limited; batch.wrong_status while the tasks of a cancelled batch are being cancelled.
func (s *Service) Requeue(ctx context.Context, viewer Viewer, id, by, remark string) (Row, error) {
	if err := s.requeueable(ctx, viewer, id); err != nil {
		return Row{}, err
	}
	for tries := 1; tries <= requeueTries; tries++ {
		n, err := s.RequeueAll(ctx, []string{id}, by, remark)
		switch {
		case postgres.IsLockTimeout(err) && tries < requeueTries: // another request has held the task for half a second
			continue
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

// RequeueAll requeues the tasks in ids that can be requeued, and returns their number. It uses the transaction of ctx if ctx has one.
func (s *Service) RequeueAll(ctx context.Context, ids []string, by, remark string) (int, error) {
	rows, err := s.requeue(ctx, ids, by, remark)
	return len(rows), err
}

// RequeueEach works like RequeueAll. It also returns the number of tasks that were not requeued, by reason. ids must be distinct.
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
	verdicts, err := s.inParts.RequeueVerdicts(ctx, queueq.RequeueVerdictsParams{TaskIds: left, SendTests: values.SMS.SendTests, MinLease: claim.MinLease})
	if err != nil {
		return 0, nil, fmt.Errorf("judge tasks: %w", err)
	}
	refused = map[fault.Reason]int{}
	var fit []string
	for _, v := range verdicts {
		if reason, isRefused := refusedVerdicts[v.Verdict]; isRefused {
			refused[reason]++
		} else {
			fit = append(fit, v.TaskID)
		}
	}
	admissions, err := s.judgeWithCaps(ctx, fit)
	if err != nil {
		return 0, nil, fmt.Errorf("judge recipients of tasks: %w", err)
	}
	for _, a := range admissions {
		if a.Err != nil {
			refused[refusalOf(a.Err).Reason]++
		} else {
			refused[fault.TaskNotEnded]++ // the task ended, or its recipient was admitted again, after the statement that requeues
		}
	}
	if gone := len(left) - len(verdicts); gone > 0 {
		refused[fault.TaskDropped] = gone
	}
	return len(rows), refused, nil
}

func (s *Service) requeue(ctx context.Context, ids []string, by, remark string) ([]queueq.TaskRequeueRow, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return nil, fmt.Errorf("requeue tasks: %w", err)
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("requeue tasks: %w", err)
	}
	rows, err := postgres.Again(ctx, s.db, func() (rows []queueq.TaskRequeueRow, err error) {
		err = s.db.Briefly(ctx, func(ctx context.Context) (err error) {
			rows, err = s.requeueInTx(ctx, ids, queueq.TaskRequeueParams{
				SendTests: values.SMS.SendTests, MinLease: claim.MinLease, Remark: remark, RequestData: detail,
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
		s.queue.Wake(news)
	})
	return rows, nil
}

// requeueInTx requeues tasks in the transaction of ctx. If a cap refuses a task because of other tasks that were counted before it, but cannot be requeued, the
// caps decide about the task again.
func (s *Service) requeueInTx(ctx context.Context, ids []string, p queueq.TaskRequeueParams) (rows []queueq.TaskRequeueRow, err error) {
	for isFirst := true; ; isFirst = false {
		allowed, keep, err := s.reserve(ctx, ids)
		if err != nil || len(allowed) == 0 {
			return rows, err
		}
		if isFirst { // after the locks of the caps, and at once for all tasks, so that two transactions lock them in the same order
			if _, err = s.inParts.RequeueHold(ctx, ids); err != nil {
				return nil, err
			}
			if err = s.inParts.QueueEnter(ctx); err != nil {
				return nil, err
			}
		}
		var requeued []queueq.TaskRequeueRow
		if p.TaskIds, p.QuietFroms, err = s.readmit(ctx, allowed); err == nil && len(p.TaskIds) > 0 {
			requeued, err = s.inParts.TaskRequeue(ctx, p)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, requeued...)
		if ids, err = keep(requeued); err != nil || len(ids) == 0 {
			return rows, err
		}
	}
}

// reserve returns the ids of the tasks that no cap refuses. A task that was cancelled or expired before a sender got it is counted again. All other
// tasks are still counted. The caller requeues tasks in the same transaction, and then calls keep. keep returns the ids of refused tasks about which the caller
// must decide again, see caps.Plan.Commit.
func (s *Service) reserve(ctx context.Context, ids []string) (allowed []string, keep func([]queueq.TaskRequeueRow) (again []string, err error), err error) {
	rows, err := s.inParts.RequeueMessages(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	reservation, err := s.admit.Reserve(ctx, messagesOf(rows))
	if err != nil {
		return nil, nil, err
	}
	for i, slot := range reservation.Slots {
		if slot.Err == nil {
			allowed = append(allowed, rows[i].TaskID)
		}
	}
	return allowed, func(requeued []queueq.TaskRequeueRow) (again []string, err error) {
		indexes, err := reservation.Commit(ctx, func(i int) bool {
			return slices.ContainsFunc(requeued, func(r queueq.TaskRequeueRow) bool { return r.TaskID == rows[i].TaskID })
		})
		for _, i := range indexes {
			again = append(again, rows[i].TaskID)
		}
		return again, err
	}, nil
}

// messagesOf returns the messages of tasks that are to be sent again.
func messagesOf(rows []queueq.RequeueMessagesRow) []admit.Message {
	messages, asOf := make([]admit.Message, len(rows)), time.Now()
	for i, row := range rows {
		messages[i] = admit.Message{
			Channel: row.Channel, CompanyID: row.CompanyID, MessageType: row.MessageType, Recipient: row.Recipient, IsSigned: row.Sign != "",
			SenderNo: row.SenderNo, AsOf: asOf, Priority: row.Priority, TaskID: row.TaskID, ExpiresAt: row.ExpiresAt, Again: true,
			Exemption: admit.Exemption(row.Exemption),
		}
		if at := row.ExpectSendTime; at != nil && at.After(asOf) {
			messages[i].DueAt = *at
		}
	}
	return messages
}

// readmit returns the ids whose recipients are allowed to receive a message now, and the beginnings of their quiet hours. An earlier acceptance of the message does not count. readmit creates the
// pools of one sender that the tasks need, and locks them until the end of the transaction of ctx. The next statement skips the tasks of a pool that no
// longer exists.
func (s *Service) readmit(ctx context.Context, ids []string) (admitted []string, quietFroms []*time.Time, err error) {
	rows, verdicts, err := s.judge(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	var pools []int64
	for i, row := range rows {
		switch pool := verdicts[i].Pool.ID; {
		case verdicts[i].Err != nil:
			continue
		case row.SenderNo != "" && !slices.Contains(pools, pool):
			pools = append(pools, pool)
		}
		admitted, quietFroms = append(admitted, row.TaskID), append(quietFroms, verdicts[i].Quiet.From())
	}
	if len(pools) > 0 {
		_, err = s.directory.LockSenderPools(ctx, pools)
	}
	return admitted, quietFroms, err
}

// judge decides whether the recipients of tasks are allowed to receive their messages now. The verdicts with an error are refusals: judge fails if a decision is
// unknown.
func (s *Service) judge(ctx context.Context, ids []string) ([]queueq.RequeueMessagesRow, []admit.Verdict, error) {
	rows, err := s.inParts.RequeueMessages(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	verdicts := s.admit.Admit(ctx, messagesOf(rows))
	for i := range verdicts {
		v := &verdicts[i]
		switch {
		case !v.IsDecided():
			return nil, nil, v.Err
		case v.Err == nil && v.CanOnlyExpire(rows[i].ExpiresAt):
			v.Err = fault.New(fault.Conflict, fault.TaskExpired)
		}
	}
	return rows, verdicts, nil
}

// judgeWithCaps works like judge, and also refuses tasks that caps refuse now. It counts nothing.
func (s *Service) judgeWithCaps(ctx context.Context, ids []string) ([]admit.Verdict, error) {
	rows, verdicts, err := s.judge(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, m := range messagesOf(rows) {
		if verdicts[i].Err != nil {
			continue
		}
		_, verdicts[i].Err = s.admit.Planned(ctx, m)
		if !verdicts[i].IsDecided() {
			return nil, verdicts[i].Err
		}
	}
	return verdicts, nil
}

// refusalOf converts the fault of a verdict of judgeWithCaps to the fault of a requeue. The fields of request.invalid are fields of a submission, so they become
// task.recipient_refused.
func refusalOf(err error) *fault.Error {
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Reason == fault.RequestInvalid {
		return fault.New(fault.Conflict, fault.TaskRecipientRefused)
	}
	return refused
}

// RefusedRecipients returns the reasons why tasks cannot be requeued now although the tasks themselves are fit: the recipient is not allowed to receive a message,
// or has quiet hours until the message expires. Caps are not considered, so that the result for a task is also true for other recipients in the same country.
func (s *Service) RefusedRecipients(ctx context.Context, ids []string) (refused map[string]fault.Reason, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, verdicts, err := s.judge(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("judge recipients of tasks: %w", err)
	}
	refused = map[string]fault.Reason{}
	for i, row := range rows {
		if verdicts[i].Err != nil {
			refused[row.TaskID] = refusalOf(verdicts[i].Err).Reason
		}
	}
	return refused, nil
}

// RefusalOf converts a verdict of BatchFailedVerdicts to the reason why a task cannot be requeued.
func RefusalOf(verdict string) (reason fault.Reason, isRefused bool) {
	reason, isRefused = refusedVerdicts[verdict]
	return reason, isRefused
}

// refusedVerdicts contains the reasons why a task cannot be requeued, by verdict of RequeueVerdicts or BatchFailedVerdicts.
var refusedVerdicts = map[string]fault.Reason{
	"not_ended": fault.TaskNotEnded, "succeeded": fault.TaskSucceeded, "delivered": fault.TaskDelivered, "expired": fault.TaskExpired,
	"unreachable": fault.TaskUnreachable, "refused": fault.TaskRefused, "erased": fault.TaskErased, "sensitive": fault.TaskSensitive, "withdrawn": fault.TaskWithdrawn, "sender_gone": fault.TaskSenderGone,
	"test": fault.TaskTestsOff, "cancelling": fault.BatchWrongStatus, "blocked": fault.RecipientBlocked,
}

// requeueable returns the fault of a task that cannot be requeued, or nil if the task can be requeued.
func (s *Service) requeueable(ctx context.Context, viewer Viewer, id string) error {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return s.orDropped(ctx, id, err)
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return fmt.Errorf("judge task: %w", err)
	}
	rows, err := s.inParts.RequeueVerdicts(ctx, queueq.RequeueVerdictsParams{TaskIds: []string{id}, SendTests: values.SMS.SendTests, MinLease: claim.MinLease})
	verdict, err := postgres.One(rows, err, "judge task", fault.New(fault.NotFound, fault.TaskNotFound))
	if err != nil {
		return err
	}
	if reason, isRefused := refusedVerdicts[verdict.Verdict]; isRefused {
		return fault.New(fault.Conflict, reason)
	}
	verdicts, err := s.judgeWithCaps(ctx, []string{id})
	if err != nil {
		return fmt.Errorf("judge recipient of task: %w", err)
	}
	if i := slices.IndexFunc(verdicts, func(v admit.Verdict) bool { return v.Err != nil }); i >= 0 {
		return refusalOf(verdicts[i].Err)
	}
	return nil
}

// orDropped returns task.dropped if err means that the task was not found because the tasks of its day have been dropped. Otherwise it returns err.
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
