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
	CreatedFrom *time.Time
	CreatedTo   *time.Time
	BeforeID    string
	Limit       int
}

// scanMost bounds how many tasks, of all companies, one page of a list reads.
const scanMost = 10_000

// List returns the tasks that match, newest first. If it stopped at scanMost, before is the id before which the next page starts.
func (s *Service) List(ctx context.Context, f Filter) (rows []dbq.Task, before string, err error) {
	recipient, err := phone.NormaliseFilter("phone_number", f.PhoneNumber)
	if err != nil {
		return nil, "", err
	}
	from, to := idsCreated(f.CreatedFrom, f.CreatedTo)
	beforeID := min(f.BeforeID, to)
	if recipient == nil {
		rows, err = s.q.TaskList(ctx, dbq.TaskListParams{
			Owner: f.Viewer.Owner, CompanyID: f.Viewer.CompanyID, BeforeID: beforeID, FromID: from, Status: f.Status, Source: f.Source,
			CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, PageLimit: int32(f.Limit), ScanLimit: scanMost,
		})
	} else {
		rows, err = s.q.TaskListByRecipient(ctx, dbq.TaskListByRecipientParams{
			Recipient: *recipient, Owner: f.Viewer.Owner, CompanyID: f.Viewer.CompanyID, BeforeID: beforeID, FromID: from, Status: f.Status,
			Source: f.Source, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, PageLimit: int32(f.Limit), ScanLimit: scanMost,
		})
	}
	if err != nil || len(rows) == f.Limit {
		return rows, "", postgres.Wrap("list tasks", err, nil)
	}
	if recipient == nil {
		before, err = s.q.TaskListEnd(ctx, dbq.TaskListEndParams{BeforeID: beforeID, FromID: from, ScanLimit: scanMost})
	} else {
		before, err = s.q.TaskListByRecipientEnd(ctx, dbq.TaskListByRecipientEndParams{
			Recipient: *recipient, BeforeID: beforeID, FromID: from, ScanLimit: scanMost,
		})
	}
	switch n := len(rows); {
	case postgres.IsNoRows(err):
		return rows, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("find the end of the list: %w", err)
	case n > 0: // new tasks between the two statements would move the end up, and repeat rows
		before = min(before, rows[n-1].TaskID)
	}
	return rows, before, nil
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
