package model

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// taskRow is a task as the API returns it.
type taskRow struct {
	TaskID         string     `json:"task_id"`
	PhoneNumber    string     `json:"phone_number"`
	Content        string     `json:"content"`
	Status         int        `json:"status"`
	RetryCount     int        `json:"retry_count"`
	Holder         *string    `json:"processing_app_id"`
	DueAt          time.Time  `json:"due_at"`
	LeaseUntil     *time.Time `json:"lease_until"`
	CreatedAt      time.Time  `json:"created_at"`
	SentAt         *time.Time `json:"sent_at"`
	ReportedAt     *time.Time `json:"reported_at"`
	MessageType    string     `json:"message_type"`
	Priority       int        `json:"priority"`
	Segments       int        `json:"segments"`
	CountryNo      *string    `json:"country_no"`
	Sign           *string    `json:"sign"`
	ExpectSendTime *time.Time `json:"expect_send_time"`
	ExpiresAt      *time.Time `json:"expires_at"`
}

// rowOf returns the task row that the API should return for a task of the model.
func (w *world) rowOf(x *task) taskRow {
	row := taskRow{
		TaskID: x.id, PhoneNumber: x.to.written, Content: x.content, Status: x.status, RetryCount: x.retries, Holder: textOrNil(x.holder),
		DueAt: x.due, CreatedAt: x.created, SentAt: x.sent, ReportedAt: x.settled, MessageType: x.kind, Priority: x.priority,
		Segments: x.segments(), CountryNo: textOrNil(x.to.country), Sign: textOrNil(x.sign), ExpectSendTime: x.asked, ExpiresAt: x.expires,
	}
	if x.status == processing {
		row.LeaseUntil = &x.until
	}
	return row
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// check runs after each step. It compares the service with the model: every task, the statistics, and the timelines, senders and ledgers that the step changed
// or used.
func (q *sequence) check(t *rapid.T) {
	q.world.follow()
	q.checkTasks(t)
	if got := dataOf[counts](t, q.service.list(t, "/api/v1/admin/task-statistics")); got != q.world.counts() {
		t.Fatalf("statistics %+v, want %+v", got, q.world.counts())
	}
	for _, x := range q.tasks[:min(3, len(q.tasks))] {
		q.checkTimeline(t, x)
	}
	for _, s := range q.world.senders {
		if slices.Contains(q.senders, s) {
			q.checkSender(t, s)
		}
	}
}

// end runs after a sequence. It compares the timelines, senders and ledgers of the whole sequence with the model.
func (q *sequence) end(t *rapid.T) {
	for _, x := range q.world.tasks {
		q.checkTimeline(t, x)
	}
	for _, s := range q.world.senders {
		q.checkSender(t, s)
		q.checkRecord(t, s)
	}
}

// checkRecord compares the totals and events of a sender with what the sender did.
func (q *sequence) checkRecord(t *rapid.T, s *sender) {
	t.Helper()
	a := q.service.call(t, "", http.MethodGet, "/api/v1/admin/senders/"+s.no, nil)
	got := dataOf[struct {
		Attempts    int
		Total       int      `json:"total_sent"`
		SuccessRate *float64 `json:"success_rate"`
	}](t, a)
	if got.Total != s.succeeded || got.Attempts != s.attempts {
		t.Fatalf("%s should have sent %d in %d attempts: %s", s.no, s.succeeded, s.attempts, a.Raw)
	}
	if settled := s.succeeded + s.failed + s.unreported; settled == 0 != (got.SuccessRate == nil) ||
		settled > 0 && math.Abs(*got.SuccessRate-float64(s.succeeded)/float64(settled)) > 0.01 {
		t.Fatalf("%s should have sent %d of %d: %s", s.no, s.succeeded, settled, a.Raw)
	}
	page := dataOf[struct{ Items []struct{ Event string } }](t, q.service.call(t, "", http.MethodGet, "/api/v1/admin/events?limit=100&subject="+s.no, nil))
	slices.Reverse(page.Items)
	var events []string
	for _, e := range page.Items {
		events = append(events, e.Event)
	}
	if !slices.Equal(events, s.events) {
		t.Fatalf("the events of %s are %q, want %q", s.no, events, s.events)
	}
}

// rows returns every task, oldest first.
func (q *sequence) rows(t *rapid.T) (rows []taskRow) {
	t.Helper()
	for cursor := ""; ; {
		page := dataOf[struct {
			Items []taskRow
			Next  *string `json:"next_cursor"`
		}](t, q.service.list(t, "/api/v1/sms/tasks?limit=100"+cursor))
		rows = append(rows, page.Items...)
		if page.Next == nil {
			slices.Reverse(rows)
			return rows
		}
		cursor = "&cursor=" + *page.Next
	}
}

func (q *sequence) checkTasks(t *rapid.T) {
	t.Helper()
	isReleased := func(x *task) bool { return x.held && x.status == pending && !q.world.holds(x) }
	if slices.ContainsFunc(q.world.tasks, isReleased) {
		if _, err := q.service.any().Queue.MoveQuiet(t.Context()); err != nil { // checks the caps for the released tasks
			t.Fatal(err)
		}
	}
	rows := q.rows(t)
	if len(rows) != len(q.world.tasks) {
		t.Fatalf("there are %d tasks, want %d", len(rows), len(q.world.tasks))
	}
	q.followSwitches(t, rows)
	for _, row := range rows {
		x := q.world.task(row.TaskID)
		want := q.world.rowOf(x)
		if x.held {
			want.DueAt = row.DueAt // a sweep clears due_at of a held task, and the field stays empty after the task ended
		}
		if x.status == failed {
			row.Holder, want.Holder = nil, nil // the holder of a failed task is not compared, because only some failures show the sender
		}
		if got, want := text(row), text(want); got != want {
			t.Fatalf("%s is\n%s, want\n%s", x.name, got, want)
		}
	}
}

// followSwitches updates the tasks of the model that a switch now holds, or no longer holds. The released tasks are counted for their new due times, in the order
// of their ids. rows are in this order.
func (q *sequence) followSwitches(t *rapid.T, rows []taskRow) {
	t.Helper()
	w := q.world
	var released []taskRow
	for _, row := range rows {
		switch x := w.task(row.TaskID); {
		case x == nil:
			t.Fatalf("the task was never submitted: %+v", row)
		case w.holds(x):
			x.held = true
		case x.held && x.status == pending && row.DueAt.Equal(x.due): // also a task that no sweep held before the switch was on again
			x.release(x.due)
		case x.held && x.status == pending:
			released = append(released, row)
		}
	}
	recounted := map[string]degree{}
	for _, row := range released {
		recounted[row.TaskID] = w.uncount(w.task(row.TaskID))
	}
	for _, row := range released {
		x := w.task(row.TaskID)
		want, isSure := w.dueReleased(x), true
		if d := recounted[x.id]; d != no {
			want, isSure = w.allowedFrom(x.capped(), want)
			isSure = isSure && d == yes
			w.counted[x.capped()] = append(w.counted[x.capped()], &counted{x, row.DueAt, isSure})
		}
		if isSure && !row.DueAt.Equal(want) {
			t.Fatalf("%s was held, was due at %s, and is due at %s, want %s", x.name, x.due, row.DueAt, want)
		}
		x.release(row.DueAt)
	}
}

// text encodes a value as JSON. Equal values have equal texts.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // all types here can be encoded
	}
	return string(raw)
}

type timelineRow struct {
	event
	AppID      string    `json:"app_id"`
	LeaseID    int64     `json:"lease_id"`
	LeaseUntil time.Time `json:"lease_until"`
}

func (q *sequence) timeline(t *rapid.T, id string) []timelineRow {
	t.Helper()
	rows := dataOf[[]timelineRow](t, q.service.call(t, "", http.MethodGet, "/api/v1/sms/task/"+id+"/timeline", nil))
	for i := range rows {
		rows[i].event.AppID, rows[i].event.LeaseID = rows[i].AppID, rows[i].LeaseID
	}
	return rows
}

// checkTimeline compares the timeline of a task with the events of the task in the model, in order.
func (q *sequence) checkTimeline(t *rapid.T, x *task) {
	t.Helper()
	rows := q.timeline(t, x.id)
	var got, want []string
	for _, row := range rows {
		e := row.event
		got = append(got, e.String())
	}
	for _, e := range x.timeline {
		want = append(want, e.String())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the timeline of %s is\n%q, want\n%q", x.name, got, want)
	}
}

func (e event) String() string {
	return fmt.Sprintf("%s %s: %s by %q, lease %d, attempt %d, status %d", e.At.UTC().Format("15:04:05.000000"), e.Event, e.Effect, e.AppID, e.LeaseID, e.Attempt, e.Status)
}

type ledgerRow struct {
	Change, Balance int
	LeaseID         int64 `json:"lease_id"`
}

// checkSender compares a sender in the API with the model.
func (q *sequence) checkSender(t *rapid.T, s *sender) {
	t.Helper()
	a := q.service.call(t, "", http.MethodGet, "/api/v1/admin/senders/"+s.no, nil)
	got := dataOf[struct {
		Status   string
		IsReady  bool `json:"is_ready"`
		IsSilent bool `json:"is_silent"`
		Balance  *int
		Used     struct{ Minute, Hour, Day, Month int }
		Next     *time.Time `json:"next_available_at"`
		IsShared bool       `json:"is_shared"`
		Interval int64      `json:"interval_ms"`
	}](t, a)
	now := q.world.now
	used := [4]int{got.Used.Minute, got.Used.Hour, got.Used.Day, got.Used.Month}
	if got.Status != s.status || got.IsReady != (s.isReady(now) && !got.IsSilent) || text(got.Balance) != text(s.balance) || used != s.usedNow(now) ||
		got.IsShared != s.shared || got.Interval != s.interval.Milliseconds() {
		t.Fatalf("%s should be %s, ready %v, balance %s, used %v: %s", s.no, s.status, s.isReady(now), text(s.balance), s.usedNow(now), a.Raw)
	}
	if got.Next == nil && s.next.After(now) || got.Next != nil && !got.Next.Equal(s.next) {
		t.Fatalf("%s should be ready again at %s: %s", s.no, s.next, a.Raw)
	}
	q.checkLedger(t, s)
}

// checkLedger compares the ledger of a sender with every change of the balance, and the balance with the sum of the ledger.
func (q *sequence) checkLedger(t *rapid.T, s *sender) {
	t.Helper()
	page := dataOf[struct{ Items []ledgerRow }](t, q.service.call(t, "", http.MethodGet, "/api/v1/admin/senders/"+s.no+"/ledger?limit=100", nil))
	slices.Reverse(page.Items)
	sum := 0
	for i, row := range page.Items {
		sum += row.Change
		if len(s.ledger) <= 100 && sum != row.Balance {
			t.Fatalf("the ledger of %s does not add up at entry %d: %+v", s.no, i, page.Items)
		}
	}
	want := s.ledger[max(0, len(s.ledger)-100):]
	if len(page.Items) != len(want) {
		t.Fatalf("the ledger of %s is %+v, want %+v", s.no, page.Items, want)
	}
	for i, row := range page.Items {
		if ledgerEntry(row) != want[i] {
			t.Fatalf("the ledger of %s is %+v, want %+v", s.no, page.Items, want)
		}
	}
}
