package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dispatchq"
	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/setting"
)

// Report is the outcome of a task, as its sender reports it (S0.4).
type Report struct {
	TaskID       string
	SenderNo     string
	Status       int16 // Success or Failed
	ErrorMessage *string
	ShouldRetry  bool
	RetryAfter   *time.Duration // nil: Rules.RetryDelay
	LeaseID      *int64         // nil: whichever lease SenderNo holds
	Raw          []byte         // the request as JSON, for the log
	MaxRetries   *int           // nil: Rules.MaxRetryCount
	ProviderNo   string         // what a provider calls the message that it accepted; may be empty
	Refund       bool           // of a FAILED that names its lease: the provider took nothing, so it costs nothing
}

// Report ends a lease. A repeated report, or one that is too late, is logged and changes nothing. A report by an app that never
// held the task is logged too, and gets the fault task.not_held. An unknown task gets task.not_found.
func (s *Service) Report(ctx context.Context, r Report) error {
	started := time.Now()
	e, err := s.reports.Do(ctx, r)
	if err == nil && e.effect == "" {
		e, err = s.late.Do(ctx, r)
	}
	if err != nil {
		return err
	}
	s.traceReport(ctx, r, e, started)
	return s.judge(e).Err
}

// Reported is the outcome of one report of several. Effect is empty if the task does not exist.
type Reported struct {
	Effect string
	Err    error
}

// ended is the outcome of a report: its effect, which is empty if the task does not exist, or why it is not known.
type ended struct {
	effect      string
	traceparent *string // of the task; nil: it has none, or the report ended no lease
	err         error
}

func (s *Service) judge(e ended) Reported {
	effect := e.effect
	if e.err != nil {
		return Reported{Err: e.err}
	}
	if effect == "" {
		return Reported{Err: fault.New(fault.NotFound, fault.TaskNotFound)}
	}
	s.reported.WithLabelValues(effect).Inc()
	if effect == "refused" {
		return Reported{effect, fault.New(fault.Conflict, fault.TaskNotHeld)}
	}
	return Reported{Effect: effect}
}

// ReportAll is Report for several. Each report has its own outcome, in their order; reports on one task apply in that order. An
// error is the database's, or the cause of ctx if ctx has ended: some of the reports may have been stored.
func (s *Service) ReportAll(ctx context.Context, reports []Report) ([]Reported, error) {
	isHopeless := func(err error) bool { return ctx.Err() != nil || IsHopeless(err) }
	started := time.Now()
	outcomes := make([]Reported, len(reports))
	left := make([]int, len(reports))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		var now, later []int
		seen := map[string]bool{}
		for _, i := range left {
			if seen[reports[i].TaskID] {
				later = append(later, i)
				continue
			}
			seen[reports[i].TaskID] = true
			now = append(now, i)
		}
		items := make([]Report, len(now))
		for j, i := range now {
			items[j] = reports[i]
		}
		run := func(items []Report) ([]ended, error) { return s.settleAll(ctx, items) }
		for j, result := range merge.Apart(items, run, isHopeless) {
			switch {
			case result.Err == nil:
				s.traceReport(ctx, items[j], result.Out, started)
				outcomes[now[j]] = s.judge(result.Out)
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case postgres.IsUnavailable(result.Err):
				return nil, result.Err
			default:
				outcomes[now[j]].Err = result.Err
			}
		}
		left = later
	}
	return outcomes, nil
}

// settleAll is settle, and settleLate for the others. The reports that ended leases are stored, even if the others fail.
func (s *Service) settleAll(ctx context.Context, reports []Report) ([]ended, error) {
	all, err := s.settle(ctx, reports)
	if err != nil {
		return nil, err
	}
	var late []int
	var lateReports []Report
	for i, r := range reports {
		if all[i].effect == "" {
			late, lateReports = append(late, i), append(lateReports, r)
		}
	}
	if len(late) == 0 {
		return all, nil
	}
	outs, err := s.settleLate(ctx, lateReports)
	for j, i := range late {
		if all[i].err = err; err == nil {
			all[i] = outs[j]
		}
	}
	return all, nil
}

// settle writes reports, each of another task, and returns the outcome of each. The effect of a report that ended no lease is empty:
// settleLate takes it. Those that end leases are stored all or none; after an error, none is stored.
func (s *Service) settle(ctx context.Context, reports []Report) ([]ended, error) {
	// All statements lock tasks in this order.
	order := make([]int, len(reports))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(reports[a].TaskID, reports[b].TaskID) })
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return nil, err
	}
	p := dispatchq.TaskReportParams{Sent: result.Sent, NotSent: result.NotSent, GaveUp: result.GaveUp}
	for _, i := range order {
		r := reports[i]
		delay := rules.RetryDelay
		if r.RetryAfter != nil {
			delay = *r.RetryAfter
		}
		most := rules.MaxRetryCount
		if r.MaxRetries != nil {
			most = *r.MaxRetries
		}
		p.TaskIds = append(p.TaskIds, r.TaskID)
		p.SenderNos = append(p.SenderNos, r.SenderNo)
		p.LeaseIds = append(p.LeaseIds, r.LeaseID)
		p.Statuses = append(p.Statuses, r.Status)
		p.WantsRetries = append(p.WantsRetries, r.Status == Failed && r.ShouldRetry)
		p.RetryDelaySeconds = append(p.RetryDelaySeconds, delay.Seconds())
		p.ErrorMessages = append(p.ErrorMessages, optional.Value(r.ErrorMessage))
		p.RequestData = append(p.RequestData, r.Raw)
		p.MaxRetryCounts = append(p.MaxRetryCounts, int16(most))
		p.ProviderNos = append(p.ProviderNos, r.ProviderNo)
	}
	rows, err := postgres.Again(ctx, s.db, func() (rows []dispatchq.TaskReportRow, err error) {
		err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			if rows, err = q.TaskReport(ctx, p); err != nil {
				return err
			}
			return refund(ctx, q, refundable(reports, rows), "refused")
		})
		return rows, err
	})
	if err != nil {
		return nil, fmt.Errorf("report tasks: %w", err)
	}
	found := make(map[string]ended, len(reports))
	for _, row := range rows {
		found[row.TaskID] = ended{effect: row.Effect, traceparent: row.Traceparent}
	}
	unreached := 0
	for _, row := range rows {
		if row.HasRendering && (row.Effect == "failed" || row.Effect == "exhausted") {
			unreached++
		}
	}
	s.db.AfterCommit(ctx, func() { s.CountUnreached("sending", unreached) })
	all := make([]ended, len(reports))
	for i, r := range reports {
		all[i] = found[r.TaskID]
	}
	return all, nil
}

// settleLate logs reports that ended nothing, each of another task, and returns their effects. It is apart from settle, and its reports are of
// any day: the partition of one may be locked for minutes, in which only the reports of that partition fail. A report that is repeated because
// this fails is ignored.
func (s *Service) settleLate(ctx context.Context, reports []Report) ([]ended, error) {
	results, err := RunByDay(ctx, s.db, reports, func(r Report) string { return r.TaskID }, s.logLate)
	if err != nil {
		return nil, fmt.Errorf("log late reports: %w", err)
	}
	all := make([]ended, len(reports))
	for i, r := range results {
		all[i].effect = r.Out
		if r.Err != nil {
			all[i].err = fmt.Errorf("log late report: %w", r.Err)
		}
	}
	return all, nil
}

// logLate logs late reports in the transaction of ctx, all or none, and returns their effects. That of an unknown task is empty.
func (s *Service) logLate(ctx context.Context, reports []Report) ([]string, error) {
	var p queueq.ReportsLateParams
	for _, r := range reports {
		p.TaskIds, p.SenderNos = append(p.TaskIds, r.TaskID), append(p.SenderNos, r.SenderNo)
		p.LeaseIds, p.Statuses = append(p.LeaseIds, r.LeaseID), append(p.Statuses, r.Status)
		p.ErrorMessages, p.RequestData = append(p.ErrorMessages, optional.Value(r.ErrorMessage)), append(p.RequestData, r.Raw)
		p.ProviderNos = append(p.ProviderNos, r.ProviderNo)
	}
	rows, err := s.inParts.ReportsLate(ctx, p)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string, len(rows))
	for _, row := range rows {
		found[row.TaskID] = row.Effect
	}
	effects := make([]string, len(reports))
	for i, r := range reports {
		effects[i] = found[r.TaskID]
	}
	return effects, nil
}

// refundable returns the leases that reports ended and that cost the sender nothing.
func refundable(reports []Report, rows []dispatchq.TaskReportRow) (p dispatchq.SenderRefundParams) {
	asked := make(map[string]Report, len(reports))
	for _, r := range reports {
		asked[r.TaskID] = r
	}
	for _, row := range rows {
		if r := asked[row.TaskID]; r.Refund && r.LeaseID != nil && row.Effect == "failed" {
			addRefund(&p, r.SenderNo, row.LeaseID, row.LeasedAt, row.LeaseSegments)
		}
	}
	return p
}

// addRefund adds a lease to a refund, unless it cost nothing.
func addRefund(p *dispatchq.SenderRefundParams, senderNo string, leaseID int64, leasedAt time.Time, segments *int16) {
	if segments != nil {
		p.LeaseIds, p.SenderNos = append(p.LeaseIds, leaseID), append(p.SenderNos, senderNo)
		p.Segments, p.LeasedAts = append(p.Segments, *segments), append(p.LeasedAts, leasedAt)
	}
}

// refund returns the segments of leases whose messages reached nobody, in the transaction that ended these leases.
func refund(ctx context.Context, q *dispatchq.Queries, p dispatchq.SenderRefundParams, remark string) error {
	if len(p.LeaseIds) == 0 {
		return nil
	}
	p.Remark = remark
	_, err := q.SenderRefund(ctx, p)
	return err
}

// Unused is a lease whose message reached nobody: the message was not tried, or its sender was in trouble.
type Unused struct {
	TaskID  string
	LeaseID int64
	Tried   bool
	Reason  string
	Answer  string // of the provider; empty: none came
}

const (
	// A task waits for releaseDelay after the second trouble of its senders. The wait doubles each time, up to maxReleaseDelay.
	releaseDelay    = 5 * time.Second
	maxReleaseDelay = 10 * time.Minute
)

// Release returns leases of a sender: no attempt is counted, no task fails, and the sender gets its segments back. Leases that
// have ended meanwhile are skipped. Release returns the number of leases that it ended.
func (s *Service) Release(ctx context.Context, senderNo string, leases []Unused) (int, error) {
	leases = slices.Clone(leases)
	slices.SortFunc(leases, func(a, b Unused) int { return strings.Compare(a.TaskID, b.TaskID) }) // all statements lock tasks in this order
	p := dispatchq.TaskReleaseParams{SenderNo: senderNo, Delay: releaseDelay, MaxDelay: maxReleaseDelay}
	for _, l := range leases {
		p.TaskIds = append(p.TaskIds, l.TaskID)
		p.LeaseIds = append(p.LeaseIds, l.LeaseID)
		p.AreTried = append(p.AreTried, l.Tried)
		p.Reasons = append(p.Reasons, l.Reason)
		p.Answers = append(p.Answers, l.Answer)
	}
	var released []dispatchq.TaskReleaseRow
	err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		if released, err = q.TaskRelease(ctx, p); err != nil {
			return err
		}
		var back dispatchq.SenderRefundParams
		for _, row := range released {
			addRefund(&back, senderNo, row.LeaseID, row.LeasedAt, row.LeaseSegments)
		}
		return refund(ctx, q, back, "released")
	})
	if err != nil {
		return 0, fmt.Errorf("release tasks: %w", err)
	}
	return len(released), nil
}

const (
	// maxReportGrace is the longest reportGrace.
	maxReportGrace = time.Minute
	// recoverBatch bounds how many leases one statement takes back, and so how long it holds its locks.
	recoverBatch = 1000
	// A sweep gives up after maxFailed rows have failed: then the rows are not the reason.
	maxFailed = 100
)

// reportGrace is how long a sender may report after its lease ended because the task expired. It is no longer than a lease.
func reportGrace(rules setting.Rules) time.Duration {
	return min(maxReportGrace, rules.ProcessingTimeout)
}

// ReportGrace is how long a sender may report after its lease ended because the task expired.
func (s *Service) ReportGrace(ctx context.Context) (time.Duration, error) {
	rules, err := s.settings.Rules(ctx)
	return reportGrace(rules), err
}

// Recover takes back every expired lease, in batches of their own transactions, and returns how many (S0.12). A task that fails
// is skipped and named in the error; the counted leases stay recovered.
func (s *Service) Recover(ctx context.Context) (int, error) {
	hopeless := func(err error) bool { return ctx.Err() != nil || postgres.IsUnavailable(err) }
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return 0, err
	}
	total, failed := 0, []string{}
	var failures error
	for len(failed) < maxFailed {
		var ids []string
		err := claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
			ids, err = q.TaskExpired(ctx, dispatchq.TaskExpiredParams{
				BatchSize: recoverBatch, Failed: failed, Grace: reportGrace(rules),
			})
			return err
		})
		if err != nil {
			return total, fmt.Errorf("find expired leases: %w", err)
		}
		if len(ids) == 0 {
			break
		}
		before := total + len(failed)
		for i, result := range merge.Apart(ids, func(ids []string) ([]struct{}, error) {
			n, err := s.recoverThose(ctx, ids)
			total += n
			return make([]struct{}, len(ids)), err
		}, hopeless) {
			switch {
			case result.Err == nil:
			case hopeless(result.Err):
				return total, result.Err
			default:
				failed = append(failed, ids[i])
				failures = errors.Join(failures, fmt.Errorf("task %s: %w", ids[i], result.Err))
			}
		}
		if len(ids) < recoverBatch || total+len(failed) == before { // reports have locked the others
			break
		}
	}
	return total, failures
}

func (s *Service) recoverThose(ctx context.Context, ids []string) (int, error) {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return 0, err
	}
	var row dispatchq.TaskRecoverRow
	var untried []dispatchq.TaskReturnRow
	err = claim.Dispatch(ctx, s.db, func(q *dispatchq.Queries) (err error) {
		untried, err = q.TaskReturn(ctx, dispatchq.TaskReturnParams{TaskIds: ids, Delay: releaseDelay, MaxDelay: maxReleaseDelay})
		if err != nil {
			return err
		}
		row, err = q.TaskRecover(ctx, dispatchq.TaskRecoverParams{TaskIds: ids, MaxRetryCount: int16(rules.MaxRetryCount),
			TimedOut: result.TimedOut, TimedOutLast: result.TimedOutLast, Unclear: result.Unclear, Expired: result.Expired,
		})
		if err != nil {
			return err
		}
		var back dispatchq.SenderRefundParams
		for _, r := range untried {
			addRefund(&back, r.SenderNo, r.LeaseID, r.LeasedAt, r.LeaseSegments)
		}
		return refund(ctx, q, back, "released")
	})
	if err != nil {
		return 0, fmt.Errorf("recover tasks: %w", err)
	}
	s.recovered.WithLabelValues("retry").Add(float64(row.Retried))
	s.recovered.WithLabelValues("exhausted").Add(float64(row.Exhausted))
	s.recovered.WithLabelValues("unclear").Add(float64(row.Unclear))
	s.recovered.WithLabelValues("expired").Add(float64(row.Expired))
	s.recovered.WithLabelValues("untried").Add(float64(len(untried)))
	s.unreached.WithLabelValues("lease").Add(float64(row.Unreached))
	return len(untried) + int(row.Retried+row.Exhausted+row.Unclear+row.Expired), nil
}
