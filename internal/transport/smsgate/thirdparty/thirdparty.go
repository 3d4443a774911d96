// Package thirdparty owns messages of programs that use the third-party API of SMSGate. A message is one text to several recipients under one id. Each
// recipient is one task, and the message has a combined state.
//
// The handlers use the formats of SMSGate. docs/integrations.md#smsgate lists the supported and the rejected features.
package thirdparty

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"lksms/gen/thirdpartyq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
	"lksms/internal/transport/smsgate"
)

// Service submits messages and returns their states. A caller can read only its own messages.
type Service struct {
	db          *postgres.DB
	q           *thirdpartyq.Queries
	inParts     *thirdpartyq.Queries // PostgreSQL plans each run for its parameters, see DB.InPartitions
	submissions *submit.Service
	tasks       *task.Service
	directory   *directory.Service
}

// New returns a Service on db.
func New(db *postgres.DB, submissions *submit.Service, tasks *task.Service, dir *directory.Service) *Service {
	return &Service{db: db, q: thirdpartyq.New(db), inParts: thirdpartyq.New(db.InPartitions()), submissions: submissions, tasks: tasks, directory: dir}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-smsgate-messages", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// These are the limits of a message.
const (
	MaxRecipients = 100
	maxID         = 36
	maxText       = 1024 // maximum number of characters, which is the maximum in the database, see queue.Limits
	minTTL        = 5
	maxTTL        = 2 * 366 * 24 * 60 * 60 // seconds; expires_at can be at most this far in the future

	// urgentFrom is the priority from which SMSGate sends a message immediately and before all others.
	urgentFrom, minPriority, maxPriority = 100, -128, 127
)

// source is the value of the field source in messages of SMSGate clients.
const source = "smsgate"

// Message is a message to submit.
type Message struct {
	ID           string // empty: Send generates an id
	PhoneNumbers []string
	Text         string
	DeviceID     string // the only sender that is allowed to send the message; empty: any sender
	Priority     int    // 0: default; larger is more urgent
	TTL          *int64 // time to live in seconds
	ValidUntil   *time.Time
	ScheduleAt   *time.Time
}

// fields maps fields of a submission to the names of SMSGate.
var fields = map[string]string{
	"content": "textMessage.text", "sender_no": "deviceId", "expires_at": "validUntil", "expect_send_time": "scheduleAt",
}

// withSMSGateFields returns a fault with the field names of SMSGate, and any other error unchanged. recipient is the index in PhoneNumbers.
func withSMSGateFields(err error, recipient int, m Message) error {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) == 0 {
		return err
	}
	renamed := *f
	renamed.Fields = nil
	for _, field := range f.Fields {
		switch name := field.Name; {
		case name == "phone_number":
			field.Name = fmt.Sprintf("phoneNumbers[%d]", recipient)
		case name == "expires_at" && m.TTL != nil:
			field.Name = "ttl"
		case fields[name] != "":
			field.Name = fields[name]
		}
		renamed.Fields = append(renamed.Fields, field)
	}
	return &renamed
}

// checkID checks the id that the caller chose. Fault: request.invalid.
func (m Message) checkID() error {
	switch {
	case utf8.RuneCountInString(m.ID) > maxID:
		return fault.InvalidField("id", fault.TooLong, maxID)
	case strings.Contains(m.ID, "/"): // the id must fit into a URL path
		return fault.InvalidField("id", fault.BadCharacters, nil)
	}
	return nil
}

// check checks the fields other than the id, where package queue does not check them, and returns the numbers in E.164. region is the region of numbers without
// a country code. Fault: request.invalid.
func (m Message) check(region string) (numbers []string, err error) {
	switch {
	case len(m.PhoneNumbers) == 0:
		return nil, fault.InvalidField("phoneNumbers", fault.Required, nil)
	case len(m.PhoneNumbers) > MaxRecipients:
		return nil, fault.InvalidField("phoneNumbers", fault.TooManyItems, MaxRecipients)
	case strings.TrimSpace(m.Text) == "": // for an empty text, queue would send the default content of the number
		return nil, fault.InvalidField("textMessage.text", fault.Blank, nil)
	case utf8.RuneCountInString(m.Text) > maxText: // checked before each recipient gets a copy
		return nil, fault.InvalidField("textMessage.text", fault.TooLong, maxText)
	case m.Priority < minPriority:
		return nil, fault.InvalidField("priority", fault.TooSmall, minPriority)
	case m.Priority > maxPriority:
		return nil, fault.InvalidField("priority", fault.TooBig, maxPriority)
	case m.TTL != nil && m.ValidUntil != nil:
		return nil, fault.InvalidField("ttl", fault.NotTogether, "validUntil")
	case m.TTL != nil && *m.TTL < minTTL:
		return nil, fault.InvalidField("ttl", fault.TooSmall, minTTL)
	case m.TTL != nil && *m.TTL > maxTTL:
		return nil, fault.InvalidField("ttl", fault.TooBig, maxTTL)
	case m.ScheduleAt != nil && !m.ScheduleAt.After(time.Now()):
		return nil, fault.InvalidField("scheduleAt", fault.InThePast, nil)
	}
	seen := map[string]bool{}
	for i, number := range m.PhoneNumbers {
		e164, err := phone.Normalise("phone_number", number, region)
		if err != nil {
			return nil, withSMSGateFields(err, i, m)
		}
		if seen[e164] {
			return nil, fault.InvalidField(fmt.Sprintf("phoneNumbers[%d]", i), fault.Duplicate, nil)
		}
		seen[e164] = true
		numbers = append(numbers, e164)
	}
	return numbers, nil
}

// urgency converts a priority of SMSGate to the scale of submit.PriorityOf.
func urgency(priority int) float64 {
	if priority < 0 {
		return float64(priority) / -minPriority
	}
	return min(1, float64(priority)/urgentFrom)
}

// errExists rejects an id that the submitter has used before.
var errExists = fault.New(fault.Conflict, fault.Exists)

// Raws returns the logged form of a message: one submission for each recipient.
func (m Message) Raws() ([][]byte, error) {
	raws := make([][]byte, len(m.PhoneNumbers))
	for i, number := range m.PhoneNumbers {
		var err error
		if raws[i], err = json.Marshal(map[string]string{"phone_number": number, "content": m.Text, "smsgate_id": m.ID}); err != nil {
			return nil, fmt.Errorf("write submission: %w", err)
		}
	}
	return raws, nil
}

// Send submits a message. It creates one task for each recipient, or no task. The returned state contains no text. Faults: request.invalid, with the field
// names of SMSGate; exists, for an id that the submitter has used before; the faults of submit.Submit.
func (s *Service) Send(ctx context.Context, m Message, origin submit.Origin) (State, error) {
	if err := m.checkID(); err != nil {
		return State{}, err
	}
	if m.ID == "" {
		m.ID = ulid.MustNew(ulid.Now(), rand.Reader).String()
	} else if _, err := s.get(ctx, origin, m.ID); err == nil {
		// The id is checked before the other fields: the scheduled time of a repeat can have passed. The primary key rejects simultaneous requests.
		return State{}, errExists
	} else if !isNone(err) {
		return State{}, err
	}
	region, err := s.directory.DefaultRegion(ctx, &origin.CompanyID)
	if err != nil {
		return State{}, err
	}
	numbers, err := m.check(region)
	if err != nil {
		return State{}, err
	}
	priority, err := s.submissions.PriorityOf(ctx, submit.Notification, urgency(m.Priority), origin)
	if err != nil {
		return State{}, err
	}
	expires := m.ValidUntil
	if m.TTL != nil {
		expires = new(time.Now().Add(time.Duration(*m.TTL) * time.Second))
	}
	raws, err := m.Raws()
	if err != nil {
		return State{}, err
	}
	subs := make([]submit.Submission, len(m.PhoneNumbers))
	for i, number := range m.PhoneNumbers {
		subs[i] = submit.Submission{
			PhoneNumber: number, Content: m.Text, Source: new(source), Raw: raws[i], MessageType: submit.Notification, Priority: priority,
			ExpectSendTime: m.ScheduleAt, ExpiresAt: expires, SenderNo: m.DeviceID,
		}
	}
	var ids []string
	var at time.Time
	_, err = s.submissions.SubmitAllOrNone(ctx, subs, origin, func(ctx context.Context, made []submit.Submitted) error {
		for _, one := range made {
			ids = append(ids, one.TaskID)
		}
		var err error
		at, err = s.q.SmsgateMessagePut(ctx, thirdpartyq.SmsgateMessagePutParams{
			CompanyID: origin.CompanyID, SubmittedBy: origin.User, MessageID: m.ID, TaskIds: ids, SenderNo: m.DeviceID,
		})
		return postgres.Wrap("store message", err, errExists) // no row was inserted: a simultaneous request used the same id
	})
	var refused *submit.RefusedError
	if errors.As(err, &refused) {
		return State{}, withSMSGateFields(refused.Err, refused.Index, m)
	}
	if err != nil {
		return State{}, err
	}
	// Do not query the database after the commit: an error now would make the program send the message again.
	state := State{
		ID: m.ID, DeviceID: m.DeviceID, State: smsgate.Pending, Recipients: make([]Recipient, len(numbers)), States: map[string]time.Time{smsgate.Pending: at}, taskIDs: ids,
	}
	for i, number := range numbers {
		state.Recipients[i] = Recipient{PhoneNumber: number, State: smsgate.Pending}
	}
	return state, nil
}

var errNone = fault.New(fault.NotFound, fault.MessageNotFound)

func isNone(err error) bool { return errors.Is(err, errNone) }

func (s *Service) get(ctx context.Context, origin submit.Origin, id string) (thirdpartyq.SmsgateMessageGetRow, error) {
	row, err := s.q.SmsgateMessageGet(ctx, thirdpartyq.SmsgateMessageGetParams{CompanyID: origin.CompanyID, SubmittedBy: origin.User, MessageID: id})
	return row, postgres.Wrap("get message", err, errNone)
}

// Get returns the state of a message. A task that the caller submitted in another way counts as a message with its task_id as id. Fault: message.not_found.
func (s *Service) Get(ctx context.Context, origin submit.Origin, id string) (State, error) {
	row, err := s.get(ctx, origin, id)
	if isNone(err) {
		t, err := s.tasks.Get(ctx, task.Viewer{Owner: &origin.User, CompanyID: &origin.CompanyID}, id)
		var f *fault.Error
		switch {
		case errors.As(err, &f) && f.Kind == fault.NotFound:
			return State{}, errNone
		case err != nil:
			return State{}, err
		}
		row = thirdpartyq.SmsgateMessageGetRow{MessageID: id, TaskIds: []string{t.TaskID}, SenderNo: t.SenderNo, CreatedAt: t.CreatedAt}
	} else if err != nil {
		return State{}, err
	}
	all, err := s.statesOf(ctx, []thirdpartyq.SmsgateMessageGetRow{row}, true)
	if err != nil {
		return State{}, err
	}
	if len(all) == 0 {
		return State{}, errNone
	}
	return all[0], nil
}

// These are the limits of a list.
const (
	MaxListed = 100
	maxSeen   = 10_000 // maximum number of messages in the time range that are counted
)

// Filter selects the messages of a list. A nil field matches all messages.
type Filter struct {
	From, To      *time.Time
	DeviceID      *string
	Ascending     bool
	WithText      bool
	Limit, Offset int
}

// List returns messages of the caller and the total number of matching messages. It searches only the first maxSeen messages in the time range. Fault:
// request.invalid.
func (s *Service) List(ctx context.Context, origin submit.Origin, f Filter) (all []State, total int64, err error) {
	switch {
	case f.Limit < 1:
		return nil, 0, fault.InvalidField("limit", fault.TooSmall, 1)
	case f.Limit > MaxListed:
		return nil, 0, fault.InvalidField("limit", fault.TooBig, MaxListed)
	case f.Offset < 0:
		return nil, 0, fault.InvalidField("offset", fault.TooSmall, 0)
	case f.Offset > maxSeen:
		return nil, 0, fault.InvalidField("offset", fault.TooBig, maxSeen)
	}
	p := thirdpartyq.SmsgateMessageListParams{
		Ascending: f.Ascending, CompanyID: origin.CompanyID, SubmittedBy: origin.User, FromAt: optional.Value(f.From), ToAt: optional.Or(f.To, forever),
		MaxSeen: maxSeen, SenderNo: f.DeviceID, Skipped: int32(f.Offset), PageLimit: int32(f.Limit),
	}
	rows, err := s.q.SmsgateMessageList(ctx, p)
	if err == nil && len(rows) == 0 && f.Offset > 0 { // each row contains the total, so one row is needed
		p.Skipped, p.PageLimit = 0, 1
		first, again := s.q.SmsgateMessageList(ctx, p)
		if err = again; len(first) > 0 {
			total = first[0].Matching
		}
	}
	if err != nil {
		return nil, 0, postgres.Wrap("list messages", err, nil)
	}
	messages := make([]thirdpartyq.SmsgateMessageGetRow, len(rows))
	for i, row := range rows {
		total = row.Matching
		messages[i] = thirdpartyq.SmsgateMessageGetRow{MessageID: row.MessageID, TaskIds: row.TaskIds, SenderNo: row.SenderNo, CreatedAt: row.CreatedAt}
	}
	all, err = s.statesOf(ctx, messages, f.WithText)
	return all, total, err
}

// forever is later than the time of any message.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Cancel cancels all tasks of a message. If one of the tasks was claimed, Cancel cancels no task. Faults: message.not_found, task.not_pending.
func (s *Service) Cancel(ctx context.Context, origin submit.Origin, id string) (State, error) {
	state, err := s.Get(ctx, origin, id)
	if err != nil {
		return state, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.tasks.CancelAll(ctx, state.taskIDs, origin.User)
		if err == nil && n < len(state.taskIDs) {
			return fault.New(fault.Conflict, fault.TaskNotPending)
		}
		return err
	})
	if err != nil {
		return State{}, err
	}
	return s.Get(ctx, origin, id)
}

// deleteBatch is the number of messages that one statement of DeleteExpired deletes.
const deleteBatch = 10_000

// DeleteExpired deletes messages whose tasks were dropped from the history. It returns the number of deleted messages.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	n, err := postgres.InBatches(deleteBatch, func() (int64, error) { return s.q.SmsgateMessagesDeleteExpired(ctx, deleteBatch) })
	return n, postgres.Wrap("delete messages", err, nil)
}

// maxDevices is the maximum number of devices in a list.
const maxDevices = 1000

// Devices returns the senders that the caller's company can choose.
func (s *Service) Devices(ctx context.Context, origin submit.Origin) ([]thirdpartyq.SmsgateDevicesRow, error) {
	rows, err := s.q.SmsgateDevices(ctx, thirdpartyq.SmsgateDevicesParams{Channel: directory.SMS, CompanyID: origin.CompanyID, MaxRows: maxDevices})
	return rows, postgres.Wrap("list devices", err, nil)
}

// HasDevice reports whether the caller's company can choose a sender.
func (s *Service) HasDevice(ctx context.Context, origin submit.Origin, senderNo string) (bool, error) {
	_, err := s.directory.ServingSender(ctx, directory.SMS, origin.CompanyID, submit.Notification, senderNo)
	var f *fault.Error
	if errors.As(err, &f) {
		return false, nil
	}
	return err == nil, err
}
