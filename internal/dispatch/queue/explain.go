package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// The reasons of an Explanation.
const (
	BecauseScheduled  = "scheduled"
	BecauseRetryLater = "retry_later"
	BecauseHeld       = "held"     // see Explanation.HeldBy
	BecauseExpiring   = "expiring" // the task expires before it is due
	BecauseQueued     = "queued"
	BecauseNoSender   = "no_sender" // the task is queued, and no sender can take it now
	BecauseProcessing = "processing"
	BecauseSettled    = "settled"
)

// MaxAhead is the largest number of tasks ahead that an explanation counts.
const MaxAhead = 10_000

// Explanation says why a task has its state. The task is read a moment before the senders.
type Explanation struct {
	Task    dbq.Task
	Reason  string
	IsDue   bool
	Routed  bool
	Ahead   *int64 // tasks that go before it; MaxAhead+1 means more than MaxAhead, nil that the task is not queued
	Senders []sender.Candidate
	HeldBy  []Switch // what holds a PENDING task

	RequeuedAt *time.Time // when the task was requeued last; nil: never
	RequeuedBy string

	StartUntil *time.Time // of a PROCESSING task: when its sender must have started it; nil: it has, or need not

	OnUnclear string // retry or fail; empty: the setting of the sender that will take the task decides
}

// Explain returns why a task has its state, or the fault task.not_found.
func (s *Service) Explain(ctx context.Context, viewer Viewer, id string) (Explanation, error) {
	row, err := s.Get(ctx, viewer, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Task: row, Reason: BecauseSettled, IsDue: true}
	switch last, err := s.inParts.TaskLastRequeue(ctx, id); {
	case err == nil:
		e.RequeuedAt, e.RequeuedBy = &last.CreatedAt, last.By
	case !postgres.IsNoRows(err):
		return e, fmt.Errorf("read requeues of task: %w", err)
	}
	switch {
	case row.OnUnclear != nil:
		e.OnUnclear = *row.OnUnclear
	case row.ProcessingAppID != nil:
		if e.OnUnclear, err = s.q.SenderOnUnclear(ctx, *row.ProcessingAppID); err != nil && !postgres.IsNoRows(err) {
			return e, fmt.Errorf("read on_unclear of the sender: %w", err)
		}
	}
	switch row.Status {
	case Processing:
		e.Reason = BecauseProcessing
		switch until, err := s.q.TaskStartUntil(ctx, id); {
		case err == nil:
			e.StartUntil = &until
		case !postgres.IsNoRows(err):
			return e, fmt.Errorf("read the start of the lease: %w", err)
		}
		return e, nil
	case Success, Failed, Cancelled:
		return e, nil
	}
	due, err := s.due(ctx, id)
	if err != nil {
		return e, err
	}
	e.IsDue = due.IsDue
	if e.HeldBy, err = s.switches(ctx, due.PoolID, row.CompanyID, row.CountryNo, row.SubmittedBy, row.BatchID); err != nil {
		return e, err
	}
	if e.Senders, e.Routed, err = s.candidates(ctx, needOf(row, due.PoolID), due.FailedAppID, e.HeldBy); err != nil {
		return e, err
	}
	able := canTake(e.Senders) > 0
	switch {
	case due.IsExpiring:
		e.Reason = BecauseExpiring
	case row.DueAt == nil || len(e.HeldBy) > 0:
		e.Reason = BecauseHeld
	case !e.IsDue && row.RetryCount > 0:
		e.Reason = BecauseRetryLater
	case !e.IsDue:
		e.Reason = BecauseScheduled
	case !able:
		e.Reason = BecauseNoSender
	default:
		e.Reason = BecauseQueued
	}
	if row.Lane != nil && row.Rank != nil {
		var ahead int64
		err := s.db.Dispatch(ctx, func(q *dispatchq.Queries) (err error) {
			ahead, err = q.TaskAhead(ctx, dispatchq.TaskAheadParams{TaskID: row.TaskID, Most: MaxAhead + 1})
			return err
		})
		if err != nil {
			return e, fmt.Errorf("count tasks ahead: %w", err)
		}
		e.Ahead = &ahead
	}
	return e, nil
}

func (s *Service) due(ctx context.Context, id string) (dbq.TaskDueRow, error) {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return dbq.TaskDueRow{}, err
	}
	due, err := s.inParts.TaskDue(ctx, dbq.TaskDueParams{TaskID: id, MinLease: claim.MinLease, RetryMaxWait: rules.RetryWait()})
	return due, postgres.Wrap("read due time of task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// needOf returns what a task needs of a sender in the pool that serves it now: its stored pool may have been retired.
func needOf(t dbq.Task, pool int64) sender.Need {
	return sender.Need{PoolID: pool, Content: t.Content, Sign: t.Sign, Segments: t.Segments}
}

// candidates returns the senders that may take a task, those that can take it now first, each with the reason that a claim would find.
// failedWith is the sender that failed with the task, so that others are preferred; it may be empty. A task that is heldBy the want of a route has none.
func (s *Service) candidates(ctx context.Context, n sender.Need, failedWith string, heldBy []Switch) ([]sender.Candidate, bool, error) {
	if slices.ContainsFunc(heldBy, func(w Switch) bool { return w.Kind == noSharedSenders }) {
		return nil, false, nil
	}
	all, routed, err := s.senders.Candidates(ctx, n)
	if err != nil {
		return all, routed, err
	}
	held := map[int]string{} // why a sender must leave the task to others
	for i, c := range all {
		var rivals []claim.RouteShare
		isOther := false // another sender shares the pool with this one, or goes before it
		for j, o := range all {
			if j == i || o.Why != "" {
				continue
			}
			isRival := routed && o.Shares && o.Sort == c.Sort && o.Weight != nil
			isOther = isOther || isRival || c.GivesWay && !o.GivesWay
			if isRival {
				rivals = append(rivals, claim.RouteShare{Served: o.Served, Weight: *o.Weight})
			}
		}
		switch {
		case c.Why != "":
		case isOther && c.SenderNo == failedWith:
			held[i] = sender.WhyFailedBefore
		case len(rivals) == 0 || c.Weight == nil: // a pool that was retired just now has shared senders, without weights
		default:
			if most, _, _ := claim.Share(claim.RouteShare{Served: c.Served, Weight: *c.Weight}, c.Served, rivals); most == 0 {
				held[i] = sender.WhyAhead
			}
		}
	}
	for i, why := range held {
		all[i].Why = why
	}
	slices.SortStableFunc(all, func(a, b sender.Candidate) int { return cmp.Compare(min(len(a.Why), 1), min(len(b.Why), 1)) })
	return all, routed, nil
}

func canTake(senders []sender.Candidate) int {
	n := 0
	for _, c := range senders {
		if c.Why == "" {
			n++
		}
	}
	return n
}

// The verdicts of a Preview.
const (
	WouldSend        = "would_send"
	WouldWait        = "would_wait"
	WouldBeHeld      = "would_be_held" // see Preview.HeldBy
	WouldBeScheduled = "would_be_scheduled"
	WouldRepeat      = "would_repeat"
	WouldBeSimulated = "would_be_simulated"
)

// Preview is the task that a submission would make, and its verdict.
type Preview struct {
	Recipient string // in E.164
	CountryNo string
	Final     string // with the signature
	Segments  int
	Cost      int // segments that an attempt takes of the first of Senders
	Priority  int16
	Routed    bool
	Senders   []sender.Candidate
	HeldBy    []Switch
	Verdict   string
}

// need returns what the task will need of a sender.
func (t newTask) need() sender.Need {
	n := sender.Need{PoolID: t.place.PoolID, Content: t.final.Content, Segments: int16(t.segments())}
	if t.Sign != "" {
		n.Sign = &t.Sign
	}
	return n
}

// errPreviewed rolls back the changes of a preview.
var errPreviewed = errors.New("only a preview")

// Preview does everything that Submit does, but creates and consumes nothing. Faults as for Submit.
func (s *Service) Preview(ctx context.Context, sub Submission, origin Origin) (Preview, error) {
	if sub.DedupKey != nil {
		first, err := s.named(ctx, *sub.DedupKey, origin)
		if err != nil {
			return Preview{}, err
		}
		if first != nil {
			return s.previewRepeated(ctx, *first)
		}
	}
	if err := s.directory.Renew(ctx); err != nil {
		return Preview{}, err
	}
	row, err := s.prepare(ctx, time.Now(), sub, origin, s.templates.Finder(origin.CompanyID))
	if err != nil {
		return Preview{}, err
	}
	if sub.isDefault() {
		err := s.db.Tx(ctx, func(ctx context.Context) error {
			if err := s.consumeDefault(ctx, &row); err != nil {
				return err
			}
			return errPreviewed
		})
		if !errors.Is(err, errPreviewed) {
			return Preview{}, err
		}
	}
	p := Preview{
		Recipient: row.recipient, CountryNo: row.place.CountryNo, Final: row.signed(),
		Segments: row.segments(), Priority: row.priority, Verdict: WouldWait,
	}
	if p.HeldBy, err = s.switches(ctx, row.place.PoolID, row.CompanyID, optional.NonZero(row.place.CountryNo), row.User, optional.NonZero(sub.BatchID)); err != nil {
		return p, err
	}
	if p.Senders, p.Routed, err = s.candidates(ctx, row.need(), "", p.HeldBy); err != nil {
		return p, err
	}
	p.Cost = cost(p.Segments, p.Senders)
	switch {
	case row.isSimulated():
		p.Verdict = WouldBeSimulated
	case len(p.HeldBy) > 0:
		p.Verdict = WouldBeHeld
	case row.final.Deferred && sub.ExpectSendTime == nil, sub.ExpectSendTime != nil && sub.ExpectSendTime.After(time.Now()):
		p.Verdict = WouldBeScheduled
	case canTake(p.Senders) > 0:
		p.Verdict = WouldSend
	}
	return p, nil
}

// named returns the task with a dedup key of its submitter, or nil.
func (s *Service) named(ctx context.Context, key string, origin Origin) (*dbq.Task, error) {
	keys, err := s.q.DedupKeyTasks(ctx, dbq.DedupKeyTasksParams{CompanyID: origin.CompanyID, SubmittedBy: origin.User, DedupKeys: []string{key}})
	if err != nil {
		return nil, fmt.Errorf("find task by dedup key: %w", err)
	}
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // no task
	}
	switch row, err := s.inParts.TaskGet(ctx, dbq.TaskGetParams{TaskID: keys[0].TaskID}); {
	case postgres.IsNoRows(err): // dropped with its partition
		return nil, errDropped
	case err != nil:
		return nil, fmt.Errorf("read task by dedup key: %w", err)
	default:
		return &row, nil
	}
}

// previewRepeated returns the preview of a submission whose dedup key names an existing task.
func (s *Service) previewRepeated(ctx context.Context, first dbq.Task) (p Preview, err error) {
	p = Preview{
		Recipient: first.Recipient, CountryNo: optional.Value(first.CountryNo), Final: segment.Signed(optional.Value(first.Sign), first.Content),
		Segments: int(first.Segments), Priority: first.Priority, Verdict: WouldRepeat,
	}
	due, err := s.due(ctx, first.TaskID)
	if err != nil {
		return p, err
	}
	heldBy, err := s.switches(ctx, due.PoolID, first.CompanyID, first.CountryNo, first.SubmittedBy, first.BatchID)
	if err != nil {
		return p, err
	}
	if first.Status == Pending {
		p.HeldBy = heldBy
	}
	p.Senders, p.Routed, err = s.candidates(ctx, needOf(first, due.PoolID), due.FailedAppID, heldBy)
	p.Cost = cost(p.Segments, p.Senders)
	return p, err
}

// cost is the segments that an attempt costs the first sender, which may have a segment size of its own. Without senders it is segments.
func cost(segments int, senders []sender.Candidate) int {
	if len(senders) > 0 {
		return senders[0].Segments
	}
	return segments
}
