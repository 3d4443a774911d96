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
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/merge"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
	"lksms/internal/platform/setting"
)

// Report contains the outcome of a task, as reported by its sender (S0.4).
type Report struct {
	TaskID       string
	SenderNo     string
	Status       int16 // Success or Failed
	ErrorMessage *string
	ShouldRetry  bool
	RetryAfter   *time.Duration // nil: Rules.RetryDelay
	LeaseID      *int64         // nil: any lease that SenderNo holds
	Raw          []byte         // the request as JSON, for the log
	MaxRetries   *int           // nil: Rules.MaxRetryCount
	ProviderNo   string         // the provider's id of an accepted message, with one line for each part of a long message; empty: unknown
	InPart       bool           // the provider took only the parts in ProviderNo: their receipts do not change the outcome
	IsHidden     bool           // no text can contain the text of a sensitive message
	Refund       bool           // for a FAILED with LeaseID: the sender gets its segments back, because the provider did not accept the message
}

// Report ends a lease. A repeated or late report is logged and changes nothing. If an app never had a lease of the task, its report is logged, and Report
// returns the fault task.not_held. For an unknown task, Report returns the fault task.not_found.
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

// Reported is the outcome of one report. If the task does not exist, Effect is empty.
type Reported struct {
	Effect string
	Err    error
}

// ended is the outcome of a report. If the task does not exist, effect is empty. If err is non-nil, the effect is unknown.
type ended struct {
	effect      string
	traceparent *string // traceparent of the task; nil: the task has no traceparent, or the report ended no lease
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

// ReportAll stores several reports. The outcomes have the order of the reports. Reports on the same task are applied in their order. If the database
// is unavailable or ctx has ended, ReportAll returns an error, and some of the reports can be stored.
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

// settleAll runs settle for all reports, and settleLate for the reports that ended no lease. If settleLate fails, the results of settle remain stored.
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

// settle stores reports of different tasks and returns one outcome per report. If a report ends no lease, its effect is empty, and the caller must pass the
// report to settleLate. All reports that end leases are stored in one transaction. After an error, no report is stored.
func (s *Service) settle(ctx context.Context, reports []Report) ([]ended, error) {
	reports, err := s.hideTexts(ctx, reports)
	if err != nil {
		return nil, err
	}
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
		maxRetries := rules.MaxRetryCount
		if r.MaxRetries != nil {
			maxRetries = *r.MaxRetries
		}
		p.TaskIds = append(p.TaskIds, r.TaskID)
		p.SenderNos = append(p.SenderNos, r.SenderNo)
		p.LeaseIds = append(p.LeaseIds, r.LeaseID)
		p.Statuses = append(p.Statuses, r.Status)
		p.WantsRetries = append(p.WantsRetries, r.Status == Failed && r.ShouldRetry)
		p.RetryDelaySeconds = append(p.RetryDelaySeconds, delay.Seconds())
		p.ErrorMessages = append(p.ErrorMessages, optional.Value(r.ErrorMessage))
		p.RequestData = append(p.RequestData, r.Raw)
		p.MaxRetryCounts = append(p.MaxRetryCounts, int16(maxRetries))
		p.ProviderNos = append(p.ProviderNos, r.ProviderNo)
		p.InParts = append(p.InParts, r.InPart)
	}
	rows, err := postgres.Again(ctx, s.db, func() (rows []dispatchq.TaskReportRow, err error) {
		err = claim.DispatchTx(ctx, s.db, func(tx postgres.Runner, q *dispatchq.Queries) (err error) {
			if rows, err = q.TaskReport(ctx, p); err != nil {
				return err
			}
			if err := refund(ctx, q, refundable(reports, rows), "refused"); err != nil {
				return err
			}
			return closeBreakers(ctx, tx, reports, rows)
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

// closeBreakers closes the circuit breakers of the apps that sent a message again.
func closeBreakers(ctx context.Context, tx postgres.Runner, reports []Report, rows []dispatchq.TaskReportRow) error {
	recoveries := map[string]bool{} // by task id
	for _, row := range rows {
		recoveries[row.TaskID] = row.IsRecovery
	}
	var senders []string
	for _, r := range reports {
		if recoveries[r.TaskID] && !slices.Contains(senders, r.SenderNo) {
			senders = append(senders, r.SenderNo)
		}
	}
	slices.Sort(senders)
	for _, no := range senders {
		if err := sender.CloseBreakerOf(ctx, tx, no); err != nil {
			return err
		}
	}
	return nil
}

// settleLate logs reports that ended no lease and returns their effects. The reports are of different tasks. Late reports can be of any day, and the
// partition of a day can be locked for minutes. A separate statement ensures that only late reports of that partition fail. A sender can safely repeat
// a report after such an error, because a repeated report changes nothing.
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

// logLate logs all late reports or no report, in the transaction of ctx. It returns their effects. If the task of a report does not exist, the effect is
// empty.
func (s *Service) logLate(ctx context.Context, reports []Report) ([]string, error) {
	reports, err := s.hideTexts(ctx, reports)
	if err != nil {
		return nil, err
	}
	var p queueq.ReportsLateParams
	for _, r := range reports {
		p.TaskIds, p.SenderNos = append(p.TaskIds, r.TaskID), append(p.SenderNos, r.SenderNo)
		p.LeaseIds, p.Statuses = append(p.LeaseIds, r.LeaseID), append(p.Statuses, r.Status)
		p.ErrorMessages, p.RequestData = append(p.ErrorMessages, optional.Value(r.ErrorMessage)), append(p.RequestData, r.Raw)
		p.ProviderNos, p.InParts = append(p.ProviderNos, r.ProviderNo), append(p.InParts, r.InPart)
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

// refunds contains the leases whose segments are refunded to their senders, and lists separately which of these leases used a SIM.
type refunds struct {
	senders dispatchq.SenderRefundParams
	sims    dispatchq.SimRefundParams
}

// refundable returns the leases whose segments must be refunded to their senders. Each of these leases was ended by a report with Refund. Only driven senders
// report so, and they have no SIMs.
func refundable(reports []Report, rows []dispatchq.TaskReportRow) (p refunds) {
	asked := make(map[string]Report, len(reports))
	for _, r := range reports {
		asked[r.TaskID] = r
	}
	for _, row := range rows {
		if r := asked[row.TaskID]; r.Refund && r.LeaseID != nil && row.Effect == "failed" {
			p.add(r.SenderNo, row.LeaseID, row.LeasedAt, row.LeaseSegments)
		}
	}
	return p
}

// add adds a lease to a refund. It ignores a lease without segments, because such a lease cost nothing.
func (p *refunds) add(senderNo string, leaseID int64, leasedAt time.Time, segments *int16) {
	if segments != nil {
		p.senders.LeaseIds, p.senders.SenderNos = append(p.senders.LeaseIds, leaseID), append(p.senders.SenderNos, senderNo)
		p.senders.Segments, p.senders.LeasedAts = append(p.senders.Segments, *segments), append(p.senders.LeasedAts, leasedAt)
	}
}

// addSim adds a lease to the refund of its SIM. It ignores a lease without a SIM.
func (p *refunds) addSim(taskID, senderNo string, sim *int16, leasedAt time.Time, segments *int16) {
	if sim != nil && segments != nil {
		p.sims.TaskIds, p.sims.SenderNos = append(p.sims.TaskIds, taskID), append(p.sims.SenderNos, senderNo)
		p.sims.Slots, p.sims.Segments = append(p.sims.Slots, *sim), append(p.sims.Segments, *segments)
		p.sims.LeasedAts = append(p.sims.LeasedAts, leasedAt)
	}
}

// refund refunds the segments of leases to their senders and SIMs, because the messages were not sent. It runs in the transaction that ended the leases.
func refund(ctx context.Context, q *dispatchq.Queries, p refunds, remark string) error {
	if len(p.senders.LeaseIds) == 0 {
		return nil
	}
	p.senders.Remark = remark
	if _, err := q.SenderRefund(ctx, p.senders); err != nil || len(p.sims.TaskIds) == 0 {
		return err
	}
	return q.SimRefund(ctx, p.sims)
}

// Unused is a lease whose message was not sent: the message was not tried, or its sender was in trouble.
type Unused struct {
	TaskID  string
	LeaseID int64
	Tried   bool
	Reason  string
	Answer  string // the provider's answer; empty: no answer
}

const (
	// releaseDelay is the wait of a task after its second trouble. Each further trouble doubles the wait, up to maxReleaseDelay.
	releaseDelay    = 5 * time.Second
	maxReleaseDelay = 10 * time.Minute
)

// Release ends leases of a sender without counting an attempt or failing a task. The sender gets its segments back. Release skips leases that have
// already ended. It returns the number of leases that it ended.
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
		var back refunds
		for _, row := range released {
			back.add(senderNo, row.LeaseID, row.LeasedAt, row.LeaseSegments)
			back.addSim(row.TaskID, senderNo, row.LeaseSim, row.LeasedAt, row.LeaseSegments)
		}
		return refund(ctx, q, back, "released")
	})
	if err != nil {
		return 0, fmt.Errorf("release tasks: %w", err)
	}
	return len(released), nil
}

const (
	// maxReportGrace is the upper limit of reportGrace.
	maxReportGrace = time.Minute
	// recoverBatch is the maximum number of leases that one statement recovers. It limits how long the statement holds its locks.
	recoverBatch = 1000
	// maxFailed is the number of failed tasks after which Recover stops, because so many failures have a common cause.
	maxFailed = 100
)

// reportGrace returns how long a sender can still report or release a task after its lease ended because the message must not be sent any more (SQL function
// send_before). The grace is at most as long as a lease of a sender without its own lease length.
func reportGrace(rules setting.Rules) time.Duration {
	return min(maxReportGrace, rules.ProcessingTimeout)
}

// ReportGrace returns how long a sender can still report after its lease ended because the message must not be sent any more.
func (s *Service) ReportGrace(ctx context.Context) (time.Duration, error) {
	rules, err := s.settings.Rules(ctx)
	return reportGrace(rules), err
}

// Recover ends every expired lease and returns the number of these leases (S0.12). Each batch is one transaction. If the recovery of a task fails, Recover
// skips the task and includes it in the error. The other leases remain recovered.
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
			n, err := s.recoverTasks(ctx, ids)
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
		if len(ids) < recoverBatch || total+len(failed) == before { // the remaining tasks are locked by reports
			break
		}
	}
	return total, failures
}

func (s *Service) recoverTasks(ctx context.Context, ids []string) (int, error) {
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
		var back refunds
		for _, r := range untried {
			back.add(r.SenderNo, r.LeaseID, r.LeasedAt, r.LeaseSegments)
			back.addSim(r.TaskID, r.SenderNo, r.LeaseSim, r.LeasedAt, r.LeaseSegments)
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
