package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/setting"
)

func (s *Service) insert(ctx context.Context, row newTask) (Submitted, error) {
	var made storing
	var err error
	if s.db.InTx(ctx) {
		made, err = s.store(ctx, row)
	} else {
		made, err = s.submits.Do(ctx, row)
	}
	switch {
	case err != nil:
		return Submitted{}, err
	case made == isBlocked:
		return Submitted{}, admit.ErrBlocked()
	case made == isRepeat && row.DedupKey == nil:
		return Submitted{}, fmt.Errorf("task of company %d was not stored", row.CompanyID)
	case made == isRepeat:
		return Submitted{}, errRepeated
	default:
		return row.submitted(), nil
	}
}

// storing is what happened to a task that was to be stored.
type storing int

const (
	isStored  storing = iota
	isRepeat          // not stored: its dedup key is used
	isBlocked         // not stored: a block forbids the message
)

// newTask is a valid submission and the task that it becomes.
type newTask struct {
	id, recipient string
	final         template.Rendered
	priority      int16
	pool          directory.Pool
	quiet         quiet.Period // contains the time at which the task is due
	asOf          time.Time    // when the request arrived: an older copy of the directory must not refuse the task
	sms           setting.SMS  // settings at the time when the request arrived
	Submission
	Origin
}

// deferred reports whether the task is sent at the next full interval of the clock.
func (t newTask) deferred() bool { return t.final.Deferred && t.ExpectSendTime == nil }

// dueAt returns when the task is to be sent; a zero time means now.
func (t newTask) dueAt() time.Time {
	if t.deferred() {
		return t.sms.NextInterval(time.Now())
	}
	return optional.Value(t.ExpectSendTime)
}

// isSimulated reports whether the task is a test message that is not sent.
func (t newTask) isSimulated() bool { return t.Test && !t.IsTrial && !t.sms.SendTests }

// signed returns the text with the signature of the submission.
func (t newTask) signed() string { return segment.Signed(t.Sign, t.final.Content) }

// segments returns the number of segments of the text. On channels other than SMS, it returns 1.
func (t newTask) segments() int {
	if t.RenderingID != 0 {
		return 1
	}
	return segment.Count(t.signed())
}

func (t newTask) submitted() Submitted {
	made := Submitted{TaskID: t.id, Status: queue.Pending, FinalContent: t.signed(), Recipient: t.recipient}
	if t.isSimulated() {
		made.Status = queue.Success
	}
	return made
}

func (s *Service) store(ctx context.Context, row newTask) (storing, error) {
	all, err := s.storeAll(ctx, []newTask{row})
	if err != nil {
		return 0, err
	}
	return all[0], nil
}

// storeAll stores tasks with their submissions in one transaction, and reports what happened to each task. After an error, no task is stored. If the directory has changed since the tasks were prepared, storeAll finds their pools again, and can refuse tasks.
func (s *Service) storeAll(ctx context.Context, rows []newTask) ([]storing, error) {
	rows = slices.Clone(rows)
	for tries := 1; ; tries++ {
		p := submitParams(rows)
		if tries == maxPoolTries {
			p.DirectoryVersions = nil // the directory changes faster than the server reads it, and these changes must not cause a refusal
		}
		results, err := postgres.Again(ctx, s.db, func() ([]queueq.TaskSubmitRow, error) { return s.taskSubmit(ctx, rows, p) })
		if err != nil {
			return nil, fmt.Errorf("submit tasks: %w", err)
		}
		if len(results) != 1 || results[0].TaskID != "" {
			return s.stored(ctx, rows, results), nil
		}
		if tries == maxPoolTries {
			return nil, errNoSenderPool
		}
		if err := s.directory.Renew(ctx); err != nil {
			return nil, err
		}
		again := make([]*newTask, len(rows))
		for i := range rows {
			again[i] = &rows[i]
		}
		for _, err := range s.putAll(ctx, again) {
			if err != nil {
				return nil, err
			}
		}
	}
}

// errNoSenderPool means that the pool of one sender was deleted before each attempt to store a task in the pool.
var errNoSenderPool = errors.New("submit tasks: the pool of the sender is gone")

// taskSubmit runs TaskSubmit and locks the pools of one sender that the rows need. If such a pool no longer exists, taskSubmit returns the same result as
// TaskSubmit for an outdated version of the directory.
func (s *Service) taskSubmit(ctx context.Context, rows []newTask, p queueq.TaskSubmitParams) (results []queueq.TaskSubmitRow, err error) {
	var pools []int64
	for _, r := range rows {
		if r.SenderNo != "" && !slices.Contains(pools, r.pool.ID) {
			pools = append(pools, r.pool.ID)
		}
	}
	if len(pools) == 0 {
		return s.q.TaskSubmit(ctx, p)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		exist, err := s.directory.HoldSenderPools(ctx, pools)
		switch {
		case err != nil:
			return err
		case !exist:
			results = []queueq.TaskSubmitRow{{}}
			return nil
		}
		results, err = s.q.TaskSubmit(ctx, p)
		return err
	})
	return results, err
}

// maxPoolTries is the maximum number of times that the pools of tasks are searched. Each search uses the current directory.
const maxPoolTries = 4

// put sets the pool of a task. It returns a fault if the recipient must not receive the task. TaskSubmit decides about blocks.
func (s *Service) put(ctx context.Context, row *newTask) error {
	return s.putAll(ctx, []*newTask{row})[0]
}

// putAll works like put for several tasks. Each task has its own error.
func (s *Service) putAll(ctx context.Context, rows []*newTask) []error {
	messages := make([]admit.Message, len(rows))
	for i, r := range rows {
		messages[i] = admit.Message{
			Channel: r.Channel, CompanyID: r.CompanyID, MessageType: r.MessageType, Recipient: r.recipient, IsSigned: r.Sign != "", SenderNo: r.SenderNo,
			AsOf: r.asOf, WasAccepted: r.WasChecked, Priority: r.priority, DueAt: r.dueAt(),
		}
		if r.IsTrial { // an admin waits for its outcome
			messages[i].Priority = 0
		}
	}
	errs := make([]error, len(rows))
	verdicts := s.admit.AdmitUnlessBlocked(ctx, messages)
	for i := range rows {
		v := verdicts[i]
		rows[i].pool, rows[i].quiet, errs[i] = v.Pool, v.Quiet, v.Err
		if v.Quiet.IsQuiet && v.Err == nil && !rows[i].WasChecked && !rows[i].isSimulated() {
			errs[i] = CheckExpiry(rows[i].ExpiresAt, v.Quiet.Until)
		}
	}
	return errs
}

func submitParams(rows []newTask) queueq.TaskSubmitParams {
	n := len(rows)
	p := queueq.TaskSubmitParams{
		TaskIds: make([]string, n), PhoneNumbers: make([]string, n), Recipients: make([]string, n),
		FinalContents: make([]string, n), Sources: make([]string, n), Submitters: make([]string, n),
		DedupKeys: make([]string, n), RequestIds: make([]string, n), Contents: make([]string, n),
		UseTemplates: make([]bool, n), SourceIps: make([]string, n), UserAgents: make([]string, n),
		RequestData: make([][]byte, n), CompanyIds: make([]int64, n), PoolIds: make([]int64, n), MessageTypes: make([]int16, n),
		CountryNos: make([]string, n), Priorities: make([]int16, n), Segments: make([]int16, n), Signs: make([]string, n),
		AreTests: make([]bool, n), EverySeconds: make([]*int64, n), ExpectSendTimes: make([]*time.Time, n),
		ExpireTimes: make([]*time.Time, n),
	}
	for i, r := range rows {
		p.TaskIds[i], p.PhoneNumbers[i], p.Recipients[i], p.FinalContents[i] = r.id, r.PhoneNumber, r.recipient, r.final.Content
		p.Sources[i], p.Submitters[i], p.DedupKeys[i] = optional.Value(r.Source), r.User, optional.Value(r.DedupKey)
		p.RequestIds[i] = r.RequestID
		p.Contents[i], p.UseTemplates[i] = r.logged()
		p.SourceIps[i], p.UserAgents[i], p.RequestData[i] = r.SourceIP, logtext.Text(r.UserAgent), r.Raw
		p.CompanyIds[i], p.PoolIds[i], p.MessageTypes[i], p.CountryNos[i] = r.CompanyID, r.pool.ID, r.MessageType, r.pool.CountryNo
		p.Priorities[i], p.Segments[i], p.Signs[i], p.AreTests[i] = r.priority, int16(r.segments()), r.Sign, r.Test
		if r.deferred() {
			p.EverySeconds[i] = &r.sms.ScheduledEvery
		}
		p.ExpectSendTimes[i], p.ExpireTimes[i] = r.ExpectSendTime, r.ExpiresAt
		if from := r.quiet.From(); from != nil {
			if p.QuietFroms == nil {
				p.QuietFroms = make([]*time.Time, n)
			}
			p.QuietFroms[i] = from
		}
		if r.BatchID != 0 {
			if p.BatchIds == nil {
				p.BatchIds = make([]int64, n)
			}
			p.BatchIds[i] = r.BatchID
		}
		if r.RenderingID != 0 {
			if p.RenderingIds == nil {
				p.RenderingIds, p.ContactValues, p.UserIds = make([]int64, n), make([][]byte, n), make([]string, n)
			}
			p.RenderingIds[i], p.ContactValues[i] = r.RenderingID, r.Values
			if address.IsUserID(r.Channel) {
				p.UserIds[i] = r.recipient
			}
		}
		if r.isSimulated() {
			if p.Results == nil {
				p.Results = make([]string, n)
			}
			p.Results[i] = result.Simulated
		}
		if r.SenderNo != "" {
			if p.OnlySenderNos == nil {
				p.OnlySenderNos = make([]string, n)
			}
			p.OnlySenderNos[i] = r.SenderNo
		}
		if r.Traceparent != "" {
			if p.Traceparents == nil {
				p.Traceparents = make([]string, n)
			}
			p.Traceparents[i] = r.Traceparent
		}
		if !slices.Contains(p.DirectoryVersions, r.pool.Version) { // nearly always, all rows have the same version
			p.DirectoryVersions = append(p.DirectoryVersions, r.pool.Version)
		}
	}
	return p
}

// stored returns what happened to the rows, in their order. It wakes senders that wait for the stored tasks.
func (s *Service) stored(ctx context.Context, rows []newTask, results []queueq.TaskSubmitRow) []storing {
	byID := make(map[string]storing, len(results))
	for _, r := range results {
		byID[r.TaskID] = isStored
		if r.IsBlocked {
			byID[r.TaskID] = isBlocked
		}
	}
	made, news := make([]storing, len(rows)), map[int64]int{}
	for i, r := range rows {
		is, isKnown := byID[r.id]
		if !isKnown {
			is = isRepeat
		}
		made[i] = is
		if is == isStored && !r.isSimulated() {
			news[r.pool.ID]++
		}
	}
	s.db.AfterCommit(ctx, func() { s.queue.Wake(news) })
	return made
}
