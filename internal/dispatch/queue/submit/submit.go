// Package submit creates tasks from single messages, groups of messages, messages that the SQL inbox accepted, and notifications. It checks the recipient,
// renders the text, finds the pool, and stores the task together with its submission. It also logs submissions that created no task.
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
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/taskid"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/sensitive"
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

// Service creates tasks. Every method runs in at most one transaction, unless its comment says otherwise.
type Service struct {
	db        *postgres.DB
	q         *queueq.Queries
	inParts   *queueq.Queries // for statements that read tasks by id
	queue     *queue.Service
	admit     *admit.Service
	explain   *explain.Service
	templates *template.Service
	directory *directory.Service
	settings  *setting.Service
	sensitive sensitive.Box
	submits   *merge.Merger[newTask, error]
	refusals  *merge.Merger[refusedRow, struct{}]

	accompanied *merge.Merger[newTask, error] // tasks with companions
}

// Services contains the services that a Service uses.
type Services struct {
	Queue     *queue.Service
	Admit     *admit.Service
	Explain   *explain.Service
	Templates *template.Service
	Directory *directory.Service
	Settings  *setting.Service
	Sensitive sensitive.Box
}

// New returns a Service. The caller must call Close afterwards.
func New(db *postgres.DB, uses Services) *Service {
	s := &Service{
		db: db, q: queueq.New(db), inParts: queueq.New(db.InPartitions()),
		queue: uses.Queue, admit: uses.Admit, explain: uses.Explain, templates: uses.Templates, directory: uses.Directory, settings: uses.Settings,
		sensitive: uses.Sensitive,
	}
	s.submits = queue.NewMerger(s.storeAll, nil)
	s.accompanied = queue.NewMerger(s.storeAccompanied, func(row newTask) string { return row.Companion.Key() })
	s.refusals = queue.NewMerger(func(ctx context.Context, rows []refusedRow) ([]struct{}, error) {
		return make([]struct{}, len(rows)), s.logRefused(ctx, rows)
	}, nil)
	return s
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-submissions", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Close waits until all writes in progress have ended.
func (s *Service) Close() {
	s.submits.Wait()
	s.accompanied.Wait()
	s.refusals.Wait()
}

// Origin is the user and the request of a submission. UserAgent can have any length. Only its first 500 characters are stored.
type Origin struct {
	User        string
	CompanyID   int64
	TopPriority int16 // the most urgent priority that the user is allowed to request
	RequestID   string
	SourceIP    string
	UserAgent   string
	Traceparent string // traceparent of the request, see package tracing; empty: no trace
}

// Submission is a message to send (S0.1). If Content and TemplateNo are empty, the default content of the phone number is sent.
type Submission struct {
	Channel     string // empty: sms
	PhoneNumber string // on other channels than SMS: the address
	Region      string // region of a PhoneNumber without country code; empty: the region of the company
	Content     string
	UseTemplate bool             // Content contains the parameters of the first active template
	TemplateNo  string           // number of the template that is rendered instead of Content; empty: no template
	Params      json.RawMessage  // original parameters of that template; nil: no parameters
	Language    string           // language of the template's text; empty: the language of the template
	From        *template.Source // template from which Content was rendered; nil: no template, or TemplateNo names the template
	Deferred    bool             // Content is sent at the next full interval
	Source      *string
	DedupKey    *string // the user's name for the message: a second submission with the same key returns the task of the first submission
	Raw         []byte  // request as JSON, for the log
	TextError   error   // why the caller could not render the text: the submission is refused with this fault, unless it is a repeat; nil: no fault

	MessageType    int16      // Verification, Notification or Marketing
	Priority       *int16     // 0 to 9, where 0 is the most urgent; nil: the priority of the message type
	ExpectSendTime *time.Time // the message must not be sent before this time; nil: it can be sent now
	ExpiresAt      *time.Time // the message must not be sent after this time; nil: no limit
	Sign           string     // signature in front of the text; can be empty
	Test           bool       // a test message: statistics count test messages separately, and a setting can disable their sending
	BatchID        int64      // batch of the message; 0: no batch
	SenderNo       string     // the only sender that is allowed to send the message; empty: any sender
	WasChecked     bool       // Check accepted the message earlier: if its country is no longer served, the message is held and not refused
	IsReply        bool       // a reply in a conversation: it has the priority of replies, and neither quiet hours nor caps
	IsUncapped     bool       // caps neither refuse nor count the message
	IsSensitive    bool       // the text is stored masked, and encrypted until the task ends; Raw does not contain it
	Masked         string     // Content of a sensitive message as it is stored, with the same characters and segments; empty: all characters are masked
	MaskedValues   []byte     // Values of a sensitive message as they are stored
	Companion      Companion  // other rows that are stored with the message; nil: none
	IsTrial        bool       // a test message that ClaimTrial leases: it is sent even if the setting disables test messages
	RenderingID    int64      // rendering that stores the whole text, while Content is its beginning; 0: Content is the whole text
	Values         []byte     // values of the placeholders in the rendering; nil: the rendering has no placeholders

	TaskID string // id that the caller already published; empty: a new id is created

	wasAccepted bool // see Accepted
}

// Companion is stored in the transaction that stores a message: either both are stored, or none.
type Companion interface {
	// Key returns the key of the companion. Two companions with the same key are never stored in one transaction.
	Key() string
	// Limit returns the limits of the messages of companions, in their order. The receiver is one of them.
	Limit(ctx context.Context, all []Companion) ([]Limit, error)
	// Store stores all companions of a transaction, which runs with ctx. The receiver is one of them. After an error, it can run again.
	Store(ctx context.Context, all []Accompanied) error
}

// Limit is what limits a message with a companion.
type Limit struct {
	Subjects []caps.Subject // the caps of other subjects than the recipient
	Err      error          // the fault with which the message is refused; nil: none
}

// Accompanied is a stored message with its companion.
type Accompanied struct {
	Companion

	TaskID string
	NextAt time.Time // when caps allow one more message to the same recipient, with the same subjects; zero: now
}

// isRendered reports whether the submission requests a template for its text.
func (sub Submission) isRendered() bool {
	return sub.TemplateNo != "" || sub.UseTemplate && sub.Content != ""
}

// isDefault reports whether the submission requests the default content.
func (sub Submission) isDefault() bool { return sub.TemplateNo == "" && sub.Content == "" }

// logged returns the text that the log shows as the content. isParams reports whether this text contains parameters of a template.
func (sub Submission) logged() (content string, isParams bool) {
	if sub.IsSensitive {
		sub.IsSensitive = false
		content, isParams = sub.logged()
		return sub.masked(content), isParams
	}
	if sub.TemplateNo == "" {
		return sub.Content, sub.UseTemplate
	}
	var joined string
	if json.Unmarshal(sub.Params, &joined) == nil {
		return joined, true
	}
	var named bytes.Buffer
	if json.Compact(&named, sub.Params) != nil {
		return "", true // the parameters are missing or not valid JSON
	}
	return named.String(), true
}

// masked returns the stored form of a text of a sensitive message.
func (sub Submission) masked(text string) string { return cmp.Or(sub.Masked, sensitive.Mask(text)) }

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
	case sub.IsSensitive && sub.isDefault(): // default contents are stored in the clear
		return fault.InvalidField("sensitive", fault.OnlyTogether, "content")
	}
	return nil
}

// Submitted describes the task of a submission.
type Submitted struct {
	TaskID       string
	Status       int16  // Pending; Success for a test message that is not sent
	Recipient    string // E.164 form of the number; empty: an earlier submission created the task
	FinalContent string // text with the signature of the submission; a sender's own signature is added at the claim
	Deduplicated bool   // an earlier submission created the task; Status is the current status of the task
	isDropped    bool   // the task was dropped with its partition: only TaskID is known
}

// errRepeated rolls back the changes of a submission whose dedup key is used.
var errRepeated = errors.New("the dedup key is taken")

// errDropped refuses a submission whose dedup key belongs to a dropped task. The outcome of that task is unknown.
var errDropped = fault.New(fault.Conflict, fault.TaskDropped)

// Submit stores one task with its submission. When Submit returns without an error, the task and the submission are durable. A default content is consumed in
// the same transaction (S0.9). Expected faults: request.invalid, template.none_active, default_content.already_sent.
func (s *Service) Submit(ctx context.Context, sub Submission, origin Origin) (Submitted, error) {
	made, err := s.submit(ctx, sub, origin)
	if err != nil && sub.DedupKey != nil {
		// The dedup key is also checked after another error: the first submission can have consumed the default content that this submission needs.
		first, again := s.repeated(ctx, sub, origin)
		switch {
		case first != nil && first.isDropped:
			return Submitted{}, errDropped
		case first != nil:
			return *first, nil
		case again != nil && (errors.Is(err, errRepeated) || postgres.IsUnavailable(again)):
			return Submitted{}, again // it is unknown whether the message was submitted before, so the error must allow a retry
		}
	}
	return made, err
}

// repeated returns the task that has the dedup key of sub, and logs sub as a repeat. If no task has the key, repeated returns nil and logs nothing.
func (s *Service) repeated(ctx context.Context, sub Submission, origin Origin) (*Submitted, error) {
	all, err := s.allRepeated(ctx, []Submission{sub}, origin)
	if err != nil {
		return nil, err
	}
	return all[0].Out, all[0].Err
}

// allRepeated works like repeated for several submissions, and keeps their order. If the partition of a task is locked, only the submissions that repeat this
// task fail.
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

// logRepeats returns the tasks of rows, and logs the submissions that repeated these tasks. row.Place is the index of the submission in subs.
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

// farthest is the maximum number of days between now and the scheduled time of a message.
const farthest = 366

// prepare checks a submission and returns the task to store. If the submission requests the default content, the task has no text and no pool: consumeDefault
// sets both. asOf is the time when the request arrived.
func (s *Service) prepare(ctx context.Context, asOf time.Time, sub Submission, origin Origin, templates *template.Finder) (newTask, error) {
	row, err := s.read(ctx, asOf, sub, origin, templates)
	if err == nil && !sub.isDefault() {
		err = s.put(ctx, &row)
	}
	return row, err
}

// read works like prepare, but does not decide about the recipient and does not find the pool.
func (s *Service) read(ctx context.Context, asOf time.Time, sub Submission, origin Origin, templates *template.Finder) (newTask, error) {
	sub.Channel = cmp.Or(sub.Channel, directory.SMS)
	number, err := s.readAddress(ctx, sub, origin)
	if err != nil {
		return newTask{}, err
	}
	sub.PhoneNumber = number.Written
	if sub.BatchID == 0 && !sub.wasAccepted { // messages of batches and of the SQL inbox were accepted earlier, possibly before the company was switched off
		if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil {
			return newTask{}, err
		}
	}
	row := newTask{id: cmp.Or(sub.TaskID, taskid.New()), recipient: number.E164, asOf: asOf, Submission: sub, Origin: origin}
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
	case sub.TextError != nil:
		err = sub.TextError
	case sub.isDefault():
		return row, nil
	case sub.isRendered():
		text, err = templates.Render(ctx, template.Choice{TemplateNo: sub.TemplateNo, Params: sub.Params, Language: sub.Language, Form: sub.Content})
	case strings.TrimSpace(sub.Content) == "":
		err = fault.InvalidField("content", fault.Blank, nil)
	}
	if err == nil {
		err = s.complete(&row, text)
	}
	return row, err
}

// readAddress reads the phone number of a submission. On channels other than SMS, it reads the address. Fault: request.invalid.
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

// complete sets the text of a task, and encrypts it if it is sensitive. The pool is found later, because the signature of a template can be the signature that the recipient's country requires.
// Fault: request.invalid for a text that is longer than the message type allows.
func (s *Service) complete(row *newTask, text template.Rendered) (err error) {
	row.Sign = cmp.Or(segment.Sign(row.Sign), segment.Sign(text.Sign))
	text.Content = segment.Bare(row.Sign, text.Content) // so that the text is not signed twice
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
	if row.IsSensitive {
		return s.seal(row)
	}
	return nil
}

// seal encrypts the text of a sensitive task and masks its other copies.
func (s *Service) seal(row *newTask) (err error) {
	row.sealed, err = s.sensitive.Seal(row.id, sensitive.Text{Content: row.final.Content, Values: row.Values})
	row.final.Content, row.Values = segment.Bare(row.Sign, row.masked(row.final.Content)), row.MaskedValues
	return err
}

// consumeDefault sets the text of a task to the default content of its phone number, in the transaction of ctx. A test message that is not sent consumes no
// default content.
func (s *Service) consumeDefault(ctx context.Context, row *newTask) error {
	take := s.templates.ConsumeDefault
	if row.isSimulated() {
		take = s.templates.PeekDefault
	}
	text, err := take(ctx, row.CompanyID, row.recipient, row.UseTemplate)
	if err != nil {
		return err
	}
	if err := s.complete(row, text); err != nil {
		return err
	}
	return s.put(ctx, row)
}

// checkTimes returns a fault if a time of the submission is invalid.
func checkTimes(sub Submission) error {
	now := time.Now()
	if at := sub.ExpectSendTime; at != nil && at.After(now.AddDate(0, 0, farthest)) {
		return fault.InvalidField("expect_send_time", fault.TooFarAhead, farthest)
	}
	return CheckExpiry(sub.ExpiresAt, optional.Or(sub.ExpectSendTime, now))
}

// CheckExpiry returns request.invalid if expires_at is in the past, is too far in the future, or is before the message can be sent at sendAt. A nil expiresAt
// means no limit.
func CheckExpiry(expiresAt *time.Time, sendAt time.Time) error {
	now := time.Now()
	if sendAt.Before(now) {
		sendAt = now
	}
	switch {
	case expiresAt == nil:
		return nil
	case expiresAt.Before(now):
		return fault.InvalidField("expires_at", fault.InThePast, nil)
	case claim.CanOnlyExpire(expiresAt, sendAt):
		return fault.InvalidField("expires_at", fault.BeforeSending, sendAt.UTC().Format(time.RFC3339))
	case expiresAt.After(now.AddDate(0, 0, 2*farthest)):
		return fault.InvalidField("expires_at", fault.TooFarAhead, 2*farthest)
	default:
		return nil
	}
}

// CheckShared checks the values that all messages of one batch share: priority and times. Faults: request.invalid, company.off.
func (s *Service) CheckShared(ctx context.Context, sub Submission, origin Origin) error {
	if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil {
		return err
	}
	values, err := s.settings.Get(ctx)
	if err != nil {
		return err
	}
	var wrong fault.Fields
	if _, err := priority(values.SMS, sub, origin); err != nil {
		if err := wrong.Add(err); err != nil {
			return err
		}
	}
	err = nil
	if sub.Deferred && sub.ExpectSendTime == nil {
		err = CheckExpiry(sub.ExpiresAt, values.SMS.NextInterval(time.Now()))
	}
	if err == nil {
		err = checkTimes(sub)
	}
	return cmp.Or(wrong.Add(err), wrong.Err())
}

// Checked describes the task that a submission would create.
type Checked struct {
	Recipient string // in E.164
	CountryNo string // empty: the country is unknown
	Segments  int    // number of segments of the text with the signature of the submission
}

// Check runs the checks of Submit for a submission with a text, and stores nothing. If Check returns a fault, the fields that were already known are set.
// asOf is the time when the request arrived.
func (s *Service) Check(ctx context.Context, asOf time.Time, sub Submission, origin Origin) (Checked, error) {
	row, err := s.prepare(ctx, asOf, sub, origin, nil)
	c := Checked{Recipient: row.recipient, CountryNo: row.pool.CountryNo}
	if sub.Content != "" {
		c.Segments = row.segments()
	}
	return c, err
}

// Blocked reports for each recipient whether a block forbids messages of a company and type. Check does not decide this.
func (s *Service) Blocked(ctx context.Context, companyID int64, messageType int16, recipients []string) ([]bool, error) {
	return s.admit.Blocked(ctx, companyID, messageType, recipients) //nolint:wrapcheck // the error is already wrapped
}

// These are the message types, as stored.
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
