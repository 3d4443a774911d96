package notification

import (
	"context"
	"fmt"
	"math"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/directory"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// The states of a message that is sent once (S2.2).
const (
	Sending int16 = iota
	Sent
	NotSent
)

// directory.WeChat is the channel of subscribe messages.

// Once is a message that a person gets from a submitter once for a business object and a kind of message (S2.1).
type Once struct {
	BusinessType, TemplateType, ReceiverUserID, TemplateID string

	BusinessID int64
	OpenID     string         // instead of that of the contact; may be empty
	Data       map[string]any // as WeChat wants it
	Page       string         // may be empty
	Again      bool           // send it again if it failed
	OnUnclear  string         // retry or fail
}

// SendOnce sends a message unless the submitter has sent one of the name, or it is on its way: then it gives that one, and says so. Of
// several at once, one is sent. What a crash left half sent, and what nobody knows of whether it went out, has failed, unless OnUnclear
// says that it is sent again (S2.2).
func (s *Service) SendOnce(ctx context.Context, m Once, origin queue.Origin) (row dbq.SubscribeListRow, deduplicated bool, err error) {
	data, err := written(m.Data)
	if err != nil {
		return row, false, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		id, err := s.q.SubscribeCreate(ctx, dbq.SubscribeCreateParams{
			CompanyID: origin.CompanyID, SubmittedBy: origin.User, BusinessType: m.BusinessType, BusinessID: m.BusinessID,
			TemplateType: m.TemplateType, ReceiverUserID: m.ReceiverUserID, TemplateID: m.TemplateID,
		})
		switch {
		case err == nil:
			err = s.sendOnce(ctx, id, m, data, origin)
		case postgres.IsNoRows(err):
			id, err = s.q.SubscribeHold(ctx, dbq.SubscribeHoldParams{
				CompanyID: origin.CompanyID, SubmittedBy: origin.User, BusinessType: m.BusinessType, BusinessID: m.BusinessID,
				TemplateType: m.TemplateType, ReceiverUserID: m.ReceiverUserID,
			})
			if err != nil {
				return fmt.Errorf("hold message: %w", err)
			}
			if row, err = s.sentOnce(ctx, id); err != nil {
				return err
			}
			if deduplicated = row.SendStatus != NotSent || !m.Again; deduplicated {
				return nil
			}
			err = s.sendOnce(ctx, id, m, data, origin)
		}
		if err != nil {
			return postgres.Wrap("send once", err, nil)
		}
		row, err = s.sentOnce(ctx, id)
		return err
	})
	return row, deduplicated, err
}

func (s *Service) sentOnce(ctx context.Context, id int64) (dbq.SubscribeListRow, error) {
	rows, err := s.q.SubscribeList(ctx, dbq.SubscribeListParams{ID: &id, BeforeID: math.MaxInt64, PageLimit: 1})
	if err == nil && len(rows) == 0 {
		err = fault.New(fault.NotFound, fault.NotificationNotFound)
	}
	if err != nil {
		return dbq.SubscribeListRow{}, fmt.Errorf("read message: %w", err)
	}
	return rows[0], nil
}

// sendOnce gives a message a task.
func (s *Service) sendOnce(ctx context.Context, id int64, m Once, data []byte, origin queue.Origin) error {
	rendering, err := s.q.RenderingCreate(ctx, dbq.RenderingCreateParams{
		Title: m.TemplateType, Content: string(data), TemplateID: m.TemplateID, Params: data, Page: m.Page,
	})
	if err != nil {
		return fmt.Errorf("keep rendering: %w", err)
	}
	person := queue.Person{UserID: m.ReceiverUserID, Address: m.OpenID}
	if person.Address == "" {
		people, err := s.people(ctx, origin.CompanyID, directory.WeChat, []string{m.ReceiverUserID})
		if err != nil {
			return err
		}
		person = people[0]
	}
	ids, err := s.tasks.Enqueue(ctx, queue.Telling{
		Channel: directory.WeChat, RenderingID: rendering, Content: string(data), MessageType: queue.Notification, OnUnclear: m.OnUnclear,
		Origin: origin,
	}, []queue.Person{person})
	if err != nil {
		return err
	}
	err = s.q.SubscribeSend(ctx, dbq.SubscribeSendParams{ID: id, TaskID: ids[0], TemplateID: m.TemplateID})
	return postgres.Wrap("note task of message", err, nil)
}

// OnceFilter says which messages to list; nil means any.
type OnceFilter struct {
	Viewer         queue.Viewer
	BusinessType   *string
	BusinessID     *int64
	ReceiverUserID *string
	Status         *int16
	BeforeFailure  time.Time // of failures, with Before
	Before         int64
	Limit          int
}

// IsOfFailures tells whether a list is of those that failed, which is in the order of their failures.
func (f OnceFilter) IsOfFailures() bool { return f.Status != nil && *f.Status == NotSent }

// FailedAt is when a message failed; nil of one that did not.
func FailedAt(m dbq.SubscribeListRow) *time.Time {
	switch {
	case m.SendStatus != NotSent:
		return nil
	case m.ReportedAt != nil:
		return m.ReportedAt
	default:
		return &m.ChangedAt // it was cancelled
	}
}

// SentOnce lists messages, newest first (S2.4); those that failed, the latest failure first.
func (s *Service) SentOnce(ctx context.Context, f OnceFilter) ([]dbq.SubscribeListRow, error) {
	if f.IsOfFailures() {
		failures, err := s.q.SubscribeFailures(ctx, dbq.SubscribeFailuresParams{
			CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BusinessType: f.BusinessType, BusinessID: f.BusinessID, ReceiverUserID: f.ReceiverUserID,
			BeforeFailedAt: f.BeforeFailure, BeforeID: f.Before, PageLimit: int32(f.Limit),
		})
		rows := make([]dbq.SubscribeListRow, len(failures))
		for i, failure := range failures {
			rows[i] = dbq.SubscribeListRow(failure)
		}
		return rows, postgres.Wrap("list failures", err, nil)
	}
	rows, err := s.q.SubscribeList(ctx, dbq.SubscribeListParams{
		CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, BusinessType: f.BusinessType, BusinessID: f.BusinessID, ReceiverUserID: f.ReceiverUserID, SendStatus: f.Status, BeforeID: f.Before,
		PageLimit: int32(f.Limit),
	})
	return rows, postgres.Wrap("list messages", err, nil)
}

// OnceStatistics counts messages by template type (S2.4).
func (s *Service) OnceStatistics(ctx context.Context, viewer queue.Viewer) ([]dbq.SubscribeStatisticsRow, error) {
	rows, err := s.q.SubscribeStatistics(ctx, dbq.SubscribeStatisticsParams{CompanyID: viewer.CompanyID, Owner: viewer.Owner})
	return rows, postgres.Wrap("count messages", err, nil)
}
