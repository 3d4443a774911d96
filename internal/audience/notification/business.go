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
// node restarts the node. An end after such a start ends the node again. A start without StartedAt of a running node keeps the start of the node.
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
		now, err := s.q.Now(ctx)
		if err != nil {
			return fmt.Errorf("read database time: %w", err)
		}
		h, err := s.readHistory(ctx, origin.CompanyID, e, now)
		if err != nil {
			return err
		}
		var all []Notification
		switch e.Name {
		case "task_created":
			e.UserIDs = slices.DeleteFunc(slices.Clone(e.UserIDs), func(id string) bool { return id == e.Initiator })
			all = e.onEachChannel(TaskCreated, e.TaskID, fmt.Sprintf("0_%d", e.TaskID))
		case "node_done":
			all = e.onEachChannel(NodeDone, *e.NodeID, fmt.Sprintf("1_%d_%d", e.TaskID, *e.NodeID))
		case "orbit_plan":
			if !h.taskIsOver() {
				o.Ended, all, err = s.planOrbits(ctx, e, origin, now)
			}
		case "task_finished", "task_abnormal":
			o.Ended, all, err = s.endTask(ctx, origin, e, h, now)
		case "node_started":
			o.Ended, all, err = s.startNode(ctx, origin, e, h, now)
		case "node_finished":
			o.Ended, all, err = s.endNode(ctx, origin, e, h, now)
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

// endTask processes the end of a task. It returns the notifications of the end, and the number of ended reminders. It ends the reminders of all nodes that did
// not start after the end. If a node did, the task has begun again: its reminders of orbits then continue, and the dedup keys of the end are released at once.
// The end notifies nobody if it belongs to a run whose end was reported before.
func (s *Service) endTask(ctx context.Context, origin submit.Origin, e Event, h history, now time.Time) (ended int, all []Notification, err error) {
	at := optional.Or(e.EndedAt, later(now, h.latestStart()))
	hasBegunAgain := h.latestStart().After(at)
	if hasBegunAgain && h.task != nil && !at.After(h.task.at) { // the repeat of an end of a former run, or an older end
		return 0, nil, nil
	}
	bizType, as, key := TaskFinished, Cancelled, "3_%d"
	if e.Name == "task_abnormal" {
		bizType, as, key = TaskAbnormal, EndedAbnormally, "4_%d"
	}
	nodes := h.startedUntil(at)
	if ended, err = s.endReminders(ctx, origin, e, nodes, !hasBegunAgain, as); err != nil {
		return 0, nil, err
	}
	if e.EndedAt != nil || !h.taskIsOver() { // the repeat of an end without a time is no later end
		if err := s.storeTaskEnd(ctx, origin.CompanyID, e.TaskID, nodes, at); err != nil {
			return 0, nil, err
		}
	}
	if hasBegunAgain && h.task != nil && !h.latestStartUntil().After(h.task.at) {
		return ended, nil, nil
	}
	all = e.onEachChannel(bizType, e.TaskID, fmt.Sprintf(key, e.TaskID))
	for i := range all {
		all[i].isReplaced = hasBegunAgain
	}
	return ended, all, nil
}

// endReminders ends the reminders of nodes and, if areOrbitsEnded is true, those of orbits. It returns their number.
func (s *Service) endReminders(ctx context.Context, origin submit.Origin, e Event, nodeIDs []int64, areOrbitsEnded bool, as int16) (int, error) {
	held, err := s.q.BusinessReminders(ctx, notificationq.BusinessRemindersParams{
		CompanyID: origin.CompanyID, TaskID: &e.TaskID, NodeIds: nodeIDs, OfOrbits: areOrbitsEnded,
	})
	if err != nil {
		return 0, fmt.Errorf("lock reminders: %w", err)
	}
	return s.set(ctx, held, as, []int16{Waiting}, By{origin.User, e.Operator})
}

// startNode processes the start of a node. It returns the reminders of the start, and the number of withdrawn reminders. If the start is too late, its reminders
// are marked as ended. A start restarts an ended node or task only if the start is later than the end. A start without a time counts as later than the end of
// the node, unless this end was reported before any start. It counts as earlier than the end of the task.
func (s *Service) startNode(ctx context.Context, origin submit.Origin, e Event, h history, now time.Time) (ended int, all []Notification, err error) {
	isAfter := func(end *ending) bool { return end == nil || e.StartedAt != nil && e.StartedAt.After(end.at) }
	isLate := !isAfter(h.node) && (e.StartedAt != nil || h.node.awaitsStart) || !isAfter(h.task) && (e.StartedAt != nil || h.taskIsOver())
	switch {
	case isLate:
		all = e.timeoutReminders(now)
		for i := range all {
			all[i].isOver = true
		}
		return 0, all, s.storeLateStart(ctx, origin.CompanyID, e, h)
	case h.node == nil && !h.taskIsOver():
		return s.moveDeadline(ctx, origin, e, h, now)
	}
	err = s.beginAgain(ctx, origin.CompanyID, e, h.taskIsOver())
	if err == nil {
		err = s.q.BusinessEndDelete(ctx, notificationq.BusinessEndDeleteParams{CompanyID: origin.CompanyID, Subject: nodeSubject, SubjectID: *e.NodeID})
	}
	return 0, e.timeoutReminders(now), postgres.Wrap("begin node again", err, nil)
}

// beginAgain releases the dedup keys of the former events of a node and, if isOfTask is true, of its task.
func (s *Service) beginAgain(ctx context.Context, companyID int64, e Event, isOfTask bool) error {
	keys := notificationq.BusinessKeysReplaceParams{CompanyID: companyID, TaskID: &e.TaskID}
	if !isOfTask {
		keys.NodeID = e.NodeID
	}
	err := s.q.NodeRemindersReplace(ctx, notificationq.NodeRemindersReplaceParams{CompanyID: companyID, NodeID: *e.NodeID})
	if err == nil {
		err = s.q.BusinessKeysReplace(ctx, keys)
	}
	return postgres.Wrap("release dedup keys", err, nil)
}

// storeLateStart records a start that arrives after an end that is not before it. Such a start can begin the task again. A node without reminders has then ended
// with its task.
func (s *Service) storeLateStart(ctx context.Context, companyID int64, e Event, h history) error {
	node := h.of(*e.NodeID)
	if h.node == nil {
		if node.HasAny {
			return nil
		}
		return s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{at: h.task.at})
	}
	if h.node.awaitsStart {
		if err := s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{at: h.node.at}); err != nil {
			return err
		}
	}
	if e.StartedAt == nil || !e.StartedAt.After(node.ReportedAt) || h.task != nil && !e.StartedAt.After(h.task.at) {
		return nil
	}
	return s.beginAgain(ctx, companyID, e, h.taskIsOver()) // the reminders of this start then record its time
}

// moveDeadline returns the reminders of a start of a node that has not ended. If the start gives the node another deadline or interval, the reminders of the
// former deadline are withdrawn, and people are reminded on all their channels, even on channels that the event does not name. A start without a time, or a
// start before the latest reported start, does not change the start of the node.
func (s *Service) moveDeadline(ctx context.Context, origin submit.Origin, e Event, h history, now time.Time) (ended int, all []Notification, err error) {
	node, isOld := h.of(*e.NodeID), false
	if node.RunsSince.After(never) {
		isOld = e.StartedAt != nil && !e.StartedAt.Equal(node.RunsSince) && !e.StartedAt.After(node.ReportedAt)
		if isOld || e.StartedAt == nil {
			e.StartedAt = &node.RunsSince
		}
	}
	all = e.timeoutReminders(now)
	if isOld {
		return 0, all, nil
	}
	interval, err := intervalOf(e.Repeat, e.Payload)
	if err != nil {
		return 0, nil, err
	}
	moved, err := s.q.NodeRemindersMoved(ctx, notificationq.NodeRemindersMovedParams{
		CompanyID: origin.CompanyID, NodeID: *e.NodeID, StartedAt: optional.Or(e.StartedAt, now), MaxMinutes: *e.MaxMins, RepeatMinutes: interval, Channels: e.Channels,
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
// late start then finds their dedup keys in use. An end before a start that was reported with its time changes nothing.
func (s *Service) endNode(ctx context.Context, origin submit.Origin, e Event, h history, now time.Time) (ended int, all []Notification, err error) {
	companyID, node := origin.CompanyID, h.of(*e.NodeID)
	at := optional.Or(e.EndedAt, later(now, node.ReportedAt))
	if node.ReportedAt.After(at) {
		return 0, nil, nil
	}
	ended, err = s.End(ctx, companyID, nil, []int16{NodeTimeout}, []int64{*e.NodeID}, Cancelled, []int16{Waiting}, By{origin.User, e.Operator})
	switch {
	case err != nil:
		return 0, nil, err
	case h.node == nil:
		err = s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{at, !node.HasAny})
	case e.EndedAt != nil:
		err = s.storeEnd(ctx, companyID, nodeSubject, *e.NodeID, ending{at, h.node.awaitsStart})
	}
	if err != nil {
		return 0, nil, err
	}
	if !node.HasAny {
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
