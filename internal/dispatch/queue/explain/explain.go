// Package explain says what holds messages, when a task is due, and which senders could take it.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// Service reads what decides whether messages are sent. It changes nothing.
type Service struct {
	q         *queueq.Queries
	inParts   *queueq.Queries // statements that read tasks by their ids
	directory *directory.Service
	senders   *sender.Service
	settings  *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, directory *directory.Service, senders *sender.Service, settings *setting.Service) *Service {
	return &Service{q: queueq.New(db), inParts: queueq.New(db.InPartitions()), directory: directory, senders: senders, settings: settings}
}

// Switch is something that holds tasks: a company that is off, a user who is disabled, and so on (function task_switches), or a batch that is paused.
type Switch struct {
	Kind string
	Name string
}

// NoSharedSenders is the switch that holds what no route of a company serves, and shared senders may not.
const NoSharedSenders = "shared_senders"

// Switches returns what holds tasks of a pool, company, country, submitter and batch. Nil: the number is of no known country; no batch.
func (s *Service) Switches(ctx context.Context, pool, company int64, countryNo *string, submitter string, batchID *int64) ([]Switch, error) {
	rows, err := s.q.TaskSwitches(ctx, queueq.TaskSwitchesParams{
		PoolID: pool, CompanyID: company, CountryNo: countryNo, SubmittedBy: submitter, BatchID: batchID,
	})
	all := make([]Switch, len(rows))
	for i, row := range rows {
		all[i] = Switch{Kind: row.Switch, Name: row.Name}
	}
	return all, postgres.Wrap("read switches", err, nil)
}

// Messages are those of a batch or a notification.
type Messages struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Submitter   string
	SenderNo    *string  // the only sender that may send them; nil: any
	BatchID     *int64   // nil: of no batch
	Countries   []string // all to which they go, empty for numbers of no known country; nil: not known
}

// HeldBy returns what holds all of some messages: what does so whatever their countries, or else the switches of the countries, if each has one.
func (s *Service) HeldBy(ctx context.Context, m Messages) ([]Switch, error) {
	isRouted, err := s.directory.IsRouted(ctx, m.Channel, m.CompanyID, m.MessageType)
	if err != nil {
		return nil, fmt.Errorf("find routes: %w", err)
	}
	heldIn := func(country string) ([]Switch, error) {
		pool, err := s.directory.PoolOf(ctx, m.Channel, m.CompanyID, m.MessageType, country)
		if err != nil {
			return nil, fmt.Errorf("find pool: %w", err)
		}
		all, err := s.Switches(ctx, pool, m.CompanyID, optional.NonZero(country), m.Submitter, m.BatchID)
		return slices.DeleteFunc(all, func(w Switch) bool {
			return w.Name == "" || w.Kind == NoSharedSenders && (m.SenderNo != nil || isRouted) // the country of no number; those that a route may serve
		}), err
	}
	all, err := heldIn("")
	if err != nil || len(all) > 0 {
		return all, err
	}
	for _, country := range m.Countries {
		held, err := heldIn(country)
		if err != nil || len(held) == 0 {
			return nil, err
		}
		for _, one := range held {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all, nil
}

// Due returns when a task is due, and what else decides whether it is claimed, or the fault task.not_found.
func (s *Service) Due(ctx context.Context, id string) (queueq.TaskDueRow, error) {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return queueq.TaskDueRow{}, err
	}
	due, err := s.inParts.TaskDue(ctx, queueq.TaskDueParams{TaskID: id, MinLease: claim.MinLease, RetryMaxWait: rules.RetryWait()})
	return due, postgres.Wrap("read due time of task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// NeedOf returns what a task needs of a sender in the pool that serves it now: its stored pool may have been retired.
func NeedOf(t queueq.Task, pool int64) sender.Need {
	return sender.Need{PoolID: pool, Content: t.Content, Sign: t.Sign, Segments: t.Segments}
}

// Candidates returns the senders that may take a task, those that can take it now first, each with the reason that a claim would find.
// failedWith is the sender that failed with the task, so that others are preferred; it may be empty. A task that is heldBy the want of a route has none.
func (s *Service) Candidates(ctx context.Context, n sender.Need, failedWith string, heldBy []Switch) ([]sender.Candidate, bool, error) {
	if slices.ContainsFunc(heldBy, func(w Switch) bool { return w.Kind == NoSharedSenders }) {
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

// CanTake returns how many of the candidates can take the task now.
func CanTake(senders []sender.Candidate) int {
	n := 0
	for _, c := range senders {
		if c.Why == "" {
			n++
		}
	}
	return n
}
