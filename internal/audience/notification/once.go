package notification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
)

// These are the states of a send-once message (S2.2).
const (
	Sending int16 = iota
	Sent
	NotSent
)

// Once is a send-once message on the WeChat channel (S2.1). A company sends such a message to a user at most once for each business object and template type.
type Once struct {
	BusinessType, TemplateType, ReceiverUserID, TemplateID string

	BusinessID int64
	OpenID     string         // overrides the openid of the contact; can be empty
	Data       map[string]any // in the format of WeChat
	Page       string         // can be empty
	Again      bool           // send the message again if it failed
	OnUnclear  string         // "retry" or "fail": the action if it is unknown whether the provider sent the message
	ExpiresAt  *time.Time     // the message is not sent after this time; nil: no limit
}

// SendOnce sends a message, unless the company has sent a message with the same identity or is sending one. In this case SendOnce returns the existing message,
// sets deduplicated, and does not check the times of the request. Only one of several concurrent calls sends the message. If a crash interrupted the sending or
// its outcome is unknown, the message has failed, unless OnUnclear is "retry" (S2.2).
func (s *Service) SendOnce(ctx context.Context, m Once, origin submit.Origin) (row SubscribeRow, deduplicated bool, err error) {
	data, err := placeholder.JSON(m.Data)
	if err != nil {
		return row, false, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		row, deduplicated, err = s.earlierOnce(ctx, m, origin.CompanyID)
		if err != nil || deduplicated && (row.SendStatus != NotSent || !m.Again) {
			return err
		}
		if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil { // a repeat sends nothing, so it is not checked
			return err
		}
		id := row.ID
		if !deduplicated {
			id, err = s.q.SubscribeCreate(ctx, notificationq.SubscribeCreateParams{
				CompanyID: origin.CompanyID, SubmittedBy: origin.User, BusinessType: m.BusinessType, BusinessID: m.BusinessID,
				TemplateType: m.TemplateType, ReceiverUserID: m.ReceiverUserID, TemplateID: m.TemplateID,
			})
			if postgres.IsNoRows(err) { // another call has just created the message
				if row, deduplicated, err = s.earlierOnce(ctx, m, origin.CompanyID); err != nil || row.SendStatus != NotSent || !m.Again {
					return err
				}
				id = row.ID
			}
		}
		if err == nil {
			err = s.enqueueOnce(ctx, id, m, data, origin)
		}
		if err != nil {
			return postgres.Wrap("send once", err, nil)
		}
		deduplicated = false
		row, err = s.readOnce(ctx, id)
		return err
	})
	return row, deduplicated, err
}

// earlierOnce locks the messages of a company with the identity of m, and returns one of them: a message that was sent or is being sent, otherwise the oldest.
// Several messages can exist, because the previous version stored one message for each submitter.
func (s *Service) earlierOnce(ctx context.Context, m Once, companyID int64) (row SubscribeRow, isFound bool, err error) {
	ids, err := s.q.SubscribeHold(ctx, notificationq.SubscribeHoldParams{
		CompanyID: companyID, BusinessType: m.BusinessType, BusinessID: m.BusinessID, TemplateType: m.TemplateType, ReceiverUserID: m.ReceiverUserID,
	})
	if err != nil {
		return row, false, fmt.Errorf("lock messages: %w", err)
	}
	isUnknown := false
	for _, id := range ids {
		one, err := s.readOnce(ctx, id)
		switch {
		case errors.Is(err, errNoNotification):
			isUnknown = true // the outcome of this message is not stored any more
		case err != nil:
			return row, false, err
		case one.SendStatus != NotSent:
			return one, true, nil
		case !isFound:
			row, isFound = one, true
		}
	}
	if isUnknown {
		return row, false, fault.New(fault.Conflict, fault.TaskDropped)
	}
	return row, isFound, nil
}

// readOnce returns one message.
func (s *Service) readOnce(ctx context.Context, id int64) (SubscribeRow, error) {
	task, err := s.q.SubscribeTask(ctx, id)
	if err != nil {
		return SubscribeRow{}, fmt.Errorf("find task of message: %w", err)
	}
	rows, err := notificationq.New(s.db.InPartitions()).SubscribeList(ctx, notificationq.SubscribeListParams{ID: &id, BeforeID: math.MaxInt64, FromID: task, ToID: task, PageLimit: 1})
	return postgres.One(rows, err, "read message", errNoNotification)
}

// enqueueOnce enqueues the task of a message.
func (s *Service) enqueueOnce(ctx context.Context, id int64, m Once, data []byte, origin submit.Origin) error {
	if err := submit.CheckExpiry(m.ExpiresAt, time.Now()); err != nil {
		return err
	}
	rendering, err := s.q.RenderingCreate(ctx, notificationq.RenderingCreateParams{
		Title: m.TemplateType, Content: string(data), TemplateID: m.TemplateID, Params: data, Page: m.Page,
	})
	if err != nil {
		return fmt.Errorf("store rendering: %w", err)
	}
	person := submit.Person{UserID: m.ReceiverUserID, Address: m.OpenID}
	if person.Address == "" {
		people, err := s.people(ctx, origin.CompanyID, directory.WeChat, []string{m.ReceiverUserID})
		if err != nil {
			return err
		}
		person = people[0]
	}
	ids, err := s.submissions.Enqueue(ctx, submit.Rendered{
		Channel: directory.WeChat, RenderingID: rendering, Content: string(data), MessageType: submit.Notification, OnUnclear: m.OnUnclear,
		ExpiresAt: m.ExpiresAt, Origin: origin,
	}, []submit.Person{person})
	if err != nil {
		return err
	}
	err = s.q.SubscribeSend(ctx, notificationq.SubscribeSendParams{ID: id, TaskID: ids[0], TemplateID: m.TemplateID})
	return postgres.Wrap("store task of message", err, nil)
}

// OnceFilter selects messages to list. A nil field matches all.
type OnceFilter struct {
	Viewer         task.Viewer
	SubmittedBy    *string
	BusinessType   *string
	BusinessID     *int64
	ReceiverUserID *string
	Status         *int16
	BeforeFailure  time.Time // only for lists of failures: time at which the message with the id Before failed
	Before         int64
	Limit          int
}

// IsOfFailures reports whether a list contains only failed messages. Such a list is sorted by the times of the failures.
func (f OnceFilter) IsOfFailures() bool { return f.Status != nil && *f.Status == NotSent }

// FailedAt returns when a message failed. It returns nil if the message has not failed.
func FailedAt(m SubscribeRow) *time.Time {
	switch {
	case m.SendStatus != NotSent:
		return nil
	case m.ReportedAt != nil:
		return m.ReportedAt
	default:
		return &m.ChangedAt // no task failed: the task was cancelled at this time
	}
}

// ListOnce lists messages, newest first (S2.4). A list of failed messages begins with the latest failure.
func (s *Service) ListOnce(ctx context.Context, f OnceFilter) ([]SubscribeRow, error) {
	if f.IsOfFailures() {
		failures, err := s.q.SubscribeFailures(ctx, notificationq.SubscribeFailuresParams{
			CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, SubmittedBy: f.SubmittedBy, BusinessType: f.BusinessType, BusinessID: f.BusinessID, ReceiverUserID: f.ReceiverUserID,
			BeforeFailedAt: f.BeforeFailure, BeforeID: f.Before, PageLimit: int32(f.Limit),
		})
		rows := make([]SubscribeRow, len(failures))
		for i, failure := range failures {
			rows[i] = SubscribeRow(failure)
		}
		return rows, postgres.Wrap("list failures", err, nil)
	}
	// A page can have tasks in all partitions, because a submitter can send an old message again.
	rows, err := s.q.SubscribeList(ctx, notificationq.SubscribeListParams{
		ToID:      taskid.Last,
		CompanyID: f.Viewer.CompanyID, Owner: f.Viewer.Owner, SubmittedBy: f.SubmittedBy, BusinessType: f.BusinessType, BusinessID: f.BusinessID, ReceiverUserID: f.ReceiverUserID, SendStatus: f.Status, BeforeID: f.Before,
		PageLimit: int32(f.Limit),
	})
	return rows, postgres.Wrap("list messages", err, nil)
}

// OnceStatistics counts messages by template type (S2.4).
func (s *Service) OnceStatistics(ctx context.Context, viewer task.Viewer) ([]SubscribeCounts, error) {
	rows, err := s.q.SubscribeStatistics(ctx, notificationq.SubscribeStatisticsParams{CompanyID: viewer.CompanyID, Owner: viewer.Owner})
	return rows, postgres.Wrap("count messages", err, nil)
}
