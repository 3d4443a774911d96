// Package submit makes tasks: of one message, of several, of those that the SQL inbox accepted, and of notifications. It checks the recipient, renders the
// text, finds the pool, and stores the task together with its submission. It logs submissions that made no task.
package submit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// Service makes tasks. Every method is at most one transaction, unless it says otherwise.
type Service struct {
	db        *postgres.DB
	q         *queueq.Queries
	inParts   *queueq.Queries // statements that read tasks by their ids
	queue     *queue.Service
	admit     *admit.Service
	explain   *explain.Service
	templates *template.Service
	directory *directory.Service
	settings  *setting.Service
	submits   *merge.Merger[newTask, bool]
	refusals  *merge.Merger[refusedRow, struct{}]
}

// Services are those that a Service uses.
type Services struct {
	Queue     *queue.Service
	Admit     *admit.Service
	Explain   *explain.Service
	Templates *template.Service
	Directory *directory.Service
	Settings  *setting.Service
}

// New returns a Service. Call Close afterwards.
func New(db *postgres.DB, uses Services) *Service {
	s := &Service{
		db: db, q: queueq.New(db), inParts: queueq.New(db.InPartitions()),
		queue: uses.Queue, admit: uses.Admit, explain: uses.Explain, templates: uses.Templates, directory: uses.Directory, settings: uses.Settings,
	}
	s.submits = queue.NewMerger(s.storeAll, nil)
	s.refusals = queue.NewMerger(func(ctx context.Context, rows []refusedRow) ([]struct{}, error) {
		return make([]struct{}, len(rows)), s.logRefused(ctx, rows)
	}, nil)
	return s
}

// Sweeps are what the service does again and again.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-submissions", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Close waits for the runs that write.
func (s *Service) Close() {
	s.submits.Wait()
	s.refusals.Wait()
}

// Origin is the user and the request of a submission. UserAgent may have any length; its first 500 characters are kept.
type Origin struct {
	User        string
	CompanyID   int64
	TopPriority int16 // the most urgent priority that the user may ask for
	RequestID   string
	SourceIP    string
	UserAgent   string
	Traceparent string // of the request, see package tracing; empty: none
}

// Submission is a message to send (S0.1). Without Content and TemplateNo, it gets the phone number's default content.
type Submission struct {
	Channel     string // empty: sms
	PhoneNumber string // on another channel the address
	Region      string // of PhoneNumber, if it has no country code; empty: the one of the company
	Content     string
	UseTemplate bool             // Content has the parameters of the first active template
	TemplateNo  string           // the number of the template to use in place of Content; empty: none
	Params      json.RawMessage  // the parameters of that template, as they were sent; nil: none
	Language    string           // the language of that template's text; empty: its own
	From        *template.Source // the template of which Content was made; nil: none, or the submission names it
	Deferred    bool             // Content is sent at the next full interval
	Source      *string
	DedupKey    *string // the user's name for the message: a second submission with it returns the task of the first
	Raw         []byte  // the request as JSON, for the log

	MessageType    int16      // Verification, Notification or Marketing
	Priority       *int16     // 0 to 9, the smallest first; nil: the priority of the message type
	ExpectSendTime *time.Time // not before; nil: now
	ExpiresAt      *time.Time // not after; nil: never
	Sign           string     // the signature that goes before the text; may be empty
	Test           bool       // statistics count it apart, and a setting may keep it from being sent
	BatchID        int64      // the uploaded list that the message is from; 0: none
	SenderNo       string     // the only sender that may send the message; empty: any
	WasChecked     bool       // was accepted before, by Check: a country that is not served any more holds it, and does not refuse it
	IsTrial        bool       // a test that ClaimTrial leases: it is sent, whatever the setting says of tests
	RenderingID    int64      // has the text, of which Content is the beginning; 0: Content is the text
	Values         []byte     // of the placeholders of the rendering; nil: it has none

	taskID string // was given out before, see Accepted; empty: a new one
}

// isRendered reports whether the text comes from a template that the submission asks for.
func (sub Submission) isRendered() bool {
	return sub.TemplateNo != "" || sub.UseTemplate && sub.Content != ""
}

// isDefault reports whether the submission asks for the default content.
func (sub Submission) isDefault() bool { return sub.TemplateNo == "" && sub.Content == "" }

// logged returns what the log shows as the content, and whether it is parameters of a template.
func (sub Submission) logged() (content string, isParams bool) {
	if sub.TemplateNo == "" {
		return sub.Content, sub.UseTemplate
	}
	var joined string
	if json.Unmarshal(sub.Params, &joined) == nil {
		return joined, true
	}
	var named bytes.Buffer
	if json.Compact(&named, sub.Params) != nil {
		return "", true // no params, or no JSON
	}
	return named.String(), true
}

// checkChoice returns request.invalid for fields that exclude each other.
func (sub Submission) checkChoice() error {
	switch {
	case sub.TemplateNo != "" && sub.Content != "":
		return fault.InvalidField("content", fault.NotTogether, "template_no")
	case sub.TemplateNo != "" && sub.UseTemplate:
		return fault.InvalidField("use_template", fault.NotTogether, "template_no")
	case sub.TemplateNo == "" && sub.Params != nil:
		return fault.InvalidField("params", fault.OnlyTogether, "template_no")
	case sub.TemplateNo == "" && sub.Language != "":
		return fault.InvalidField("language", fault.OnlyTogether, "template_no")
	}
	return nil
}

// Submitted is the task that a submission made.
type Submitted struct {
	TaskID       string
	Status       int16  // Pending, also of a test that is not sent and has ended already
	Recipient    string // in E.164, as the number was read; empty: an earlier submission made the task
	FinalContent string // with the signature of the submission; a sender's own is added when it claims
	Deduplicated bool   // an earlier submission made the task; Status is its state now
	isDropped    bool   // that task was dropped with its partition: nothing but TaskID is known
}

// errRepeated rolls back what a submission did before its dedup key turned out to be taken.
var errRepeated = errors.New("the dedup key is taken")

// errDropped refuses a dedup key whose task was dropped, so that its outcome is unknown.
var errDropped = fault.New(fault.Conflict, fault.TaskDropped)

// Submit stores one task with its submission; when it returns without an error, both are durable. A default
// content is consumed in the same transaction (S0.9). Expected failures: request.invalid, template.none_active,
// default_content.already_sent.
func (s *Service) Submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	made, err := s.submit(ctx, sub, origin)
	if err != nil && sub.DedupKey != nil {
		// Also after another error: the first submission may have taken the default content that this one looked for.
		first, again := s.repeated(ctx, sub, origin)
		switch {
		case first != nil && first.isDropped:
			return Submitted{}, errDropped
		case first != nil:
			return *first, nil
		case again != nil && (errors.Is(err, errRepeated) || postgres.IsUnavailable(again)):
			return Submitted{}, again // nobody knows whether this was submitted before: an answer must not be final
		}
	}
	return made, err
}

// repeated returns the task that has the dedup key of sub, or nil, and logs sub as a repeat.
func (s *Service) repeated(ctx context.Context, sub Submission, origin Origin) (*Submitted, error) {
	all, err := s.allRepeated(ctx, []Submission{sub}, origin)
	if err != nil {
		return nil, err
	}
	return all[0].Out, all[0].Err
}

// allRepeated is repeated for several, in their order. A submission whose task is in a partition that is locked fails alone.
func (s *Service) allRepeated(ctx context.Context, subs []Submission, origin Origin) ([]merge.Result[*Submitted], error) {
	found := make([]merge.Result[*Submitted], len(subs))
	keys := make([]string, len(subs))
	for i, sub := range subs {
		keys[i] = *sub.DedupKey
	}
	rows, err := s.q.DedupKeyTasks(ctx, queueq.DedupKeyTasksParams{CompanyID: origin.CompanyID, SubmittedBy: origin.User, DedupKeys: keys})
	if err != nil {
		return nil, fmt.Errorf("find tasks by dedup key: %w", err)
	}
	if len(rows) == 0 {
		return found, nil
	}
	repeats, err := queue.RunByDay(ctx, s.db, rows, func(row queueq.DedupKeyTasksRow) string { return row.TaskID },
		func(ctx context.Context, rows []queueq.DedupKeyTasksRow) ([]*Submitted, error) {
			return s.logRepeats(ctx, subs, rows, origin)
		})
	if err != nil {
		return nil, fmt.Errorf("read tasks by dedup key: %w", err)
	}
	for i, row := range rows {
		found[row.Place] = repeats[i]
	}
	return found, nil
}

// logRepeats returns the tasks of rows, and logs that submissions repeated them. The column place of a row is the index of its submission.
func (s *Service) logRepeats(ctx context.Context, subs []Submission, rows []queueq.DedupKeyTasksRow, origin Origin) ([]*Submitted, error) {
	n := len(rows)
	p := queueq.SubmissionsRepeatedParams{
		RequestID: origin.RequestID, CompanyID: origin.CompanyID, SourceIp: origin.SourceIP, UserAgent: logtext.Text(origin.UserAgent),
		TaskIds: make([]string, n), PhoneNumbers: make([]string, n), Contents: make([]string, n), UseTemplates: make([]bool, n),
		RequestData: make([][]byte, n),
	}
	for i, row := range rows {
		sub := subs[row.Place]
		p.TaskIds[i], p.PhoneNumbers[i], p.RequestData[i] = row.TaskID, sub.PhoneNumber, sub.Raw
		p.Contents[i], p.UseTemplates[i] = sub.logged()
	}
	tasks, err := s.inParts.SubmissionsRepeated(ctx, p)
	if err != nil {
		return nil, err
	}
	found := make([]*Submitted, n)
	for _, t := range tasks {
		found[t.Place] = &Submitted{TaskID: t.TaskID, Status: t.Status, FinalContent: t.FinalContent, Deduplicated: true, isDropped: t.IsDropped}
	}
	return found, nil
}

func (s *Service) submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	row, err := s.prepare(ctx, time.Now(), sub, origin, s.templates.Finder(origin.CompanyID))
	switch {
	case err != nil:
		return Submitted{}, err
	case sub.isDefault():
		return s.submitDefault(ctx, row)
	default:
		return s.insert(ctx, row)
	}
}

// farthest is how many days ahead a message may be scheduled.
const farthest = 366

// prepare checks a submission and returns the task to store. One that asks for the default content has no text and no pool yet: consumeDefault
// gives it both. asOf is when the submission came in.
func (s *Service) prepare(ctx context.Context, asOf time.Time, sub Submission, origin Origin, templates *template.Finder) (newTask, error) {
	row, err := s.read(ctx, asOf, sub, origin, templates)
	if err == nil && !sub.isDefault() {
		err = s.put(ctx, &row)
	}
	return row, err
}

// read is prepare without the decision about the recipient and without the pool.
func (s *Service) read(ctx context.Context, asOf time.Time, sub Submission, origin Origin, templates *template.Finder) (newTask, error) {
	sub.Channel = cmp.Or(sub.Channel, directory.SMS)
	number, err := s.readAddress(ctx, sub, origin)
	if err != nil {
		return newTask{}, err
	}
	sub.PhoneNumber = number.Written
	if sub.BatchID == 0 && sub.taskID == "" { // others were accepted before the company was switched off
		if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil {
			return newTask{}, err
		}
	}
	row := newTask{id: cmp.Or(sub.taskID, taskid.New()), recipient: number.E164, asOf: asOf, Submission: sub, Origin: origin}
	if err := sub.checkChoice(); err != nil {
		return row, err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return row, err
	}
	row.sms = values.SMS
	if row.priority, err = priority(values.SMS, sub, origin); err != nil {
		return row, err
	}
	if err := checkTimes(sub); err != nil {
		return row, err
	}
	text := template.Rendered{Content: sub.Content, Source: sub.From, Deferred: sub.Deferred}
	switch {
	case sub.isDefault():
		return row, nil
	case sub.isRendered():
		text, err = templates.Render(ctx, template.Choice{TemplateNo: sub.TemplateNo, Params: sub.Params, Language: sub.Language, Form: sub.Content})
	case strings.TrimSpace(sub.Content) == "":
		err = fault.InvalidField("content", fault.Blank, nil)
	}
	if err == nil {
		err = complete(&row, text)
	}
	return row, err
}

// readAddress reads the phone number of a submission, on another channel the address. Fault: request.invalid.
func (s *Service) readAddress(ctx context.Context, sub Submission, origin Origin) (phone.Number, error) {
	region := sub.Region
	if region == "" {
		var err error
		if region, err = s.directory.DefaultRegion(ctx, &origin.CompanyID); err != nil {
			return phone.Number{}, err
		}
	}
	return address.Read(cmp.Or(sub.Channel, directory.SMS), sub.PhoneNumber, region)
}

// complete gives a task its text, before it gets its pool: a signature of the template counts where one is required. Fault: request.invalid for a text
// that is longer than the message type allows.
func complete(row *newTask, text template.Rendered) (err error) {
	if row.Sign == "" {
		row.Sign = text.Sign
	}
	text.Content = segment.Unsigned(row.Sign, text.Content) // it is not signed twice
	row.final = text
	if strings.TrimSpace(text.Content) == "" {
		return fault.InvalidField("content", fault.Blank, nil)
	}
	if row.RenderingID == 0 {
		if err := limitsOf(row.sms, row.MessageType).Check(row.Sign, text.Content); err != nil {
			return err
		}
	}
	if row.deferred() {
		if err := CheckExpiry(row.ExpiresAt, row.sms.NextInterval(time.Now())); err != nil {
			return err
		}
	}
	if row.Raw, err = text.Source.AddTo(row.Raw); err != nil {
		return fmt.Errorf("name template in the log: %w", err)
	}
	return nil
}

// consumeDefault gives a task the default content of its phone number, in the transaction of ctx. A test that is not sent consumes none.
func (s *Service) consumeDefault(ctx context.Context, row *newTask) error {
	take := s.templates.ConsumeDefault
	if row.isSimulated() {
		take = s.templates.PeekDefault
	}
	text, err := take(ctx, row.CompanyID, row.recipient, row.UseTemplate)
	if err != nil {
		return err
	}
	if err := complete(row, text); err != nil {
		return err
	}
	return s.put(ctx, row)
}

// checkTimes checks the times of a submission.
func checkTimes(sub Submission) error {
	now := time.Now()
	if at := sub.ExpectSendTime; at != nil && at.After(now.AddDate(0, 0, farthest)) {
		return fault.InvalidField("expect_send_time", fault.TooFarAhead, farthest)
	}
	return CheckExpiry(sub.ExpiresAt, optional.Or(sub.ExpectSendTime, now))
}

// CheckExpiry returns request.invalid for an expires_at that is in the past or too far ahead, or of a message that could only expire, because it is not
// sent before sendAt. ExpiresAt may be nil: never.
func CheckExpiry(expiresAt *time.Time, sendAt time.Time) error {
	switch now := time.Now(); {
	case expiresAt == nil:
		return nil
	case expiresAt.Before(now):
		return fault.InvalidField("expires_at", fault.InThePast, nil)
	case sendAt.After(now) && !expiresAt.After(sendAt.Add(claim.MinLease)):
		return fault.InvalidField("expires_at", fault.BeforeSending, sendAt.UTC().Format(time.RFC3339))
	case expiresAt.After(now.AddDate(0, 0, 2*farthest)):
		return fault.InvalidField("expires_at", fault.TooFarAhead, 2*farthest)
	default:
		return nil
	}
}

// CheckShared checks what messages of one list have in common: priority and times. Faults: request.invalid, company.off.
func (s *Service) CheckShared(ctx context.Context, sub Submission, origin Origin) error {
	if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil {
		return err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	if _, err := priority(values.SMS, sub, origin); err != nil {
		return err
	}
	if sub.Deferred && sub.ExpectSendTime == nil {
		if err := CheckExpiry(sub.ExpiresAt, values.SMS.NextInterval(time.Now())); err != nil {
			return err
		}
	}
	return checkTimes(sub)
}

// Checked is what a submission would become.
type Checked struct {
	Recipient string // in E.164
	CountryNo string // empty: no known country
	Segments  int    // of the text with the signature of the submission
}

// Check is Submit of a text, but stores nothing. With a fault, what was found before it is set. asOf is as for prepare.
func (s *Service) Check(ctx context.Context, asOf time.Time, sub Submission, origin Origin) (Checked, error) {
	row, err := s.prepare(ctx, asOf, sub, origin, nil)
	c := Checked{Recipient: row.recipient, CountryNo: row.pool.CountryNo}
	if sub.Content != "" {
		c.Segments = row.segments()
	}
	return c, err
}

// The message types, as stored.
const (
	Verification int16 = iota
	Notification
	Marketing
)

func (s *Service) submitDefault(ctx context.Context, row newTask) (Submitted, error) {
	var made Submitted
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if err := s.consumeDefault(ctx, &row); err != nil {
			return err
		}
		made, err = s.insert(ctx, row)
		return err
	})
	return made, err
}
