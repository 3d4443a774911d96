package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/segment"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// These are the verdicts of a Preview.
const (
	WouldSend        = "would_send"
	WouldWait        = "would_wait"
	WouldBeHeld      = "would_be_held" // see Preview.HeldBy
	WouldBeScheduled = "would_be_scheduled"
	WouldRepeat      = "would_repeat"
	WouldBeSimulated = "would_be_simulated"
)

// These are the delays of a Preview.
const (
	DelayQuiet   = "quiet_hours"       // the recipient has quiet hours
	DelayLimited = "recipient_limited" // caps of the recipient delay the row of a batch
)

// Preview is the task that a submission would create, and the verdict about it.
type Preview struct {
	Recipient string // in E.164
	CountryNo string
	Final     string // with the signature
	Segments  int
	Cost      int // number of segments that an attempt costs the first sender of Senders
	Priority  int16
	Routed    bool
	Senders   []sender.Candidate
	HeldBy    []explain.Switch
	Verdict   string
	Delay     string     // why the message would be sent later than the submission requests; empty: it would not be delayed
	DueAt     *time.Time // when the delay ends; nil: no delay
}

// need returns what a sender needs to send the task.
func (t newTask) need() sender.Need {
	n := sender.Need{PoolID: t.pool.ID, Recipient: t.recipient, Content: t.final.Content, Segments: int16(t.segments())}
	if t.Sign != "" {
		n.Sign = &t.Sign
	}
	return n
}

// errPreviewed rolls back the changes of a preview.
var errPreviewed = errors.New("only a preview")

// Preview runs Submit and rolls back all its changes. It creates no task and consumes no default content. Faults: those of Submit.
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
	switch blocked, err := s.admit.Blocked(ctx, row.CompanyID, row.MessageType, []string{row.recipient}); {
	case err != nil:
		return Preview{}, err
	case blocked[0]:
		return Preview{}, admit.ErrBlocked()
	}
	limitedUntil, err := s.admit.Planned(ctx, row.message())
	if err != nil {
		return Preview{}, err
	}
	p := Preview{
		Recipient: row.recipient, CountryNo: row.pool.CountryNo, Final: row.signed(),
		Segments: row.segments(), Priority: row.priority, Verdict: WouldWait,
	}
	if p.HeldBy, err = s.explain.Switches(ctx, row.pool.ID, row.CompanyID, optional.NonZero(row.pool.CountryNo), row.User, optional.NonZero(sub.BatchID)); err != nil {
		return p, err
	}
	if p.Senders, p.Routed, err = s.explain.Candidates(ctx, row.need(), "", p.HeldBy); err != nil {
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
	case explain.CanTake(p.Senders) > 0:
		p.Verdict = WouldSend
	}
	switch {
	case row.isSimulated():
	case !limitedUntil.IsZero():
		p.Delay, p.DueAt = DelayLimited, &limitedUntil
	case row.quiet.IsQuiet:
		p.Delay, p.DueAt = DelayQuiet, &row.quiet.Until
	}
	if p.DueAt != nil && (p.Verdict == WouldSend || p.Verdict == WouldWait) {
		p.Verdict = WouldBeScheduled
	}
	return p, nil
}

// named returns the task that the user of origin submitted with a dedup key. It returns nil if no such task exists.
func (s *Service) named(ctx context.Context, key string, origin Origin) (*queueq.Task, error) {
	keys, err := s.q.DedupKeyTasks(ctx, queueq.DedupKeyTasksParams{CompanyID: origin.CompanyID, SubmittedBy: origin.User, DedupKeys: []string{key}})
	if err != nil {
		return nil, fmt.Errorf("find task by dedup key: %w", err)
	}
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // no task
	}
	switch row, err := s.inParts.TaskGet(ctx, queueq.TaskGetParams{TaskID: keys[0].TaskID}); {
	case postgres.IsNoRows(err): // the task was dropped with its partition
		return nil, errDropped
	case err != nil:
		return nil, fmt.Errorf("read task by dedup key: %w", err)
	default:
		return &row, nil
	}
}

// UsedSince reports for each key whether it is the dedup key of a task that the user of origin submitted after a time. A task that was dropped does not count.
func (s *Service) UsedSince(ctx context.Context, keys []string, after time.Time, origin Origin) ([]bool, error) {
	are := make([]bool, len(keys))
	rows, err := s.q.DedupKeyTasks(ctx, queueq.DedupKeyTasksParams{CompanyID: origin.CompanyID, SubmittedBy: origin.User, DedupKeys: keys})
	if err != nil {
		return nil, fmt.Errorf("find tasks by dedup key: %w", err)
	}
	for _, row := range rows {
		task, err := s.inParts.TaskGet(ctx, queueq.TaskGetParams{TaskID: row.TaskID})
		if err != nil && !postgres.IsNoRows(err) {
			return nil, fmt.Errorf("read task by dedup key: %w", err)
		}
		are[row.Place] = err == nil && task.CreatedAt.After(after)
	}
	return are, nil
}

// previewRepeated returns the preview of a submission whose dedup key names an existing task.
func (s *Service) previewRepeated(ctx context.Context, first queueq.Task) (p Preview, err error) {
	p = Preview{
		Recipient: first.Recipient, CountryNo: optional.Value(first.CountryNo), Final: segment.Signed(optional.Value(first.Sign), first.Content),
		Segments: int(first.Segments), Priority: first.Priority, Verdict: WouldRepeat,
	}
	due, err := s.explain.Due(ctx, first.TaskID)
	if err != nil {
		return p, err
	}
	heldBy, err := s.explain.Switches(ctx, due.PoolID, first.CompanyID, first.CountryNo, first.SubmittedBy, first.BatchID)
	if err != nil {
		return p, err
	}
	if first.Status == queue.Pending {
		p.HeldBy = heldBy
	}
	p.Senders, p.Routed, err = s.explain.Candidates(ctx, explain.NeedOf(first, due.PoolID), due.FailedAppID, heldBy)
	p.Cost = cost(p.Segments, p.Senders)
	return p, err
}

// cost returns the number of segments that an attempt costs the first sender, which can have its own segment size. Without senders, cost returns segments.
func cost(segments int, senders []sender.Candidate) int {
	if len(senders) > 0 {
		return senders[0].Segments
	}
	return segments
}
