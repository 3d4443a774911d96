package alert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lksms/gen/alertq"
	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/queue/backlog"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/sender"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// finder returns the findings of one rule. The functions of this file that return a finder query the database once for all rules of a kind.
type finder = func(RuleRow) []finding

// matches reports whether a rule covers this company, channel and sender.
func matches(r RuleRow, company, channel, senderNo string) bool {
	return (r.CompanyNo == nil || *r.CompanyNo == company) && (r.Channel == nil || *r.Channel == channel) && (r.SenderNo == nil || *r.SenderNo == senderNo)
}

// maxLateTasks is the maximum number of tasks that TasksLate reads in each of its sort orders to find the longest waits.
const maxLateTasks = 10_000

// waits finds channels with a task that has waited longer than the threshold.
func (s *Service) waits(ctx context.Context, rules []RuleRow, values setting.Values) (finder, error) {
	thresholdOf := func(r RuleRow) (float64, bool) {
		if r.Threshold != nil {
			return *r.Threshold, true
		}
		return waitThreshold(r.Level, values.Monitoring)
	}
	least := float64(maxSeconds)
	for _, r := range rules {
		if seconds, isOn := thresholdOf(r); isOn {
			least = min(least, seconds)
		}
	}
	longest, err := s.backlog.LongestWait(ctx) // this cheap query usually shows that no task is late, so that the expensive query below is not needed
	if err != nil {
		return nil, err
	}
	var late []backlog.Late
	if longest > least {
		if late, err = s.late(ctx, least); err != nil {
			return nil, err
		}
	}
	return func(r RuleRow) (found []finding) {
		threshold, isOn := thresholdOf(r)
		longest := map[string]float64{} // by channel
		for _, row := range late {
			if isOn && row.Seconds > threshold && matches(r, row.CompanyNo, row.Channel, "") {
				longest[row.Channel] = max(longest[row.Channel], row.Seconds)
			}
		}
		company := optional.Value(r.CompanyNo)
		for _, channel := range slices.Sorted(maps.Keys(longest)) {
			found = append(found, finding{
				subject: joined(company, channel), company: company, channel: channel, value: longest[channel], threshold: &threshold,
			})
		}
		return found
	}, nil
}

// late returns the longest waits among the tasks that have waited for more than the given number of seconds.
func (s *Service) late(ctx context.Context, after float64) (rows []backlog.Late, err error) {
	ignored, err := s.renderingsOfWaits(ctx)
	if err != nil {
		return nil, err
	}
	return s.backlog.Late(ctx, after, maxLateTasks, ignored)
}

// BizType is the business type of notifications about alerts.
const BizType int16 = 32767

// WaitKinds contains the kinds of alerts about waiting tasks.
var WaitKinds = []string{WaitTime, QueueDepth, PoolUnserved}

// renderingsOfWaits returns the renderings of waiting notifications about alerts of WaitKinds. Rules about waits ignore the tasks of these renderings.
// Otherwise, if a channel has no sender, the notification of an alert would itself wait and raise the next alert.
func (s *Service) renderingsOfWaits(ctx context.Context) ([]int64, error) {
	ids, err := s.q.AlertRenderings(ctx, alertq.AlertRenderingsParams{
		BizType: BizType, SubmittedBy: notification.Alerts, Kinds: WaitKinds,
	})
	return ids, postgres.Wrap("read renderings of alerts", err, nil)
}

// maxLater is the maximum number of tasks with a future due time that depths counts.
const maxLater = 20_000

// depths finds queues with more waiting tasks than the threshold. A queue consists of the waiting tasks of one company or of all companies.
func (s *Service) depths(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	rows, err := s.q.TasksPending(ctx)
	if err != nil {
		return nil, postgres.Wrap("read numbers of tasks", err, nil)
	}
	pending := map[string]float64{}
	var all, maxThreshold float64
	for _, row := range rows {
		pending[row.CompanyNo] = float64(row.Pending)
		all += float64(row.Pending)
	}
	for _, r := range rules {
		if r.CompanyNo == nil {
			maxThreshold = max(maxThreshold, *r.Threshold)
		}
	}
	due := all
	if slices.ContainsFunc(rules, func(r RuleRow) bool { return r.CompanyNo == nil && all > *r.Threshold }) {
		if due, err = s.backlog.Due(ctx, all, maxLater, int64(maxThreshold)+1); err != nil {
			return nil, err
		}
	}
	return func(r RuleRow) []finding {
		if r.CompanyNo != nil {
			return findingIf(pending[*r.CompanyNo] > *r.Threshold, finding{
				subject: *r.CompanyNo, company: *r.CompanyNo, value: pending[*r.CompanyNo], threshold: r.Threshold,
			})
		}
		return findingIf(due > *r.Threshold, finding{subject: "queue", value: due, threshold: r.Threshold})
	}, nil
}

// findingIf returns f if holds is true. Otherwise it returns no finding.
func findingIf(holds bool, f finding) []finding {
	if !holds {
		return nil
	}
	return []finding{f}
}

// minEnded is the minimum number of tasks or attempts that must have ended in a window. If fewer have ended, the failure rate is not evaluated.
const minEnded = 20

// sums reads the outcomes of tasks within windows. Each index of the arrays of p is one question. The result has one row for each question.
func (s *Service) sums(ctx context.Context, p alertq.OutcomeSumsParams) ([]alertq.OutcomeSumsRow, error) {
	if len(p.Keys) == 0 {
		return nil, nil
	}
	rows, err := s.q.OutcomeSums(ctx, p)
	return rows, postgres.Wrap("read outcomes", err, nil)
}

// unsuccessful returns the number of attempts that were not successful: leases that were reported FAILED, and leases that ended without a report. All rules about
// attempts use this definition.
func unsuccessful(reportedFailed, unreported int64) int64 { return reportedFailed + unreported }

// failureShare returns the share of failures among what ended within a window. isKnown is false if less than minEnded ended.
func failureShare(succeeded, failed int64) (share float64, isKnown bool) {
	ended := succeeded + failed
	if ended < minEnded {
		return 0, false
	}
	return float64(failed) / float64(ended), true
}

// failureRates finds failure rates above the threshold. A rule that names a channel or a sender counts attempts. Any other rule counts ended tasks.
func (s *Service) failureRates(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	var p alertq.OutcomeSumsParams
	for _, r := range rules {
		dimension, key := statistics.ByNothing, ""
		switch {
		case r.Channel != nil:
			dimension, key = statistics.ByChannel, *r.Channel
		case r.SenderNo != nil:
			dimension, key = statistics.BySender, *r.SenderNo
		}
		p.CompanyIds = append(p.CompanyIds, optional.Or(r.CompanyID, statistics.AllCompanies))
		p.Dimensions = append(p.Dimensions, dimension)
		p.Keys = append(p.Keys, key)
		p.WindowSeconds = append(p.WindowSeconds, optional.Value(r.WindowSeconds))
	}
	rows, err := s.sums(ctx, p)
	if err != nil {
		return nil, err
	}
	sums := map[int64]alertq.OutcomeSumsRow{} // by id of the rule
	for _, row := range rows {
		sums[rules[row.Place].ID] = row
	}
	return func(r RuleRow) []finding {
		sum := sums[r.ID]
		failed := sum.Failed
		if r.Channel != nil || r.SenderNo != nil {
			failed = unsuccessful(sum.ReportedFailed, sum.Unreported)
		}
		share, isKnown := failureShare(sum.Succeeded, failed)
		if !isKnown {
			return nil
		}
		f := finding{
			subject: joined(optional.Value(r.CompanyNo), optional.Value(r.Channel), optional.Value(r.SenderNo)),
			company: optional.Value(r.CompanyNo), channel: optional.Value(r.Channel), sender: optional.Value(r.SenderNo),
			value: share, threshold: r.Threshold,
		}
		if f.subject == "" {
			f.subject = "all"
		}
		if r.SenderNo != nil {
			f.channel = optional.Value(r.SenderChannel)
		}
		return findingIf(f.value > *r.Threshold, f)
	}, nil
}

// maxPools is the maximum number of pools with waiting tasks that are checked.
const maxPools = 5000

// messageTypes contains the names of message types, indexed by their number in the table pools.
var messageTypes = [...]string{submit.Verification: "verification", submit.Notification: "notification", submit.Marketing: "marketing"}

// unservedPools finds pools with a waiting task that no available sender serves.
func (s *Service) unservedPools(ctx context.Context, _ []RuleRow, values setting.Values) (finder, error) {
	ignored, err := s.renderingsOfWaits(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := s.backlog.Pools(ctx, maxPools, ignored)
	if err != nil {
		return nil, err
	}
	if len(waiting) == 0 {
		return func(RuleRow) []finding { return nil }, nil
	}
	p := alertq.PoolsUnservedParams{SilentAfter: values.Queue.SilentAfter(), RecordedApart: sender.SeenApart}
	seconds := map[int64]float64{}
	for _, w := range waiting {
		p.PoolIds = append(p.PoolIds, w.PoolID)
		seconds[w.PoolID] = w.Seconds
	}
	rows, err := s.q.PoolsUnserved(ctx, p)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			company := optional.Value(row.CompanyNo)
			if !matches(r, company, row.Channel, "") {
				continue
			}
			f := finding{subject: row.Channel, company: company, channel: row.Channel, value: seconds[row.ID]}
			if row.MessageType != nil {
				f.subject = joined(row.Channel, company, messageTypes[*row.MessageType], optional.Value(row.CountryNo))
			}
			found = append(found, f)
		}
		return found
	}, postgres.Wrap("find pools without sender", err, nil)
}

// goneAfter is how long a silent app raises alerts. This time begins when the silence of the app exceeds the threshold of the rule. Afterwards, only rules that
// name the sender raise alerts about the app.
const goneAfter = 7 * 24 * time.Hour

// silentSenders finds apps that have stopped polling.
func (s *Service) silentSenders(ctx context.Context, rules []RuleRow, values setting.Values) (finder, error) {
	goneSeconds := func(r RuleRow) float64 { return *r.Threshold + goneAfter.Seconds() }
	p := alertq.SendersSilentParams{
		AfterSeconds: maxSeconds, SilentAfter: values.Queue.SilentAfter(), RecordedApart: sender.SeenApart, Named: []string{},
	}
	for _, r := range rules {
		p.AfterSeconds = min(p.AfterSeconds, *r.Threshold)
		p.GoneSeconds = max(p.GoneSeconds, goneSeconds(r))
		if r.SenderNo != nil {
			p.Named = append(p.Named, *r.SenderNo)
		}
	}
	rows, err := s.q.SendersSilent(ctx, p)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			isMissed := r.SenderNo != nil || row.IsUsed && row.Seconds <= goneSeconds(r)+row.Slack
			if isMissed && row.Seconds > *r.Threshold+row.Slack && matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo, value: row.Seconds, threshold: r.Threshold})
			}
		}
		return found
	}, postgres.Wrap("find silent senders", err, nil)
}

// failingSenders finds senders whose share of unsuccessful attempts is above the threshold.
func (s *Service) failingSenders(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	byWindow := map[int64][]alertq.SenderOutcomesRow{}
	for _, r := range rules {
		window := optional.Value(r.WindowSeconds)
		if _, isKnown := byWindow[window]; isKnown {
			continue
		}
		rows, err := s.q.SenderOutcomes(ctx, float64(window))
		if err != nil {
			return nil, postgres.Wrap("read outcomes of senders", err, nil)
		}
		byWindow[window] = rows
	}
	return func(r RuleRow) (found []finding) {
		for _, row := range byWindow[optional.Value(r.WindowSeconds)] {
			share, isKnown := failureShare(row.Succeeded, unsuccessful(row.ReportedFailed, row.Unreported))
			if isKnown && share > *r.Threshold && matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo, value: share, threshold: r.Threshold})
			}
		}
		return found
	}, nil
}

// lowBalances finds senders whose balance is at or below the threshold.
func (s *Service) lowBalances(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	maxThreshold := -1.0
	for _, r := range rules {
		maxThreshold = max(maxThreshold, optional.Or(r.Threshold, maxThreshold))
	}
	rows, err := s.q.BalancesLow(ctx, maxThreshold)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			threshold := r.Threshold
			if threshold == nil && row.LowWarning != nil {
				threshold = new(float64(*row.LowWarning))
			}
			if threshold != nil && float64(row.Balance) <= *threshold && matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{
					subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo, value: float64(row.Balance), threshold: threshold,
				})
			}
		}
		return found
	}, postgres.Wrap("find low balances", err, nil)
}

// openBreakers finds senders whose circuit breaker is open.
func (s *Service) openBreakers(ctx context.Context, _ []RuleRow, _ setting.Values) (finder, error) {
	rows, err := s.q.BreakersOpen(ctx)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo, value: float64(row.Openings)})
			}
		}
		return found
	}, postgres.Wrap("find open circuit breakers", err, nil)
}

// missingReceipts finds senders whose provider accepted messages but sent no receipts.
func (s *Service) missingReceipts(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	var p alertq.OutcomeSumsParams
	var asked []*finding               // asked[i] is the finding of the question with index i in p
	suspects := map[int64][]*finding{} // by window
	for _, r := range rules {
		window := optional.Value(r.WindowSeconds)
		if _, isKnown := suspects[window]; isKnown {
			continue
		}
		rows, err := s.q.ReceiptsMissing(ctx, float64(window))
		if err != nil {
			return nil, postgres.Wrap("find senders without receipts", err, nil)
		}
		suspects[window] = []*finding{}
		for _, row := range rows {
			f := &finding{subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo}
			suspects[window], asked = append(suspects[window], f), append(asked, f)
			p.CompanyIds = append(p.CompanyIds, statistics.AllCompanies)
			p.Dimensions = append(p.Dimensions, statistics.BySender)
			p.Keys = append(p.Keys, row.SenderNo)
			p.WindowSeconds = append(p.WindowSeconds, window)
		}
	}
	rows, err := s.sums(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		asked[row.Place].value = float64(row.Succeeded) // accepted messages
	}
	return func(r RuleRow) (found []finding) {
		for _, f := range suspects[optional.Value(r.WindowSeconds)] {
			if f.value > 0 && f.value >= *r.Threshold && matches(r, "", f.channel, f.sender) {
				one := *f
				one.threshold = r.Threshold
				found = append(found, one)
			}
		}
		return found
	}, nil
}

// unmatchedReceipts finds senders whose provider sends receipts that match no message.
func (s *Service) unmatchedReceipts(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	byWindow := map[int64][]receipt.UnmatchedReceipts{}
	for _, r := range rules {
		window := optional.Value(r.WindowSeconds)
		if _, isKnown := byWindow[window]; isKnown {
			continue
		}
		rows, err := receipt.Unmatched(ctx, s.db, time.Duration(window)*time.Second)
		if err != nil {
			return nil, err
		}
		byWindow[window] = rows
	}
	return func(r RuleRow) (found []finding) {
		for _, row := range byWindow[optional.Value(r.WindowSeconds)] {
			if float64(row.Receipts) >= *r.Threshold && matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{
					subject: row.SenderNo, channel: row.Channel, sender: row.SenderNo, value: float64(row.Receipts), threshold: r.Threshold,
				})
			}
		}
		return found
	}, nil
}

// lowDisks finds file systems with less free space than the threshold.
func (s *Service) lowDisks(ctx context.Context, _ []RuleRow, _ setting.Values) (finder, error) {
	rows, err := s.q.DiskSpaces(ctx)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if row.Free < *r.Threshold {
				found = append(found, finding{subject: row.Host + ":" + row.Folder, value: row.Free, threshold: r.Threshold})
			}
		}
		return found
	}, postgres.Wrap("read disk spaces", err, nil)
}

// missingPartitions reports a finding if one of the next days has no partition for its tasks.
func (s *Service) missingPartitions(ctx context.Context, _ []RuleRow, _ setting.Values) (finder, error) {
	days, err := s.q.PartitionDays(ctx)
	return func(r RuleRow) []finding {
		return findingIf(float64(days) < *r.Threshold, finding{subject: "partitions", value: float64(days), threshold: r.Threshold})
	}, postgres.Wrap("count days with partitions", err, nil)
}

// overdueDays finds days whose partitions should already be history or dropped. The reason for the delay is not part of the subject, because it changes while the day
// is late, and each subject has its own alert. task_partitions.held_by contains the reason.
func (s *Service) overdueDays(ctx context.Context, _ []RuleRow, values setting.Values) (finder, error) {
	rows, err := s.q.TaskPartitionsOverdue(ctx, alertq.TaskPartitionsOverdueParams{
		AfterDays: int32(values.History.AfterDays), KeepDays: int32(values.History.KeepDays), MaxRows: maxAlerts,
	})
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if float64(row.Days) >= *r.Threshold {
				found = append(found, finding{subject: row.FirstDay.Format(time.DateOnly), value: float64(row.Days), threshold: r.Threshold})
			}
		}
		return found
	}, postgres.Wrap("find days that are over their time", err, nil)
}

// failingReceivers finds receivers that have rejected calls for longer than the threshold.
func (s *Service) failingReceivers(ctx context.Context, rules []RuleRow, _ setting.Values) (finder, error) {
	least := float64(maxSeconds)
	for _, r := range rules {
		least = min(least, *r.Threshold)
	}
	rows, err := s.q.ReceiversFailing(ctx, least)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if row.Seconds > *r.Threshold {
				found = append(found, finding{subject: fmt.Sprintf("%d (%s)", row.ID, row.Name), value: row.Seconds, threshold: r.Threshold})
			}
		}
		return found
	}, postgres.Wrap("find failing receivers", err, nil)
}

// differKept is the time for which a reconciliation with differences raises an alert. The alert ends earlier if a later reconciliation of the same day has no
// differences.
const differKept = 7 * 24 * time.Hour

// differingStatements finds days on which a provider's statement differs from LKSMS.
func (s *Service) differingStatements(ctx context.Context, _ []RuleRow, _ setting.Values) (finder, error) {
	rows, err := s.q.StatementsDiffer(ctx, differKept)
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if float64(row.Differences) > *r.Threshold && matches(r, "", row.Channel, row.SenderNo) {
				found = append(found, finding{
					subject: joined(row.SenderNo, row.Day.Format(time.DateOnly)), channel: row.Channel, sender: row.SenderNo, value: float64(row.Differences),
					threshold: r.Threshold,
				})
			}
		}
		return found
	}, postgres.Wrap("find statements that differ", err, nil)
}

// suspectedCodes finds prefixes of numbers, and networks of clients, that got the maximum number of codes, of which too few were approved.
func (s *Service) suspectedCodes(ctx context.Context, _ []RuleRow, values setting.Values) (finder, error) {
	if values.Verification.UnprovenPerDay == 0 {
		return func(RuleRow) []finding { return nil }, nil
	}
	rows, err := s.q.CodesSuspected(ctx, alertq.CodesSuspectedParams{SuspectedFrom: values.Verification.UnprovenPerDay, MaxRows: maxAlerts})
	return func(r RuleRow) (found []finding) {
		for _, row := range rows {
			if matches(r, row.CompanyNo, "", "") {
				found = append(found, finding{subject: joined(row.CompanyNo, row.Subject), company: row.CompanyNo, value: float64(row.Started)})
			}
		}
		return found
	}, postgres.Wrap("find suspected codes", err, nil)
}
