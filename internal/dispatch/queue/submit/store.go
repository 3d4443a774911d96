package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/address"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/setting"
)

func (s *Service) insert(ctx context.Context, row newTask) (Submitted, error) {
	var refused, err error
	switch {
	case s.db.InTx(ctx):
		refused, err = s.store(ctx, row)
	case row.Companion != nil:
		refused, err = s.accompanied.Do(ctx, row)
	default:
		refused, err = s.submits.Do(ctx, row)
	}
	switch {
	case err != nil:
		return Submitted{}, err
	case errors.Is(refused, errRepeated) && row.DedupKey == nil:
		return Submitted{}, fmt.Errorf("task of company %d was not stored", row.CompanyID)
	case refused != nil:
		return Submitted{}, refused
	default:
		return row.submitted(), nil
	}
}

// newTask is a valid submission and the task that it becomes.
type newTask struct {
	id, recipient string
	final         template.Rendered
	priority      int16
	pool          directory.Pool
	quiet         quiet.Period   // contains the time at which the task is due
	plannedAt     time.Time      // when caps allow the task; zero: when it is to be sent
	nextAt        time.Time      // see Accompanied; storeCapped sets it
	subjects      []caps.Subject // see Limit
	asOf          time.Time      // when the request arrived: an older copy of the directory must not refuse the task
	sms           setting.SMS    // settings at the time when the request arrived
	sealed        string         // encrypted text of a sensitive task, whose final text is masked; empty: the task is not sensitive
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

// message returns the data that decides about the recipient.
func (t newTask) message() admit.Message {
	m := admit.Message{
		Channel: t.Channel, CompanyID: t.CompanyID, MessageType: t.MessageType, Priority: t.priority, Recipient: t.recipient, IsSigned: t.Sign != "",
		SenderNo: t.SenderNo, AsOf: t.asOf, WasAccepted: t.WasChecked, DueAt: t.dueAt(),
		TaskID: t.id, ExpiresAt: t.ExpiresAt, Waits: t.BatchID != 0, Exemption: t.exemption(), Subjects: t.subjects,
	}
	if m.Exemption == "" && t.isSimulated() {
		m.Exemption = admit.FromCaps
	}
	return m
}

// exemption returns the rules that do not apply to the task. A trial is exempt because an admin waits for its outcome, and a reply because its recipient has
// just written.
func (t newTask) exemption() admit.Exemption {
	switch {
	case t.IsTrial || t.IsReply:
		return admit.FromCapsAndQuiet
	case t.IsUncapped:
		return admit.FromCaps
	default:
		return ""
	}
}

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

func (s *Service) store(ctx context.Context, row newTask) (refused, err error) {
	run := s.storeAll
	if row.Companion != nil {
		run = s.storeAccompanied
	}
	all, err := run(ctx, []newTask{row})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// storeAccompanied works like storeAll for tasks with companions, and applies their limits.
func (s *Service) storeAccompanied(ctx context.Context, rows []newTask) ([]error, error) {
	companions := make([]Companion, len(rows))
	for i, r := range rows {
		companions[i] = r.Companion
	}
	limits, err := companions[0].Limit(ctx, companions)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error is already wrapped
	}
	refused := make([]error, len(rows))
	admitted, indexes := make([]newTask, 0, len(rows)), make([]int, 0, len(rows))
	for i, row := range rows {
		if refused[i] = limits[i].Err; refused[i] == nil {
			row.subjects = limits[i].Subjects
			admitted, indexes = append(admitted, row), append(indexes, i)
		}
	}
	if len(admitted) == 0 {
		return refused, nil
	}
	results, err := s.storeAll(ctx, admitted)
	if err != nil {
		return nil, err
	}
	for n, i := range indexes {
		refused[i] = results[n]
	}
	return refused, nil
}

// storeAll stores tasks with their submissions in one transaction. It returns for each task why it was not stored: errRepeated if its dedup key is used, or a fault. After
// an error, no task is stored. If the directory has changed since the tasks were prepared, storeAll finds their pools again, and can refuse tasks.
func (s *Service) storeAll(ctx context.Context, rows []newTask) ([]error, error) {
	rows = slices.Clone(rows)
	for tries := 1; ; tries++ {
		isLast := tries == maxPoolTries // the directory changes faster than the server reads it, and these changes must not cause a refusal
		refused, err := postgres.Again(ctx, s.db, func() ([]error, error) { return s.storeOnce(ctx, rows, !isLast) })
		switch {
		case err == nil:
			s.wake(ctx, rows, refused)
			return refused, nil
		case !errors.Is(err, errOutdated):
			return nil, fmt.Errorf("submit tasks: %w", err)
		case isLast:
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

// errOutdated means that the pools of tasks were found with an outdated version of the directory. No task was stored.
var errOutdated = errors.New("the directory has changed")

// storeOnce works like storeAll, but returns errOutdated if the directory has changed. If checksDirectory is false, only pools of one sender are checked.
func (s *Service) storeOnce(ctx context.Context, rows []newTask, checksDirectory bool) (refused []error, err error) {
	var pools []int64
	isCapped, needsTx := false, false
	for _, r := range rows {
		needsTx = needsTx || r.isSimulated() || r.Companion != nil
		if r.SenderNo != "" && !slices.Contains(pools, r.pool.ID) {
			pools = append(pools, r.pool.ID)
		}
		if !isCapped {
			if isCapped, err = s.admit.IsCapped(ctx, r.message()); err != nil {
				return nil, err
			}
		}
	}
	if len(pools) == 0 && !isCapped && !needsTx {
		return s.taskSubmit(ctx, rows, checksDirectory)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if len(pools) > 0 {
			switch exist, err := s.directory.LockSenderPools(ctx, pools); {
			case err != nil:
				return err
			case !exist:
				return errOutdated
			}
		}
		if isCapped {
			refused, err = s.storeCapped(ctx, rows, checksDirectory)
		} else {
			refused, err = s.taskSubmit(ctx, rows, checksDirectory)
		}
		if err != nil {
			return err
		}
		return storeCompanions(ctx, rows, refused)
	})
	return refused, err
}

// storeCompanions stores the companions of stored tasks.
func storeCompanions(ctx context.Context, rows []newTask, refused []error) error {
	var all []Accompanied
	for i, r := range rows {
		if r.Companion != nil && refused[i] == nil {
			all = append(all, Accompanied{r.Companion, r.id, r.nextAt})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].Store(ctx, all) //nolint:wrapcheck // the error is already wrapped
}

// storeCapped works like storeOnce for tasks with caps. It runs in a transaction, because the caps are locked until the tasks are stored.
func (s *Service) storeCapped(ctx context.Context, rows []newTask, checksDirectory bool) ([]error, error) {
	refused, messages := make([]error, len(rows)), make([]admit.Message, len(rows))
	for i, r := range rows {
		messages[i] = r.message()
	}
	reservation, err := s.admit.Reserve(ctx, messages)
	if err != nil {
		return nil, err
	}
	admitted, indexes := make([]newTask, 0, len(rows)), make([]int, 0, len(rows))
	for i, slot := range reservation.Slots {
		if refused[i] = slot.Err; slot.Err == nil {
			row := rows[i]
			if !slot.DueAt.IsZero() {
				row.plannedAt, row.quiet = slot.DueAt, slot.Quiet
			}
			admitted, indexes = append(admitted, row), append(indexes, i)
		}
	}
	if len(admitted) > 0 {
		wrong, err := s.taskSubmit(ctx, admitted, checksDirectory)
		if err != nil {
			return nil, err
		}
		for n, i := range indexes {
			refused[i] = wrong[n]
		}
	}
	again, err := reservation.Commit(ctx, func(i int) bool { return refused[i] == nil })
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Companion != nil && refused[i] == nil {
			if rows[i].nextAt, err = reservation.Next(i); err != nil {
				return nil, err
			}
		}
	}
	if len(again) == 0 {
		return refused, nil
	}
	left := make([]newTask, len(again))
	for n, i := range again {
		left[n] = rows[i]
	}
	wrong, err := s.storeCapped(ctx, left, checksDirectory)
	if err != nil {
		return nil, err
	}
	for n, i := range again {
		refused[i], rows[i].nextAt = wrong[n], left[n].nextAt
	}
	return refused, nil
}

// taskSubmit runs TaskSubmit, and returns for each task why it was not stored. It ends simulated tasks, for which ctx must have a transaction.
func (s *Service) taskSubmit(ctx context.Context, rows []newTask, checksDirectory bool) ([]error, error) {
	p := submitParams(rows)
	if !checksDirectory {
		p.DirectoryVersions = nil
	}
	results, err := s.q.TaskSubmit(ctx, p)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]error, len(results))
	for _, r := range results {
		switch {
		case r.TaskID == "":
			return nil, errOutdated
		case r.IsBlocked:
			byID[r.TaskID] = admit.ErrBlocked()
		default:
			byID[r.TaskID] = nil
		}
	}
	refused := make([]error, len(rows))
	var simulated []string
	for i, r := range rows {
		err, isKnown := byID[r.id]
		if !isKnown {
			err = errRepeated
		}
		if refused[i] = err; err == nil && r.isSimulated() {
			simulated = append(simulated, r.id)
		}
	}
	if len(simulated) > 0 {
		err = s.inParts.TaskSimulate(ctx, queueq.TaskSimulateParams{Result: result.Simulated, TaskIds: simulated})
	}
	return refused, err
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
		messages[i] = r.message()
	}
	errs := make([]error, len(rows))
	verdicts := s.admit.AdmitUnlessBlocked(ctx, messages)
	for i := range rows {
		v := verdicts[i]
		rows[i].pool, rows[i].quiet, errs[i] = v.Pool, v.Quiet, v.Err
		switch {
		case !v.Quiet.IsQuiet || v.Err != nil || rows[i].isSimulated():
		case rows[i].BatchID == 0:
			errs[i] = CheckExpiry(rows[i].ExpiresAt, v.Quiet.Until)
		case claim.CanOnlyExpire(rows[i].ExpiresAt, v.Quiet.Until): // a rule of its own, because expires_at is that of the batch: it is not wrong for other rows
			errs[i] = fault.InvalidField("expires_at", fault.StaysQuiet, v.Quiet.Until.UTC().Format(time.RFC3339))
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
		if !r.plannedAt.IsZero() {
			if p.PlannedTimes == nil {
				p.PlannedTimes = make([]*time.Time, n)
			}
			p.PlannedTimes[i] = &r.plannedAt
		}
		if exemption := r.exemption(); exemption != "" {
			if p.Exemptions == nil {
				p.Exemptions = make([]string, n)
			}
			p.Exemptions[i] = string(exemption)
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
		if r.sealed != "" {
			if p.SealedTexts == nil {
				p.SealedTexts = make([]string, n)
			}
			p.SealedTexts[i] = r.sealed
		}
		if r.isSimulated() {
			if p.AreSimulated == nil {
				p.AreSimulated = make([]bool, n)
			}
			p.AreSimulated[i] = true
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

// wake wakes senders that wait for the stored tasks.
func (s *Service) wake(ctx context.Context, rows []newTask, refused []error) {
	news := map[int64]int{}
	for i, r := range rows {
		if refused[i] == nil && !r.isSimulated() {
			news[r.pool.ID]++
		}
	}
	s.db.AfterCommit(ctx, func() { s.queue.Wake(news) })
}
