package notification

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/queue"
)

// Event is something that happened to a business task or one of its nodes (S1.4). What it means is told to people, or ends what
// they would have been told. An event that is told again makes no second notification. The start and the end of a node are known again by
// their times: without StartedAt, a start after the end of its node begins it again, and an end after such a start ends it again.
type Event struct {
	Name      string
	TaskID    int64
	NodeID    *int64
	Channels  []string
	Payload   map[string]any
	UserIDs   []string
	Initiator string
	Orbits    []Orbit
	StartedAt *time.Time // of a node; nil: now
	EndedAt   *time.Time // of a task or a node; nil: now
	MaxMins   *int64     // how long a node may take
	Repeat    *int64     // minutes between reminders
	Sign      *string
	Operator  *string
}

// Orbit is a pass over the station, before which people are reminded.
type Orbit struct {
	No     int64
	InTime time.Time
}

// slotWidth is how long a reminder before an orbit is worth something: until the next is due.
const slotWidth = 15 * time.Minute

// slots are how many minutes before an orbit people are reminded.
var slots = []int{60, 45, 30, 15, 0}

// channelNumbers are the documents' of channels in dedup keys; others have their names there.
var channelNumbers = map[string]string{"oa": "0", "dingtalk": "1"}

func channelNumber(channel string) string {
	if n, ok := channelNumbers[channel]; ok {
		return n
	}
	return channel
}

// Outcome is what an event led to.
type Outcome struct {
	Made          []Made
	HasMoreFailed bool // whether people cannot be reached whom Made leaves out
	Ended         int  // notifications that became pointless
}

// Take makes of an event what follows from it. Faults: request.invalid.
func (s *Service) Take(ctx context.Context, e Event, origin queue.Origin) (Outcome, error) {
	if err := e.check(); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		// The start and the end of something may be told at the same moment, and in either order.
		if err := s.q.BusinessLock(ctx, dbq.BusinessLockParams{CompanyID: origin.CompanyID, TaskID: e.TaskID}); err != nil {
			return fmt.Errorf("lock business task: %w", err)
		}
		ends, err := s.ends(ctx, origin.CompanyID, e)
		if err != nil {
			return err
		}
		now, err := s.q.Now(ctx)
		if err != nil {
			return fmt.Errorf("ask the time: %w", err)
		}
		var all []Notification
		switch e.Name {
		case "task_created":
			e.UserIDs = slices.DeleteFunc(slices.Clone(e.UserIDs), func(id string) bool { return id == e.Initiator })
			all = e.everywhere(TaskCreated, e.TaskID, fmt.Sprintf("0_%d", e.TaskID))
		case "node_done":
			all = e.everywhere(NodeDone, *e.NodeID, fmt.Sprintf("1_%d_%d", e.TaskID, *e.NodeID))
		case "orbit_plan":
			if ends.task == nil {
				all = e.orbits(now)
			}
		case "task_finished", "task_abnormal":
			bizType, as, key := TaskFinished, Cancelled, "3_%d"
			if e.Name == "task_abnormal" {
				bizType, as, key = TaskAbnormal, EndedAbnormally, "4_%d"
			}
			all = e.everywhere(bizType, e.TaskID, fmt.Sprintf(key, e.TaskID))
			// Nobody needs to be reminded of what is over.
			o.Ended, err = s.End(ctx, origin.CompanyID, nil, []int16{OrbitRemind, NodeTimeout}, nil, &e.TaskID, as, []int16{Waiting}, e.Operator)
			if err == nil && ends.task == nil {
				err = s.endTask(ctx, origin.CompanyID, e.TaskID, orTime(e.EndedAt, now))
			}
		case "node_started":
			all = e.timeouts(now)
			err = s.startNode(ctx, origin.CompanyID, e, ends, all)
		case "node_finished":
			o.Ended, all, err = s.endNode(ctx, origin.CompanyID, e, ends, now)
		default:
			return fault.InvalidField("event", fault.NotAllowed, nil)
		}
		if err != nil {
			return err
		}
		made, err := s.Enqueue(ctx, &Announcement{e.Payload, e.UserIDs}, all, origin)
		if e.Name != "node_finished" {
			o.Made, o.HasMoreFailed = made.Made, made.HasMoreFailed
		}
		return err
	})
	return o, err
}

// end is how a business task or a node ended.
type end struct {
	at          time.Time
	awaitsStart bool // it was told before the start
}

// ends are those of the task and the node of an event; nil is not over.
type ends struct{ task, node *end }

// The subjects of ends.
const (
	taskSubject = "task"
	nodeSubject = "node"
)

func (s *Service) ends(ctx context.Context, companyID int64, e Event) (found ends, err error) {
	rows, err := s.q.BusinessEnds(ctx, dbq.BusinessEndsParams{CompanyID: companyID, TaskID: e.TaskID, NodeID: e.NodeID})
	for _, row := range rows {
		one := &end{row.EndedAt, row.AwaitsStart}
		if row.Subject == taskSubject {
			found.task = one
		} else {
			found.node = one
		}
	}
	return found, postgres.Wrap("read ends", err, nil)
}

func (s *Service) putEnd(ctx context.Context, companyID int64, subject string, id int64, e end) error {
	return postgres.Wrap("note end", s.q.BusinessEndPut(ctx, dbq.BusinessEndPutParams{
		CompanyID: companyID, Subject: subject, SubjectID: id, EndedAt: e.at, AwaitsStart: e.awaitsStart,
	}), nil)
}

func (s *Service) endTask(ctx context.Context, companyID, taskID int64, at time.Time) error {
	if err := s.putEnd(ctx, companyID, taskSubject, taskID, end{at: at}); err != nil {
		return err
	}
	return postgres.Wrap("note ends of nodes", s.q.BusinessEndNodes(ctx, dbq.BusinessEndNodesParams{
		CompanyID: companyID, TaskID: &taskID, EndedAt: at,
	}), nil)
}

// startNode finds out whether the start of a node comes too late: of its reminders, all, nothing is told then. What is over is begun
// again only by a start after its end. A start without a time is after the end of the node, unless this end was told before its start,
// and before the end of the task.
func (s *Service) startNode(ctx context.Context, companyID int64, e Event, ends ends, all []Notification) error {
	isAfter := func(end *end) bool { return e.StartedAt != nil && e.StartedAt.After(end.at) }
	isLate := ends.node != nil && !isAfter(ends.node) && (e.StartedAt != nil || ends.node.awaitsStart)
	if isLate || (ends.task != nil && !isAfter(ends.task)) {
		for i := range all {
			all[i].over = true
		}
		if ends.node != nil && ends.node.awaitsStart {
			return s.putEnd(ctx, companyID, nodeSubject, *e.NodeID, end{at: ends.node.at})
		}
		return nil
	}
	if ends.node == nil && ends.task == nil {
		return nil
	}
	err := s.q.NodeRemindersReplace(ctx, dbq.NodeRemindersReplaceParams{CompanyID: companyID, NodeID: *e.NodeID})
	if err == nil {
		err = s.q.BusinessEndDelete(ctx, dbq.BusinessEndDeleteParams{CompanyID: companyID, Subject: nodeSubject, SubjectID: *e.NodeID})
	}
	if err == nil {
		err = s.q.BusinessEndDelete(ctx, dbq.BusinessEndDeleteParams{CompanyID: companyID, Subject: taskSubject, SubjectID: e.TaskID})
	}
	return postgres.Wrap("begin node again", err, nil)
}

// endNode ends the reminders of a node, and tells how many. Of a node that was never begun it gives reminders that are over, whose names
// a late start finds taken. An end of before its latest start changes nothing, if that start was told with its time.
func (s *Service) endNode(ctx context.Context, companyID int64, e Event, ends ends, now time.Time) (ended int, all []Notification, err error) {
	reminders, err := s.q.NodeReminders(ctx, dbq.NodeRemindersParams{CompanyID: companyID, NodeID: *e.NodeID})
	if err != nil {
		return 0, nil, fmt.Errorf("look for reminders: %w", err)
	}
	if e.EndedAt != nil && reminders.StartedAt.After(*e.EndedAt) {
		return 0, nil, nil
	}
	ended, err = s.End(ctx, companyID, nil, []int16{NodeTimeout}, []int64{*e.NodeID}, nil, Cancelled, []int16{Waiting}, e.Operator)
	switch {
	case err != nil:
		return 0, nil, err
	case ends.node == nil:
		if err := s.putEnd(ctx, companyID, nodeSubject, *e.NodeID, end{orTime(e.EndedAt, now), !reminders.HasAny}); err != nil {
			return 0, nil, err
		}
	case e.EndedAt != nil:
		if err := s.putEnd(ctx, companyID, nodeSubject, *e.NodeID, end{*e.EndedAt, ends.node.awaitsStart}); err != nil {
			return 0, nil, err
		}
	}
	if !reminders.HasAny {
		all = e.timeouts(now)
		for i := range all {
			all[i].over = true
		}
	}
	return ended, all, nil
}

func orTime(at *time.Time, otherwise time.Time) time.Time {
	if at == nil {
		return otherwise
	}
	return *at
}

// How many notifications and, once their times have come, messages the orbits of an event may make.
const (
	remindersMost = 1000
	messagesMost  = 50_000
)

// orbitsMost is how many orbits an event may have, with as many channels and people as it has; one is always allowed.
func (e Event) orbitsMost() int {
	reminders := min(remindersMost, messagesMost/max(len(e.UserIDs), 1))
	return max(reminders/(len(slots)*max(len(e.Channels), 1)), 1)
}

// How many days ahead people may be told, and for how many years a node may have been worked on.
const (
	farthest = 366
	longest  = 20
)

// check finds what is wrong with an event.
func (e Event) check() error {
	for i, orbit := range e.Orbits {
		if orbit.InTime.After(time.Now().AddDate(0, 0, farthest)) {
			return fault.InvalidField(fmt.Sprintf("orbits.%d.in_time", i), fault.TooFarAhead, farthest)
		}
	}
	if at := e.StartedAt; at != nil && at.After(time.Now().AddDate(0, 0, farthest)) {
		return fault.InvalidField("started_at", fault.TooFarAhead, farthest)
	}
	if at := e.StartedAt; at != nil && at.Before(time.Now().AddDate(-longest, 0, 0)) {
		return fault.InvalidField("started_at", fault.InThePast, nil)
	}
	if at := e.EndedAt; at != nil && at.After(time.Now().AddDate(0, 0, farthest)) {
		return fault.InvalidField("finished_at", fault.TooFarAhead, farthest)
	}
	if at := e.EndedAt; at != nil && at.Before(time.Now().AddDate(-longest, 0, 0)) {
		return fault.InvalidField("finished_at", fault.InThePast, nil)
	}
	isOfNode := slices.Contains([]string{"node_done", "node_started", "node_finished"}, e.Name)
	switch {
	case isOfNode && e.NodeID == nil:
		return fault.InvalidField("node_inst_id", fault.Required, nil)
	case e.Name == "node_started" && e.MaxMins == nil:
		return fault.InvalidField("max_duration", fault.Required, nil)
	case e.Name == "orbit_plan" && len(e.Orbits) == 0:
		return fault.InvalidField("orbits", fault.Required, nil)
	case e.Name != "node_finished" && len(e.UserIDs) == 0:
		return fault.InvalidField("user_ids", fault.Required, nil)
	case e.Name == "orbit_plan" && len(e.Orbits) > e.orbitsMost():
		return fault.InvalidField("orbits", fault.TooManyTogether, e.orbitsMost())
	}
	return nil
}

// everywhere is one notification for each channel.
func (e Event) everywhere(bizType int16, bizID int64, key string) []Notification {
	all := make([]Notification, len(e.Channels))
	for i, channel := range e.Channels {
		all[i] = Notification{
			BizType: bizType, BizID: bizID, BizTaskID: &e.TaskID, Channel: channel,
			DedupKey: new(key + "_" + channelNumber(channel)), Sign: e.Sign, Operator: e.Operator,
		}
	}
	return all
}

// orbits are the reminders before each orbit, those whose time has passed left out.
func (e Event) orbits(now time.Time) []Notification {
	var all []Notification
	for _, orbit := range e.Orbits {
		for _, minutes := range slots {
			at := orbit.InTime.Add(-time.Duration(minutes) * time.Minute)
			if at.Before(now) {
				continue
			}
			own := map[string]any{"orbitNo": orbit.No, "remainMin": minutes}
			if _, said := e.Payload["inTime"]; !said {
				own["inTime"] = orbit.InTime.Format("2006-01-02 15:04")
			}
			for _, n := range e.everywhere(OrbitRemind, e.TaskID, fmt.Sprintf("2_%d_%d_%d", e.TaskID, orbit.No, minutes)) {
				n.NextRunAt, n.Own, n.ExpiresAt = &at, own, new(at.Add(slotWidth))
				all = append(all, n)
			}
		}
	}
	return all
}

// timeouts are the reminders of a node that takes too long.
func (e Event) timeouts(now time.Time) []Notification {
	all := e.everywhere(NodeTimeout, *e.NodeID, fmt.Sprintf("5_%d", *e.NodeID))
	started := orTime(e.StartedAt, now)
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
