package notify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lksms/internal/fault"
	"lksms/internal/task"
)

// Event is something that happened to a business task or one of its nodes (S1.4). What it means is told to people, or ends what
// they would have been told. The same event again changes nothing.
type Event struct {
	Name      string
	TaskID    int64
	NodeID    *int64
	Channels  []string
	Payload   map[string]any
	UserIDs   []string
	Initiator string
	Orbits    []Orbit
	StartedAt *time.Time
	MaxMins   *int64 // how long a node may take
	Repeat    *int64 // minutes between reminders
	Sign      *string
	Operator  *string
}

// Orbit is a pass over the station, before which people are reminded.
type Orbit struct {
	No     int64
	InTime time.Time
}

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
	Made  []Made
	Ended int // notifications that became pointless
}

// Take makes of an event what follows from it. Faults: request.invalid.
func (s *Service) Take(ctx context.Context, e Event, origin task.Origin) (Outcome, error) {
	if err := e.check(); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		now, err := s.q.Now(ctx)
		if err != nil {
			return fmt.Errorf("ask the time: %w", err)
		}
		var all []Notification
		switch e.Name {
		case "task_created":
			all = e.everywhere(TaskCreated, e.TaskID, fmt.Sprintf("0_%d", e.TaskID))
			for i := range all {
				all[i].UserIDs = slices.DeleteFunc(slices.Clone(e.UserIDs), func(id string) bool { return id == e.Initiator })
			}
		case "node_done":
			all = e.everywhere(NodeDone, *e.NodeID, fmt.Sprintf("1_%d_%d", e.TaskID, *e.NodeID))
		case "orbit_plan":
			all = e.orbits(now)
		case "task_finished", "task_abnormal":
			bizType, as, key := TaskFinished, Cancelled, "3_%d"
			if e.Name == "task_abnormal" {
				bizType, as, key = TaskAbnormal, EndedAbnormally, "4_%d"
			}
			all = e.everywhere(bizType, e.TaskID, fmt.Sprintf(key, e.TaskID))
			// Nobody needs to be reminded of what is over.
			o.Ended, err = s.End(ctx, origin.CompanyID, nil, []int16{OrbitRemind, NodeTimeout}, nil, &e.TaskID, as, []int16{Waiting}, e.Operator)
		case "node_started":
			all = e.timeouts(now)
		case "node_finished":
			o.Ended, err = s.End(ctx, origin.CompanyID, nil, []int16{NodeTimeout}, []int64{*e.NodeID}, nil, Cancelled, []int16{Waiting}, e.Operator)
			// Should the start of the node be told after its end, it finds its name taken.
			all = e.timeouts(now)
			for i := range all {
				all[i].over = true
			}
		default:
			return fault.InvalidField("event", fault.NotAllowed, nil)
		}
		if err != nil {
			return err
		}
		made, err := s.Enqueue(ctx, all, origin)
		if e.Name != "node_finished" {
			o.Made = made
		}
		return err
	})
	return o, err
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
	}
	return nil
}

// everywhere is one notification for each channel.
func (e Event) everywhere(bizType int16, bizID int64, key string) []Notification {
	all := make([]Notification, len(e.Channels))
	for i, channel := range e.Channels {
		all[i] = Notification{
			BizType: bizType, BizID: bizID, BizTaskID: &e.TaskID, Channel: channel, Payload: e.Payload, UserIDs: e.UserIDs,
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
			payload := maps.Clone(e.Payload)
			if payload == nil {
				payload = map[string]any{}
			}
			payload["orbitNo"], payload["remainMin"] = orbit.No, minutes
			if _, said := payload["inTime"]; !said {
				payload["inTime"] = orbit.InTime.Format("2006-01-02 15:04")
			}
			for _, n := range e.everywhere(OrbitRemind, e.TaskID, fmt.Sprintf("2_%d_%d_%d", e.TaskID, orbit.No, minutes)) {
				n.NextRunAt, n.Payload = &at, payload
				all = append(all, n)
			}
		}
	}
	return all
}

// timeouts are the reminders of a node that takes too long.
func (e Event) timeouts(now time.Time) []Notification {
	all := e.everywhere(NodeTimeout, *e.NodeID, fmt.Sprintf("5_%d", *e.NodeID))
	started := now
	if e.StartedAt != nil {
		started = *e.StartedAt
	}
	payload := maps.Clone(e.Payload)
	if payload == nil {
		payload = map[string]any{}
	}
	payload["nodeInstId"] = *e.NodeID
	var limit int64
	if e.MaxMins != nil {
		limit = *e.MaxMins
		payload["maxDuration"] = limit
	}
	if e.Repeat != nil {
		payload["timeoutRemind"] = *e.Repeat
	}
	at := started.Add(time.Duration(limit) * time.Minute)
	for i := range all {
		all[i].Payload, all[i].NextRunAt, all[i].StartedAt, all[i].Repeat = payload, &at, &started, e.Repeat
	}
	return all
}
