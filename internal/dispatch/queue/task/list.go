package task

import (
	"context"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/smpp"
)

// Viewer limits the tasks that a call can access: tasks of one submitter, of one company, or both. The zero Viewer can access every task. For the call, all
// other tasks do not exist.
type Viewer struct {
	Owner     *string
	CompanyID *int64
}

// Get returns one task, or the fault task.not_found (S0.2).
func (s *Service) Get(ctx context.Context, viewer Viewer, id string) (Row, error) {
	row, err := s.inParts.TaskGet(ctx, queueq.TaskGetParams{TaskID: id, Owner: viewer.Owner, CompanyID: viewer.CompanyID})
	return row, postgres.Wrap("get task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// Origins returns the company, channel, notification and last provider number of each task, in the order of tasks.
func (s *Service) Origins(ctx context.Context, tasks []Row) ([]OriginRow, error) {
	var p queueq.TaskOriginsParams
	for _, t := range tasks {
		p.TaskIds = append(p.TaskIds, t.TaskID)
		p.CompanyIds, p.PoolIds = append(p.CompanyIds, t.CompanyID), append(p.PoolIds, t.PoolID)
		p.RenderingIds = append(p.RenderingIds, optional.Value(t.RenderingID))
	}
	rows, err := s.q.TaskOrigins(ctx, p)
	return rows, postgres.Wrap("read what tasks belong to", err, nil)
}

// Times contains the times of a task, and how long the task waited and was processed. A nil value is unknown, or has not happened yet.
type Times struct {
	QueuedAt       *time.Time
	FirstClaimedAt *time.Time // the first claim after QueuedAt
	Wait           *time.Duration
	Total          *time.Duration
}

// Detail returns one task with its times. Fault: task.not_found.
func (s *Service) Detail(ctx context.Context, viewer Viewer, id string) (Row, Times, error) {
	task, err := s.Get(ctx, viewer, id)
	if err != nil {
		return task, Times{}, err
	}
	marks, err := s.inParts.TaskMarks(ctx, id)
	return task, timesOf(marks), postgres.Wrap("read times of task", err, nil)
}

func timesOf(marks []queueq.TaskMarksRow) (t Times) {
	var ended *time.Time
	for _, m := range marks {
		if m.IsWaiting && m.EnteredAt != nil && !m.EnteredAt.After(m.SeenAt) {
			t.QueuedAt = m.EnteredAt
		}
		if m.Outcome != nil {
			t.QueuedAt, ended = m.EnteredAt, &m.At
		}
	}
	if t.QueuedAt == nil {
		return t
	}
	for _, m := range marks {
		isOfThisLife := m.LeasedAt != nil && !m.LeasedAt.Before(*t.QueuedAt) // a requeued task can have leases that are older than the requeue
		if isOfThisLife && (t.FirstClaimedAt == nil || m.LeasedAt.Before(*t.FirstClaimedAt)) {
			t.FirstClaimedAt = m.LeasedAt
		}
	}
	waited := marks[0].SeenAt
	switch {
	case t.FirstClaimedAt != nil:
		waited = *t.FirstClaimedAt
	case ended != nil:
		waited = *ended
	}
	t.Wait = new(max(0, waited.Sub(*t.QueuedAt)))
	if ended != nil {
		t.Total = new(max(0, ended.Sub(*t.QueuedAt)))
	}
	return t
}

// Filter selects the tasks of a list. A nil field selects any value. The page contains tasks with ids before BeforeID.
type Filter struct {
	Viewer      Viewer
	Status      *int16
	PhoneNumber *string
	Source      *string
	MessageType *int16
	SenderNo    *string // sender that holds a lease of the task or reported its outcome
	Delivery    *int16  // 1 delivered, 2 undelivered
	Result      *string // beginning of the result
	BatchID     *int64
	Test        *bool // true: only test messages; false: no test messages
	CountryNo   *string
	TemplateNo  *string // template from which the text was rendered
	SubmittedBy *string
	ProviderNo  *string // a provider's id of a message of the task
	CreatedFrom *time.Time
	CreatedTo   *time.Time
	BeforeID    string
	Limit       int
}

// These are the limits of one page of a list. After maxScan tasks, no further statement runs. maxPartitions is the maximum number of partitions.
const (
	maxScan       = 1000
	maxPartitions = 16 // a partition with one or two tasks of a rare filter takes a millisecond, mostly for planning; a partition that is not in memory takes longer
)

// Page is a page of a list of tasks, newest first.
type Page struct {
	Tasks []Row
	// Before is the id before which the next page begins. It is empty unless the list stopped at maxScan or maxPartitions.
	Before     string
	partitions []queueq.TaskPartitionsRow // newest first
}

// IsHistory reports whether the partition of a task contains only tasks that have ended.
func (p Page) IsHistory(id string) bool {
	for _, part := range p.partitions {
		if id >= part.FirstID {
			return id < part.BeforeID && part.IsHistory
		}
	}
	return false
}

// List returns the tasks that match, newest first.
func (s *Service) List(ctx context.Context, f Filter) (p Page, err error) {
	if f.PhoneNumber, err = s.directory.NormaliseNumber(ctx, f.Viewer.CompanyID, "phone_number", f.PhoneNumber); err != nil {
		return Page{}, err
	}
	if f.BatchID != nil { // the users of a company share its batches
		f.Viewer.Owner = nil
	}
	err = s.db.ByKey(ctx, func(tx postgres.Runner) (err error) {
		q := queueq.New(tx)
		p, err = list(ctx, q, f)
		return err
	})
	return p, postgres.Wrap("list tasks", err, nil)
}

// list reads windows of partitions, newest first. Each window is read in portions. If a window does not fill the page, the next window has twice as many
// partitions. One statement for two partitions costs less than two statements, but one statement for all partitions costs too much.
func list(ctx context.Context, q *queueq.Queries, f Filter) (p Page, err error) {
	first, last := idsCreated(f.CreatedFrom, f.CreatedTo)
	before := min(f.BeforeID, last)
	if p.partitions, err = q.TaskPartitions(ctx, queueq.TaskPartitionsParams{BeforeID: before, MaxRows: maxPartitions}); err != nil {
		return Page{}, err
	}
	var starts []string
	for _, part := range p.partitions {
		starts = append(starts, part.FirstID)
	}
	if len(starts) < maxPartitions {
		starts = append(starts, "") // an empty text sorts before all partitions
	}
	var held []string
	if f.SenderNo != nil {
		if held, err = q.TaskIDsHeld(ctx, *f.SenderNo); err != nil {
			return Page{}, err
		}
	}
	limit, scanned, end := f.Limit, 0, taskid.Last
	for width := 1; len(starts) > 0; width *= 2 {
		width = min(width, len(starts))
		start := starts[width-1]
		for inWindow := true; inWindow; {
			if scanned >= maxScan {
				p.Before = before
				return p, nil
			}
			ids, err := listIDs(ctx, q, f, window{held: held, start: start, end: end, from: max(start, first), before: before, limit: int32(limit)})
			if err != nil {
				return Page{}, err
			}
			if len(ids) == 0 {
				break
			}
			more, err := q.TaskListOf(ctx, queueq.TaskListOfParams{
				Ids: ids, FromID: ids[len(ids)-1], ToID: ids[0], Owner: f.Viewer.Owner, CompanyID: f.Viewer.CompanyID, Recipient: f.PhoneNumber,
				Status: f.Status, Source: f.Source, MessageType: f.MessageType, SenderNo: f.SenderNo, Delivery: f.Delivery, Result: f.Result,
				BatchID: f.BatchID, IsTest: f.Test, CountryNo: f.CountryNo, TemplateNo: f.TemplateNo, SubmittedBy: f.SubmittedBy,
				CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, PageLimit: int32(f.Limit - len(p.Tasks)),
			})
			if err != nil {
				return Page{}, err
			}
			if p.Tasks = append(p.Tasks, more...); len(p.Tasks) == f.Limit {
				return p, nil
			}
			inWindow = len(ids) == limit
			read := ids[len(ids)-1]
			scanned, before, limit = scanned+len(ids), f.skip(read), min(4*limit, maxScan)
			if before != read {
				limit = f.Limit // skipped tasks do not predict how many of the next tasks match
			}
		}
		if start <= first {
			return p, nil
		}
		starts, before, end = starts[width:], start, start
	}
	p.Before = before
	return p, nil
}

// window describes the ids that one statement of a list reads. The statement reads at most limit ids, newest first. `from` is included, and `before` is
// excluded. The partitions lie between the ids start and end. held contains the ids of the tasks that the sender in the filter has leased.
type window struct {
	held         []string
	start, end   string
	from, before string
	limit        int32
}

// listIDs returns the next ids of a list. It uses the index of the filter that matches the fewest tasks.
func listIDs(ctx context.Context, q *queueq.Queries, f Filter, w window) ([]string, error) {
	is := func(status int16) bool { return f.Status != nil && *f.Status == status }
	submitter := f.SubmittedBy
	if submitter == nil {
		submitter = f.Viewer.Owner
	}
	switch v := f.Viewer; {
	case f.ProviderNo != nil: // TaskListOf does not filter by provider number
		return q.TaskIDsOfProviderNo(ctx, queueq.TaskIDsOfProviderNoParams{ProviderNos: smpp.StoredIDs(f.ProviderNo), BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case f.PhoneNumber != nil:
		return q.TaskIDsOfRecipient(ctx, queueq.TaskIDsOfRecipientParams{Recipient: *f.PhoneNumber, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case f.BatchID != nil:
		return q.TaskIDsOfBatch(ctx, queueq.TaskIDsOfBatchParams{BatchID: *f.BatchID, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case is(queue.Processing):
		return q.TaskIDsProcessing(ctx, queueq.TaskIDsProcessingParams{BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case (is(queue.Failed) || is(queue.Cancelled)) && v.CompanyID != nil:
		return q.TaskIDsOfCompanyFailed(ctx, queueq.TaskIDsOfCompanyFailedParams{CompanyID: *v.CompanyID, Outcome: *f.Status, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case is(queue.Failed) || is(queue.Cancelled):
		return q.TaskIDsFailed(ctx, queueq.TaskIDsFailedParams{Outcome: *f.Status, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case f.SenderNo != nil:
		return q.TaskIDsOfSender(ctx, queueq.TaskIDsOfSenderParams{SenderNo: *f.SenderNo, Held: w.held, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case f.Delivery != nil:
		return q.TaskIDsOfReceipt(ctx, queueq.TaskIDsOfReceiptParams{Delivery: *f.Delivery, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case is(queue.Pending):
		return q.TaskIDsPending(ctx, queueq.TaskIDsPendingParams{BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case v.CompanyID != nil && submitter != nil:
		return q.TaskIDsOfSubmitter(ctx, queueq.TaskIDsOfSubmitterParams{CompanyID: *v.CompanyID, SubmittedBy: *submitter, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case submitter != nil:
		return q.TaskIDsOfSubmitterAnywhere(ctx, queueq.TaskIDsOfSubmitterAnywhereParams{SubmittedBy: *submitter, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case v.CompanyID != nil:
		return q.TaskIDsOfCompany(ctx, queueq.TaskIDsOfCompanyParams{CompanyID: *v.CompanyID, StartID: w.start, EndID: w.end, BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	case is(queue.Success):
		return q.TaskIDsSettled(ctx, queueq.TaskIDsSettledParams{BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	default:
		return q.TaskIDs(ctx, queueq.TaskIDsParams{BeforeID: w.before, FromID: w.from, MaxRows: w.limit})
	}
}

// Span returns the recipient of the filter in E.164, and the range of task ids: firstID is included, `before` is excluded. Fault: request.invalid for the phone
// number; field is the name of its field in the request.
func (s *Service) Span(ctx context.Context, f Filter, field string) (recipient *string, firstID, beforeID string, err error) {
	recipient, err = s.directory.NormaliseNumber(ctx, f.Viewer.CompanyID, field, f.PhoneNumber)
	firstID, beforeID = idsCreated(f.CreatedFrom, f.CreatedTo)
	return recipient, firstID, beforeID, err
}

const day = 24 * time.Hour

// idsCreated returns a range of ids that contains all tasks created in [from, before). An id contains the day of the server's clock, but created_at contains
// the time of the database. The range therefore allows a difference of one day.
func idsCreated(from, before *time.Time) (first, last string) {
	first, last = "", taskid.Last
	if from != nil && from.Year() > 2000 { // no task is older than 2000
		first = taskid.First(*from)
	}
	if before != nil && before.Year() < 9999 {
		last = taskid.Day(before.Add(2 * day))
	}
	return first, last
}

// clockDifference is the maximum difference between the clock of a server and the clock of the database. Lists of tasks that were created in a time range
// consider this difference.
const clockDifference = time.Minute

// skip returns the id before which a list continues after the id last. If the time in last is outside the times of the filter, skip returns the next id of the
// same day that can match. Otherwise it returns last. Ids without a time sort before or after all ids of the day that contain a time, so skip never passes over
// an id without a time.
func (f Filter) skip(last string) string {
	at, ok := taskid.Time(last)
	if !ok {
		return last
	}
	to := at.Truncate(day)
	switch {
	case f.CreatedFrom != nil && at.Before(f.CreatedFrom.Add(-clockDifference)):
		return taskid.At(to)
	case f.CreatedTo != nil && at.After(f.CreatedTo.Add(clockDifference)):
		if until := f.CreatedTo.Add(clockDifference); until.After(to) {
			to = until
		}
		return taskid.At(to)
	}
	return last
}

// Timeline returns all events of one task, oldest first. Fault: task.not_found.
func (s *Service) Timeline(ctx context.Context, viewer Viewer, id string) ([]TimelineRow, error) {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return nil, err
	}
	rows, err := s.inParts.TaskTimeline(ctx, id)
	return rows, postgres.Wrap("read timeline", err, nil)
}
