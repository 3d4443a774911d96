// Package notification tells people of business events: it keeps notifications until their time, writes their texts and enqueues a task for
// each person.
package notification

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/dbq"
	"lksms/internal/contact"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// The business types of the documents (S1.1); others may be used.
const (
	TaskCreated int16 = iota
	NodeDone
	OrbitRemind
	TaskFinished
	TaskAbnormal
	NodeTimeout
)

// The states of a notification (S1.2). Some failed, which is ours, is neither success nor failure.
const (
	Waiting int16 = iota
	Succeeded
	Failed
	Cancelled
	EndedAbnormally
	SomeFailed
)

// Service tells people of business events. Every method is at most one transaction.
type Service struct {
	db          *postgres.DB
	q           *dbq.Queries
	tasks       *queue.Service
	contacts    *contact.Service
	platformURL string
	failed      *prometheus.CounterVec
}

// New returns a Service. platformURL is what ${platformUrl} means where a payload does not say; it may be empty.
func New(db *postgres.DB, tasks *queue.Service, contacts *contact.Service, platformURL string, reg prometheus.Registerer) *Service {
	return &Service{
		db: db, q: dbq.New(db), tasks: tasks, contacts: contacts, platformURL: platformURL,
		failed: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_notifications_failed_total", Help: "Notifications that nobody was told of, by the reason.",
		}, []string{"reason"}),
	}
}

// Announcement is what the notifications of one request say, and to whom.
type Announcement struct {
	Payload map[string]any
	UserIDs []string
}

// Notification is an announcement that is to be made on a channel (S1.2).
type Notification struct {
	BizType   int16
	BizID     int64
	BizTaskID *int64 // the business task whose event it is of, with which it ends; nil: a caller asked for it by itself
	Channel   string
	Own       map[string]any // what it says beside the announcement; of a name that stands in both, this counts
	DedupKey  *string        // names it on its channel, for its submitter, or of an event for its company: a second one of the name is the first
	NextRunAt *time.Time     // nil: now
	Repeat    *int64         // minutes after which its people are told again
	StartedAt *time.Time     // of a node that may take too long
	Sign      *string        // goes before the text; nil: the template's
	ExpiresAt *time.Time     // nobody is told after it; nil: never
	Operator  *string

	over bool // it ended before it began
}

// Made is what became of a Notification.
type Made struct {
	ID           int64
	Channel      string
	Deduplicated bool
	Status       int16
	Remark       string    // why nobody is told; empty: they are
	Failed       []Failure // who cannot be reached, known already
}

// Failure is why somebody cannot be reached.
type Failure struct{ UserID, Reason string }

// complete finds in the payload of a node's announcement what is not said beside it (S1.5): when people are told first, and how often
// again.
func (n *Notification) complete(payload map[string]any) error {
	if n.BizType != NodeTimeout {
		return nil
	}
	if said := payload["timeoutRemind"]; n.Repeat == nil && said != nil {
		minutes, isNumber := number(said)
		switch {
		case !isNumber:
			return fault.InvalidField("payload.timeoutRemind", fault.WrongType, "integer")
		case minutes < 0:
			return fault.InvalidField("payload.timeoutRemind", fault.TooSmall, 0)
		case minutes > longestRepeat:
			return fault.InvalidField("payload.timeoutRemind", fault.TooBig, longestRepeat)
		case minutes > 0:
			n.Repeat = &minutes
		}
	}
	if n.NextRunAt == nil && n.StartedAt != nil {
		limit, _ := number(payload["maxDuration"])
		if limit < 0 || limit > longestRepeat {
			return fault.InvalidField("payload.maxDuration", fault.TooBig, longestRepeat)
		}
		n.NextRunAt = new(n.StartedAt.Add(time.Duration(limit) * time.Minute))
	}
	return nil
}

// longestRepeat is the most minutes between two reminders.
const longestRepeat = 525600

// checkTimes finds what is wrong with the times of a notification.
func (n *Notification) checkTimes() error {
	now := time.Now()
	if at := n.StartedAt; at != nil && at.After(now.AddDate(0, 0, farthest)) {
		return fault.InvalidField("started_at", fault.TooFarAhead, farthest)
	}
	if at := n.StartedAt; at != nil && at.Before(now.AddDate(-longest, 0, 0)) {
		return fault.InvalidField("started_at", fault.InThePast, nil)
	}
	switch at := n.ExpiresAt; {
	case at == nil:
	case at.Before(now), n.NextRunAt != nil && at.Before(*n.NextRunAt):
		return fault.InvalidField("expires_at", fault.InThePast, nil)
	case at.After(now.AddDate(0, 0, 2*farthest)):
		return fault.InvalidField("expires_at", fault.TooFarAhead, 2*farthest)
	}
	return nil
}
