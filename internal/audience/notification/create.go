package notification

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// Create works like Enqueue for notifications that a caller creates directly. If a rendered message is empty, Create rejects the whole request. Faults: those
// of Enqueue.
func (s *Service) Create(ctx context.Context, a *Announcement, all []Notification, origin submit.Origin) (o Outcome, err error) {
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

// Enqueue stores either all notifications of an announcement or none of them. It runs the due notifications at once; Run runs the others later. If several
// calls have the same dedup key, one call stores its notification, and all calls return its id (S1.3). Faults: request.invalid, limit.reached, company.off.
func (s *Service) Enqueue(ctx context.Context, a *Announcement, all []Notification, origin submit.Origin) (Outcome, error) {
	return s.enqueueAll(ctx, a, all, origin, false)
}

// enqueueAll works like Enqueue. If areHeld is true, it also accepts notifications of a company that is off, and their messages are held. Without areHeld, such
// a company gets only repeats.
func (s *Service) enqueueAll(ctx context.Context, a *Announcement, all []Notification, origin submit.Origin, areHeld bool) (Outcome, error) {
	for i := range all {
		if at := all[i].NextRunAt; at != nil && at.After(time.Now().AddDate(0, 0, maxDaysAhead)) {
			return Outcome{}, fault.InvalidField("next_run_time", fault.TooFarAhead, maxDaysAhead)
		}
		if err := all[i].complete(a.Payload); err != nil {
			return Outcome{}, err
		}
		if a.Tag != nil && all[i].Repeat != nil {
			return Outcome{}, fault.InvalidField("tag", fault.NotTogether, "repeat_minutes")
		}
	}
	content := a.Payload
	if content == nil {
		content = map[string]any{}
	}
	payload, err := placeholder.JSON(content)
	if err != nil {
		return Outcome{}, fmt.Errorf("write payload: %w", err)
	}
	made := make([]Made, len(all))
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	// All calls lock dedup keys in the same order, so that they cannot deadlock.
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(all[a].Channel+"\x00"+optional.Value(all[a].DedupKey), all[b].Channel+"\x00"+optional.Value(all[b].DedupKey))
	})
	o := Outcome{Made: made}
	err = s.db.Tx(ctx, func(ctx context.Context) (err error) {
		announcement, isMoreWaiting := storedAnnouncement{payload: payload, userIDs: distinct(a.UserIDs), tag: a.Tag}, false
		for _, i := range order {
			if made[i], err = s.enqueue(ctx, &announcement, all[i], origin, areHeld); err != nil {
				return err
			}
			isMoreWaiting = isMoreWaiting || !made[i].Deduplicated && all[i].waits()
		}
		if isMoreWaiting {
			if err := s.checkWaiting(ctx, origin.CompanyID); err != nil {
				return err
			}
		}
		o.HasMoreFailed, err = s.readOutcomes(ctx, made, origin.User)
		return err
	})
	if errors.Is(err, errNoChannel) {
		err = s.missingChannels(ctx, all)
	}
	return o, err
}

// maxWaiting is the maximum number of waiting notifications of a company, including notifications with reminders. It is enough for five reminders of each of 50
// objects a day for a year. The limit bounds the work that one company causes in the sweeps.
const maxWaiting = 100_000

// checkWaiting returns the fault limit.reached if too many notifications of the company wait. The count includes the notifications that this call has stored.
func (s *Service) checkWaiting(ctx context.Context, companyID int64) error {
	n, err := s.q.NotificationsWaiting(ctx, notificationq.NotificationsWaitingParams{CompanyID: companyID, MaxRows: maxWaiting + 1})
	if err == nil && n > maxWaiting {
		return fault.AtLimit(maxWaiting)
	}
	return postgres.Wrap("count waiting notifications", err, nil)
}

// waits reports whether a notification will run again after its request.
func (n *Notification) waits() bool {
	return !n.isOver && (n.Repeat != nil || n.NextRunAt != nil && n.NextRunAt.After(time.Now()))
}

// maxFailures is the maximum number of unreachable recipients in one answer.
const maxFailures = 100

// readOutcomes sets the state, the remark and the failures of the notifications that the user submitted. hasMore reports whether unreachable recipients were
// omitted.
func (s *Service) readOutcomes(ctx context.Context, made []Made, user string) (hasMore bool, err error) {
	ids := make([]int64, len(made))
	for i := range made {
		ids[i] = made[i].ID
	}
	outcomes, err := s.q.NotificationOutcomes(ctx, notificationq.NotificationOutcomesParams{Ids: ids, SubmittedBy: user})
	if err != nil {
		return false, fmt.Errorf("read outcomes: %w", err)
	}
	failures, err := s.q.NotificationFailures(ctx, notificationq.NotificationFailuresParams{Ids: ids, SubmittedBy: user, MaxRows: maxFailures + 1})
	if err != nil {
		return false, fmt.Errorf("read failures: %w", err)
	}
	if hasMore = len(failures) > maxFailures; hasMore {
		failures = failures[:maxFailures]
	}
	byID := map[int64]notificationq.NotificationOutcomesRow{}
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

// storedAnnouncement is an announcement, which is stored together with its first notification.
type storedAnnouncement struct {
	id      *int64 // nil: not stored yet
	payload []byte
	userIDs []string
	tag     *string // tag whose contacts are the recipients; nil: userIDs are the recipients
}

func (s *Service) enqueue(ctx context.Context, a *storedAnnouncement, n Notification, origin submit.Origin, isHeld bool) (Made, error) {
	made := Made{Channel: n.Channel}
	own := []byte("{}")
	if n.Own != nil {
		var err error
		if own, err = placeholder.JSON(n.Own); err != nil {
			return made, fmt.Errorf("write payload: %w", err)
		}
	}
	p := notificationq.NotificationCreateParams{
		CompanyID: origin.CompanyID, Channel: n.Channel, BizType: n.BizType, BizID: n.BizID, BizTaskID: n.BizTaskID, DedupKey: n.DedupKey,
		AnnouncementID: a.id, OwnPayload: own, NextRunAt: n.NextRunAt, RepeatMinutes: n.Repeat, StartedAt: n.StartedAt,
		Operator: n.Operator, SubmittedBy: origin.User, Sign: n.Sign, ExpiresAt: n.ExpiresAt,
		IsReplaced: n.isReplaced,
	}
	if n.isOver {
		p.EndedAs = new(Cancelled)
	}
	isNew := a.id == nil // only then search for the dedup key before the insert: the insert below would also store an announcement, which a repeat does not need
	if isNew {
		p.Payload, p.UserIds, p.Tag = a.payload, a.userIDs, a.tag
	}
	for attempt := range 10 { // a notification with the key can be deleted between the search and the insert
		if n.DedupKey != nil && !n.isReplaced && (isNew || attempt > 0) {
			id, replaced, err := s.findNamed(ctx, n, origin)
			switch {
			case err != nil:
				return made, err
			case id != 0:
				made.ID, made.Deduplicated = id, true
				return made, nil
			case replaced != nil:
				made.Replaces = replaced
			}
		}
		if err := n.checkTimes(); err != nil { // times of a repeat are not checked, because a repeat returns the first notification
			return made, err
		}
		if isNew && a.tag != nil { // the tag of a repeat can be deleted meanwhile
			if err := s.checkTag(ctx, origin.CompanyID, *a.tag); err != nil {
				return made, err
			}
		}
		if !isHeld {
			if err := s.directory.CheckOpen(ctx, origin.CompanyID); err != nil { // not checked for a repeat either
				return made, err
			}
		}
		row, err := s.q.NotificationCreate(ctx, p)
		if err == nil {
			made.ID, a.id = row.ID, &row.AnnouncementID
			if !n.isOver && (n.NextRunAt == nil || !n.NextRunAt.After(time.Now())) {
				_, err = s.run(ctx, []int64{made.ID}, origin)
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
	return made, errNoChannel
}

var errNoChannel = fault.InvalidField("channels", fault.NotThere, nil)

// missingChannels returns the fault request.invalid that names the channels of notifications that do not exist, by their indexes.
func (s *Service) missingChannels(ctx context.Context, all []Notification) error {
	var wrong fault.Fields
	var channels []string
	for _, n := range all {
		if slices.Contains(channels, n.Channel) {
			continue
		}
		if _, err := s.directory.GetChannel(ctx, n.Channel); err != nil {
			if err := wrong.Add(fault.OfField(err, directory.ErrNoChannel, fmt.Sprintf("channels.%d", len(channels)))); err != nil {
				return err
			}
		}
		channels = append(channels, n.Channel)
	}
	return cmp.Or[error](wrong.Err(), errNoChannel)
}

// findNamed returns the id of the notification that has the dedup key of n, or 0 if no notification has the key. A notification that failed, or that blocks
// cancelled, and that reached nobody, loses its key, and is returned as replaced. findNamed locks this notification first, so that only one of several
// concurrent attempts takes its key.
func (s *Service) findNamed(ctx context.Context, n Notification, origin submit.Origin) (id int64, replaced *Replaced, err error) {
	found, err := s.q.NotificationFind(ctx, notificationq.NotificationFindParams{
		CompanyID: origin.CompanyID, Channel: n.Channel, DedupKey: *n.DedupKey, BizTaskID: n.BizTaskID, SubmittedBy: origin.User,
	})
	switch {
	case postgres.IsNoRows(err):
		return 0, nil, nil
	case err != nil:
		return 0, nil, fmt.Errorf("find notification: %w", err)
	case found.Status != Failed && found.Status != Cancelled:
		return found.ID, nil, nil
	}
	if err := s.q.NotificationHold(ctx, found.ID); err != nil {
		return 0, nil, fmt.Errorf("lock notification: %w", err)
	}
	remark, err := s.q.NotificationFree(ctx, notificationq.NotificationFreeParams{ID: found.ID, Blocked: result.Blocked})
	if err == nil {
		return 0, &Replaced{found.ID, remark}, nil
	}
	if !postgres.IsNoRows(err) {
		return 0, nil, fmt.Errorf("free dedup key: %w", err)
	}
	// The notification still has the key, or another attempt has just taken the key.
	again, err := s.q.NotificationFind(ctx, notificationq.NotificationFindParams{
		CompanyID: origin.CompanyID, Channel: n.Channel, DedupKey: *n.DedupKey, BizTaskID: n.BizTaskID, SubmittedBy: origin.User,
	})
	if postgres.IsNoRows(err) {
		return 0, nil, nil
	}
	return again.ID, nil, postgres.Wrap("find notification", err, nil)
}

// distinct removes duplicates without changing the order.
func distinct(all []string) []string {
	result := make([]string, 0, len(all))
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			result = append(result, one)
		}
	}
	return result
}

// people returns users with their addresses on a channel.
func (s *Service) people(ctx context.Context, companyID int64, channel string, userIDs []string) ([]submit.Person, error) {
	addresses, err := s.contacts.Addresses(ctx, companyID, channel, userIDs)
	if err != nil {
		return nil, err
	}
	people := make([]submit.Person, len(userIDs))
	for i, id := range userIDs {
		people[i] = submit.Person{UserID: id, Address: addresses[i]}
	}
	return people, nil
}
