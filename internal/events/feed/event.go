package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lksms/gen/feedq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/postgres"
)

// Event is a row of the feed.
type Event = feedq.FeedReadRow

// Rendered is an event in its published form.
type Rendered struct {
	ID        int64           `json:"-"`
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`

	SmsgateID string          `json:"-"` // SMSGate id of the message of the task; empty: the message has no such id, or an erasure deleted the id
	SMPP      json.RawMessage `json:"-"` // fields of the SMPP message of the task that its receipts need; nil: the message did not arrive over SMPP, or was erased
}

// idPrefix is the prefix of the published id of an event.
const idPrefix = "evt_"

// IDText returns the published id of an event.
func IDText(id int64) string { return idPrefix + strconv.FormatInt(id, 10) }

// ParseID parses the result of IDText.
func ParseID(text string) (id int64, isID bool) {
	digits, hasPrefix := strings.CutPrefix(text, idPrefix)
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, hasPrefix && err == nil && id > 0
}

// message is the data of an event about a task. Its fields have the same names as the fields of a task in the contract. The data is computed from the message
// and from one row of report_logs. It is therefore the same each time the event is published, even if the task changes later. Only an erasure of the person
// changes the data.
type message struct {
	TaskID          string     `json:"task_id"`
	CompanyNo       *string    `json:"company_no,omitempty"`
	PhoneNumber     *string    `json:"phone_number,omitempty"`
	Status          int16      `json:"status,omitempty"`
	Result          *string    `json:"result,omitempty"`
	Source          *string    `json:"source,omitempty"`
	DedupKey        *string    `json:"dedup_key,omitempty"`
	MessageType     string     `json:"message_type,omitempty"`
	BatchID         *int64     `json:"batch_id,omitempty"`
	NotificationID  *int64     `json:"notification_id,omitempty"`
	ProcessingAppID *string    `json:"processing_app_id,omitempty"`
	Segments        int16      `json:"segments,omitempty"`
	Attempt         int32      `json:"attempt,omitempty"`
	Test            *bool      `json:"test,omitempty"`
	CreatedAt       *time.Time `json:"created_at,omitempty"`
	EndedAt         *time.Time `json:"ended_at,omitempty"`
	Delivery        string     `json:"delivery,omitempty"`
	DeliveryCode    *string    `json:"delivery_code,omitempty"`
}

// statuses contains, for each type of event about the end of a task, the final state of the task.
var statuses = map[string]int16{
	MessageSent: 2, MessageFailed: 3, MessageExpired: 3, MessageCancelled: 4, // SUCCESS, FAILED, FAILED, CANCELLED
}

// messageTypes contains the names of message types, indexed by their stored value.
var messageTypes = [...]string{submit.Verification: "verification", submit.Notification: "notification", submit.Marketing: "marketing"}

// messageOf returns the data of an event about a task. It computes settled_by in the same way as the SQL view tasks.
func messageOf(e Event, t feedq.FeedTasksRow) message {
	m := message{
		TaskID: t.TaskID, CompanyNo: t.CompanyNo, PhoneNumber: &t.PhoneNumber, Source: t.Source, DedupKey: t.DedupKey,
		MessageType: messageTypes[t.MessageType], BatchID: t.BatchID, NotificationID: t.NotificationID, Segments: t.Segments, Test: &t.IsTest,
		CreatedAt: &t.CreatedAt,
	}
	status, isEnd := statuses[e.Type]
	if !isEnd {
		m.Delivery, m.DeliveryCode = strings.TrimPrefix(e.Type, "message."), t.Result
		return m
	}
	m.Status, m.Result, m.EndedAt = status, t.Result, &e.At
	if t.Event == "reported" && t.Effect != "exhausted" {
		m.ProcessingAppID = t.AppID
	}
	if t.RetryCount != nil {
		m.Attempt = int32(*t.RetryCount) + 1
	}
	return m
}

// Render returns the published form of events, in their order.
func (s *Service) Render(ctx context.Context, events []Event) ([]Rendered, error) {
	var p feedq.FeedTasksParams
	for _, e := range events {
		if e.TaskID != "" {
			p.TaskIds, p.LogIds = append(p.TaskIds, e.TaskID), append(p.LogIds, e.LogID)
		}
	}
	tasks := map[int64]feedq.FeedTasksRow{}
	if len(p.TaskIds) > 0 {
		rows, err := s.inParts.FeedTasks(ctx, p)
		if err != nil {
			return nil, postgres.Wrap("read tasks of events", err, nil)
		}
		for _, row := range rows {
			tasks[row.LogID] = row
		}
	}
	derived, err := s.renderReceived(ctx, events)
	if err != nil {
		return nil, err
	}
	if err := s.renderVerifications(ctx, events, derived); err != nil {
		return nil, err
	}
	all := make([]Rendered, len(events))
	for i, e := range events {
		all[i] = Rendered{ID: e.ID, Type: e.Type, Timestamp: e.At, Data: e.Data}
		if data, is := derived[e.ID]; is {
			all[i].Data = data
		}
		if e.TaskID == "" {
			continue
		}
		m := message{TaskID: e.TaskID} // without further data, because the partition of the task was dropped
		if t, isKept := tasks[e.LogID]; isKept {
			m, all[i].SmsgateID, all[i].SMPP = messageOf(e, t), t.SmsgateID, t.Smpp
		}
		if all[i].Data, err = json.Marshal(m); err != nil {
			return nil, fmt.Errorf("write event: %w", err)
		}
	}
	return all, nil
}

// Read returns up to limit events with ids greater than `after`, oldest first. It returns only events that the viewer can see.
func (s *Service) Read(ctx context.Context, viewer task.Viewer, after int64, limit int) ([]Event, error) {
	rows, err := s.inParts.FeedRead(ctx, feedq.FeedReadParams{
		AfterID: after, CompanyID: viewer.CompanyID, SubmittedBy: viewer.Owner, PageLimit: int32(limit),
	})
	return rows, postgres.Wrap("read feed", err, nil)
}
