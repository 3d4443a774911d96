// Package queue is the only writer of tasks and of their logs: submit, claim, report, recover, cancel.
package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"lksms/gen/dbq"
	"lksms/internal/directory"
	"lksms/internal/fault"
	"lksms/internal/merge"
	"lksms/internal/phone"
	"lksms/internal/postgres"
	"lksms/internal/segment"
	"lksms/internal/sender"
	"lksms/internal/setting"
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
	directory *directory.Service
	senders   *sender.Service
	settings  *setting.Service
	rules     Rules
	submits   *merge.Merger[newTask, bool]
	reports   *merge.Merger[Report, string]
	refusals  *merge.Merger[refusedRow, struct{}]
	line      line

	claimed   prometheus.Counter
	reported  *prometheus.CounterVec
	recovered *prometheus.CounterVec
	unreached *prometheus.CounterVec
}

// New returns a Service whose counters are registered with reg.
func New(db *postgres.DB, templates *template.Service, directory *directory.Service, senders *sender.Service, settings *setting.Service, rules Rules, reg prometheus.Registerer) *Service {
	metrics := promauto.With(reg)
	s := &Service{
		db: db, q: dbq.New(db), templates: templates, directory: directory, senders: senders, settings: settings, rules: rules,
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
	directory.OnRoutesChanged(s.routesChanged)
	s.line.init(s.poll, s.rank)
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lksms_senders_waiting", Help: "Senders that wait for work at this server.",
	}, func() float64 { return float64(s.Waiting()) })
	s.unreached = metrics.NewCounterVec(prometheus.CounterOpts{
		Name: "lksms_notification_people_failed_total", Help: "People whom a notification did not reach, by the reason.",
	}, []string{"reason"})
	s.submits = merge.New(merge.Options[newTask, bool]{
		Run: s.storeAll, Hopeless: isHopeless, Most: mergedMost, Patience: mergePatience, AtOnce: mergesAtOnce, Limit: mergeLimit,
	})
	s.reports = merge.New(merge.Options[Report, string]{
		Run: s.settle, Hopeless: postgres.IsUnavailable, Key: func(r Report) string { return r.TaskID },
		Most: mergedMost, Patience: mergePatience, AtOnce: mergesAtOnce, Limit: mergeLimit,
	})
	s.refusals = merge.New(merge.Options[refusedRow, struct{}]{
		Run: func(ctx context.Context, rows []refusedRow) ([]struct{}, error) {
			return make([]struct{}, len(rows)), s.logRefused(ctx, rows)
		},
		Hopeless: isHopeless, Most: mergedMost, Patience: mergePatience, AtOnce: mergesAtOnce, Limit: mergeLimit,
	})
	return s
}

// What arrives together is written together: one statement and one commit for hundreds of tasks. A run that waits for a
// lock, or whose connection stalls, does not hold up the others for long.
const (
	mergedMost    = 500
	mergePatience = 50 * time.Millisecond
	mergesAtOnce  = 4
	mergeLimit    = 10 * time.Second
)

// isHopeless tells the errors after which the parts of a run need not be tried. A deadlock is not one of them: PostgreSQL ends one of the
// two transactions, and the submissions of many must not fail because of one.
func isHopeless(err error) bool { return postgres.IsUnavailable(err) && !postgres.IsDeadlock(err) }

// Close waits for what is being written.
func (s *Service) Close() {
	s.StopWaiting()
	s.line.done.Wait()
	s.submits.Wait()
	s.reports.Wait()
	s.refusals.Wait()
}

// Origin says who submitted and from where. UserAgent may have any length; its first 500 characters are kept.
type Origin struct {
	User        string
	CompanyID   int64
	TopPriority int16 // the most urgent priority that the user may ask for
	RequestID   string
	SourceIP    string
	UserAgent   string
}

// Submission is a message to send (S0.1). An empty Content means the phone number's default content.
type Submission struct {
	PhoneNumber string
	Content     string
	UseTemplate bool
	Source      *string
	DedupKey    *string // names the message: a second submission of the name by the same user gives the first one's task
	Raw         []byte  // the request as JSON, for the log

	MessageType    int16      // Verification, Notification or Marketing
	Priority       *int16     // 0 to 9, the smallest first; nil: as the message type has it
	ExpectSendTime *time.Time // not before; nil: now
	ExpiresAt      *time.Time // not after; nil: never
	Sign           string     // the signature that goes before the text; may be empty
	Test           bool       // a message of the company's own, to try the way
}

// Submitted is the task that a submission made.
type Submitted struct {
	TaskID       string
	Status       int16
	FinalContent string // with the signature that was asked for; that of a sender is added when it claims
	Deduplicated bool   // it was there already; Status is its state now
}

// errRepeated rolls back what a submission did before its dedup key turned out to be taken.
var errRepeated = errors.New("the dedup key is taken")

// Submit stores one task and the log row of its submission; when it returns without an error, both are durable. A default
// content is consumed in the same transaction (S0.9). Expected failures: request.invalid, template.none_active,
// default_content.already_sent.
func (s *Service) Submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	made, err := s.submit(ctx, sub, origin)
	if err != nil && sub.DedupKey != nil {
		// Also after another error: the first submission may have taken the default content that this one looked for.
		first, again := s.repeated(ctx, sub, origin)
		switch {
		case first != nil:
			return *first, nil
		case errors.Is(err, errRepeated) && again != nil:
			return Submitted{}, again
		}
	}
	return made, err
}

// repeated returns the task that the dedup key names, or nil, and logs the submission that repeated it.
func (s *Service) repeated(ctx context.Context, sub Submission, origin Origin) (*Submitted, error) {
	all, err := s.allRepeated(ctx, []Submission{sub}, origin)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// allRepeated is repeated for several, in one transaction and in their order.
func (s *Service) allRepeated(ctx context.Context, subs []Submission, origin Origin) ([]*Submitted, error) {
	n := len(subs)
	p := dbq.SubmissionsRepeatedParams{
		CompanyID: origin.CompanyID, SubmittedBy: origin.User,
		RequestID: origin.RequestID, SourceIp: origin.SourceIP, UserAgent: logText(origin.UserAgent),
		DedupKeys: make([]string, n), PhoneNumbers: make([]string, n), Contents: make([]string, n), UseTemplates: make([]bool, n),
		RequestData: make([][]byte, n),
	}
	for i, sub := range subs {
		p.DedupKeys[i], p.PhoneNumbers[i], p.Contents[i] = *sub.DedupKey, sub.PhoneNumber, sub.Content
		p.UseTemplates[i], p.RequestData[i] = sub.UseTemplate, sub.Raw
	}
	rows, err := s.q.SubmissionsRepeated(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("find tasks by dedup key: %w", err)
	}
	found := make([]*Submitted, n)
	for _, row := range rows {
		found[row.Place] = &Submitted{TaskID: row.TaskID, Status: row.Status, FinalContent: row.FinalContent, Deduplicated: true}
	}
	return found, nil
}

func (s *Service) submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	row, err := s.prepare(ctx, time.Now(), sub, origin, func(params string) (template.Text, error) {
		return s.templates.RenderActive(ctx, origin.CompanyID, params)
	})
	switch {
	case err != nil:
		return Submitted{}, err
	case row.final.Content == "":
		return s.submitDefault(ctx, row)
	default:
		return s.insert(ctx, row)
	}
}

// farthest is how many days ahead a message may be scheduled.
const farthest = 366

// prepare makes of a submission of asOf what is to be stored. One without content has no text yet: it is the number's default.
func (s *Service) prepare(ctx context.Context, asOf time.Time, sub Submission, origin Origin, render func(params string) (template.Text, error)) (newTask, error) {
	recipient, err := phone.Normalise("phone_number", sub.PhoneNumber)
	if err != nil {
		return newTask{}, err
	}
	row := newTask{id: NewID(), recipient: recipient, final: template.Text{Content: sub.Content}, asOf: asOf, Submission: sub, Origin: origin}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return row, err
	}
	row.every = values.SMS.ScheduledEvery
	if row.priority, err = priority(values.SMS, sub, origin); err != nil {
		return row, err
	}
	now := time.Now()
	if at := sub.ExpectSendTime; at != nil && at.After(now.AddDate(0, 0, farthest)) {
		return row, fault.InvalidField("expect_send_time", fault.TooFarAhead, farthest)
	}
	if at := sub.ExpiresAt; at != nil {
		if at.Before(now) || sub.ExpectSendTime != nil && at.Before(*sub.ExpectSendTime) {
			return row, fault.InvalidField("expires_at", fault.InThePast, nil)
		}
		if at.After(now.AddDate(0, 0, 2*farthest)) {
			return row, fault.InvalidField("expires_at", fault.TooFarAhead, 2*farthest)
		}
	}
	if err := s.put(ctx, &row); err != nil {
		return row, err
	}
	switch {
	case sub.Content == "":
	case sub.UseTemplate:
		row.final, err = render(sub.Content)
	case strings.TrimSpace(sub.Content) == "":
		err = fault.InvalidField("content", fault.Blank, nil)
	}
	return row, err
}

// The message types, as tasks keep them.
const (
	Verification int16 = iota
	Notification
	Marketing
)

// priorityOf is that of a message type.
func priorityOf(values setting.SMS, messageType int16) int16 {
	return int16([...]int64{values.PriorityVerification, values.PriorityNotification, values.PriorityMarketing}[messageType])
}

// priority is what a submission asks for within what its user may, or what its message type has.
func priority(values setting.SMS, sub Submission, origin Origin) (int16, error) {
	usual := priorityOf(values, sub.MessageType)
	switch {
	case sub.Priority == nil:
		return usual, nil
	case *sub.Priority < min(usual, origin.TopPriority):
		return 0, fault.InvalidField("priority", fault.TooUrgent, min(usual, origin.TopPriority))
	default:
		return *sub.Priority, nil
	}
}

func (s *Service) submitDefault(ctx context.Context, row newTask) (Submitted, error) {
	var made Submitted
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if row.final, err = s.templates.ConsumeDefault(ctx, row.CompanyID, row.recipient); err != nil {
			return err
		}
		made, err = s.insert(ctx, row)
		return err
	})
	return made, err
}

func (s *Service) insert(ctx context.Context, row newTask) (Submitted, error) {
	var made bool
	var err error
	if s.db.InTx(ctx) {
		made, err = s.store(ctx, row)
	} else {
		made, err = s.submits.Do(ctx, row)
	}
	switch {
	case err != nil:
		return Submitted{}, err
	case !made && row.DedupKey == nil:
		return Submitted{}, fmt.Errorf("task of company %d was not stored", row.CompanyID)
	case !made:
		return Submitted{}, errRepeated
	default:
		return row.submitted(), nil
	}
}

// newTask is a submission that has been found good.
type newTask struct {
	id, recipient string
	final         template.Text
	priority      int16
	place         directory.Place
	asOf          time.Time // it may not be refused by what was so before
	every         int64     // seconds: it goes out at the next full interval of so many; 0: at once
	Submission
	Origin
}

// deferred tells whether it goes out at the next full interval.
func (t newTask) deferred() bool { return t.final.Deferred && t.ExpectSendTime == nil }

// group is what ranks are reserved for.
type group struct {
	pool, company int64
	priority      int16
}

// queuedGroups sorts those that are queued at once into groups: indexes of rows, in their order.
func queuedGroups(rows []newTask) map[group][]int {
	groups := map[group][]int{}
	for i, r := range rows {
		if r.ExpectSendTime == nil && !r.deferred() {
			g := group{r.place.PoolID, r.CompanyID, r.priority}
			groups[g] = append(groups[g], i)
		}
	}
	return groups
}

// signed is the text with the signature that the submission asks for.
func (t newTask) signed() string { return segment.Signed(t.Sign, t.final.Content) }

// segments is how many short messages it takes.
func (t newTask) segments() int { return segment.Count(t.signed()) }

func (t newTask) submitted() Submitted {
	return Submitted{TaskID: t.id, Status: Pending, FinalContent: t.signed()}
}

func (s *Service) store(ctx context.Context, row newTask) (made bool, err error) {
	all, err := s.storeAll(ctx, []newTask{row})
	if err != nil {
		return false, err
	}
	return all[0], nil
}

// storeAll stores tasks with the log rows of their submissions, all or none, and tells which it made: of the others, their
// submitters have tasks with the dedup keys already. They are stored as the directory has it now, which may refuse one that was found
// good a moment ago.
func (s *Service) storeAll(ctx context.Context, rows []newTask) ([]bool, error) {
	rows = slices.Clone(rows)
	for tries := 1; ; tries++ {
		p := submitParams(rows)
		if tries == placedMost {
			p.DirectoryVersions = nil // it changes faster than it is read, and a message is not refused for that
		}
		ids, err := s.q.TaskSubmit(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("submit tasks: %w", err)
		}
		if tries == placedMost || len(ids) != 1 || ids[0] != "" {
			return s.stored(ctx, rows, ids), nil
		}
		if err := s.directory.Renew(ctx); err != nil {
			return nil, err
		}
		for i := range rows {
			if err := s.put(ctx, &rows[i]); err != nil {
				return nil, err
			}
		}
	}
}

// placedMost is how often tasks are placed, each time by the directory of then.
const placedMost = 4

// put places a task.
func (s *Service) put(ctx context.Context, row *newTask) (err error) {
	row.place, err = s.directory.Place(ctx, row.asOf, directory.SMS, row.CompanyID, row.MessageType, row.recipient, row.Sign != "")
	return err
}

func submitParams(rows []newTask) dbq.TaskSubmitParams {
	n := len(rows)
	p := dbq.TaskSubmitParams{
		TaskIds: make([]string, n), PhoneNumbers: make([]string, n), Recipients: make([]string, n),
		FinalContents: make([]string, n), Sources: make([]string, n), Submitters: make([]string, n),
		DedupKeys: make([]string, n), RequestIds: make([]string, n), Contents: make([]string, n),
		UseTemplates: make([]bool, n), SourceIps: make([]string, n), UserAgents: make([]string, n),
		RequestData: make([][]byte, n), CompanyIds: make([]int64, n), PoolIds: make([]int64, n), MessageTypes: make([]int16, n),
		CountryNos: make([]string, n), Priorities: make([]int16, n), Segments: make([]int16, n), Signs: make([]string, n),
		AreTests: make([]bool, n), EverySeconds: make([]int64, n), ExpectSendTimes: make([]time.Time, n), ExpireTimes: make([]time.Time, n),
		Turns: make([]float64, n),
	}
	for i, r := range rows {
		p.TaskIds[i], p.PhoneNumbers[i], p.Recipients[i], p.FinalContents[i] = r.id, r.PhoneNumber, r.recipient, r.final.Content
		p.Sources[i], p.Submitters[i], p.DedupKeys[i] = orEmpty(r.Source), r.User, orEmpty(r.DedupKey)
		p.RequestIds[i], p.Contents[i], p.UseTemplates[i] = r.RequestID, r.Content, r.UseTemplate
		p.SourceIps[i], p.UserAgents[i], p.RequestData[i] = r.SourceIP, logText(r.UserAgent), r.Raw
		p.CompanyIds[i], p.PoolIds[i], p.MessageTypes[i], p.CountryNos[i] = r.CompanyID, r.place.PoolID, r.MessageType, r.place.CountryNo
		p.Priorities[i], p.Segments[i], p.Signs[i], p.AreTests[i] = r.priority, int16(r.segments()), r.Sign, r.Test
		if r.deferred() {
			p.EverySeconds[i] = r.every
		}
		p.ExpectSendTimes[i], p.ExpireTimes[i] = orNever(r.ExpectSendTime), orNever(r.ExpiresAt)
		p.Turns[i] = -1
		if !slices.Contains(p.DirectoryVersions, r.place.Version) { // of those that come together, nearly always one
			p.DirectoryVersions = append(p.DirectoryVersions, r.place.Version)
		}
	}
	for g, members := range queuedGroups(rows) {
		p.GroupPoolIds, p.GroupPriorities = append(p.GroupPoolIds, g.pool), append(p.GroupPriorities, g.priority)
		p.GroupCompanyIds, p.GroupWidths = append(p.GroupCompanyIds, g.company), append(p.GroupWidths, float64(len(members))/rows[members[0]].place.Weight)
		for turn, i := range members {
			p.Turns[i] = float64(turn) / float64(len(members))
		}
	}
	return p
}

// stored tells which of rows are among ids, and wakes those who wait for them.
func (s *Service) stored(ctx context.Context, rows []newTask, ids []string) []bool {
	stored := make(map[string]bool, len(ids))
	for _, id := range ids {
		stored[id] = true
	}
	made, news := make([]bool, len(rows)), map[int64]int{}
	for i, r := range rows {
		if made[i] = stored[r.id]; made[i] {
			news[r.place.PoolID]++
		}
	}
	s.db.AfterCommit(ctx, func() {
		for pool, n := range news {
			s.line.wake(pool, min(n, wokenMost))
		}
	})
	return made
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orNever writes no time as the epoch, as TaskSubmit reads it.
func orNever(t *time.Time) time.Time {
	if t == nil {
		return time.Unix(0, 0)
	}
	return *t
}

// Refused is a submission that was refused.
type Refused struct {
	Raw    []byte // as it came, JSON or not
	Status int
	Answer []byte // JSON
}

// refusedRow is the row of a refused submission, as SubmissionsRefused reads it.
type refusedRow struct {
	RequestID    string          `json:"request_id"`
	PhoneNumber  *string         `json:"phone_number"`
	Content      *string         `json:"content"`
	UseTemplate  *bool           `json:"use_template"`
	SourceIP     string          `json:"source_ip"`
	UserAgent    string          `json:"user_agent"`
	RequestData  json.RawMessage `json:"request_data"`
	ResponseData json.RawMessage `json:"response_data"`
	StatusCode   int             `json:"status_code"`
}

// LogRefused keeps submissions that were refused, with their answers (S0.14), in portions. If one fails, it and those after it are not kept.
func (s *Service) LogRefused(ctx context.Context, origin Origin, all ...Refused) error {
	rows := make([]refusedRow, len(all))
	for i, one := range all {
		rows[i] = refusedRowOf(origin, one)
	}
	if len(rows) == 1 && !s.db.InTx(ctx) {
		_, err := s.refusals.Do(ctx, rows[0])
		return err
	}
	for portion := range slices.Chunk(rows, portionMost) {
		if err := s.logRefused(ctx, portion); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) logRefused(ctx context.Context, rows []refusedRow) error {
	list, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write refused submissions as JSON: %w", err)
	}
	if err := s.q.SubmissionsRefused(ctx, dbq.SubmissionsRefusedParams{Refused: list, Alone: !s.db.InTx(ctx)}); err != nil {
		return fmt.Errorf("log refused submissions: %w", err)
	}
	return nil
}

func refusedRowOf(origin Origin, one Refused) refusedRow {
	row := refusedRow{
		RequestID: origin.RequestID, SourceIP: origin.SourceIP, UserAgent: logText(origin.UserAgent),
		RequestData: logJSON(one.Raw), ResponseData: logJSON(one.Answer), StatusCode: one.Status,
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
	return row
}

// Viewer narrows what a call may see: to what one user submitted, to what one company owns, or to both; the zero Viewer sees everything.
// What it does not see is to it as if it were not there.
type Viewer struct {
	Owner     *string
	CompanyID *int64
}

// Get returns one task, or the fault task.not_found (S0.2).
func (s *Service) Get(ctx context.Context, viewer Viewer, id string) (dbq.Task, error) {
	row, err := s.q.TaskGet(ctx, dbq.TaskGetParams{TaskID: id, Owner: viewer.Owner, CompanyID: viewer.CompanyID})
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
	if from != nil && from.Year() > 2000 { // before there was any
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

// Cancel ends a PENDING task and logs that by did it. Faults: task.not_found, task.not_pending.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, id, by string) (dbq.Task, error) {
	detail, err := json.Marshal(map[string]string{"by": by})
	if err != nil {
		return dbq.Task{}, fmt.Errorf("cancel task: %w", err)
	}
	row, err := s.q.TaskCancel(ctx, dbq.TaskCancelParams{TaskID: id, Owner: viewer.Owner, CompanyID: viewer.CompanyID, RequestData: detail})
	if postgres.IsNoRows(err) {
		if _, err := s.Get(ctx, viewer, id); err != nil {
			return dbq.Task{}, err
		}
		return dbq.Task{}, fault.New(fault.Conflict, fault.TaskNotPending)
	}
	return dbq.Task(row), postgres.Wrap("cancel task", err, nil)
}

// NewID returns a task id: task_, the UTC date, _ and a ULID. Ids of one process ascend, also when its clock is put back.
func NewID() string { return ids.next(ulid.Now()) }

var ids idMaker

// idMaker counts up within a millisecond.
type idMaker struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	latest  uint64
}

func (m *idMaker) next(now uint64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entropy == nil {
		m.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	m.latest = max(m.latest, now)
	id := ulid.MustNew(m.latest, m.entropy)
	return idDay(ulid.Time(m.latest)) + "_" + id.String()
}

// idDay is how the ids of a day begin.
func idDay(at time.Time) string { return "task_" + at.UTC().Format("20060102") }

// LastID sorts behind every task id.
const LastID = "~"
