// Package task is the only writer of tasks and of their logs: submit, claim, report, recover, cancel.
package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/template"
)

// The states of a task (S0.15). CANCELLED is ours.
const (
	Pending int16 = iota
	Processing
	Success
	Failed
	Cancelled
)

// Rules says how often and how patiently a task is attempted (S0.11, S0.12). MaxRetryCount is at most 20.
type Rules struct {
	MaxRetryCount     int
	RetryDelay        time.Duration
	RetryMaxWait      time.Duration // a retry due for so long goes out as if it were new; 0: never
	ProcessingTimeout time.Duration
}

// Service moves tasks. Every method is at most one transaction.
type Service struct {
	db        *postgres.DB
	q         *dbq.Queries
	templates *template.Service
	rules     Rules

	claimed   prometheus.Counter
	reported  *prometheus.CounterVec
	recovered *prometheus.CounterVec
}

// New returns a Service whose counters are registered with reg.
func New(db *postgres.DB, templates *template.Service, rules Rules, reg prometheus.Registerer) *Service {
	metrics := promauto.With(reg)
	return &Service{
		db: db, q: dbq.New(db), templates: templates, rules: rules,
		claimed: metrics.NewCounter(prometheus.CounterOpts{
			Name: "lksms_tasks_claimed_total", Help: "Tasks handed to senders.",
		}),
		reported: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_reports_total", Help: "Reports of senders by what they changed.",
		}, []string{"effect"}),
		recovered: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "lksms_tasks_recovered_total", Help: "Leases that ran out, by what became of the task.",
		}, []string{"effect"}),
	}
}

// Origin says who submitted and from where. UserAgent may have any length; its first 500 characters are kept.
type Origin struct {
	User      string
	RequestID string
	SourceIP  string
	UserAgent string
}

// Submission is a message to send (S0.1). An empty Content means the phone number's default content.
type Submission struct {
	PhoneNumber string
	Content     string
	UseTemplate bool
	Source      *string
	DedupKey    *string // names the message: a second submission of the name gives the first one's task
	Raw         []byte  // the request as JSON, for the log
}

// Submitted is the task that a submission made.
type Submitted struct {
	TaskID       string
	Status       int16
	FinalContent string
	Deduplicated bool // it was there already; Status is its state now
}

// errRepeated rolls back what a submission did before its dedup key turned out to be taken.
var errRepeated = errors.New("the dedup key is taken")

// Submit stores one task and the log row of its submission; when it returns without an error, both are durable. A default
// content is consumed in the same transaction (S0.9). Expected failures: request.invalid, template.none_active,
// default_content.already_sent.
func (s *Service) Submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	made, err := s.submit(ctx, sub, origin)
	switch {
	case errors.Is(err, errRepeated):
		return s.repeated(ctx, sub, origin)
	case err != nil && sub.DedupKey != nil:
		// Its first submission may be why: it took the default content that this one looked for.
		if first, again := s.repeated(ctx, sub, origin); again == nil {
			return first, nil
		}
	}
	return made, err
}

// repeated gives the task that the dedup key names.
func (s *Service) repeated(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	row, err := s.q.SubmissionRepeated(ctx, dbq.SubmissionRepeatedParams{
		DedupKey: *sub.DedupKey, PhoneNumber: sub.PhoneNumber, Content: &sub.Content, UseTemplate: sub.UseTemplate,
		RequestID: origin.RequestID, SourceIp: origin.SourceIP, UserAgent: logText(origin.UserAgent), RequestData: sub.Raw,
	})
	if err != nil {
		return Submitted{}, fmt.Errorf("find task by dedup key: %w", err)
	}
	return Submitted{TaskID: row.TaskID, Status: row.Status, FinalContent: row.Content, Deduplicated: true}, nil
}

func (s *Service) submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	recipient, err := phone.Normalise("phone_number", sub.PhoneNumber)
	if err != nil {
		return Submitted{}, err
	}
	if sub.Content == "" {
		return s.submitDefault(ctx, sub, recipient, origin)
	}
	content := sub.Content
	if sub.UseTemplate {
		if content, err = s.templates.RenderActive(ctx, content); err != nil {
			return Submitted{}, err
		}
	} else if strings.TrimSpace(content) == "" {
		return Submitted{}, fault.InvalidField("content", fault.Blank, nil)
	}
	return s.insert(ctx, sub, recipient, content, origin)
}

func (s *Service) submitDefault(ctx context.Context, sub Submission, recipient string, origin Origin) (Submitted, error) {
	var made Submitted
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		content, err := s.templates.ConsumeDefault(ctx, recipient)
		if err != nil {
			return err
		}
		made, err = s.insert(ctx, sub, recipient, content, origin)
		return err
	})
	return made, err
}

func (s *Service) insert(ctx context.Context, sub Submission, recipient, final string, origin Origin) (Submitted, error) {
	id := NewID()
	n, err := s.q.TaskSubmit(ctx, dbq.TaskSubmitParams{
		TaskID: id, PhoneNumber: sub.PhoneNumber, Recipient: recipient, FinalContent: final, Source: sub.Source,
		SubmittedBy: origin.User, DedupKey: sub.DedupKey,
		RequestID: origin.RequestID, SourceIp: origin.SourceIP, UserAgent: logText(origin.UserAgent),
		Content: &sub.Content, UseTemplate: sub.UseTemplate, RequestData: sub.Raw,
	})
	if err != nil {
		return Submitted{}, fmt.Errorf("submit task: %w", err)
	}
	if n == 0 {
		return Submitted{}, errRepeated
	}
	return Submitted{TaskID: id, Status: Pending, FinalContent: final}, nil
}

// LogRefused keeps a submission that was refused, with its answer (S0.14). raw is the body as it came, JSON or not.
func (s *Service) LogRefused(ctx context.Context, raw []byte, origin Origin, status int, answer []byte) error {
	row := dbq.SubmissionRefusedParams{
		RequestID: origin.RequestID, SourceIp: origin.SourceIP, UserAgent: logText(origin.UserAgent),
		RequestData: logJSON(raw), ResponseData: answer, StatusCode: int16(status),
	}
	// The columns repeat what the body says where it says it in the right type.
	var said struct {
		PhoneNumber any `json:"phone_number"`
		Content     any `json:"content"`
		UseTemplate any `json:"use_template"`
	}
	if json.Unmarshal(row.RequestData, &said) == nil {
		row.PhoneNumber, row.Content = textOf(said.PhoneNumber), textOf(said.Content)
		if b, ok := said.UseTemplate.(bool); ok {
			row.UseTemplate = &b
		}
	}
	return postgres.Wrap("log refused submission", s.q.SubmissionRefused(ctx, row), nil)
}

// Viewer narrows what a call may see to the tasks that one user submitted; nil sees every task. Others' tasks are to it
// as if they were not there.
type Viewer = *string

// Get returns one task, or the fault task.not_found (S0.2).
func (s *Service) Get(ctx context.Context, viewer Viewer, id string) (dbq.Task, error) {
	row, err := s.q.TaskGet(ctx, dbq.TaskGetParams{TaskID: id, Owner: viewer})
	return row, postgres.Wrap("get task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// Filter says which tasks to list; nil means any. BeforeID is where the page starts, exclusive.
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

// List returns the tasks that match, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]dbq.Task, error) {
	recipient, err := phone.NormaliseFilter("phone_number", f.PhoneNumber)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.TaskList(ctx, dbq.TaskListParams{
		Owner: f.Viewer, BeforeID: f.BeforeID, Status: f.Status, Recipient: recipient, Source: f.Source,
		CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo, PageLimit: int32(f.Limit),
	})
	return rows, postgres.Wrap("list tasks", err, nil)
}

// Timeline returns everything that happened to one task, oldest first, or the fault task.not_found.
func (s *Service) Timeline(ctx context.Context, viewer Viewer, id string) ([]dbq.TaskTimelineRow, error) {
	if _, err := s.Get(ctx, viewer, id); err != nil {
		return nil, err
	}
	rows, err := s.q.TaskTimeline(ctx, id)
	return rows, postgres.Wrap("read timeline", err, nil)
}

// Cancel ends a PENDING task and logs that by did it. Faults: task.not_found, task.not_pending.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, id, by string) (dbq.Task, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return dbq.Task{}, fmt.Errorf("cancel task: %w", err)
	}
	row, err := s.q.TaskCancel(ctx, dbq.TaskCancelParams{TaskID: id, Owner: viewer, RequestData: detail})
	if postgres.IsNoRows(err) {
		if _, err := s.Get(ctx, viewer, id); err != nil {
			return dbq.Task{}, err
		}
		return dbq.Task{}, fault.New(fault.Conflict, fault.TaskNotPending)
	}
	return dbq.Task(row), postgres.Wrap("cancel task", err, nil)
}

var entropy = &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.Reader, 0)}

// NewID returns a task id: task_, the UTC date, _ and a ULID. Ids of one process ascend.
func NewID() string {
	id := ulid.MustNew(ulid.Now(), entropy)
	return "task_" + ulid.Time(id.Time()).UTC().Format("20060102") + "_" + id.String()
}
