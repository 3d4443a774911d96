package notification

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Event is a business event of a business task or of one of its nodes (S1.4). An event creates notifications, or ends pending notifications. A repeated event
// creates no second notification. The times of starts and ends decide their order for each node. A start without StartedAt that arrives after the end of its
// node restarts the node. An end after such a start ends the node again.
type Event struct {
	Name      string
	TaskID    int64
	NodeID    *int64
	Channels  []string
	Payload   map[string]any
	UserIDs   []string
	Initiator string
	Orbits    []Orbit
	StartedAt *time.Time // start of a node; nil: now
	EndedAt   *time.Time // end of a task or a node; nil: now
	MaxMins   *int64     // maximum duration of a node in minutes
	Repeat    *int64     // minutes between reminders; nil: the minutes in the payload
	Sign      *string
	Operator  *string
}

// Orbit is a satellite pass over the station, with reminders before it.
type Orbit struct {
	No     int64
	InTime time.Time
}

// reminderLife is the time for which a reminder before an orbit is useful, because the next reminder is due then.
const reminderLife = 15 * time.Minute

// reminderMinutes lists how many minutes before an orbit its reminders are due.
var reminderMinutes = []int{60, 45, 30, 15, 0}

// channelNumbers are the documented numbers of channels in dedup keys. For every other channel, the dedup key contains the name of the channel.
var channelNumbers = map[string]string{"oa": "0", "dingtalk": "1"}

func channelNumber(channel string) string {
	if n, ok := channelNumbers[channel]; ok {
		return n
	}
	return channel
}

// Outcome is the result of an event.
type Outcome struct {
	Made          []Made
	HasMoreFailed bool // Made contains only some of the unreachable recipients
	Ended         int  // number of notifications that were ended
}

// isEnd reports whether the event ends a task or a node. ProcessEvent accepts such events even if the company is off, because reminders must stop.
func (e Event) isEnd() bool {
	return e.Name == "node_finished" || e.Name == "task_finished" || e.Name == "task_abnormal"
}

// ProcessEvent processes a business event in one transaction. Faults: request.invalid, limit.reached, company.off.
func (s *Service) ProcessEvent(ctx context.Context, e Event, origin submit.Origin) (Outcome, error) {
	if err := e.complete(); err != nil {
		return Outcome{}, err
	}
	if err := e.check(); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		// The start and the end of a node or task can be reported at the same time and in any order.
		if _, err := s.q.BusinessLock(ctx, notificationq.BusinessLockParams{CompanyID: origin.CompanyID, TaskID: e.TaskID}); err != nil {
			return fmt.Errorf("lock business task: %w", err)
		}
		ends, err := s.readEnds(ctx, origin.CompanyID, e)
		if err != nil {
			return err
		}
		now, err := s.q.Now(ctx)
		if err != nil {
			return fmt.Errorf("read database time: %w", err)
		}
		var all []Notification
		switch e.Name {
		case "task_created":
			e.UserIDs = slices.DeleteFunc(slices.Clone(e.UserIDs), func(id string) bool { return id == e.Initiator })
			all = e.onEachChannel(TaskCreated, e.TaskID, fmt.Sprintf("0_%d", e.TaskID))
		case "node_done":
			all = e.onEachChannel(NodeDone, *e.NodeID, fmt.Sprintf("1_%d_%d", e.TaskID, *e.NodeID))
		case "orbit_plan":
			if ends.task == nil {
				o.Ended, all, err = s.planOrbits(ctx, e, origin, now)
			}
		case "task_finished", "task_abnormal":
			bizType, as, key := TaskFinished, Cancelled, "3_%d"
			if e.Name == "task_abnormal" {
				bizType, as, key = TaskAbnormal, EndedAbnormally, "4_%d"
			}
			if isOld, err := s.endIsOld(ctx, origin.CompanyID, e); err != nil || isOld {
				return err
			}
			all = e.onEachChannel(bizType, e.TaskID, fmt.Sprintf(key, e.TaskID))
			// The end of a task ends its reminders, because they are useless then.
			o.Ended, err = s.End(ctx, origin.CompanyID, nil, []int16{OrbitRemind, NodeTimeout}, nil, &e.TaskID, as, []int16{Waiting}, By{origin.User, e.Operator})
			if err == nil && ends.task == nil {
				err = s.endTask(ctx, origin.CompanyID, e.TaskID, optional.Or(e.EndedAt, now))
			}
		case "node_started":
			o.Ended, all, err = s.startNode(ctx, origin, e, ends, now)
		case "node_finished":
			o.Ended, all, err = s.endNode(ctx, origin, e, ends, now)
		default:
			return fault.InvalidField("event", fault.NotAllowed, nil)
		}
		if err != nil {
			return err
		}
		made, err := s.enqueueAll(ctx, &Announcement{Payload: e.Payload, UserIDs: e.UserIDs}, all, origin, e.isEnd())
		if e.Name != "node_finished" {
			o.Made, o.HasMoreFailed = made.Made, made.HasMoreFailed
		}
		return err
	})
	return o, err
}

// ending is the recorded end of a business task or a node.
type ending struct {
	at          time.Time
	awaitsStart bool // the end was reported before the start
}

// endings are the recorded ends of the task and of the node of an event. A nil field means that no end is recorded.
type endings struct{ task, node *ending }

// These are the values of business_ends.subject.
const (
	taskSubject = "task"
	nodeSubject = "node"
)

func (s *Service) readEnds(ctx context.Context, companyID int64, e Event) (found endings, err error) {
	rows, err := s.q.BusinessEnds(ctx, notificationq.BusinessEndsParams{CompanyID: companyID, TaskID: e.TaskID, NodeID: e.NodeID})
	for _, row := range rows {
		one := &ending{row.EndedAt, row.AwaitsStart}
		if row.Subject == taskSubject {
			found.task = one
		} else {
			found.node = one
		}
	}
	return found, postgres.Wrap("read ends", err, nil)
}

func (s *Service) storeEnd(ctx context.Context, companyID int64, subject string, id int64, e ending) error {
	return postgres.Wrap("store end", s.q.BusinessEndPut(ctx, notificationq.BusinessEndPutParams{
		CompanyID: companyID, Subject: subject, SubjectID: id, EndedAt: e.at, AwaitsStart: e.awaitsStart,
	}), nil)
}

func (s *Service) endTask(ctx context.Context, companyID, taskID int64, at time.Time) error {
	if err := s.storeEnd(ctx, companyID, taskSubject, taskID, ending{at: at}); err != nil {
		return err
	}
	return postgres.Wrap("store ends of nodes", s.q.BusinessEndNodes(ctx, notificationq.BusinessEndNodesParams{
		CompanyID: companyID, TaskID: &taskID, EndedAt: at,
	}), nil)
}

// endIsOld reports whether the event is an end of a task that began again later: people were notified of this end, or it is not interesting any more.
func (s *Service) endIsOld(ctx context.Context, companyID int64, e Event) (bool, error) {
	if e.EndedAt == nil {
		return false, nil
	}
	began, err := s.q.BusinessTaskBegan(ctx, notificationq.BusinessTaskBeganParams{CompanyID: companyID, TaskID: &e.TaskID})
	return began.After(*e.EndedAt), postgres.Wrap("read start of business task", err, nil)
}

// startNode processes the start of a node. It returns the reminders of the start, and the number of withdrawn reminders. If the start is too late, its reminders
// are marked as ended. A start restarts an ended node or task only if the start is later than the end. A start without a time counts as later than the end of
// the node, unless this end was reported before any start. It counts as earlier than the end of the task. A task or node that begins again releases the dedup
// keys of its former events.
func (s *Service) startNode(ctx context.Context, origin submit.Origin, e Event, ends endings, now time.Time) (ended int, all []Notification, err error) {
	companyID := origin.CompanyID
	isAfter := func(end *ending) bool { return e.StartedAt != nil && e.StartedAt.After(end.at) }
	isLate := ends.node != nil && !isAfter(ends.node) && (e.StartedAt != nil || ends.node.awaitsStart)
	all = e.timeoutReminders(now)
	if isLate || (ends.task != nil && !isAfter(ends.task)) {
		for i := range all {
			all[i].isOver = true
		}
		if ends.node != nil && ends.node.awaitsStart {
			err = s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{at: ends.node.at})
		}
		return 0, all, err
	}
	if ends.node == nil && ends.task == nil {
		return s.moveDeadline(ctx, origin, e, now)
	}
	err = s.q.NodeRemindersReplace(ctx, notificationq.NodeRemindersReplaceParams{CompanyID: companyID, NodeID: *e.NodeID})
	if err == nil {
		keys := notificationq.BusinessKeysReplaceParams{CompanyID: companyID, TaskID: &e.TaskID}
		if ends.task == nil {
			keys.NodeID = e.NodeID
		}
		err = s.q.BusinessKeysReplace(ctx, keys)
	}
	if err == nil {
		err = s.q.BusinessEndDelete(ctx, notificationq.BusinessEndDeleteParams{CompanyID: companyID, Subject: nodeSubject, SubjectID: *e.NodeID})
	}
	if err == nil {
		err = s.q.BusinessEndDelete(ctx, notificationq.BusinessEndDeleteParams{CompanyID: companyID, Subject: taskSubject, SubjectID: e.TaskID})
	}
	return 0, all, postgres.Wrap("begin node again", err, nil)
}

// moveDeadline returns the reminders of a start of a node that has not ended. If the start gives the node another deadline or interval, the reminders of the
// former deadline are withdrawn, and people are reminded on all their channels, even on channels that the event does not name.
func (s *Service) moveDeadline(ctx context.Context, origin submit.Origin, e Event, now time.Time) (ended int, all []Notification, err error) {
	interval, err := intervalOf(e.Repeat, e.Payload)
	if err != nil {
		return 0, nil, err
	}
	moved, err := s.q.NodeRemindersMoved(ctx, notificationq.NodeRemindersMovedParams{
		CompanyID: origin.CompanyID, NodeID: *e.NodeID, StartedAt: e.StartedAt, MaxMinutes: *e.MaxMins, RepeatMinutes: interval, Channels: e.Channels,
	})
	if err != nil {
		return 0, nil, postgres.Wrap("find reminders of another deadline", err, nil)
	}
	stale := make([]reminder, len(moved))
	e.Channels = slices.Clone(e.Channels)
	for i, n := range moved {
		if stale[i] = (reminder{n.ID, n.IsWaiting}); !slices.Contains(e.Channels, n.Channel) {
			e.Channels = append(e.Channels, n.Channel)
		}
	}
	ended, err = s.replaceReminders(ctx, stale, e, origin)
	return ended, e.timeoutReminders(now), err
}

// endNode ends the reminders of a node, and returns their number. If the node was never started, it also returns all reminders of the node, marked as ended: a
// late start then finds their dedup keys in use. If the latest start was reported with its time, an end before this time changes nothing.
func (s *Service) endNode(ctx context.Context, origin submit.Origin, e Event, ends endings, now time.Time) (ended int, all []Notification, err error) {
	companyID := origin.CompanyID
	reminders, err := s.q.NodeReminders(ctx, notificationq.NodeRemindersParams{CompanyID: companyID, NodeID: *e.NodeID})
	if err != nil {
		return 0, nil, fmt.Errorf("read reminders: %w", err)
	}
	if e.EndedAt != nil && reminders.StartedAt.After(*e.EndedAt) {
		return 0, nil, nil
	}
	ended, err = s.End(ctx, companyID, nil, []int16{NodeTimeout}, []int64{*e.NodeID}, nil, Cancelled, []int16{Waiting}, By{origin.User, e.Operator})
	switch {
	case err != nil:
		return 0, nil, err
	case ends.node == nil:
		if err := s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{optional.Or(e.EndedAt, now), !reminders.HasAny}); err != nil {
			return 0, nil, err
		}
	case e.EndedAt != nil:
		if err := s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{*e.EndedAt, ends.node.awaitsStart}); err != nil {
			return 0, nil, err
		}
	}
	if !reminders.HasAny {
		all = e.timeoutReminders(now)
		for i := range all {
			all[i].isOver = true
		}
	}
	return ended, all, nil
}

// planOrbits returns the reminders of a plan of orbits, and the number of withdrawn unsent reminders. It withdraws the reminders of orbits whose time has changed.
// The reminders of the new time can use the same dedup keys. People are reminded on all channels of the former plan, even on channels that the event does not
// name. A sent reminder is sent again only if the new time is later by more than reminderLife.
func (s *Service) planOrbits(ctx context.Context, e Event, origin submit.Origin, now time.Time) (ended int, all []Notification, err error) {
	p := notificationq.OrbitRemindersParams{CompanyID: origin.CompanyID, TaskID: e.TaskID, Life: reminderLife, Channels: e.Channels}
	for _, orbit := range e.Orbits {
		p.OrbitNos, p.InTimes = append(p.OrbitNos, orbit.No), append(p.InTimes, orbit.InTime)
	}
	moved, err := s.q.OrbitReminders(ctx, p)
	if err != nil {
		return 0, nil, postgres.Wrap("find reminders of another time", err, nil)
	}
	stale, more := make([]reminder, len(moved)), map[int64][]string{} // more: further channels, by orbit
	for i, n := range moved {
		stale[i] = reminder{n.ID, n.IsWaiting}
		if !slices.Contains(e.Channels, n.Channel) && !slices.Contains(more[n.OrbitNo], n.Channel) {
			more[n.OrbitNo] = append(more[n.OrbitNo], n.Channel)
		}
	}
	all = e.orbitReminders(now)
	for _, orbit := range e.Orbits {
		one := e
		one.Channels, one.Orbits = more[orbit.No], []Orbit{orbit}
		all = append(all, one.orbitReminders(now)...)
	}
	ended, err = s.replaceReminders(ctx, stale, e, origin)
	return ended, all, err
}

// reminder is a stored reminder of a former time.
type reminder struct {
	id        int64
	isWaiting bool
}

// replaceReminders withdraws reminders whose time has changed, and returns the number of those that waited.
func (s *Service) replaceReminders(ctx context.Context, stale []reminder, e Event, origin submit.Origin) (int, error) {
	if len(stale) == 0 {
		return 0, nil
	}
	all, waiting := make([]int64, len(stale)), []int64{}
	for i, n := range stale {
		if all[i] = n.id; n.isWaiting {
			waiting = append(waiting, n.id)
		}
	}
	err := s.q.RemindersReplace(ctx, notificationq.RemindersReplaceParams{Ids: all, WaitingIds: waiting, Operator: e.Operator, ChangedBy: origin.User})
	if err != nil {
		return 0, postgres.Wrap("replace reminders", err, nil)
	}
	_, err = s.tasks.Withdraw(ctx, waiting, optional.Or(e.Operator, origin.User))
	return len(waiting), err
}

// The orbits of one event can cause at most this number of notifications, and of messages when these notifications are due.
const (
	maxReminders = 1000
	maxMessages  = 50_000
)

// maxOrbits returns the maximum number of orbits of an event with the given channels and recipients. It returns at least 1.
func (e Event) maxOrbits() int {
	reminders := min(maxReminders, maxMessages/max(len(e.UserIDs), 1))
	return max(reminders/(len(reminderMinutes)*max(len(e.Channels), 1)), 1)
}

// The limits of times: maxDaysAhead for all times in the future, and maxYearsBack for the start or end of a node in the past.
const (
	maxDaysAhead = 366
	maxYearsBack = 20
)

// complete reads the maximum duration of a node from the payload, unless the start of the node sets it.
func (e *Event) complete() (err error) {
	if e.Name == "node_started" && e.MaxMins == nil {
		e.MaxMins, err = minutesOf(e.Payload, "maxDuration")
	}
	return err
}

// check returns the fault request.invalid for an invalid event.
func (e Event) check() error {
	var wrong fault.Fields
	times := map[int64]time.Time{}
	for i, orbit := range e.Orbits {
		if at, isKnown := times[orbit.No]; isKnown && !at.Equal(orbit.InTime) {
			wrong.Invalid(fmt.Sprintf("orbits.%d.orbit_no", i), fault.Duplicate, nil)
		}
		times[orbit.No] = orbit.InTime
		if orbit.InTime.After(time.Now().AddDate(0, 0, maxDaysAhead)) {
			wrong.Invalid(fmt.Sprintf("orbits.%d.in_time", i), fault.TooFarAhead, maxDaysAhead)
		}
	}
	if err := wrong.Err(); err != nil {
		return err //nolint:wrapcheck // the error is a fault
	}
	if at := e.StartedAt; at != nil && at.After(time.Now().AddDate(0, 0, maxDaysAhead)) {
		return fault.InvalidField("started_at", fault.TooFarAhead, maxDaysAhead)
	}
	if at := e.StartedAt; at != nil && at.Before(time.Now().AddDate(-maxYearsBack, 0, 0)) {
		return fault.InvalidField("started_at", fault.InThePast, nil)
	}
	if at := e.EndedAt; at != nil && at.After(time.Now().AddDate(0, 0, maxDaysAhead)) {
		return fault.InvalidField("finished_at", fault.TooFarAhead, maxDaysAhead)
	}
	if at := e.EndedAt; at != nil && at.Before(time.Now().AddDate(-maxYearsBack, 0, 0)) {
		return fault.InvalidField("finished_at", fault.InThePast, nil)
	}
	isNodeEvent := slices.Contains([]string{"node_done", "node_started", "node_finished"}, e.Name)
	switch {
	case isNodeEvent && e.NodeID == nil:
		return fault.InvalidField("node_inst_id", fault.Required, nil)
	case e.Name == "node_started" && e.MaxMins == nil:
		return fault.InvalidField("max_duration", fault.Required, nil)
	case e.Name == "orbit_plan" && len(e.Orbits) == 0:
		return fault.InvalidField("orbits", fault.Required, nil)
	case e.Name != "node_finished" && len(e.UserIDs) == 0:
		return fault.InvalidField("user_ids", fault.Required, nil)
	case e.Name == "orbit_plan" && len(e.Orbits) > e.maxOrbits():
		return fault.InvalidField("orbits", fault.TooManyTogether, e.maxOrbits())
	}
	return nil
}

// onEachChannel returns one notification for each channel.
func (e Event) onEachChannel(bizType int16, bizID int64, key string) []Notification {
	all := make([]Notification, len(e.Channels))
	for i, channel := range e.Channels {
		all[i] = Notification{
			BizType: bizType, BizID: bizID, BizTaskID: &e.TaskID, Channel: channel,
			DedupKey: new(key + "_" + channelNumber(channel)), Sign: e.Sign, Operator: e.Operator,
		}
	}
	return all
}

// orbitReminders returns the reminders of each orbit that are not in the past.
func (e Event) orbitReminders(now time.Time) []Notification {
	var all []Notification
	for _, orbit := range e.Orbits {
		for _, minutes := range reminderMinutes {
			at := orbit.InTime.Add(-time.Duration(minutes) * time.Minute)
			if at.Before(now) {
				continue
			}
			own := map[string]any{"orbitNo": orbit.No, "remainMin": minutes}
			if _, isSet := e.Payload["inTime"]; !isSet {
				own["inTime"] = orbit.InTime.Format("2006-01-02 15:04")
			}
			for _, n := range e.onEachChannel(OrbitRemind, e.TaskID, fmt.Sprintf("2_%d_%d_%d", e.TaskID, orbit.No, minutes)) {
				n.NextRunAt, n.Own, n.ExpiresAt = &at, own, new(at.Add(reminderLife))
				all = append(all, n)
			}
		}
	}
	return all
}

// timeoutReminders returns the reminders of an overdue node.
func (e Event) timeoutReminders(now time.Time) []Notification {
	all := e.onEachChannel(NodeTimeout, *e.NodeID, fmt.Sprintf("5_%d", *e.NodeID))
	started := optional.Or(e.StartedAt, now)
	own := map[string]any{"nodeInstId": *e.NodeID}
	var limit int64
	if e.MaxMins != nil {
		limit = *e.MaxMins
		own["maxDuration"] = limit
	}
	if e.Repeat != nil {
		own["timeoutRemind"] = *e.Repeat
	}
	at := started.Add(time.Duration(limit) * time.Minute)
	for i := range all {
		all[i].Own, all[i].NextRunAt, all[i].StartedAt, all[i].Repeat = own, &at, &started, e.Repeat
	}
	return all
}
