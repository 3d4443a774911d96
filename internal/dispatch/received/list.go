package received

import (
	"context"
	"time"

	"lksms/gen/receivedq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/scan"
)

// Row is a received message, and the number of its company. CompanyNo is nil if the company was deleted.
type Row = receivedq.ReceivedListOfRow

// Filter selects messages of a list. A nil field matches all. The page contains ids smaller than BeforeID.
type Filter struct {
	Viewer       task.Viewer // only messages of its company, and only answers to tasks of its owner
	PhoneNumbers []string    // the numbers that the person can have (NumbersOf)
	SenderNo     *string
	Kind         *string
	Unread       *bool
	From, To     *time.Time
	BeforeID     int64
	Limit        int
}

var errNoMessage = fault.New(fault.NotFound, fault.ReceivedNotFound)

// List lists the matching messages, newest first.
func (s *Service) List(ctx context.Context, f Filter) (p scan.Page[Row], err error) {
	first, before, err := scan.Span(f.From, f.To, f.BeforeID, func(t time.Time) (int64, error) { return s.q.FirstReceivedSince(ctx, t) })
	if err != nil {
		return p, postgres.Wrap("list received messages", err, nil)
	}
	p, err = scan.List[Row]{IDs: s.idsOf(ctx, f, first), ID: func(r Row) int64 { return r.ID }, Rows: func(ids []int64) ([]Row, error) {
		return s.q.ReceivedListOf(ctx, receivedq.ReceivedListOfParams{
			Ids: ids, CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, SenderNo: f.SenderNo, PhoneNumbers: f.PhoneNumbers, Kind: f.Kind, IsUnread: f.Unread,
			CreatedFrom: f.From, CreatedTo: f.To,
		})
	}}.Page(before, f.Limit)
	return p, postgres.Wrap("list received messages", err, nil)
}

// idsOf returns the statement that reads ids by the index of the most selective filter.
func (s *Service) idsOf(ctx context.Context, f Filter, first int64) func(before int64, limit int32) ([]int64, error) {
	switch {
	case f.PhoneNumbers != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDsOfNumbers(ctx, receivedq.ReceivedIDsOfNumbersParams{PhoneNumbers: f.PhoneNumbers, BeforeID: before, FromID: first, MaxRows: limit})
		}
	case f.Unread != nil && *f.Unread && f.Viewer.CompanyID != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDsUnreadOfCompany(ctx, receivedq.ReceivedIDsUnreadOfCompanyParams{CompanyID: *f.Viewer.CompanyID, BeforeID: before, FromID: first, MaxRows: limit})
		}
	case f.Unread != nil && *f.Unread:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDsUnread(ctx, receivedq.ReceivedIDsUnreadParams{BeforeID: before, FromID: first, MaxRows: limit})
		}
	case f.SenderNo != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDsOfSender(ctx, receivedq.ReceivedIDsOfSenderParams{SenderNo: *f.SenderNo, BeforeID: before, FromID: first, MaxRows: limit})
		}
	case f.Viewer.CompanyID != nil:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDsOfCompany(ctx, receivedq.ReceivedIDsOfCompanyParams{CompanyID: *f.Viewer.CompanyID, BeforeID: before, FromID: first, MaxRows: limit})
		}
	default:
		return func(before int64, limit int32) ([]int64, error) {
			return s.q.ReceivedIDs(ctx, receivedq.ReceivedIDsParams{BeforeID: before, FromID: first, MaxRows: limit})
		}
	}
}

// Get returns one message, or the fault received.not_found.
func (s *Service) Get(ctx context.Context, viewer task.Viewer, id int64) (Row, error) {
	rows, err := s.q.ReceivedListOf(ctx, receivedq.ReceivedListOfParams{Ids: []int64{id}, CompanyID: viewer.CompanyID, Owner: viewer.Owner})
	return postgres.One(rows, err, "get received message", errNoMessage)
}

// Read marks a message as read by a user, and returns the message. If it is already marked, nothing changes. Fault: received.not_found.
func (s *Service) Read(ctx context.Context, viewer task.Viewer, id int64, username string) (Row, error) {
	_, err := s.q.ReceivedRead(ctx, receivedq.ReceivedReadParams{ID: id, CompanyID: viewer.CompanyID, Owner: viewer.Owner, Username: username})
	if err != nil {
		return Row{}, postgres.Wrap("mark received message as read", err, nil)
	}
	return s.Get(ctx, viewer, id)
}
