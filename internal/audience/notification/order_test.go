package notification_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lksms/internal/audience/notification"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

// business reports events of one business task. Times are minutes from now.
type business struct {
	b    *apptest.Bundle
	now  time.Time
	task int64
}

// newBusiness returns a task that no other test of the bundle uses. Its nodes have numbers above task.
func newBusiness(b *apptest.Bundle) *business {
	return &business{b, time.Now().Truncate(time.Second), rand.Int64N(1<<40) << 10}
}

// event returns an event at a time. at nil: the event has no time.
func (t *business) event(name string, node int64, at *int) notification.Event {
	e := notification.Event{
		Name: name, TaskID: t.task, Channels: []string{"oa"}, UserIDs: []string{"u1"}, Payload: map[string]any{"taskName": "x", "nodeName": "y"},
	}
	if strings.HasPrefix(name, "node_") {
		e.NodeID = new(t.task + node)
	}
	if name == "node_started" {
		e.MaxMins = new(int64(600))
	}
	if at == nil {
		return e
	}
	if when := t.now.Add(time.Duration(*at) * time.Minute); name == "node_started" {
		e.StartedAt = &when
	} else {
		e.EndedAt = &when
	}
	return e
}

// take reports an event.
func (t *business) take(e notification.Event) notification.Outcome {
	o, err := t.b.App.Notifications.ProcessEvent(t.b.T.Context(), e, submit.Origin{User: "lksms", CompanyID: 1})
	if err != nil {
		t.b.T.Fatal(err)
	}
	return o
}

func (t *business) start(node int64, at int) notification.Outcome {
	return t.take(t.event("node_started", node, &at))
}

// startNow reports a start without a time, with this maximum duration.
func (t *business) startNow(node, minutes int64) notification.Outcome {
	e := t.event("node_started", node, nil)
	e.MaxMins = &minutes
	return t.take(e)
}

func (t *business) finish(node int64, at int) notification.Outcome {
	return t.take(t.event("node_finished", node, &at))
}

func (t *business) finishTask(at int) notification.Outcome {
	return t.take(t.event("task_finished", 0, &at))
}

// waiting returns the waiting reminders of the nodes, in the form "node+minutes" with the time from now at which the reminder is due.
func (t *business) waiting() string {
	return apptest.Scan[string](t.b, `SELECT coalesce(string_agg(format('%s%s', biz_id - $1::bigint, to_char(round(extract(epoch FROM next_run_at - $2) / 60), 'SG9999FM')), ' '
		ORDER BY biz_id, next_run_at), '') FROM notifications WHERE biz_type = 5 AND biz_task_id = $1 AND next_run_at IS NOT NULL`, t.task, t.now)
}

// ends returns the number of notifications about the end of the task.
func (t *business) ends() int {
	return t.b.Count("SELECT count(*) FROM notifications WHERE biz_type IN (3, 4) AND biz_task_id = $1", t.task)
}

// want fails unless an event ended and made this number of notifications, and exactly these reminders wait.
func (t *business) want(o notification.Outcome, ended, made int, waiting string) {
	t.b.T.Helper()
	isNew := slices.DeleteFunc(slices.Clone(o.Made), func(m notification.Made) bool { return m.Deduplicated })
	if got := t.waiting(); o.Ended != ended || len(isNew) != made || got != waiting {
		t.b.T.Errorf("ended %d, want %d; made %d, want %d; %q wait, want %q", o.Ended, ended, len(isNew), made, got, waiting)
	}
}

// A start without a time does not move the start of a running node. Therefore a repeated end of the former run still changes nothing.
func TestAStartWithoutATimeKeepsTheStartOfARunningNode(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	run := newBusiness(b)
	run.want(run.start(60, -30), 0, 1, "60+570")
	run.want(run.finishTask(-20), 1, 1, "")
	run.want(run.start(60, -15), 0, 1, "60+585")
	run.want(run.finishTask(-20), 0, 0, "60+585")
	run.want(run.startNow(60, 90), 1, 1, "60+75")
	run.want(run.finishTask(-20), 0, 0, "60+75")
	run.want(run.finish(60, -20), 0, 0, "60+75")
	run.want(run.startNow(60, 90), 0, 0, "60+75")
	other := run.event("node_started", 60, nil)
	other.MaxMins, other.Channels = new(int64(90)), []string{"dingtalk"}
	run.want(run.take(other), 0, 1, "60+75 60+75")
	run.want(run.finish(60, -10), 2, 0, "")
	run.want(run.startNow(60, 90), 0, 1, "60+90")
	run.want(run.finishTask(-20), 0, 0, "60+90")
	run.want(run.finish(60, -20), 0, 0, "60+90")
	run.want(run.start(60, -15), 0, 0, "60+90") // a repeat of a former start
	// A start that was assumed is not moved either. An end before it still ends its reminder.
	run = newBusiness(b)
	run.startNow(1, 60)
	b.Exec(`UPDATE notifications SET created_at = created_at - interval '20 minutes', started_at = started_at - interval '20 minutes'
		WHERE biz_task_id = $1`, run.task)
	run.want(run.startNow(1, 90), 1, 1, "1+70")
	run.want(run.startNow(1, 120), 1, 1, "1+100")
	run.want(run.finish(1, -50), 1, 0, "")
}

// The end of a task can be reported after the start of its next run.
func TestALateEndOfATaskEndsOnlyTheNodesThatStartedBefore(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	run := newBusiness(b)
	run.start(1, -30)
	run.start(2, -5)
	run.want(run.finishTask(-10), 1, 1, "2+595")
	run.want(run.finishTask(-10), 0, 0, "2+595")
	run.want(run.start(1, -30), 0, 0, "2+595")
	run.want(run.finishTask(-1), 1, 1, "") // the end of the next run is new
	run.want(run.finishTask(-1), 0, 0, "")
	run = newBusiness(b)
	run.start(1, -5)
	run.want(run.finishTask(-10), 0, 1, "1+595")
	// A second late end belongs to the same run if no start is between the ends. It still decides about late starts.
	run.want(run.finishTask(-8), 0, 0, "1+595")
	run.want(run.start(2, -9), 0, 1, "1+595")
	run.want(run.finishTask(-10), 0, 0, "1+595")
}

// The orbits of a running task stay if an end of a former run arrives late. After the end of the task, no plan is accepted.
func TestALateEndOfATaskKeepsTheOrbitsOfTheNextRun(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	run := newBusiness(b)
	plan := run.event("orbit_plan", 0, nil)
	plan.Orbits = []notification.Orbit{{No: 9, InTime: run.now.Add(20 * time.Minute)}}
	run.start(1, -30)
	run.start(2, -5)
	run.want(run.take(plan), 0, 2, "1+570 2+595")
	run.want(run.finishTask(-10), 1, 1, "2+595")
	run.want(run.take(plan), 0, 0, "2+595")
	run.want(run.finishTask(-1), 3, 1, "")
	run.want(run.take(plan), 0, 0, "")
	run.want(run.start(2, 0), 0, 1, "2+600")
	run.want(run.take(plan), 0, 2, "2+600")
}

// Each end of a task ends all its nodes, also if a former end is recorded. A late start is compared with all former ends.
func TestALateStartBeforeAnEndOfItsTaskSendsNoReminder(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	run := newBusiness(b)
	run.start(50, -30)
	run.finishTask(-20)
	run.start(51, -15)
	run.want(run.start(52, -25), 0, 1, "51+585") // a node without an earlier event
	run.finishTask(-10)
	run.want(run.start(51, -5), 0, 1, "51+595")
	run.want(run.start(50, -12), 0, 0, "51+595")
	run.want(run.start(51, -12), 0, 0, "51+595")
	run.want(run.startNow(52, 600), 0, 1, "51+595 52+600") // the former run of this node is over
}

// An end without a time comes after all known starts, even if the clock of the caller is ahead. A repeated start then changes nothing.
func TestAnEndWithoutATimeComesAfterAllKnownStarts(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	for _, end := range []string{"node_finished", "task_finished"} {
		run := newBusiness(b)
		run.start(1, 1)
		run.take(run.event(end, 1, nil))
		run.want(run.start(1, 1), 0, 0, "")
		run.want(run.start(1, 2), 0, 1, "1+602")
	}
}

// reported is an event that the random test reports.
type reported struct {
	name string
	node int64
	at   int
}

// wantWaiting returns the reminders that wait after the events, in any order: those of nodes whose latest start is after all ends of the node and of the task.
func wantWaiting(events []reported) string {
	var all []string
	for node := range int64(2) {
		started, ended := -100, -100
		for _, e := range events {
			switch {
			case e.name == "node_started" && e.node == node:
				started = max(started, e.at)
			case e.name == "node_finished" && e.node == node, e.name == "task_finished", e.name == "task_abnormal":
				ended = max(ended, e.at)
			}
		}
		if started > ended {
			all = append(all, fmt.Sprintf("%d+%d", node, 600+started))
		}
	}
	return strings.Join(all, " ")
}

// Events with times lead to the same reminders in each order. Repeated events then change nothing, and notify nobody again.
func TestTheOrderOfEventsWithTimesDoesNotMatter(t *testing.T) {
	b, _ := apptest.NewNotifying(t)
	names := []string{"node_started", "node_started", "node_started", "node_finished", "task_finished", "task_abnormal"}
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfNDistinct(rapid.IntRange(-60, -1), 2, 6, rapid.ID).Draw(t, "times")
		events := make([]reported, len(times))
		for i, at := range times {
			events[i] = reported{rapid.SampledFrom(names).Draw(t, "name"), rapid.Int64Range(0, 1).Draw(t, "node"), at}
		}
		run := newBusiness(b)
		send := func(label string) {
			for _, e := range rapid.Permutation(events).Draw(t, label) {
				run.take(run.event(e.name, e.node, &e.at))
			}
			if got, want := run.waiting(), wantWaiting(events); got != want {
				t.Fatalf("%s: %q wait, want %q", label, got, want)
			}
		}
		send("order")
		ends := run.ends()
		send("repeats")
		if got := run.ends(); got != ends {
			t.Fatalf("%d notifications of ends, want %d", got, ends)
		}
	})
}
