package alert

import (
	"context"
	"math"
	"slices"
	"time"

	"lksms/gen/alertq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Settings contains the fields of a rule that callers can change.
type Settings struct {
	Name                                      *string // nil: kind and level form the name
	Level                                     string
	Threshold                                 *float64 // nil: the default of the kind
	WindowSeconds                             *int64   // nil: the default of the kind
	ForSeconds, ResolveSeconds, RepeatSeconds int64
	SilencedUntil                             *time.Time
	CompanyNo, Channel, SenderNo              *string
	Receivers                                 []int64 // nil: all receivers
	IsEnabled                                 bool
}

// NewSettings returns the default settings of a rule of a kind and level.
func NewSettings(ofKind, level string) Settings {
	return Settings{Level: level, ForSeconds: kinds[ofKind].forSeconds, ResolveSeconds: resolveSeconds, IsEnabled: true}
}

var errNoRule = fault.New(fault.NotFound, fault.AlertRuleNotFound)

// scope contains the ids of the company, channel and sender that a rule covers; nil: the rule covers all.
type scope struct{ company, channel, sender *int64 }

// scopeOf checks the settings of a rule, sets the defaults of its kind, and locks its receivers until the end of the transaction. Fault: request.invalid.
func (s *Service) scopeOf(ctx context.Context, ofKind string, r *Settings) (scope, error) {
	if err := kinds[ofKind].check(r); err != nil {
		return scope{}, err
	}
	found, err := s.q.AlertScopeFind(ctx, alertq.AlertScopeFindParams{CompanyNo: r.CompanyNo, Channel: r.Channel, SenderNo: r.SenderNo})
	if err != nil {
		return scope{}, postgres.Wrap("find what the rule names", err, nil)
	}
	for _, f := range []struct {
		name  string
		value *string
		id    int64
	}{{ByCompany, r.CompanyNo, found.CompanyID}, {ByChannel, r.Channel, found.ChannelID}, {BySender, r.SenderNo, found.SenderID}} {
		if f.value != nil && f.id == 0 {
			return scope{}, fault.InvalidField(f.name, fault.NotThere, nil)
		}
	}
	if r.Receivers != nil {
		held, err := s.q.AlertReceiversHold(ctx, r.Receivers)
		if err != nil {
			return scope{}, postgres.Wrap("find receivers", err, nil)
		}
		var wrong fault.Fields
		fault.InvalidItems(&wrong, "receivers", r.Receivers, fault.NotThere, nil, func(id int64) bool { return !slices.Contains(held, id) })
		if err := wrong.Err(); err != nil {
			return scope{}, err //nolint:wrapcheck // the error is a fault
		}
		slices.Sort(r.Receivers)
		r.Receivers = slices.Compact(r.Receivers)
	}
	return scope{optional.NonZero(found.CompanyID), optional.NonZero(found.ChannelID), optional.NonZero(found.SenderID)}, nil
}

// CreateRule adds a rule. Faults: request.invalid, limit.reached.
func (s *Service) CreateRule(ctx context.Context, ofKind string, r Settings) (row RuleRow, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		of, err := s.scopeOf(ctx, ofKind, &r)
		if err != nil {
			return err
		}
		id, err := s.q.AlertRuleCreate(ctx, alertq.AlertRuleCreateParams{
			Name: r.Name, Kind: ofKind, Level: r.Level, Threshold: r.Threshold, WindowSeconds: r.WindowSeconds, ForSeconds: r.ForSeconds,
			ResolveSeconds: r.ResolveSeconds, RepeatSeconds: r.RepeatSeconds, SilencedUntil: r.SilencedUntil, CompanyID: of.company,
			ChannelID: of.channel, SenderID: of.sender, Receivers: r.Receivers, IsEnabled: r.IsEnabled,
		})
		if err != nil {
			return postgres.Wrap("create alert rule", err, nil)
		}
		row, err = s.Rule(ctx, id)
		return err
	})
	return row, err
}

// Rule returns one rule, or the fault alert_rule.not_found.
func (s *Service) Rule(ctx context.Context, id int64) (RuleRow, error) {
	rows, err := s.q.AlertRuleList(ctx, alertq.AlertRuleListParams{BeforeID: math.MaxInt64, ID: &id, PageLimit: 1})
	return postgres.One(rows, err, "get alert rule", errNoRule)
}

// Rules lists up to limit rules with ids smaller than `before`, newest first.
func (s *Service) Rules(ctx context.Context, before int64, limit int) ([]RuleRow, error) {
	rows, err := s.q.AlertRuleList(ctx, alertq.AlertRuleListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list alert rules", err, nil)
}

// UpdateRule applies change to a rule. If version is not nil, the rule must have this version. The open alerts of the rule end if change disables the rule, or
// changes its level, company, channel or sender. Faults: alert_rule.not_found, version.stale, request.invalid.
func (s *Service) UpdateRule(ctx context.Context, id int64, version *int64, change func(*Settings)) (row RuleRow, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		var before RuleRow
		read := func() (RuleRow, error) { return s.Rule(ctx, id) }
		row, err = postgres.Patch(version, read, func(r RuleRow) int64 { return r.Version }, func(was RuleRow) (int64, error) {
			before = was
			to := Settings{
				Name: was.Name, Level: was.Level, Threshold: was.Threshold, WindowSeconds: was.WindowSeconds, ForSeconds: was.ForSeconds,
				ResolveSeconds: was.ResolveSeconds, RepeatSeconds: was.RepeatSeconds, SilencedUntil: was.SilencedUntil,
				CompanyNo: was.CompanyNo, Channel: was.Channel, SenderNo: was.SenderNo, Receivers: was.Receivers, IsEnabled: was.IsEnabled,
			}
			change(&to)
			of, err := s.scopeOf(ctx, was.Kind, &to)
			if err != nil {
				return 0, err
			}
			n, err := s.q.AlertRuleUpdate(ctx, alertq.AlertRuleUpdateParams{
				ID: id, Version: was.Version, Name: to.Name, Level: to.Level, Threshold: to.Threshold, WindowSeconds: to.WindowSeconds,
				ForSeconds: to.ForSeconds, ResolveSeconds: to.ResolveSeconds, RepeatSeconds: to.RepeatSeconds, SilencedUntil: to.SilencedUntil,
				CompanyID: of.company, ChannelID: of.channel, SenderID: of.sender, Receivers: to.Receivers, IsEnabled: to.IsEnabled,
			})
			return n, postgres.Wrap("update alert rule", err, nil)
		})
		if err != nil {
			return err
		}
		switch {
		case !row.IsEnabled:
			return s.endAlerts(ctx, id, "rule_disabled")
		case row.Level != before.Level || !watchesTheSame(row, before):
			return s.endAlerts(ctx, id, "rule_changed")
		}
		return nil
	})
	return row, err
}

// watchesTheSame reports whether two versions of a rule have the same company, channel and sender.
func watchesTheSame(a, b RuleRow) bool {
	return optional.Value(a.CompanyID) == optional.Value(b.CompanyID) && optional.Value(a.ChannelID) == optional.Value(b.ChannelID) &&
		optional.Value(a.SenderID) == optional.Value(b.SenderID)
}

// endAlerts ends the alerts of a rule. The caller's transaction must already have changed the row of the rule, so that no evaluation of the rule runs
// meanwhile.
func (s *Service) endAlerts(ctx context.Context, rule int64, by string) error {
	_, err := s.q.AlertsEnd(ctx, alertq.AlertsEndParams{RuleID: rule, EndedBy: by})
	return postgres.Wrap("end alerts", err, nil)
}

// DeleteRule deletes a rule and ends its alerts. Fault: alert_rule.not_found.
func (s *Service) DeleteRule(ctx context.Context, id int64) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.q.AlertRuleDelete(ctx, id)
		if err := postgres.DeletedOne(n, err, "delete alert rule", errNoRule); err != nil {
			return err
		}
		return s.endAlerts(ctx, id, "rule_deleted")
	})
}

// Incident is an alert with its deliveries to receivers.
type Incident struct {
	alertq.Alert
	Deliveries []DeliveryRow
}

// DeliveredAt returns the time at which a receiver was last notified that an alert fires, or nil. For people, this is the time at which a message was sent. For
// a program, it is the time of the call.
func DeliveredAt(d DeliveryRow) *time.Time {
	if d.Awaits == nil {
		return d.ToldAt
	}
	return d.SentAt
}

// EndDeliveredAt returns the time at which a receiver was notified of the end of an alert, or nil. See DeliveredAt.
func EndDeliveredAt(d DeliveryRow) *time.Time {
	if d.EndAwaits == nil {
		return d.EndToldAt
	}
	return d.EndSentAt
}

var (
	errNoAlert   = fault.New(fault.NotFound, fault.AlertNotFound)
	errNotFiring = fault.New(fault.Conflict, fault.AlertNotFiring)
)

// Filter narrows a list of alerts. A nil field matches all.
type Filter struct {
	IsResolved *bool
	Rule       *int64
	Level      *string
}

// Alerts lists up to limit alerts with ids smaller than `before`, newest first. It omits alerts that have never fired.
func (s *Service) Alerts(ctx context.Context, f Filter, before int64, limit int) (all []Incident, err error) {
	var rows []alertq.Alert
	if f.IsResolved != nil && !*f.IsResolved {
		rows, err = s.q.AlertListFiring(ctx, alertq.AlertListFiringParams{BeforeID: before, RuleID: f.Rule, Level: f.Level, PageLimit: int32(limit)})
	} else {
		rows, err = s.q.AlertList(ctx, alertq.AlertListParams{
			BeforeID: before, IsResolved: f.IsResolved, RuleID: f.Rule, Level: f.Level, PageLimit: int32(limit),
		})
	}
	if err != nil {
		return nil, postgres.Wrap("list alerts", err, nil)
	}
	return s.withDeliveries(ctx, rows)
}

// Firing returns the number of firing alerts.
func (s *Service) Firing(ctx context.Context) (int64, error) {
	n, err := s.q.AlertsFiring(ctx)
	return n, postgres.Wrap("count alerts", err, nil)
}

func (s *Service) withDeliveries(ctx context.Context, rows []alertq.Alert) ([]Incident, error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	deliveries, err := s.q.AlertDeliveriesOf(ctx, ids)
	if err != nil {
		return nil, postgres.Wrap("read deliveries of alerts", err, nil)
	}
	of := map[int64][]DeliveryRow{}
	for _, d := range deliveries {
		of[d.AlertID] = append(of[d.AlertID], d)
	}
	all := make([]Incident, len(rows))
	for i, row := range rows {
		all[i] = Incident{row, of[row.ID]}
	}
	return all, nil
}

// Acknowledge records that a user is working on a firing alert. Faults: alert.not_found, alert.not_firing.
func (s *Service) Acknowledge(ctx context.Context, id int64, remark *string, by string) (one Incident, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		n, err := s.q.AlertAcknowledge(ctx, alertq.AlertAcknowledgeParams{ID: id, Remark: remark, Username: by})
		if err != nil {
			return postgres.Wrap("acknowledge alert", err, nil)
		}
		rows, err := s.q.AlertList(ctx, alertq.AlertListParams{BeforeID: math.MaxInt64, ID: &id, PageLimit: 1})
		row, err := postgres.One(rows, err, "get alert", errNoAlert)
		if err != nil {
			return err
		}
		if n == 0 {
			return errNotFiring
		}
		all, err := s.withDeliveries(ctx, []alertq.Alert{row})
		if err == nil {
			one = all[0]
		}
		return err
	})
	return one, err
}
