// Package batch owns uploaded lists of messages: the check and review of their rows, and their submission to the queue (S3.4, B14). Any server can process any
// batch. If a server is killed, another server continues its batches.
package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"lksms/gen/batchq"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/audience/batch/source"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/notification"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
)

// These are the rules for duplicates: no row is a duplicate; rows with the same address are duplicates; rows with the same address and text are duplicates. The
// first of several equal rows is never a duplicate.
const (
	DedupNone  = "none"
	DedupPhone = "phone" // compares the addresses, on every channel
	DedupRow   = "row"
)

// These are the codes of rows that are not sent. S3.4 documents the first four codes.
const (
	WrongAddress int16 = iota + 1
	WrongContent
	WrongSegments
	WrongSign
	IsDuplicate
	IsBlocked // the number is blocked, or the company is not allowed to send to its country
	IsRefused // rejected for another reason when the row was submitted, or the row could only expire because of quiet hours or caps of its recipient
	IsExpired // the batch expired before the row was submitted; this code is not stored
)

// Services contains the other services that a Service uses.
type Services struct {
	Submissions *submit.Service
	Tasks       *task.Service
	Queue       *queue.Service
	Jobs        *job.Service
	Templates   *template.Service
	Contacts    *contact.Service
	Uploads     *upload.Service
	Directory   *directory.Service
	Settings    *setting.Service
	Quiet       *quiet.Service

	Notifications *notification.Service
}

// Service manages batches. Every method runs in at most one transaction, except the sweeps and the methods whose comments state otherwise.
type Service struct {
	Services

	db       *postgres.DB
	q        *batchq.Queries
	inParts  *batchq.Queries // for statements that read tasks by id
	log      *slog.Logger
	progress *progress.Reader
}

// New returns a Service on db.
func New(db *postgres.DB, services Services, log *slog.Logger) *Service {
	return &Service{
		Services: services, db: db, q: batchq.New(db), inParts: batchq.New(db.InPartitions()), log: log,
		progress: progress.New(db, services.Directory, services.Quiet, services.Settings),
	}
}

// Sweeps returns the periodic jobs of the service.
func (s *Service) Sweeps() []sweep.Job {
	return []sweep.Job{
		{Roles: servers.Roles{servers.Sweep}, Name: "check-batches", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Check},
		{Roles: servers.Roles{servers.Sweep}, Name: "feed-batches", Interval: time.Second, Limit: 30 * time.Minute, Run: s.Feed},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-expired-batches", Interval: 10 * time.Minute, Run: s.DeleteExpired},
	}
}

// Request describes a batch to create. Its rows come from an upload or from tags.
type Request struct {
	Name           string
	Channel        string
	Upload         *upload.Upload
	Tag            string
	Tags           Tags
	AddressColumn  string // column with the addresses, on sms phone numbers; empty: the column with a usual name
	DefaultRegion  string // region of numbers without a country code; empty: the region of the company
	SignColumn     string // column with the signatures of rows; empty: the column of a list with a usual name, if it exists
	MessageType    int16
	Priority       *int16
	TemplateNo     string // template of short messages, instead of Content
	Language       string // language of the template
	Subject        string // subject on a channel other than sms, with column names in braces
	Content        string // text with column names in braces
	HTML           string // for e-mail: the text as HTML, in which values are escaped; empty: no HTML
	BizType        *int16 // business type of the notification template that contains the text, instead of Subject and Content; nil: no notification template
	Sign           string
	SenderNo       string // the only sender that can send the batch; empty: the routes decide
	Dedup          string
	Test           bool
	AutoConfirm    bool
	ExpectSendTime *time.Time
	ExpiresAt      *time.Time
	Origin         submit.Origin
}

// Create stores a batch. A sweep checks its rows later. Create also opens the list, so that an invalid file, column or placeholder is refused immediately.
// Faults: request.invalid, template.not_active, limit.reached.
func (s *Service) Create(ctx context.Context, r Request) (batchq.Batch, error) {
	p, rendering, err := s.prepared(ctx, r)
	if err != nil {
		return batchq.Batch{}, err
	}
	var id int64
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if rendering != nil {
			stored, err := s.Notifications.StoreText(ctx, r.Channel, *rendering)
			if err != nil {
				return err
			}
			p.RenderingID = &stored
		}
		if id, err = s.q.BatchCreate(ctx, p); err != nil || r.Upload == nil {
			return err
		}
		return s.Uploads.Use(ctx, r.Upload.ID, fmt.Sprintf("batch %d", id))
	})
	if err != nil {
		return batchq.Batch{}, postgres.Wrap("create batch", err, nil)
	}
	return s.get(ctx, Viewer{}, id)
}

// prepared checks a request. It returns the batch to store. On a channel other than sms, it also returns the text of the batch.
func (s *Service) prepared(ctx context.Context, r Request) (p batchq.BatchCreateParams, rendering *placeholder.Text, err error) {
	p = batchq.BatchCreateParams{
		CompanyID: r.Origin.CompanyID, SubmittedBy: r.Origin.User, Name: r.Name, MessageType: r.MessageType, Priority: r.Priority,
		Channel: r.Channel, PhoneColumn: r.AddressColumn, TemplateNo: optional.NonZero(r.TemplateNo), Content: r.Content,
		Sign: optional.NonZero(segment.Sign(r.Sign)), SenderNo: optional.NonZero(r.SenderNo), Dedup: r.Dedup, IsTest: r.Test,
		ExpectSendTime: r.ExpectSendTime, ExpiresAt: r.ExpiresAt, RequestID: r.Origin.RequestID, SourceIp: r.Origin.SourceIP,
		UserAgent: r.Origin.UserAgent, DefaultRegion: r.DefaultRegion,
	}
	if _, err := s.Directory.GetChannel(ctx, r.Channel); err != nil { // most other fields depend on the channel
		return p, nil, missingRowFault(err, "channel")
	}
	var wrong fault.Fields
	var m message
	var rows source.Source // nil: no rows can be opened
	isChosen := false
	for _, check := range []func() error{
		func() error { return phone.CheckRegion("default_region", r.DefaultRegion) },
		func() error { err := s.chooseRows(ctx, r, &p); isChosen = err == nil; return err },
		func() (err error) { m, err = s.compose(ctx, r, &p); return err },
		func() error {
			return s.Submissions.CheckShared(ctx, submit.Submission{
				MessageType: r.MessageType, Priority: r.Priority, ExpectSendTime: r.ExpectSendTime, ExpiresAt: r.ExpiresAt, Deferred: p.IsDeferred,
			}, r.Origin)
		},
		func() error { return s.checkSender(ctx, r) },
		func() (err error) {
			if isChosen {
				rows, err = s.open(ctx, r, p)
			}
			return err
		},
	} {
		if err := wrong.Add(check()); err != nil {
			return p, nil, cmp.Or(wrong.Err(), err)
		}
	}
	if rows != nil {
		defer rows.Close()
	}
	if err := wrong.Err(); err != nil {
		return p, nil, err //nolint:wrapcheck // the error is a fault
	}
	p.SignColumn = optional.NonZero(rows.SignColumn(m.names()))
	encoding, isDoubtful := rows.Encoding()
	p.Encoding, p.IsEncodingDoubtful = optional.NonZero(encoding), isDoubtful
	p.IsConfirmed = r.AutoConfirm && !isDoubtful // a list with a doubtful encoding is not confirmed automatically, because a user must check its rows
	p.UploadID, p.PhoneColumn = uploadID(r.Upload), rows.AddressColumn()
	return p, m.rendering, checkColumns(m.textFields(r), rows)
}

// checkSender returns a fault if the only sender of a request does not exist or does not serve the company.
func (s *Service) checkSender(ctx context.Context, r Request) error {
	if r.SenderNo == "" {
		return nil
	}
	_, err := s.Directory.SenderPool(ctx, r.Channel, r.Origin.CompanyID, r.MessageType, r.SenderNo)
	return err //nolint:wrapcheck // the error is already wrapped
}

// chooseRows adds the list or the tags of a request to the batch to create. Fault: request.invalid.
func (s *Service) chooseRows(ctx context.Context, r Request, p *batchq.BatchCreateParams) error {
	if err := r.chooseTags(p); err != nil {
		return err
	}
	switch {
	case r.Upload == nil && p.Tag == nil:
		return fault.InvalidField("file", fault.Required, nil)
	case r.Upload != nil && p.Tag != nil:
		return fault.InvalidField("file", fault.NotTogether, r.tagField())
	}
	return s.checkTags(ctx, r)
}

// open opens the list or the contacts of a request. Fault: request.invalid.
func (s *Service) open(ctx context.Context, r Request, p batchq.BatchCreateParams) (source.Source, error) {
	return source.Open(ctx, s.Uploads, s.Contacts, batchq.Batch{
		CompanyID: p.CompanyID, Channel: r.Channel, Tag: p.Tag, TagsAll: p.TagsAll, TagsAny: p.TagsAny, TagsNone: p.TagsNone, PhoneColumn: p.PhoneColumn,
		SignColumn: optional.NonZero(r.SignColumn), UploadID: uploadID(r.Upload),
	})
}

// Tags selects contacts that have all tags of All, at least one tag of Any (unless Any is empty), and no tag of None.
type Tags struct{ All, Any, None []string }

// checkTags returns a fault that names each tag that does not exist.
func (s *Service) checkTags(ctx context.Context, r Request) error {
	var wrong fault.Fields
	check := func(field, tag string) error {
		_, err := s.Contacts.GetTag(ctx, r.Origin.CompanyID, tag)
		return wrong.Add(missingRowFault(err, field))
	}
	if r.Tag != "" {
		if err := check("tag", r.Tag); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		field string
		tags  []string
	}{{"tags_all", r.Tags.All}, {"tags_any", r.Tags.Any}, {"tags_none", r.Tags.None}} {
		for i, tag := range list.tags {
			if err := check(fmt.Sprintf("%s.%d", list.field, i), tag); err != nil {
				return err
			}
		}
	}
	return wrong.Err() //nolint:wrapcheck // the error is a fault
}

// tagField returns the name of the request's field that selects contacts.
func (r Request) tagField() string {
	switch {
	case r.Tag != "":
		return "tag"
	case len(r.Tags.All) > 0:
		return "tags_all"
	default:
		return "tags_any"
	}
}

// chooseTags sets the parameters that select the contacts: one tag, or a combination of tags. Fault: request.invalid.
func (r Request) chooseTags(p *batchq.BatchCreateParams) error {
	p.TagsAll, p.TagsAny, p.TagsNone = []string{}, []string{}, []string{}
	all := r.Tags.All
	if r.Tag != "" {
		all = append([]string{r.Tag}, all...)
	}
	switch n := len(all) + len(r.Tags.Any); {
	case n == 0 && len(r.Tags.None) > 0: // only exclusions are given: they would select almost all contacts
		return fault.InvalidField("tags_none", fault.OnlyTogether, "tag, tags_all or tags_any")
	case n == 0:
	case len(all) == 1 && n == 1 && len(r.Tags.None) == 0:
		p.Tag = &all[0]
	default:
		p.Tag = new(source.Combined)
		p.TagsAll, p.TagsAny, p.TagsNone = append(p.TagsAll, all...), append(p.TagsAny, r.Tags.Any...), append(p.TagsNone, r.Tags.None...)
	}
	return nil
}

func uploadID(u *upload.Upload) *int64 {
	if u == nil {
		return nil
	}
	return &u.ID
}

// Viewer restricts a call to the batches of one company. All users of a company can see all its batches.
type Viewer struct {
	CompanyID *int64 // nil: all companies
}

var errNoBatch = fault.New(fault.NotFound, fault.BatchNotFound)

func (s *Service) get(ctx context.Context, viewer Viewer, id int64) (batchq.Batch, error) {
	rows, err := s.q.BatchList(ctx, batchq.BatchListParams{
		BeforeID: math.MaxInt64, ID: &id, CompanyID: viewer.CompanyID, PageLimit: 1,
	})
	return postgres.One(rows, err, "get batch", errNoBatch)
}

// Get returns a batch with its exact counts. Fault: batch.not_found.
func (s *Service) Get(ctx context.Context, viewer Viewer, id int64) (progress.Progress, error) {
	row, err := s.get(ctx, viewer, id)
	if err != nil {
		return progress.Progress{}, err
	}
	all, err := s.progress.ReadAll(ctx, []batchq.Batch{row})
	if err != nil {
		return progress.Progress{}, err
	}
	return all[0], nil
}

// List returns up to limit batches with smaller ids than `before`, newest first. A nil status matches all.
func (s *Service) List(ctx context.Context, viewer Viewer, status *string, before int64, limit int) ([]progress.Progress, error) {
	rows, err := s.q.BatchList(ctx, batchq.BatchListParams{
		BeforeID: before, CompanyID: viewer.CompanyID, Status: status, PageLimit: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	return s.progress.ReadAll(ctx, rows)
}

// Estimate returns the senders that will send the remaining rows of a batch, and the estimated end of the batch.
func (s *Service) Estimate(ctx context.Context, st progress.Progress) (progress.Estimate, error) {
	return s.progress.Estimate(ctx, st)
}

// Confirm starts a checked batch. After the confirmation, the batch keeps its text, even if its template is changed or deleted. Faults: batch.not_found,
// batch.wrong_status, batch.nothing_to_send, batch.expired; template.not_active if the template is not active, or if the company cannot use it any more.
func (s *Service) Confirm(ctx context.Context, viewer Viewer, id int64, by string) (progress.Progress, error) {
	row, err := s.get(ctx, viewer, id)
	if err != nil {
		return progress.Progress{}, err
	}
	n := int64(0)
	if row.Status == progress.Ready { // confirm only a batch that was ready before this transaction: the caller cannot have seen the counts of a check that ends only now
		if row.Valid == 0 {
			return progress.Progress{}, fault.New(fault.Conflict, fault.BatchNothingToSend)
		}
		if err := s.checkTemplate(ctx, row); err != nil {
			return progress.Progress{}, err
		}
		every, err := s.every(ctx)
		if err != nil {
			return progress.Progress{}, err
		}
		if n, err = s.q.BatchConfirm(ctx, batchq.BatchConfirmParams{ID: id, Every: every, MinLease: claim.MinLease, ConfirmedBy: by}); err != nil {
			return progress.Progress{}, postgres.Wrap("confirm batch", err, nil)
		}
	}
	if n == 0 {
		st, err := s.Get(ctx, viewer, id)
		switch {
		case err != nil || st.ConfirmedAt != nil && st.Status != progress.Cancelled: // the request is a repeat
			return st, err
		case row.Status == progress.Ready && st.Status == progress.Ready:
			return progress.Progress{}, fault.New(fault.Conflict, fault.BatchExpired)
		}
	}
	return s.changed(ctx, viewer, id, n, nil, "confirm batch", progress.Running, nil)
}

// checkTemplate returns template.not_active if the template has been replaced since the batch was created, or if the company cannot use the template. It
// returns nil for a batch without a template.
func (s *Service) checkTemplate(ctx context.Context, b batchq.Batch) error {
	if b.TemplateNo == nil {
		return nil
	}
	t, err := s.Templates.Find(ctx, b.CompanyID, *b.TemplateNo)
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Kind != fault.Unavailable || err == nil && t.ID != *b.TemplateID {
		return fault.New(fault.Conflict, fault.TemplateNotActive)
	}
	return err
}

// every returns the interval of scheduled templates. Messages with such a template are sent at multiples of this interval.
func (s *Service) every(ctx context.Context) (time.Duration, error) {
	values, err := s.Settings.Get(ctx)
	return time.Duration(values.SMS.ScheduledEvery) * time.Second, err
}

// Pause holds the unleased tasks of a batch until Resume. Faults: batch.not_found, batch.wrong_status.
func (s *Service) Pause(ctx context.Context, viewer Viewer, id int64, by string) (progress.Progress, error) {
	if _, err := s.get(ctx, viewer, id); err != nil {
		return progress.Progress{}, err
	}
	n, err := s.q.BatchPause(ctx, batchq.BatchPauseParams{ID: id, Username: by})
	return s.changed(ctx, viewer, id, n, err, "pause batch", progress.Paused, func() error {
		_, err := s.Queue.HoldBatch(ctx, id)
		return err
	})
}

// Resume continues a paused batch. Faults: batch.not_found, batch.wrong_status.
func (s *Service) Resume(ctx context.Context, viewer Viewer, id int64, by string) (progress.Progress, error) {
	if _, err := s.get(ctx, viewer, id); err != nil {
		return progress.Progress{}, err
	}
	n, err := s.q.BatchResume(ctx, batchq.BatchResumeParams{ID: id, Username: by})
	return s.changed(ctx, viewer, id, n, err, "resume batch", progress.Running, func() error { return s.release(ctx, id) })
}

// Cancel ends a batch and cancels its unleased tasks. Faults: batch.not_found, batch.wrong_status.
func (s *Service) Cancel(ctx context.Context, viewer Viewer, id int64, by string) (progress.Progress, error) {
	if _, err := s.get(ctx, viewer, id); err != nil {
		return progress.Progress{}, err
	}
	n := int64(1)
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		uploadID, err := s.q.BatchCancel(ctx, id)
		switch {
		case postgres.IsNoRows(err):
			n = 0
			return nil
		case err != nil:
			return err
		}
		if err := s.recordAct(ctx, id, "cancelled", by); err != nil || uploadID == nil {
			return err
		}
		return s.Uploads.Delete(ctx, *uploadID)
	})
	return s.changed(ctx, viewer, id, n, err, "cancel batch", progress.Cancelled, func() error {
		_, err := s.Tasks.CancelBatch(ctx, id, by)
		return err
	})
}

// changed finishes a change of a batch: it calls follow, which changes the tasks, and returns the batch. n is the number of changed rows. If n is 0 but the
// batch has the wanted status, the request is a repeat: changed then returns no conflict. It still calls follow, because a server can have died after it
// changed the batch and before it changed the tasks.
func (s *Service) changed(ctx context.Context, viewer Viewer, id, n int64, err error, act, wanted string, follow func() error) (progress.Progress, error) {
	if err == nil && n == 0 {
		b, err := s.get(ctx, viewer, id)
		if err == nil && b.Status != wanted {
			err = fault.New(fault.Conflict, fault.BatchWrongStatus)
		}
		if err != nil {
			return progress.Progress{}, err
		}
	}
	if err == nil && follow != nil {
		err = follow()
	}
	if err != nil {
		return progress.Progress{}, postgres.Wrap(act, err, nil)
	}
	return s.Get(ctx, viewer, id)
}

// recordAct records the action of a user on a batch, in the transaction of ctx.
func (s *Service) recordAct(ctx context.Context, id int64, act, by string) error {
	return postgres.Wrap("record action", s.q.BatchActAdd(ctx, batchq.BatchActAddParams{BatchID: id, Act: act, Username: by}), nil)
}

// maxActs is the maximum number of actions of one batch that ListActions returns.
const maxActs = 100

// Act is an action of a user on a batch.
type Act = batchq.BatchActsRow

// ListActions returns the actions of users on a batch, newest first.
func (s *Service) ListActions(ctx context.Context, id int64) ([]Act, error) {
	acts, err := s.q.BatchActs(ctx, batchq.BatchActsParams{BatchID: id, MaxRows: maxActs})
	return acts, postgres.Wrap("read acts of batch", err, nil)
}

// Requeued is the result of requeueing the failed tasks of a batch.
type Requeued struct {
	Count   int64     // number of FAILED tasks that will be sent again
	Skipped []Skipped // numbers of FAILED tasks that cannot be sent again, by reason
	Job     *job.Row  // job that sends the tasks again; nil: no task can be sent again
}

// Skipped is the number of tasks that cannot be sent again for one reason.
type Skipped struct {
	Reason fault.Reason
	Count  int64
}

// Requeue creates a job that sends the failed tasks of a batch again. The rules are the same as for the requeue of a single task. Faults: batch.not_found,
// batch.wrong_status, limit.reached.
func (s *Service) Requeue(ctx context.Context, viewer Viewer, id int64, by, remark string) (Requeued, error) {
	b, err := s.get(ctx, viewer, id)
	if err != nil {
		return Requeued{}, err
	}
	if b.Status != progress.Finished && b.Status != progress.Running && b.Status != progress.Paused {
		return Requeued{}, fault.New(fault.Conflict, fault.BatchWrongStatus)
	}
	r, err := s.requeueable(ctx, b)
	if err != nil {
		return r, err
	}
	if r.Count > 0 {
		plan, err := s.requeue(ctx, id, by, remark)
		if err != nil {
			return Requeued{}, err
		}
		r.Count, r.Job = plan.Count, plan.Job
		for _, one := range r.Skipped {
			r.Count = max(0, r.Count-one.Count)
		}
	}
	if n := b.Valid - b.Fed; b.Status == progress.Finished && n > 0 { // some rows expired before they were submitted
		r.skip(fault.TaskExpired, n)
	}
	return r, nil
}

// skip adds n to the number of skipped tasks with this reason in r.Skipped.
func (r *Requeued) skip(reason fault.Reason, n int64) {
	for i := range r.Skipped {
		if r.Skipped[i].Reason == reason {
			r.Skipped[i].Count += n
			return
		}
	}
	r.Skipped = append(r.Skipped, Skipped{reason, n})
}

// requeueable counts the FAILED tasks of a batch: those that can be sent again, and those that cannot.
func (s *Service) requeueable(ctx context.Context, b batchq.Batch) (r Requeued, err error) {
	_, first, _, err := s.Tasks.Span(ctx, task.Filter{CreatedFrom: &b.CreatedAt}, "")
	if err != nil {
		return r, err //nolint:wrapcheck // the error is already wrapped
	}
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return r, err
	}
	isServed, err := s.progress.HasServingSender(ctx, b)
	if err != nil {
		return r, err
	}
	rows, err := s.inParts.BatchFailedVerdicts(ctx, batchq.BatchFailedVerdictsParams{
		FromID: first, BatchID: b.ID, SendTests: values.SMS.SendTests, IsServed: isServed, MinLease: claim.MinLease,
	})
	if err != nil {
		return r, fmt.Errorf("count failed tasks: %w", err)
	}
	fit := map[string]int64{} // number of tasks that each sample task represents, by id of the sample task
	for _, row := range rows {
		if reason, isRefused := task.RefusalOf(row.Verdict); isRefused {
			r.skip(reason, row.Tasks)
		} else {
			fit[row.SampleID] = row.Tasks
			r.Count += row.Tasks
		}
	}
	refused, err := s.Tasks.RefusedRecipients(ctx, slices.Collect(maps.Keys(fit)))
	if err != nil {
		return r, err //nolint:wrapcheck // the error is already wrapped
	}
	for id, reason := range refused {
		r.Count -= fit[id]
		r.skip(reason, fit[id])
	}
	return r, nil
}

// requeue creates the job that sends the failed tasks of a batch again, and sets the batch to running. If no task has failed, it creates no job.
func (s *Service) requeue(ctx context.Context, id int64, by, remark string) (job.Plan, error) {
	shown, err := json.Marshal(map[string]int64{"batch_id": id})
	if err != nil {
		return job.Plan{}, fmt.Errorf("write filter: %w", err)
	}
	r := job.Request{
		Action: job.Requeue, Filter: task.Filter{BatchID: &id}, Shown: shown, Remark: remark, By: by,
	}
	for range planTries {
		plan, err := s.Jobs.Plan(ctx, r)
		if err != nil || plan.Count == 0 {
			return plan, err
		}
		r.Count = &plan.Count
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			n, err := s.q.BatchRuns(ctx, id)
			if err == nil && n == 0 { // the batch was cancelled meanwhile
				return fault.New(fault.Conflict, fault.BatchWrongStatus)
			}
			if err != nil {
				return postgres.Wrap("run batch again", err, nil)
			}
			if plan, err = s.Jobs.Plan(ctx, r); err != nil {
				return err
			}
			return s.recordAct(ctx, id, "requeued", by)
		})
		if fault.Is(err, fault.JobCountChanged) {
			r.Count = nil
			continue
		}
		return plan, err
	}
	return job.Plan{}, fault.New(fault.Unavailable, fault.ServiceUnavailable)
}

// planTries is the maximum number of times that the failed tasks of a batch are counted. If more tasks fail during a count, the count is repeated.
const planTries = 5

// maxHoldTime is the maximum additional time for which expired batches are kept because other batches of their partition have not ended. The width of the
// partition is added to maxHoldTime.
const maxHoldTime = 7 * 24 * time.Hour

// DeleteExpired deletes ended batches with their rows after the days of the setting history.batch_days. It returns the number of deleted batches and
// partitions. It drops the batches of a partition together, unless another batch of this partition runs for a long time.
func (s *Service) DeleteExpired(ctx context.Context) (int, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	parts, err := s.Settings.DeleteExpiredBatches(ctx, 1, func(keep time.Duration) (int64, error) {
		n, err := postgres.Patiently(ctx, func() (int64, error) { return s.q.BatchRowsDrop(ctx, keep) })
		return n, postgres.Wrap("drop partition of batches", err, nil)
	})
	if err != nil {
		return parts, err
	}
	batches, err := s.Settings.DeleteExpiredBatches(ctx, 1, func(keep time.Duration) (int64, error) {
		held := keep + values.History.BatchWidth() + maxHoldTime
		n, err := s.q.BatchesDeleteExpired(ctx, batchq.BatchesDeleteExpiredParams{BatchSize: 1, Keep: keep, KeepHeld: held})
		return n, postgres.Wrap("delete batches", err, nil)
	})
	return parts + batches, err
}
