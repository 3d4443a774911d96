package model

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// This file checks quiet hours against a second, smaller model (R5). It predicts no due times, because messages are sent at any moment of the half hour after
// quiet hours. It checks that no message is sent in quiet hours, that leases end before them, and that no message waits longer than it must.

// quietSpread is how long after the end of quiet hours the last waiting message is sent.
const quietSpread = 30 * time.Minute

// people are the recipients. Quiet hours are local times of their zones.
var people = []struct{ number, zone string }{
	{"+8613800138000", "Asia/Shanghai"}, {"+12125550123", "America/New_York"}, {"+493012345678", "Europe/Berlin"},
}

// sleepers is the model: one company whose quiet hours change, one sender, and messages to people.
type sleepers struct {
	service *service
	phone   string // another one in each sequence, because the service remembers known senders
	now     time.Time
	hours   map[string]string    // by message type; a missing or empty text: no quiet hours
	changed map[string]time.Time // by message type: when the hours changed last
	waiting map[string]*letter
	leased  map[string]*letter
}

// letter is a message.
type letter struct {
	kind       string
	zone       *time.Location
	urgent     bool
	due        time.Time // a claim cannot return the message earlier; if the message had an attempt, only quiet hours delay it after this time
	since      time.Time // when it began to wait
	lease      claimedTask
	isRepeated bool // it had an attempt
}

func TestQuietHoursMatchTheModel(t *testing.T) {
	s := newService(t, 1)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		q := newSleepers(t, s, fmt.Sprint("phone", n))
		t.Repeat(map[string]func(*rapid.T){
			"submit":               q.submit,
			"submit one more":      q.submit,
			"claim":                q.claim,
			"report":               q.report,
			"change the hours":     q.change,
			"let time pass":        q.pass,
			"let more time pass":   q.passLong,
			"pass to a full hour":  q.passToHour,
			"pass the next spread": q.passSpread,
		})
		q.end(t)
	})
}

// newSleepers begins a sequence shortly before the clocks of New York or Berlin change. The clock of the server process is earlier, so the sweep decides about
// every message by the clock of PostgreSQL.
func newSleepers(t *rapid.T, s *service, phone string) *sleepers {
	s.empty(t)
	q := &sleepers{service: s, phone: phone, hours: map[string]string{}, changed: map[string]time.Time{}, waiting: map[string]*letter{}, leased: map[string]*letter{}}
	change := oneOf(t, "change of the clocks", clockChanges("America/New_York", "Europe/Berlin")...)
	q.moveTo(t, change.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "hours before"))*time.Hour))
	for _, c := range []struct{ no, prefix string }{{"CN", "86"}, {"DE", "49"}, {"US", "1"}} {
		a := s.call(t, "", http.MethodPost, "/api/v1/admin/countries", map[string]any{"country_no": c.no, "name": c.no, "dial_prefix": c.prefix})
		if a.Status != http.StatusOK && a.Body.Error.Reason != "exists" {
			t.Fatalf("create country: %s", a.Raw)
		}
	}
	q.set(t, "notification", "")
	q.set(t, "marketing", "21:00-09:00")
	return q
}

// clockChanges returns the moments of the next year at which the clocks of zones change.
func clockChanges(names ...string) (all []time.Time) {
	for _, name := range names {
		zone := location(name)
		at := time.Date(time.Now().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, before := at.In(zone).Zone(); at.Year() == time.Now().Year()+1; at = at.Add(time.Hour) {
			if _, offset := at.In(zone).Zone(); offset != before {
				all = append(all, at)
				before = offset
			}
		}
	}
	return all
}

func location(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// isQuiet reports whether a time is in the quiet hours of a message.
func (q *sleepers) isQuiet(l *letter, at time.Time) bool {
	hours := q.hours[l.kind]
	if hours == "" || l.urgent {
		return false
	}
	first, last, _ := strings.Cut(hours, "-")
	if clock := at.In(l.zone).Format("15:04"); first < last {
		return first <= clock && clock < last
	} else {
		return first <= clock || clock < last
	}
}

// isQuietWithin reports whether any time between from and to is in the quiet hours of a message.
func (q *sleepers) isQuietWithin(l *letter, from, to time.Time) bool {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		if q.isQuiet(l, at) {
			return true
		}
	}
	return q.isQuiet(l, to)
}

// mustLeave reports whether a claim now must return a waiting message.
func (q *sleepers) mustLeave(l *letter) bool {
	since, changed := l.since, q.changed[l.kind]
	if since.Before(changed) {
		since = changed
	}
	switch {
	case q.now.Before(l.due) || q.isQuiet(l, q.now.Add(time.Minute)): // the lease would end at once
		return false
	case !l.isRepeated && !q.isQuietWithin(l, since, q.now):
		return true
	default:
		long := q.now.Add(-quietSpread - time.Minute)
		return l.due.Before(long) && !q.isQuietWithin(l, long, q.now)
	}
}

// moveTo moves the clock, and runs the sweeps.
func (q *sleepers) moveTo(t *rapid.T, at time.Time) {
	q.now = at.Truncate(time.Millisecond)
	q.service.set(t, q.now)
	q.sweep(t)
}

func (q *sleepers) sweep(t *rapid.T) {
	server := q.service.any()
	q.service.call(t, "", http.MethodPost, "/api/v1/admin/recover-zombie-tasks", nil)
	for _, sweep := range []struct {
		name string
		run  func() (int, error)
	}{
		{"quiet hours", func() (int, error) { return server.Queue.MoveQuiet(t.Context()) }},
		{"queue", func() (int, error) { return server.Queue.Queue(t.Context()) }},
	} {
		if _, err := sweep.run(); err != nil {
			t.Fatalf("sweep %s: %v", sweep.name, err)
		}
	}
	for id, l := range q.leased {
		if !q.now.Before(l.lease.LeaseUntil) {
			q.returned(t, id, q.now.Add(retryMaxWait))
		}
	}
}

// returned records that the lease of a message ended without success. The service has decided whether it waits again. If quiet hours ended the lease, the sender
// can still report for a limited time.
func (q *sleepers) returned(t *rapid.T, id string, due time.Time) {
	l := q.leased[id]
	status := q.statusOf(t, id)
	if status == processing && q.now.Before(l.lease.LeaseUntil.Add(reportGrace)) {
		return
	}
	delete(q.leased, id)
	switch status {
	case pending:
		l.isRepeated, l.since, l.due = true, q.now, due
		q.waiting[id] = l
	case processing:
		t.Fatalf("%s is still leased at %s; its lease ended at %s", id, q.now, l.lease.LeaseUntil)
	}
}

func (q *sleepers) statusOf(t *rapid.T, id string) int {
	return dataOf[taskRow](t, q.service.call(t, "", http.MethodGet, "/api/v1/sms/task/"+id, nil)).Status
}

func (q *sleepers) submit(t *rapid.T) {
	person := oneOf(t, "person", people...)
	l := &letter{kind: oneOf(t, "message type", "marketing", "marketing", "notification", "verification"), zone: location(person.zone), due: q.now, since: q.now}
	body := map[string]any{"phone_number": person.number, "content": "text", "use_template": false, "message_type": l.kind}
	if l.urgent = oneOf(t, "urgent", false, false, false, true); l.urgent {
		body["priority"] = 0
	}
	made := dataOf[struct {
		TaskID string `json:"task_id"`
	}](t, q.service.call(t, "", http.MethodPost, "/api/v1/sms/send", body))
	q.waiting[made.TaskID] = l
	t.Logf("%s: %s to %s, urgent %t, is %s", q.now.In(l.zone), l.kind, person.number, l.urgent, made.TaskID)
	q.sweep(t)
}

// claim claims everything. It checks each returned message, and that the claim omitted no message that it must return.
func (q *sleepers) claim(t *rapid.T) {
	rows := dataOf[[]claimedTask](t, q.service.call(t, "", http.MethodPost, "/api/v1/sms/tasks/claim", map[string]any{"app_id": q.phone, "limit": 500}))
	t.Logf("%s: %d claimed", q.now, len(rows))
	for _, row := range rows {
		l := q.waiting[row.TaskID]
		switch {
		case l == nil:
			t.Fatalf("%s does not wait", row.TaskID)
		case !l.isRepeated && q.now.Before(l.due):
			t.Fatalf("%s is due at %s", row.TaskID, l.due)
		case q.isQuietWithin(l, q.now, row.LeaseUntil.Add(-time.Second)):
			t.Fatalf("%s was claimed at %s until %s, in the quiet hours %s", row.TaskID, q.now.In(l.zone), row.LeaseUntil.In(l.zone), q.hours[l.kind])
		}
		l.lease = row
		q.leased[row.TaskID] = l
		delete(q.waiting, row.TaskID)
	}
	for id, l := range q.waiting {
		if q.mustLeave(l) {
			t.Log(q.service.call(t, "", http.MethodGet, "/api/v1/sms/task/"+id+"/explain", nil).Raw)
			t.Fatalf("%s (%s) was not claimed at %s. It is due at %s; the quiet hours are %q, changed at %s", id, l.kind, q.now.In(l.zone), l.due.In(l.zone), q.hours[l.kind], q.changed[l.kind].In(l.zone))
		}
	}
}

// report reports a leased message.
func (q *sleepers) report(t *rapid.T) {
	id := someOf(t, "leased message", slices.Sorted(maps.Keys(q.leased)))
	outcome := oneOf(t, "outcome", "success", "retry")
	body := map[string]any{"task_id": id, "app_id": q.phone, "lease_id": q.leased[id].lease.LeaseID, "status": success}
	if outcome == "retry" {
		body["status"], body["should_retry"] = failed, true
	}
	if a := q.service.call(t, "", http.MethodPost, "/api/v1/sms/report", body); a.Status != http.StatusOK {
		t.Fatalf("report %v: %s", body, a.Raw)
	}
	t.Logf("%s: %s of %s", q.now, outcome, id)
	switch status := q.statusOf(t, id); {
	case status == processing || outcome == "success" && status != success:
		t.Fatalf("%s has the status %d after the report %s", id, status, outcome)
	case outcome == "success":
		delete(q.leased, id)
		return
	}
	q.sweep(t)
	if q.leased[id] != nil { // the sweep has recorded it already if the lease has ended
		q.returned(t, id, q.now.Add(retryMaxWait))
	}
}

// change changes the quiet hours of a message type, also to hours that have just begun or end soon.
func (q *sleepers) change(t *rapid.T) {
	local := q.now.In(location(oneOf(t, "person", people...).zone))
	from := local.Add(time.Duration(rapid.IntRange(-600, 120).Draw(t, "minutes until they begin")) * time.Minute)
	begin := from.Hour()*60 + from.Minute()
	end := (begin + rapid.IntRange(1, 900).Draw(t, "minutes")) % (24 * 60) // by the wall clock, also when the clocks change in between
	own := fmt.Sprintf("%02d:%02d-%02d:%02d", begin/60, begin%60, end/60, end%60)
	q.set(t, oneOf(t, "message type", "marketing", "notification"), oneOf(t, "hours", "", "21:00-09:00", own, own))
}

// set sets the quiet hours of a message type, and applies them to waiting messages.
func (q *sleepers) set(t *rapid.T, kind, hours string) {
	a := q.service.call(t, "", http.MethodPatch, "/api/v1/admin/companies/default", map[string]any{"recipient": map[string]any{"quiet_hours": map[string]any{kind: hours}}})
	if a.Status != http.StatusOK {
		t.Fatalf("set quiet hours %q: %s", hours, a.Raw)
	}
	t.Logf("%s: quiet hours of %s are %q", q.now, kind, hours)
	if _, err := q.service.db.Exec(t.Context(), "UPDATE quiet_changes SET begins_at = now()"); err != nil {
		t.Fatal(err)
	}
	if hours != q.hours[kind] { // the same hours again move no message
		q.hours[kind], q.changed[kind] = hours, q.now
	}
	q.sweep(t)
}

func (q *sleepers) pass(t *rapid.T) {
	q.moveTo(t, q.now.Add(time.Duration(rapid.IntRange(1, 2400).Draw(t, "seconds"))*time.Second))
}

func (q *sleepers) passLong(t *rapid.T) {
	q.moveTo(t, q.now.Add(time.Duration(rapid.IntRange(1, 720).Draw(t, "minutes"))*time.Minute))
}

// passToHour moves the clock to a second before, at or after a full hour. The usual quiet hours begin and end there.
func (q *sleepers) passToHour(t *rapid.T) {
	hour := q.now.Truncate(time.Hour).Add(time.Duration(rapid.IntRange(1, 12).Draw(t, "hours")) * time.Hour)
	if at := hour.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "seconds")) * time.Second); at.After(q.now) {
		q.moveTo(t, at)
	}
}

// passSpread moves the clock past the time at which the last message that waited in quiet hours is due.
func (q *sleepers) passSpread(t *rapid.T) { q.moveTo(t, q.now.Add(quietSpread+2*time.Minute)) }

// end removes the quiet hours, and checks that every message is sent.
func (q *sleepers) end(t *rapid.T) {
	q.set(t, "marketing", "")
	q.set(t, "notification", "")
	q.moveTo(t, q.now.Add(2*time.Hour)) // the maximum time of leases and retries together
	q.claim(t)
	if len(q.waiting) > 0 {
		t.Fatal(fmt.Sprint(len(q.waiting), " messages were never claimed"))
	}
}
