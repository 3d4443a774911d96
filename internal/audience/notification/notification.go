// Package notification owns notifications, business events, notification templates and send-once messages. It stores notifications until they are due, renders
// their texts and enqueues a task for each recipient.
package notification

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/notificationq"
	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/sweep"
	"lksms/internal/platform/tracing"
)

// These are the documented business types (S1.1). Callers can use other numbers.
const (
	TaskCreated int16 = iota
	NodeDone
	OrbitRemind
	TaskFinished
	TaskAbnormal
	NodeTimeout
)

// These are the states of a notification (S1.2). S1.2 does not define SomeFailed, which counts neither as success nor as failure.
const (
	Waiting int16 = iota
	Succeeded
	Failed
	Cancelled
	EndedAbnormally
	SomeFailed
)

// Alerts is the user name that submits the notifications about alerts. No real user can have this name. Messages of this user are sent before all other
// messages.
const Alerts = "system:alerts"

// Service manages notifications. Every method except Run runs in at most one transaction.
type Service struct {
	db          *postgres.DB
	q           *notificationq.Queries
	submissions *submit.Service
	tasks       *task.Service
	directory   *directory.Service
	contacts    *contact.Service
	platformURL string
	tracer      *tracing.Tracer
	failed      *prometheus.CounterVec
}

// Services contains the other services that a Service uses.
type Services struct {
	Submissions *submit.Service
	Tasks       *task.Service
	Directory   *directory.Service
	Contacts    *contact.Service
}

// New returns a Service on db. platformURL is the value of the placeholder ${platformUrl}, unless the payload contains this key. It can be empty.
func New(db *postgres.DB, uses Services, platformURL string, tracer *tracing.Tracer, reg prometheus.Registerer) *Service {
	failed := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "lksms_notifications_failed_total", Help: "Notifications that failed without a task, by reason.",
	}, []string{"reason"})
	for _, reason := range failReasons { // create each series now with the value 0, because Prometheus sees no increase in a series that starts with the first failure
		failed.WithLabelValues(reason.label)
	}
	return &Service{
		db: db, q: notificationq.New(db), submissions: uses.Submissions, tasks: uses.Tasks, directory: uses.Directory, contacts: uses.Contacts,
		platformURL: platformURL, tracer: tracer, failed: failed,
	}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "run-notifications", Interval: time.Second, Routine: true, Run: s.Run},
	}
}

// Announcement contains the content and the recipients of one request. All notifications of the request share it.
type Announcement struct {
	Payload map[string]any
	UserIDs []string
	Tag     *string // tag whose contacts are the recipients, instead of UserIDs; its contacts are read when the notification is sent
}

// Notification sends an announcement on one channel (S1.2).
type Notification struct {
	BizType   int16
	BizID     int64
	BizTaskID *int64 // business task whose event caused the notification; the notification ends with this task; nil: a caller created the notification directly
	Channel   string
	Own       map[string]any // added to the payload of the announcement; a key of Own overrides the same key of this payload
	DedupKey  *string        // identifies the notification within its company and channel; keys of events are separate; a second notification with the key is a repeat
	NextRunAt *time.Time     // time of the first run; nil: now or, for a NodeTimeout, the time in the payload
	Repeat    *int64         // minutes between reminders; nil: no reminders or, for a NodeTimeout, the minutes in the payload
	StartedAt *time.Time     // start of the node, for a timeout reminder
	Sign      *string        // signature before the text; nil: the signature of the template
	ExpiresAt *time.Time     // no task is enqueued after this time; nil: the notification never expires
	Operator  *string

	isOver     bool // true: stored as cancelled, because its node or task has already ended
	isReplaced bool // true: stored without its dedup key in use, because its task has already begun again
}

// Made is the result of creating a Notification.
type Made struct {
	ID           int64
	Channel      string
	Deduplicated bool
	Status       int16
	Remark       string    // why no task was enqueued; empty: tasks were or will be enqueued
	Failed       []Failure // recipients that are known to be unreachable
	Replaces     *Replaced // the failed notification whose dedup key this notification took; nil: it took no key
}

// Replaced is a failed notification that reached nobody. A later notification took its dedup key.
type Replaced struct {
	ID     int64
	Remark string // why the notification failed
}

// Failure contains a recipient that cannot be reached, and the reason.
type Failure struct{ UserID, Reason string }

// complete reads two values of a NodeTimeout from the payload, unless the notification sets them itself (S1.5): the time of the first reminder, and the minutes
// between reminders.
func (n *Notification) complete(payload map[string]any) error {
	if n.BizType != NodeTimeout {
		return nil
	}
	var err error
	if n.Repeat, err = intervalOf(n.Repeat, payload); err != nil {
		return err
	}
	if n.NextRunAt == nil && n.StartedAt != nil {
		limit, err := minutesOf(payload, "maxDuration")
		if err != nil {
			return err
		}
		n.NextRunAt = new(n.StartedAt.Add(time.Duration(optional.Value(limit)) * time.Minute))
	}
	return nil
}

// intervalOf returns the minutes between two reminders of a node: repeat, or else the value of the payload. It returns nil if people are reminded once. Fault:
// request.invalid.
func intervalOf(repeat *int64, payload map[string]any) (*int64, error) {
	if repeat != nil {
		return repeat, nil
	}
	minutes, err := minutesOf(payload, "timeoutRemind")
	if optional.Value(minutes) == 0 {
		return nil, err
	}
	return minutes, nil
}

// minutesOf reads a number of minutes from a payload. It returns nil if the key is missing. Fault: request.invalid.
func minutesOf(payload map[string]any, key string) (*int64, error) {
	value := payload[key]
	if value == nil {
		return nil, nil
	}
	minutes, isNumber := number(value)
	switch {
	case !isNumber:
		return nil, fault.InvalidField("payload."+key, fault.WrongType, "integer")
	case minutes < 0:
		return nil, fault.InvalidField("payload."+key, fault.TooSmall, 0)
	case minutes > maxRepeatMinutes:
		return nil, fault.InvalidField("payload."+key, fault.TooBig, maxRepeatMinutes)
	}
	return &minutes, nil
}

// maxRepeatMinutes is the maximum number of minutes between two reminders, and the maximum duration of a node in minutes: a year.
const maxRepeatMinutes = 525600

// checkTimes returns the fault request.invalid if a time is too far in the past or in the future.
func (n *Notification) checkTimes() error {
	now := time.Now()
	if at := n.StartedAt; at != nil && at.After(now.AddDate(0, 0, maxDaysAhead)) {
		return fault.InvalidField("started_at", fault.TooFarAhead, maxDaysAhead)
	}
	if at := n.StartedAt; at != nil && at.Before(now.AddDate(-maxYearsBack, 0, 0)) {
		return fault.InvalidField("started_at", fault.InThePast, nil)
	}
	return submit.CheckExpiry(n.ExpiresAt, optional.Or(n.NextRunAt, now))
}
