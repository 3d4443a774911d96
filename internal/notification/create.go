package notification

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// Create is Enqueue of what a caller asks for itself: a notification whose message is empty is refused, and with it the others.
// Faults: request.invalid.
func (s *Service) Create(ctx context.Context, a *Announcement, all []Notification, origin queue.Origin) (o Outcome, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if o, err = s.Enqueue(ctx, a, all, origin); err != nil {
			return err
		}
		for _, m := range o.Made {
			if !m.Deduplicated && m.Remark == empty.remark {
				return fault.InvalidField("payload", fault.RenderedBlank, nil)
			}
		}
		return nil
	})
	return o, err
}

// Enqueue stores the notifications of an announcement with their tasks, all or none; those whose time is to come get theirs then. Of
// several at once with one dedup key, one is stored and all are given its id (S1.3). Faults: request.invalid, limit.reached.
func (s *Service) Enqueue(ctx context.Context, a *Announcement, all []Notification, origin queue.Origin) (Outcome, error) {
	for i := range all {
		if at := all[i].NextRunAt; at != nil && at.After(time.Now().AddDate(0, 0, farthest)) {
			return Outcome{}, fault.InvalidField("next_run_time", fault.TooFarAhead, farthest)
		}
		if err := all[i].complete(a.Payload); err != nil {
			return Outcome{}, err
		}
		if err := all[i].checkTimes(); err != nil {
			return Outcome{}, err
		}
	}
	said := a.Payload
	if said == nil {
		said = map[string]any{}
	}
	payload, err := written(said)
	if err != nil {
		return Outcome{}, fmt.Errorf("write payload: %w", err)
	}
	made := make([]Made, len(all))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	// Two calls that name the same things wait for each other in one order.
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(all[a].Channel+"\x00"+orEmpty(all[a].DedupKey), all[b].Channel+"\x00"+orEmpty(all[b].DedupKey))
	})
	o := Outcome{Made: made}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		announcement, isMoreWaiting := stored{payload: payload, userIDs: distinct(a.UserIDs)}, false
		for _, i := range order {
			if made[i], err = s.enqueue(ctx, &announcement, all[i], origin); err != nil {
				return err
			}
			isMoreWaiting = isMoreWaiting || !made[i].Deduplicated && all[i].waits()
		}
		if isMoreWaiting {
			if err := s.checkWaiting(ctx, origin.CompanyID); err != nil {
				return err
			}
		}
		o.HasMoreFailed, err = s.tellOutcomes(ctx, made, origin.User)
		return err
	})
	return o, err
}

// waitingMost is how many notifications of a company may wait for their time, those that repeat included: as many as five reminders of
// 50 things a day for a year. It bounds what one company adds to the sweeps.
const waitingMost = 100_000

// checkWaiting refuses what was just stored, if too many notifications of the company wait with it.
func (s *Service) checkWaiting(ctx context.Context, companyID int64) error {
	n, err := s.q.NotificationsWaiting(ctx, dbq.NotificationsWaitingParams{CompanyID: companyID, Most: waitingMost + 1})
	if err == nil && n > waitingMost {
		return fault.AtLimit(waitingMost)
	}
	return postgres.Wrap("count notifications that wait", err, nil)
}

// waits tells whether something of a notification is left to do after its request.
func (n *Notification) waits() bool {
	return !n.over && (n.Repeat != nil || n.NextRunAt != nil && n.NextRunAt.After(time.Now()))
}

// failuresMost is how many people who cannot be reached one answer names.
const failuresMost = 100

// tellOutcomes says of each notification what became of it so far, and why, of those that the user submitted, and tells whether there
// are more people who cannot be reached than it named.
func (s *Service) tellOutcomes(ctx context.Context, made []Made, user string) (hasMore bool, err error) {
	ids := make([]int64, len(made))
	for i := range made {
		ids[i] = made[i].ID
	}
	outcomes, err := s.q.NotificationOutcomes(ctx, dbq.NotificationOutcomesParams{Ids: ids, SubmittedBy: user})
	if err != nil {
		return false, fmt.Errorf("read outcomes: %w", err)
	}
	failures, err := s.q.NotificationFailures(ctx, dbq.NotificationFailuresParams{Ids: ids, SubmittedBy: user, Most: failuresMost + 1})
	if err != nil {
		return false, fmt.Errorf("read failures: %w", err)
	}
	if hasMore = len(failures) > failuresMost; hasMore {
		failures = failures[:failuresMost]
	}
	byID := map[int64]dbq.NotificationOutcomesRow{}
	for _, o := range outcomes {
		byID[o.ID] = o
	}
	failed := map[int64][]Failure{}
	for _, f := range failures {
		failed[f.NotificationID] = append(failed[f.NotificationID], Failure{f.UserID, f.Reason})
	}
	for i := range made {
		made[i].Status, made[i].Remark, made[i].Failed = byID[made[i].ID].Status, byID[made[i].ID].Remark, failed[made[i].ID]
	}
	return hasMore, nil
}

// stored is an announcement as it is stored, with the first notification that is made of it.
type stored struct {
	id      *int64 // nil: not yet
	payload []byte
	userIDs []string
}

func (s *Service) enqueue(ctx context.Context, a *stored, n Notification, origin queue.Origin) (Made, error) {
	made := Made{Channel: n.Channel}
	own := []byte("{}")
	if n.Own != nil {
		var err error
		if own, err = written(n.Own); err != nil {
			return made, fmt.Errorf("write payload: %w", err)
		}
	}
	p := dbq.NotificationCreateParams{
		CompanyID: origin.CompanyID, Channel: n.Channel, BizType: n.BizType, BizID: n.BizID, BizTaskID: n.BizTaskID, DedupKey: n.DedupKey,
		AnnouncementID: a.id, OwnPayload: own, NextRunAt: n.NextRunAt, RepeatMinutes: n.Repeat, StartedAt: n.StartedAt,
		Operator: n.Operator, SubmittedBy: origin.User, Sign: n.Sign, ExpiresAt: n.ExpiresAt,
	}
	if n.over {
		p.EndedAs = new(Cancelled)
	}
	isNew := a.id == nil // to the database, to which an announcement is not given in vain
	if isNew {
		p.Payload, p.UserIds = a.payload, a.userIDs
	}
	for attempt := range 10 { // the one of the name may be deleted between two looks
		if n.DedupKey != nil && (isNew || attempt > 0) {
			id, err := s.q.NotificationFind(ctx, dbq.NotificationFindParams{
				CompanyID: origin.CompanyID, Channel: n.Channel, DedupKey: *n.DedupKey, BizTaskID: n.BizTaskID, SubmittedBy: origin.User,
			})
			if err == nil {
				made.ID, made.Deduplicated = id, true
				return made, nil
			}
			if !postgres.IsNoRows(err) {
				return made, fmt.Errorf("find notification: %w", err)
			}
		}
		row, err := s.q.NotificationCreate(ctx, p)
		if err == nil {
			made.ID, a.id = row.ID, &row.AnnouncementID
			if !n.over && (n.NextRunAt == nil || !n.NextRunAt.After(time.Now())) {
				_, err = s.run(ctx, &made.ID, 1, origin)
			}
			return made, err
		}
		if !postgres.IsNoRows(err) {
			return made, fmt.Errorf("create notification: %w", err)
		}
		if n.DedupKey == nil {
			break
		}
	}
	return made, fault.InvalidField("channels", fault.NotThere, nil)
}

// distinct keeps the first of each.
func distinct(all []string) []string {
	once := make([]string, 0, len(all))
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			once = append(once, one)
		}
	}
	return once
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// people finds the addresses of users on a channel.
func (s *Service) people(ctx context.Context, companyID int64, channel string, userIDs []string) ([]queue.Person, error) {
	addresses, err := s.contacts.Addresses(ctx, companyID, channel, userIDs)
	if err != nil {
		return nil, err
	}
	people := make([]queue.Person, len(userIDs))
	for i, id := range userIDs {
		people[i] = queue.Person{UserID: id, Address: addresses[i]}
	}
	return people, nil
}
