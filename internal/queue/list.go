package queue

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
)

// Viewer narrows what a call may see: to what one user submitted, to what one company owns, or to both; the zero Viewer sees everything.
// To the call, other tasks do not exist.
type Viewer struct {
	Owner     *string
	CompanyID *int64
}

// Get returns one task, or the fault task.not_found (S0.2).
func (s *Service) Get(ctx context.Context, viewer Viewer, id string) (dbq.Task, error) {
	row, err := s.q.TaskGet(ctx, dbq.TaskGetParams{TaskID: id, Owner: viewer.Owner, CompanyID: viewer.CompanyID})
	return row, postgres.Wrap("get task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// Filter selects the tasks of a list; nil means any. The page starts before BeforeID.
type Filter struct {
	Viewer      Viewer
	Status      *int16
	PhoneNumber *string
	Source      *string
	SenderNo    *string // the sender that holds or settled the task
	Delivery    *int16  // 1 delivered, 2 undelivered
	CreatedFrom *time.Time
	CreatedTo   *time.Time
	BeforeID    string
	Limit       int
}

const (
	// scanMost bounds how many tasks one page of a list reads.
	scanMost = 2000
	// listedMost is the largest number of tasks that one statement of a list reads.
	listedMost = 500
)

// List returns the tasks that match, newest first. If it stopped at scanMost, before is the id before which the next page starts.
func (s *Service) List(ctx context.Context, f Filter) (rows []dbq.Task, before string, err error) {
	recipient, err := phone.NormaliseFilter("phone_number", f.PhoneNumber)
	if err != nil {
		return nil, "", err
	}
	from, to := idsCreated(f.CreatedFrom, f.CreatedTo)
	before = min(f.BeforeID, to)
	most := min(f.Limit, listedMost)
	for scanned := 0; ; most = min(4*most, listedMost) {
		ids, err := s.listIDs(ctx, f, recipient, dbq.TaskIDsParams{BeforeID: before, FromID: from, Most: int32(most)})
		if err != nil {
			return nil, "", fmt.Errorf("list ids of tasks: %w", err)
		}
		if len(ids) == 0 {
			return rows, "", nil
		}
		var more []dbq.Task
		err = s.db.ByKey(ctx, func(q *dbq.Queries) (err error) {
			more, err = q.TaskListOf(ctx, dbq.TaskListOfParams{
				Ids: ids, Owner: f.Viewer.Owner, CompanyID: f.Viewer.CompanyID, Recipient: recipient, Status: f.Status, Source: f.Source,
				SenderNo: f.SenderNo, Delivery: f.Delivery, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
				PageLimit: int32(f.Limit - len(rows)),
			})
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("list tasks: %w", err)
		}
		rows, scanned, before = append(rows, more...), scanned+len(ids), ids[len(ids)-1]
		switch {
		case len(rows) == f.Limit, len(ids) < most:
			return rows, "", nil
		case scanned >= scanMost:
			return rows, before, nil
		}
	}
}

// listIDs returns the next ids of a list, by the index of the filter that leaves the fewest tasks.
func (s *Service) listIDs(ctx context.Context, f Filter, recipient *string, p dbq.TaskIDsParams) ([]string, error) {
	is := func(status int16) bool { return f.Status != nil && *f.Status == status }
	switch v := f.Viewer; {
	case recipient != nil:
		return s.q.TaskIDsOfRecipient(ctx, dbq.TaskIDsOfRecipientParams{Recipient: *recipient, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case is(Processing):
		return s.q.TaskIDsProcessing(ctx, dbq.TaskIDsProcessingParams(p))
	case (is(Failed) || is(Cancelled)) && v.CompanyID != nil:
		return s.q.TaskIDsOfCompanyFailed(ctx, dbq.TaskIDsOfCompanyFailedParams{CompanyID: *v.CompanyID, Outcome: *f.Status, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case is(Failed) || is(Cancelled):
		return s.q.TaskIDsFailed(ctx, dbq.TaskIDsFailedParams{Outcome: *f.Status, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case f.SenderNo != nil:
		return s.q.TaskIDsOfSender(ctx, dbq.TaskIDsOfSenderParams{SenderNo: *f.SenderNo, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case f.Delivery != nil:
		return s.q.TaskIDsOfReceipt(ctx, dbq.TaskIDsOfReceiptParams{Delivery: *f.Delivery, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case is(Pending):
		return s.q.TaskIDsPending(ctx, dbq.TaskIDsPendingParams(p))
	case v.CompanyID != nil && v.Owner != nil:
		return s.q.TaskIDsOfSubmitter(ctx, dbq.TaskIDsOfSubmitterParams{CompanyID: *v.CompanyID, SubmittedBy: *v.Owner, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	case v.CompanyID != nil:
		return s.q.TaskIDsOfCompany(ctx, dbq.TaskIDsOfCompanyParams{CompanyID: *v.CompanyID, BeforeID: p.BeforeID, FromID: p.FromID, Most: p.Most})
	default:
		return s.q.TaskIDs(ctx, p)
	}
}

// idsCreated returns bounds for the ids of tasks created in [from, before). An id contains the day by the server's clock, and created_at
// is the database's: the bounds allow a day of difference.
func idsCreated(from, before *time.Time) (first, last string) {
	const day = 24 * time.Hour
	first, last = "", LastID
	if from != nil && from.Year() > 2000 { // no task is older
		first = idDay(from.Add(-day))
	}
	if before != nil && before.Year() < 9999 {
		last = idDay(before.Add(2 * day))
	}
	return first, last
}

// Timeline returns everything that happened to one task, oldest first, or the fault task.not_found.
func (s *Service) Timeline(ctx context.Context, viewer Viewer, id string) ([]dbq.TaskTimelineRow, error) {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return nil, err
	}
	rows, err := s.q.TaskTimeline(ctx, id)
	return rows, postgres.Wrap("read timeline", err, nil)
}
