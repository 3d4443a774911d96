// Package explain describes which switches hold messages, when a task is due, and which senders can claim the task.
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

// Service reads the data that decides whether messages are sent. It changes nothing.
type Service struct {
	q         *queueq.Queries
	inParts   *queueq.Queries // for statements that read tasks by id
	directory *directory.Service
	senders   *sender.Service
	settings  *setting.Service
}

// New returns a Service on db.
func New(db *postgres.DB, directory *directory.Service, senders *sender.Service, settings *setting.Service) *Service {
	return &Service{q: queueq.New(db), inParts: queueq.New(db.InPartitions()), directory: directory, senders: senders, settings: settings}
}

// Switch is something that holds tasks, for example a company that is off, a disabled user (SQL function task_switches), or a paused batch.
type Switch struct {
	Kind string
	Name string
}

// NoSharedSenders is the kind of the switch that holds tasks if their company has no route for them and is not allowed to use shared senders.
const NoSharedSenders = "shared_senders"

// Switches returns the switches that hold tasks of a pool, company, country, submitter and batch. A nil countryNo means an unknown country. A nil
// batchID means no batch.
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

// Messages describes all messages of a batch or a notification.
type Messages struct {
	Channel     string
	CompanyID   int64
	MessageType int16
	Submitter   string
	SenderNo    *string  // the only sender that is allowed to send the messages; nil: any sender
	BatchID     *int64   // nil: the messages belong to no batch
	Countries   []string // countries of all waiting messages; an empty text is an unknown country; nil: the countries are unknown
}

// HeldBy returns the switches that hold every waiting message. These are the switches that do not depend on a country. If no such switch exists and a switch
// holds each country, HeldBy returns the switches of the countries.
func (s *Service) HeldBy(ctx context.Context, m Messages) ([]Switch, error) {
	isRouted, err := s.directory.IsRouted(ctx, m.Channel, m.CompanyID, m.MessageType)
	if err != nil {
		return nil, fmt.Errorf("find routes: %w", err)
	}
	heldIn := func(country string, omits func(Switch) bool) ([]Switch, error) {
		pool, err := s.directory.PoolOf(ctx, m.Channel, m.CompanyID, m.MessageType, country)
		if err != nil {
			return nil, fmt.Errorf("find pool: %w", err)
		}
		all, err := s.Switches(ctx, pool, m.CompanyID, optional.NonZero(country), m.Submitter, m.BatchID)
		return slices.DeleteFunc(all, omits), err
	}
	isBound := func(w Switch) bool { return w.Kind == NoSharedSenders && m.SenderNo != nil } // only m.SenderNo sends the messages, so routes and shared senders do not matter
	all, err := heldIn("", func(w Switch) bool {
		return w.Name == "" || w.Kind == NoSharedSenders && isRouted || isBound(w) // an empty name: the switch depends on the country; a route can serve some countries
	})
	if err != nil || len(all) > 0 {
		return all, err
	}
	for _, country := range m.Countries {
		held, err := heldIn(country, isBound)
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

// Due returns when a task is due, and the other data that decides whether it is claimed. Fault: task.not_found.
func (s *Service) Due(ctx context.Context, id string) (queueq.TaskDueRow, error) {
	rules, err := s.settings.Rules(ctx)
	if err != nil {
		return queueq.TaskDueRow{}, err
	}
	due, err := s.inParts.TaskDue(ctx, queueq.TaskDueParams{TaskID: id, MinLease: claim.MinLease, RetryMaxWait: rules.RetryWait()})
	return due, postgres.Wrap("read due time of task", err, fault.New(fault.NotFound, fault.TaskNotFound))
}

// NeedOf returns what a sender needs to send a task. pool is the pool that serves the task now, because the stored pool can be retired.
func NeedOf(t queueq.Task, pool int64) sender.Need {
	return sender.Need{PoolID: pool, Recipient: t.Recipient, Content: t.Content, Sign: t.Sign, Segments: t.Segments}
}

// Candidates returns the senders that are allowed to claim a task. Senders that can claim the task now come first. Each other candidate contains the reason why
// its claim would not return the task. failedWith is the sender that last failed with the task; other senders are preferred to this sender. An empty failedWith
// means no sender. A task that is held by NoSharedSenders has no candidates.
func (s *Service) Candidates(ctx context.Context, n sender.Need, failedWith string, heldBy []Switch) ([]sender.Candidate, bool, error) {
	if slices.ContainsFunc(heldBy, func(w Switch) bool { return w.Kind == NoSharedSenders }) {
		return nil, false, nil
	}
	all, routed, err := s.senders.Candidates(ctx, n)
	if err != nil {
		return all, routed, err
	}
	held := map[int]string{} // reason why the sender must not claim the task, by index of all
	for i, c := range all {
		var rivals []claim.RouteShare
		isOther := false // another sender shares the pool with this sender or is preferred to this sender
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
		case len(rivals) == 0 || c.Weight == nil: // a pool that was just retired has shared senders without weights
		default:
			if maxTasks, _, _ := claim.Share(claim.RouteShare{Served: c.Served, Weight: *c.Weight}, c.Served, rivals); maxTasks == 0 {
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

// CanTake returns the number of candidates that can claim the task now.
func CanTake(senders []sender.Candidate) int {
	n := 0
	for _, c := range senders {
		if c.Why == "" {
			n++
		}
	}
	return n
}
