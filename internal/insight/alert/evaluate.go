package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lksms/gen/alertq"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// finding is one subject that meets the condition of a rule.
type finding struct {
	subject                  string
	company, channel, sender string // empty: the finding concerns no single company, channel or sender
	value                    float64
	threshold                *float64
}

// maxAlerts is the maximum number of open alerts of one rule.
const maxAlerts = 1000

// Evaluate checks the conditions of all rules and updates their alerts. It returns the number of alerts that have begun or ended. If the check of one kind
// fails, only the alerts of this kind stay unchanged. Several servers can evaluate at the same time.
func (s *Service) Evaluate(ctx context.Context) (int, error) {
	values, err := s.settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	lookedAt, err := s.q.Now(ctx)
	if err != nil {
		return 0, postgres.Wrap("read time", err, nil)
	}
	rules, err := s.enabledRules(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := s.q.AlertsOpen(ctx)
	if err != nil {
		return 0, postgres.Wrap("read open alerts", err, nil)
	}
	open := map[int64][]string{}
	for _, row := range rows {
		open[row.RuleID] = append(open[row.RuleID], row.Subject)
	}
	byKind := map[string][]RuleRow{}
	for _, r := range rules {
		byKind[r.Kind] = append(byKind[r.Kind], r)
	}
	for _, same := range byKind { // the worst level comes first: people are not notified of lower levels while its alert fires
		slices.SortStableFunc(same, func(a, b RuleRow) int {
			return slices.Index(levels, b.Level) - slices.Index(levels, a.Level)
		})
	}
	total := 0
	var failures error
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		found, err := s.find(ctx, k, byKind[k], values)
		for i := 0; err == nil && i < len(found); i++ {
			var n int
			rule := byKind[k][i]
			n, err = s.advance(ctx, rule, lookedAt, chosen(found[i], open[rule.ID]), len(open[rule.ID]) > 0)
			total += n
		}
		if ctx.Err() != nil {
			return total, ctx.Err()
		}
		if err != nil {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", k, err))
		}
	}
	return total, failures
}

// maxRules is larger than the number of rules that can exist.
const maxRules = 10_000

func (s *Service) enabledRules(ctx context.Context) ([]RuleRow, error) {
	rows, err := s.q.AlertRuleList(ctx, alertq.AlertRuleListParams{BeforeID: math.MaxInt64, OnlyEnabled: true, PageLimit: maxRules})
	return rows, postgres.Wrap("read alert rules", err, nil)
}

// chosen returns up to maxAlerts findings, one for each subject. It prefers subjects with open alerts.
func chosen(found []finding, open []string) []finding {
	seen := map[string]bool{}
	found = slices.DeleteFunc(found, func(f finding) bool {
		was := seen[f.subject]
		seen[f.subject] = true
		return was
	})
	if len(found) > maxAlerts {
		isOpen := map[string]bool{}
		for _, subject := range open {
			isOpen[subject] = true
		}
		slices.SortStableFunc(found, func(a, b finding) int {
			switch {
			case isOpen[a.subject] == isOpen[b.subject]:
				return 0
			case isOpen[a.subject]:
				return -1
			default:
				return 1
			}
		})
		found = found[:maxAlerts]
	}
	return found
}

// advance updates the alerts of one rule. It returns the number of alerts that began to fire or were resolved. It changes nothing if the rule was changed after
// r was read. It also changes nothing if another server has updated the alerts with data newer than lookedAt, because found can then be outdated.
func (s *Service) advance(ctx context.Context, r RuleRow, lookedAt time.Time, found []finding, hasOpen bool) (n int, err error) {
	if len(found) == 0 && !hasOpen {
		return 0, nil
	}
	p := alertq.AlertsFoundParams{RuleID: r.ID, Kind: r.Kind, Level: r.Level, Subjects: []string{}}
	for _, f := range found {
		p.Subjects = append(p.Subjects, f.subject)
		p.CompanyNos = append(p.CompanyNos, f.company)
		p.Channels = append(p.Channels, f.channel)
		p.SenderNos = append(p.SenderNos, f.sender)
		p.Vals = append(p.Vals, f.value)
		p.Thresholds = append(p.Thresholds, f.threshold)
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.q.AlertRuleHold(ctx, alertq.AlertRuleHoldParams{ID: r.ID, Version: r.Version})
		if postgres.IsNoRows(err) {
			return nil
		}
		isMoved := false
		if err == nil {
			isMoved, err = s.q.AlertRuleIsMoved(ctx, alertq.AlertRuleIsMovedParams{RuleID: r.ID, LookedAt: lookedAt})
		}
		if err != nil || isMoved {
			return err
		}
		if len(found) > 0 {
			err = s.q.AlertsFound(ctx, p)
		}
		if err == nil {
			err = s.q.AlertsLost(ctx, alertq.AlertsLostParams{RuleID: r.ID, Subjects: p.Subjects})
		}
		var fired, resolved int64
		if err == nil {
			fired, err = s.q.AlertsFire(ctx, alertq.AlertsFireParams{RuleID: r.ID, ForSeconds: float64(r.ForSeconds)})
		}
		if err == nil {
			resolved, err = s.q.AlertsResolve(ctx, alertq.AlertsResolveParams{RuleID: r.ID, ResolveSeconds: float64(r.ResolveSeconds)})
		}
		n = int(fired + resolved)
		return err
	})
	return n, postgres.Wrap("move alerts on", err, nil)
}

// find returns the findings of the rules of one kind, in the order of the rules.
func (s *Service) find(ctx context.Context, k string, rules []RuleRow, values setting.Values) ([][]finding, error) {
	var find func(context.Context, []RuleRow, setting.Values) (func(RuleRow) []finding, error)
	switch k {
	case WaitTime:
		find = s.waits
	case QueueDepth:
		find = s.depths
	case FailureRate:
		find = s.failureRates
	case PoolUnserved:
		find = s.unservedPools
	case SenderSilent:
		find = s.silentSenders
	case SenderFailing:
		find = s.failingSenders
	case BalanceLow:
		find = s.lowBalances
	case ProviderTrouble:
		find = s.openBreakers
	case ReceiptsMissing:
		find = s.missingReceipts
	case ReceiptsUnmatched:
		find = s.unmatchedReceipts
	case DiskLow:
		find = s.lowDisks
	case PartitionMissing:
		find = s.missingPartitions
	case HistoryOverdue:
		find = s.overdueDays
	case WebhookFailing:
		find = s.failingReceivers
	case StatementDiffers:
		find = s.differingStatements
	case CodesSuspected:
		find = s.suspectedCodes
	default:
		return nil, nil // this kind was added by a newer version of the program
	}
	of, err := find(ctx, rules, values)
	if err != nil {
		return nil, err
	}
	found := make([][]finding, len(rules))
	for i, r := range rules {
		found[i] = of(r)
		for j := range found[i] {
			found[i][j].subject = Shortened(found[i][j].subject, maxSubject)
		}
	}
	return found, nil
}

// maxSubject is the maximum length of a subject in characters.
const maxSubject = 300

// joined joins the non-empty parts of a subject with slashes between them.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "/")
}

// Shortened returns at most maxLength characters of a text. It removes the characters that PostgreSQL cannot store.
func Shortened(text string, maxLength int) string {
	return segment.Shortened(postgres.Text(text), maxLength)
}
