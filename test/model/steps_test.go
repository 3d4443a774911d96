package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"lksms/internal/dispatch/segment"
)

// This file contains the steps of callers and senders, and the passing of time.

// maxTasks is the maximum number of tasks in one sequence.
const maxTasks = 120

var numbers = []number{
	{"13800138000", "+8613800138000", "CN"},
	{"+86 139-0013-9000", "+8613900139000", "CN"},
	{"+49 1512 3456789", "+4915123456789", "DE"},
	{"+81 90-1234-5678", "+819012345678", ""},
}

// submission is a message as a caller submits it.
type submission struct {
	company     *company
	by          *user
	to          number
	kind        string
	content     string // empty: the default content
	params      map[string]string
	useTemplate bool
	priority    *int
	sign        string
	dedupKey    string
	after       *time.Duration // expect_send_time, relative to now
	lasts       *time.Duration // expires_at, relative to now
}

func (q *sequence) submission(t *rapid.T, c *company) submission {
	s := submission{company: c, by: oneOf(t, "user", c.users...), to: oneOf(t, "number", numbers...), kind: oneOf(t, "message type", kinds...)}
	s.content = oneOf(t, "content", "short", "短信", "short", strings.Repeat("x", 161), strings.Repeat("长", 140), strings.Repeat("长", 71), " ")
	s.priority = optional(t, "priority", 0, 1, 5, 9)
	s.sign = oneOf(t, "sign", "", "", "", "公司")
	s.after = optional(t, "expect_send_time", time.Second, 4*time.Minute)
	s.lasts = optional(t, "expires_at", 2*time.Second, 3*time.Minute)
	s.dedupKey = oneOf(t, "dedup_key", "", "", "", "a", "b")
	return s
}

func (s submission) byTemplate(t *rapid.T) submission {
	s.useTemplate, s.params = true, map[string]string{"code": "12 34"}
	if oneOf(t, "with a name", true, true, false) {
		s.params["name"] = "张三"
	}
	s.content = url.Values{"code": {s.params["code"]}}.Encode()
	if name, given := s.params["name"]; given {
		s.content += "&" + url.Values{"name": {name}}.Encode()
	}
	return s
}

func (s submission) body(now time.Time) map[string]any {
	body := map[string]any{"phone_number": s.to.written, "message_type": s.kind, "use_template": s.useTemplate}
	if s.content != "" {
		body["content"] = s.content
	}
	if s.priority != nil {
		body["priority"] = *s.priority
	}
	if s.sign != "" {
		body["sign"] = s.sign
	}
	if s.dedupKey != "" {
		body["dedup_key"] = s.dedupKey
	}
	if s.after != nil {
		body["expect_send_time"] = now.Add(*s.after)
	}
	if s.lasts != nil {
		body["expires_at"] = now.Add(*s.lasts)
	}
	return body
}

// brief shortens a body for the log of a sequence.
func brief(t *rapid.T, body map[string]any) string {
	text := encoded(t, body)
	for _, r := range []string{"x", "长"} {
		for n := 200; n > 9; n-- {
			text = strings.ReplaceAll(text, strings.Repeat(r, n), fmt.Sprint(r, "*", n))
		}
	}
	return text
}

// outcome is the expected result of a submission: the repetition of an existing task (repeats), a rejection (wrong), or a new task (made).
type outcome struct {
	repeats  *task
	wrong    []string // possible reasons of the rejection; empty: accepted
	made     *task
	counts   time.Time // when caps count the new task
	consumes *defaultContent
}

const (
	invalid     = "request.invalid"
	noneActive  = "template.none_active"
	alreadySent = "default_content.already_sent"
	companyOff  = "company.off"
	blocked     = "recipient.blocked"
	limited     = "recipient.limited"
)

var usualPriority = map[string]int{"verification": 1, "notification": 5, "marketing": 8}

// params returns the template parameters in a default content, or nil if it has no parameters.
func (d *defaultContent) params() map[string]string {
	if !d.useTemplate {
		return nil
	}
	values, err := url.ParseQuery(d.content)
	if err != nil {
		panic(err) // every text of this test is valid JSON
	}
	params := map[string]string{}
	for name := range values {
		params[name] = values.Get(name)
	}
	return params
}

// outcomeOf returns the expected result of a submission.
func (w *world) outcomeOf(s submission) (o outcome) {
	o.repeats = w.named(s.by, s.dedupKey)
	if s.company.off {
		o.wrong = []string{companyOff}
		return o
	}
	x := &task{
		company: s.company, by: s.by, to: s.to, kind: s.kind, priority: usualPriority[s.kind], sign: s.sign, dedupKey: s.dedupKey,
		created: w.now, due: w.now, leasedTo: map[int64]string{}, first: w.poolOf(s.company, s.kind, s.to.country), queued: true,
	}
	if s.priority != nil {
		if *s.priority < min(x.priority, s.company.top) {
			o.wrong = append(o.wrong, invalid)
		}
		x.priority = *s.priority
	}
	if s.after != nil {
		at := w.now.Add(*s.after)
		x.asked = &at
	}
	if s.lasts != nil {
		at := w.now.Add(*s.lasts)
		if x.expires = &at; x.asked != nil && !at.After(x.asked.Add(minLease)) {
			o.wrong = append(o.wrong, invalid)
		}
	}
	if len(s.company.countries) > 0 && !slices.Contains(s.company.countries, s.to.country) {
		o.wrong = append(o.wrong, invalid)
	}
	text, params, useTemplate := s.content, s.params, s.useTemplate
	if s.content == "" {
		d := w.defaultFor(s.company, s.to)
		switch {
		case d == nil:
			o.wrong = append(o.wrong, invalid)
			return o
		case d.sent:
			o.wrong = append(o.wrong, alreadySent)
			return o
		}
		text, useTemplate, o.consumes = d.content, d.useTemplate, d
		params = d.params()
	}
	if useTemplate {
		template := w.activeTemplate(s.company)
		if template == nil {
			o.wrong = append(o.wrong, noneActive)
			return o
		}
		rendered, ok := template.render(params)
		if text = rendered; !ok {
			o.wrong = append(o.wrong, invalid)
		}
		if template.scheduled && x.asked == nil {
			at := w.now.Truncate(scheduledEvery).Add(scheduledEvery)
			x.asked = &at
			// The server compares expires_at with its own clock, which differs from the stopped clock of the database.
			if !x.lastsUntil(time.Now().Truncate(scheduledEvery).Add(scheduledEvery + minLease)) {
				o.wrong = append(o.wrong, invalid)
			}
		}
	}
	if strings.TrimSpace(text) == "" {
		o.wrong = append(o.wrong, invalid)
	}
	x.content = text
	if x.asked != nil {
		x.due, x.queued = *x.asked, false
	}
	if o.counts = x.due; s.after == nil { // for a message of a scheduled template, the server uses its own clock, which is behind the clock of the database
		o.counts = w.now
	}
	if len(o.wrong) == 0 && w.isBlocked(s.company, s.kind, s.to) { // a message with another error is rejected because of this error
		o.wrong = append(o.wrong, blocked)
	}
	o.made = x
	return o
}

// accept adds the task of a submission to the model.
func (q *sequence) accept(x *task, id string, consumes *defaultContent) {
	w := q.world
	x.id, x.name = id, fmt.Sprintf("T%d", len(w.tasks)+1)
	if x.queued {
		w.ranks++
		x.rank = w.ranks
	}
	if consumes != nil {
		consumes.sent = true
	}
	x.happened(event{Event: "received", At: w.now})
	w.tasks = append(w.tasks, x)
	q.touch(x)
}

// submittedItem is the response to one submission.
type submittedItem struct {
	Code         int
	TaskID       string `json:"task_id"`
	Status       int
	FinalContent string `json:"final_content"`
	Deduplicated bool
	Error        struct{ Reason string }
	RetryAfter   string `json:"-"` // header of a response to a single submission
}

// submitted compares the response to a submission with the expected outcome, and applies the outcome to the model.
func (q *sequence) submitted(t *rapid.T, s submission, got submittedItem) {
	t.Helper()
	o := q.world.outcomeOf(s)
	accepted := got.Code == http.StatusOK
	switch {
	case o.repeats != nil:
		t.Logf("  a repeat of %s", o.repeats.name)
		if !accepted || got.TaskID != o.repeats.id || !got.Deduplicated || got.Status != o.repeats.status {
			t.Fatalf("a repeat of %s, with the status %d, was answered %+v", o.repeats.name, o.repeats.status, got)
		}
		q.checkFinal(t, o.repeats, got.FinalContent)
		o.repeats.happened(event{Event: "repeated", At: q.world.now})
		q.touch(o.repeats)
	case len(o.wrong) > 0:
		t.Logf("  rejected: %s", got.Error.Reason)
		if accepted || !slices.Contains(o.wrong, got.Error.Reason) {
			t.Fatalf("should be rejected with one of %q: %+v", o.wrong, got)
		}
	case got.Error.Reason == limited:
		t.Logf("  rejected: %s, retry after %s", limited, got.RetryAfter)
		q.limited = append(q.limited, limitation{o.made.capped(), o.counts, got.RetryAfter})
	default:
		if !accepted || got.Status != pending || got.Deduplicated || q.world.task(got.TaskID) != nil {
			t.Fatalf("should be a new task: %+v", got)
		}
		if q.world.isLimited(o.made.capped(), o.counts) == yes {
			t.Fatalf("a cap of %s allows no more messages to %s: %+v", s.company.no, s.to.e164, got)
		}
		q.accept(o.made, got.TaskID, o.consumes)
		q.world.count(o.made, o.counts)
		t.Logf("  %s in %s, priority %d, %d segments, due %s", o.made.name, o.made.first, o.made.priority, o.made.segments(), o.made.due.Format(time.TimeOnly))
		q.checkFinal(t, o.made, got.FinalContent)
	}
}

func (q *sequence) checkFinal(t *rapid.T, x *task, got string) {
	t.Helper()
	if got != segment.Signed(x.sign, x.content) {
		t.Fatalf("the final content of %s is %q, with the signature %q: %q", x.name, x.content, x.sign, got)
	}
}

// submitter draws a company that has a user.
func (q *sequence) submitter(t *rapid.T) *company {
	if len(q.world.tasks) >= maxTasks {
		t.Skip("there are enough tasks")
	}
	c := someOf(t, "company", q.companies())
	if len(c.users) == 0 {
		q.createUser(t, c, 0)
	}
	return c
}

// send submits a message and checks the response.
func (q *sequence) send(t *rapid.T, s submission) {
	t.Helper()
	body := s.body(q.world.now)
	t.Logf("%s submits for %s %s", s.by.name, s.company.no, brief(t, body))
	a, lost := q.ask(t, s.by.key, http.MethodPost, sendPath, body)
	if lost {
		q.submittedPerhaps(t, []submission{s})
		return
	}
	q.submitted(t, s, itemOf(t, a))
	q.checkLimited(t)
}

const sendPath = "/api/v1/sms/send"

func itemOf(t *rapid.T, a answer) submittedItem {
	t.Helper()
	item := submittedItem{}
	if a.Status == http.StatusOK {
		item = dataOf[submittedItem](t, a)
	}
	item.Code, item.Error.Reason, item.RetryAfter = a.Status, a.Body.Error.Reason, a.RetryAfter
	if item.Error.Reason == limited && item.RetryAfter == "" {
		t.Fatalf("no Retry-After: %s", a.Raw)
	}
	return item
}

func (q *sequence) submit(t *rapid.T) { q.send(t, q.submission(t, q.submitter(t))) }

func (q *sequence) submitByTemplate(t *rapid.T) {
	q.send(t, q.submission(t, q.submitter(t)).byTemplate(t))
}

func (q *sequence) submitDefault(t *rapid.T) {
	s := q.submission(t, q.submitter(t))
	s.content = ""
	q.send(t, s)
}

// submitWithKey submits with a new Idempotency-Key, or repeats a request with a used key. A repetition must change nothing.
func (q *sequence) submitWithKey(t *rapid.T) {
	w := q.world
	if len(w.kept) > 0 && oneOf(t, "use a key again", true, false) {
		k := oneOf(t, "key", w.kept...)
		if w.now.Sub(k.at) > 23*time.Hour {
			t.Skip("the key may have expired")
		}
		body := k.body
		other := oneOf(t, "with another body", false, false, true)
		if other {
			body = encoded(t, map[string]any{"phone_number": numbers[0].written, "content": "another"})
		}
		t.Logf("submit again with the key %s: %s", k.key, body)
		a := q.service.call(t, k.user, http.MethodPost, sendPath, body, "Idempotency-Key", k.key)
		switch {
		case other && (a.Status != http.StatusUnprocessableEntity || a.Body.Error.Reason != "idempotency.key_reused"):
			t.Fatalf("a key was used again with another body: %s", a.Raw)
		case !other && a.Raw != k.answer:
			t.Fatalf("another answer to the same key: %s, the first was %s", a.Raw, k.answer)
		}
		return
	}
	s := q.submission(t, q.submitter(t))
	body, key := encoded(t, s.body(w.now)), q.name("key")
	t.Logf("%s submits for %s with the key %s: %s", s.by.name, s.company.no, key, brief(t, s.body(w.now)))
	a, lost := q.ask(t, s.by.key, http.MethodPost, sendPath, body, "Idempotency-Key", key)
	if lost { // because of the key, the repeated request is executed only once
		a = q.service.call(t, s.by.key, http.MethodPost, sendPath, body, "Idempotency-Key", key)
	}
	q.submitted(t, s, itemOf(t, a))
	q.checkLimited(t)
	if a.Status == http.StatusOK {
		w.kept = append(w.kept, &keptAnswer{key: key, user: s.by.key, body: body, answer: a.Raw, at: w.now})
	}
}

// submitBatch submits several messages of a user. Each message has the same outcome as if it were submitted alone.
func (q *sequence) submitBatch(t *rapid.T) {
	c := q.submitter(t)
	batch := make([]submission, rapid.IntRange(1, 6).Draw(t, "messages"))
	for i := range batch {
		batch[i] = q.submission(t, c)
		batch[i].by = batch[0].by
		switch oneOf(t, "form", "plain", "plain", "template", "default") {
		case "template":
			batch[i] = batch[i].byTemplate(t)
		case "default":
			batch[i].content = ""
		}
	}
	q.sendBatch(t, batch)
}

func (q *sequence) sendBatch(t *rapid.T, batch []submission) []*task {
	t.Helper()
	messages := make([]map[string]any, len(batch))
	for i, s := range batch {
		messages[i] = s.body(q.world.now)
	}
	t.Logf("%s submits %d for %s", batch[0].by.name, len(batch), batch[0].company.no)
	before := len(q.world.tasks)
	a, lost := q.ask(t, batch[0].by.key, http.MethodPost, sendPath+"-batch", map[string]any{"messages": messages})
	if lost {
		q.submittedPerhaps(t, batch)
		return q.world.tasks[before:]
	}
	data := dataOf[struct {
		Accepted, Refused int
		Items             []submittedItem
	}](t, a)
	if len(data.Items) != len(batch) || data.Accepted+data.Refused != len(batch) {
		t.Fatalf("%d messages were answered %+v", len(batch), data)
	}
	accepted := 0
	for i, item := range data.Items {
		t.Logf("  %s", brief(t, messages[i]))
		if item.Code == http.StatusOK {
			accepted++
		}
		q.submitted(t, batch[i], item)
	}
	q.checkLimited(t)
	if accepted != data.Accepted {
		t.Fatalf("%d messages have a task, but the answer says %d", accepted, data.Accepted)
	}
	// Within a batch, the order of messages with a default content and other messages is not promised.
	made := q.world.tasks[before:]
	for _, x := range made {
		if slices.ContainsFunc(batch, func(s submission) bool { return s.content == "" }) {
			x.rank = 0
		}
	}
	return made
}

// senderView is a sender in an explanation.
type senderView struct {
	SenderNo string `json:"sender_no"`
	CanTake  bool   `json:"can_take"`
	Why      string
}

// dryRun requests the outcome of a message without submitting the message. Often it then submits the message, and compares the outcomes.
func (q *sequence) dryRun(t *rapid.T) {
	w := q.world
	s := q.submission(t, q.submitter(t))
	switch oneOf(t, "form", "plain", "template", "default") {
	case "template":
		s = s.byTemplate(t)
	case "default":
		s.content = ""
	}
	o := w.outcomeOf(s)
	q.recordSeen(t)
	body := s.body(w.now)
	t.Logf("%s makes a dry run for %s %s", s.by.name, s.company.no, brief(t, body))
	a := q.service.call(t, s.by.key, http.MethodPost, "/api/v1/sms/send?dry_run=true", body)
	switch {
	case o.repeats == nil && len(o.wrong) > 0:
		if a.Status == http.StatusOK || !slices.Contains(o.wrong, a.Body.Error.Reason) {
			t.Fatalf("should be rejected with one of %q: %s", o.wrong, a.Raw)
		}
	case o.repeats == nil && a.Body.Error.Reason == limited:
		q.limited = append(q.limited, limitation{o.made.capped(), o.counts, a.RetryAfter})
		q.checkLimited(t)
	case o.repeats == nil && w.isLimited(o.made.capped(), o.counts) == yes:
		t.Fatalf("a cap allows no more messages: %s", a.Raw)
	default:
		q.checkPreview(t, o, a)
	}
	if oneOf(t, "submit it", true, false) {
		q.send(t, s)
	}
}

func (q *sequence) checkPreview(t *rapid.T, o outcome, a answer) {
	t.Helper()
	got := dataOf[struct {
		Recipient, Verdict string
		CountryNo          string `json:"country_no"`
		FinalContent       string `json:"final_content"`
		Segments, Cost     int
		Priority           int
		Routed             bool
		Senders            []senderView
	}](t, a)
	if x := o.repeats; x != nil { // the other fields of the response are not checked
		if got.Verdict != "would_repeat" || got.Recipient != x.to.e164 || got.Segments != x.segments() || got.Priority != x.priority ||
			got.FinalContent != segment.Signed(x.sign, x.content) {
			t.Fatalf("would repeat %s: %s", x.name, a.Raw)
		}
		return
	}
	x, p := o.made, q.world.poolOf(o.made.company, o.made.kind, o.made.to.country)
	if got.Recipient != x.to.e164 || got.CountryNo != x.to.country || got.Segments != x.segments() || got.Priority != x.priority ||
		got.FinalContent != segment.Signed(x.sign, x.content) || got.Routed != q.world.isRouted(p) {
		t.Fatalf("a message to %s, %q, %d segments, priority %d, of %s: %s", x.to.e164, x.to.country, x.segments(), x.priority, p, a.Raw)
	}
	best := q.checkSenders(t, x, got.Senders)
	want := []string{"would_wait", "would_send"}
	switch {
	case q.world.isHeld(x.company, x.to.country, p):
		want = []string{"would_be_held"}
	case x.due.After(q.world.now):
		want = []string{"would_be_scheduled"}
	case best != maybe:
		want = want[best/2 : best/2+1]
	}
	if !slices.Contains(want, got.Verdict) {
		t.Fatalf("want %q: %s", want, a.Raw)
	}
}

// checkSenders compares the senders in a response with the senders that could claim the task. It returns how certain it is that at least one sender can claim
// the task.
func (q *sequence) checkSenders(t *rapid.T, x *task, views []senderView) (best degree) {
	t.Helper()
	w, p, listed := q.world, q.world.pool(x), map[string]bool{}
	serves := func(s *sender) bool {
		return w.mayServe(s, p) && s.status != "retired" && (!x.company.routed || p != pool{})
	}
	for _, v := range views {
		s := w.sender(v.SenderNo)
		if s == nil || !serves(s) || listed[v.SenderNo] {
			t.Fatalf("%s may not serve the pool, but is listed", v.SenderNo)
		}
		listed[v.SenderNo] = true
		can := w.canTake(s, x)
		if best = max(best, can); can == yes && !v.CanTake || can == no && v.CanTake {
			t.Fatalf("%s: can_take %v %s is wrong", s.no, v.CanTake, v.Why)
		}
	}
	for _, s := range w.senders {
		if serves(s) && !listed[s.no] {
			t.Fatalf("%s may take the task, but is not listed", s.no)
		}
	}
	return best
}

func (q *sequence) explain(t *rapid.T) {
	w := q.world
	x := someOf(t, "task", w.tasks)
	q.recordSeen(t)
	t.Logf("explain %s", x.name)
	a := q.service.call(t, x.by.key, http.MethodGet, "/api/v1/sms/task/"+x.id+"/explain", nil)
	got := dataOf[struct {
		Status, Priority int
		Reason           string
		Routed           bool
		IsDue            bool `json:"is_due"`
		Ahead            *int
		Senders          []senderView
	}](t, a)
	want := []string{"settled"}
	switch x.status {
	case processing:
		want = []string{"processing"}
	case pending:
		best := q.checkSenders(t, x, got.Senders)
		switch {
		case !x.lastsUntil(w.now.Add(minLease)) || !x.lastsUntil(x.due.Add(minLease)):
			want = []string{"expiring"}
		case w.holds(x):
			want = []string{"held"}
		case x.due.After(w.now) && (x.retries > 0 || x.failedBy != ""): // failedBy: also after a lease that was never started
			want = []string{"retry_later"}
		case x.due.After(w.now) && w.countOf(x) != nil: // a cap possibly delayed the task at its release
			want = []string{"scheduled", "recipient_limited"}
		case x.due.After(w.now):
			want = []string{"scheduled"}
		case best == yes:
			want = []string{"queued"}
		case best == maybe:
			want = []string{"queued", "no_sender"}
		default:
			want = []string{"no_sender"}
		}
		if got.IsDue == x.due.After(w.now) && !w.holds(x) || got.Routed != w.isRouted(w.pool(x)) {
			t.Fatalf("%s is due at %s and of %s: %s", x.name, x.due, w.pool(x), a.Raw)
		}
		if least, most := w.ahead(x); got.Ahead != nil && (*got.Ahead < least || *got.Ahead > most) {
			t.Fatalf("between %d and %d tasks should go before %s: %s", least, most, x.name, a.Raw)
		}
	}
	if got.Status != x.status || !slices.Contains(want, got.Reason) {
		t.Fatalf("%s, status %d, want %q: %s", x.name, x.status, want, a.Raw)
	}
}

func (q *sequence) cancel(t *rapid.T) {
	x := someOf(t, "task", q.world.tasks)
	a, lost := q.ask(t, x.by.key, http.MethodPost, "/api/v1/sms/task/"+x.id+"/cancel", nil)
	if lost {
		if x.status == pending && q.row(t, x).Status == cancelled {
			q.world.cancel(x)
		}
		return
	}
	t.Logf("cancel %s: %d", x.name, a.Status)
	q.touch(x)
	if x.status == pending {
		if q.world.cancel(x); a.Status != http.StatusOK {
			t.Fatalf("%s is pending and cannot be cancelled: %s", x.name, a.Raw)
		}
	} else if a.Status != http.StatusConflict || a.Body.Error.Reason != "task.not_pending" {
		t.Fatalf("%s is not pending: %s", x.name, a.Raw)
	}
}

// requeue requeues a task. It prefers tasks that have failed or were cancelled.
func (q *sequence) requeue(t *rapid.T) {
	w := q.world
	tasks := slices.DeleteFunc(slices.Clone(w.tasks), func(x *task) bool { return x.status != failed && x.status != cancelled })
	if len(tasks) == 0 || oneOf(t, "any task", false, false, false, true) {
		tasks = w.tasks
	}
	x := someOf(t, "task", tasks)
	refused, status := w.requeueRefused(x), http.StatusConflict
	a, lost := q.ask(t, x.by.key, http.MethodPost, "/api/v1/sms/task/"+x.id+"/requeue", map[string]any{"remark": "again"})
	if isLimited := w.requeueLimited(x); refused == "" && (isLimited == yes || isLimited == maybe && a.Status == http.StatusTooManyRequests) {
		refused, status = "recipient.limited", http.StatusTooManyRequests
	}
	t.Logf("requeue %s: %d %s", x.name, a.Status, refused)
	switch {
	case lost:
		if refused == "" && q.row(t, x).Status == pending {
			w.requeue(x)
		}
	case refused != "":
		if a.Status != status || a.Body.Error.Reason != refused {
			t.Fatalf("%s may not be requeued, %s: %s", x.name, refused, a.Raw)
		}
	case a.Status != http.StatusOK:
		t.Fatalf("%s has the status %d and cannot be requeued: %s", x.name, x.status, a.Raw)
	default:
		w.recount(x)
		w.requeue(x)
	}
	q.touch(x)
}

// claimedTask is a task in the response to a claim.

type claimedTask struct {
	TaskID      string `json:"task_id"`
	PhoneNumber string `json:"phone_number"`
	Content     string
	LeaseID     int64 `json:"lease_id"`
	Attempt     int
	LeaseUntil  time.Time  `json:"lease_until"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// claimer draws a sender. Rarely, it draws a new app, which the claim registers as a sender.
func (q *sequence) claimer(t *rapid.T) *sender {
	if len(q.world.senders) < 6 && rapid.IntRange(0, 19).Draw(t, "a new app") == 19 {
		s := q.newApp()
		q.claimed(t, s, 1, dataOf[[]claimedTask](t, q.service.call(t, "", http.MethodPost, claimPath, map[string]any{"app_id": s.no, "limit": 1})))
		return s
	}
	return someOf(t, "sender", q.world.senders)
}

// newApp adds an app to the model. Its first poll registers it as a shared sender without an interval and limits.
func (q *sequence) newApp() *sender {
	s := &sender{no: q.name("app"), status: "on", shared: true, zone: zones["Asia/Shanghai"], lease: usualLease, used: map[string]int{}}
	q.world.senders = append(q.world.senders, s)
	return s
}

func (q *sequence) claim(t *rapid.T) {
	s, limit := q.claimer(t), rapid.IntRange(1, 5).Draw(t, "limit")
	path := fmt.Sprintf("/api/v1/sms/tasks/pending?app_id=%s&limit=%d", s.no, limit)
	if a, lost := q.ask(t, "", http.MethodGet, path, nil); lost {
		q.claimedPerhaps(t, s, limit)
	} else {
		q.claimed(t, s, limit, dataOf[[]claimedTask](t, a))
	}
}

func (q *sequence) claimOne(t *rapid.T) { q.claimAs(t, q.claimer(t), 1) }

func (q *sequence) claimMany(t *rapid.T) { q.claimAs(t, q.claimer(t), 1000) }

func (q *sequence) claimAs(t *rapid.T, s *sender, limit int) []*task {
	t.Helper()
	a, lost := q.ask(t, "", http.MethodPost, claimPath, map[string]any{"app_id": s.no, "limit": limit})
	if lost {
		return q.claimedPerhaps(t, s, limit)
	}
	return q.claimed(t, s, limit, dataOf[[]claimedTask](t, a))
}

const claimPath = "/api/v1/sms/tasks/claim"

// claimToStart claims tasks whose leases must be started.
func (q *sequence) claimToStart(t *rapid.T) { q.claimWithin(t, q.world.senders) }

// leaveUnstarted claims tasks, does not start their leases, and makes a sweep recover these leases.
func (q *sequence) leaveUnstarted(t *rapid.T) {
	able := slices.DeleteFunc(slices.Clone(q.world.senders), func(s *sender) bool { return s.maxClaim(q.world.now, 1) == 0 || len(q.world.offers(s)) == 0 })
	over := q.claimWithin(t, able)
	q.recordSeen(t)
	q.moveTo(t, over)
	got := dataOf[struct {
		Count int `json:"recovered_count"`
	}](t, q.admin(t, http.MethodPost, "/api/v1/admin/recover-zombie-tasks", nil)).Count
	if want := q.world.recover(); got != want {
		t.Fatalf("%d leases were recovered, want %d", got, want)
	}
}

// claimWithin claims tasks whose leases must be started. It returns the end of these leases.
func (q *sequence) claimWithin(t *rapid.T, senders []*sender) (over time.Time) {
	within := oneOf(t, "start within", time.Second, 40*time.Second, time.Hour)
	c := claim{sender: someOf(t, "sender", senders), limit: rapid.IntRange(1, 5).Draw(t, "limit"), toStart: &within}
	a := q.service.call(t, "", http.MethodPost, claimPath, map[string]any{"app_id": c.sender.no, "limit": c.limit, "start_seconds": int(within.Seconds())})
	q.read(t, &c, dataOf[[]claimedTask](t, a))
	q.settle(t, c, q.world.offers(c.sender))
	return q.world.now.Add(c.lease())
}

// start starts leases as one app. Most of these leases belong to the app. Some leases have expired, were already started, or do not have to be started.
func (q *sequence) start(t *rapid.T) {
	w := q.world
	held := slices.DeleteFunc(slices.Clone(w.tasks), func(x *task) bool { return x.status != processing })
	first := someOf(t, "task", held)
	app := first.holder
	if rapid.IntRange(0, 9).Draw(t, "another app") == 9 {
		app = someOf(t, "app", w.senders).no
	}
	on, leases := []*task{first}, []int64{first.lease}
	for range rapid.IntRange(0, 3).Draw(t, "more") {
		x := oneOf(t, "task", w.tasks...)
		lease := max(1, x.lease)
		if rapid.IntRange(0, 4).Draw(t, "its first lease") == 4 {
			for other := range x.leasedTo {
				lease = min(lease, other)
			}
		}
		on, leases = append(on, x), append(leases, lease)
	}
	bodies := make([]map[string]any, len(on))
	for i, x := range on {
		bodies[i] = map[string]any{"task_id": x.id, "lease_id": leases[i]}
		q.touch(x)
	}
	body := map[string]any{"app_id": app, "leases": bodies}
	a, lost := q.ask(t, "", http.MethodPost, "/api/v1/sms/start", body)
	if lost {
		a = q.service.call(t, "", http.MethodPost, "/api/v1/sms/start", body) // the repeated request must be harmless, whether or not the first request was executed
	}
	data := dataOf[struct {
		Items []struct {
			Code       int
			TaskID     string     `json:"task_id"`
			LeaseID    int64      `json:"lease_id"`
			LeaseUntil *time.Time `json:"lease_until"`
		}
	}](t, a)
	if len(data.Items) != len(on) {
		t.Fatalf("%d leases were started: %s", len(on), a.Raw)
	}
	for i, item := range data.Items {
		until := w.start(on[i], app, leases[i])
		code := http.StatusOK
		if until == nil {
			code = http.StatusConflict
		}
		t.Logf("%s starts lease %d of %s: %d", app, leases[i], on[i].name, code)
		if item.Code != code || item.TaskID != on[i].id || item.LeaseID != leases[i] ||
			(until == nil) != (item.LeaseUntil == nil) || until != nil && !until.Equal(*item.LeaseUntil) {
			t.Fatalf("%s starts lease %d of %s, until %s: %s", app, leases[i], on[i].name, text(until), a.Raw)
		}
	}
}

// claimAtOnce makes several senders claim at the same time, some of them twice. No task is allowed to be claimed twice, and no sender is allowed to exceed
// its limits.
func (q *sequence) claimAtOnce(t *rapid.T) {
	w := q.world
	n := rapid.IntRange(2, 4).Draw(t, "claims")
	claims, offers := make([]claim, n), make([]map[*task]offer, n)
	requests, answers := make([]*http.Request, n), make([]*httptest.ResponseRecorder, n)
	for i := range claims {
		claims[i] = claim{sender: someOf(t, "sender", w.senders), limit: oneOf(t, "limit", 1, 2, 10), amongOthers: true}
		offers[i] = w.offers(claims[i].sender)
		requests[i] = q.service.request(t.Context(), t, "", http.MethodPost, claimPath, map[string]any{"app_id": claims[i].sender.no, "limit": claims[i].limit})
	}
	var together sync.WaitGroup
	for i, r := range requests {
		server := q.service.any()
		together.Go(func() { answers[i] = serve(server, r) })
	}
	together.Wait()
	order := make([]int, n)
	for i, a := range answers {
		order[i] = i
		q.read(t, &claims[i], dataOf[[]claimedTask](t, q.service.checked(t, requests[i], a)))
	}
	// The lease ids of one sender ascend, so the claim with the smaller ids was executed first.
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(slices.Max(append(claims[a].leases, 0)), slices.Max(append(claims[b].leases, 0)))
	})
	for _, i := range order {
		q.settle(t, claims[i], offers[i])
	}
}

// claimAsApp claims like the installed app, whose responses do not contain lease ids. The test reads the lease ids from the timelines of the tasks.
func (q *sequence) claimAsApp(t *rapid.T) {
	s, limit := q.claimer(t), rapid.IntRange(1, 5).Draw(t, "limit")
	a := q.service.call(t, "", http.MethodGet, fmt.Sprintf("/app/api/v1/sms/tasks/pending?app_id=%s&limit=%d", s.no, limit), nil)
	page := dataOf[struct {
		Total int    `json:"total_count"`
		AppID string `json:"app_id"`
		Tasks []claimedTask
	}](t, a)
	if page.Total != len(page.Tasks) || page.AppID != s.no {
		t.Fatalf("answer to %s: %s", s.no, a.Raw)
	}
	for i := range page.Tasks {
		c := &page.Tasks[i]
		for _, e := range q.timeline(t, c.TaskID) {
			if e.Event == "claimed" {
				c.LeaseID, c.Attempt, c.LeaseUntil = e.LeaseID, e.Attempt, e.LeaseUntil
			}
		}
	}
	q.claimed(t, s, limit, page.Tasks)
}

// claimed checks the result of a claim and applies it.
func (q *sequence) claimed(t *rapid.T, s *sender, limit int, rows []claimedTask) []*task {
	t.Helper()
	c := claim{sender: s, limit: limit}
	q.read(t, &c, rows)
	q.settle(t, c, q.world.offers(s))
	return c.claimed
}

// read converts the response to a claim into c.
func (q *sequence) read(t *rapid.T, c *claim, rows []claimedTask) {
	t.Helper()
	w, s := q.world, c.sender
	for _, row := range rows {
		x := w.task(row.TaskID)
		if x == nil {
			t.Fatalf("%s got a task that was never submitted: %+v", s.no, row)
		}
		c.claimed, c.leases = append(c.claimed, x), append(c.leases, row.LeaseID)
		if row.PhoneNumber != x.to.written || row.Content != s.text(x) || row.Attempt != x.retries+1 ||
			!row.LeaseUntil.Equal(x.bounded(w.now.Add(c.lease()))) || !isSame(row.ExpiresAt, x.expires) {
			t.Fatalf("%s got %s as %+v", s.no, x.name, row)
		}
		if w.leases[row.LeaseID] {
			t.Fatalf("lease %d was claimed twice", row.LeaseID)
		}
		w.leases[row.LeaseID] = true
		q.touch(x)
	}
}

func isSame(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }

// settle judges the result of a claim and applies it to the model.
func (q *sequence) settle(t *rapid.T, c claim, offers map[*task]offer) {
	t.Helper()
	names := make([]string, len(c.claimed))
	for i, x := range c.claimed {
		names[i] = x.name
	}
	t.Logf("%s claims %d and gets %v", c.sender.no, c.limit, names)
	if err := q.world.judge(c, offers); err != nil {
		t.Fatalf("%s claimed %d and got %v: %v", c.sender.no, c.limit, names, err)
	}
	q.world.take(c)
	q.world.polls(c.sender)
	q.touchSender(c.sender)
}

// claimWaiting claims with a wait. The claim gets a task of the queue immediately, or a later task when the task is submitted. A caller that disconnects gets
// no task.
func (q *sequence) claimWaiting(t *rapid.T) {
	w := q.world
	s := someOf(t, "sender", w.senders)
	offers, able := w.offers(s), s.maxClaim(w.now, 1) > 0
	isOffered, isSure := able && len(offers) > 0, true
	for _, o := range offers {
		isSure = isSure && o.surely && o.cost <= s.budget(w.now)
	}
	if isOffered && !isSure {
		t.Skip("it is not certain whether the claim gets a task")
	}
	defer func(kill *time.Duration) { q.kill = kill }(q.kill)
	q.kill = nil // this server must not die
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	r := q.service.request(ctx, t, "", http.MethodPost, claimPath, map[string]any{"app_id": s.no, "limit": 3, "wait": 30})
	var recorded *httptest.ResponseRecorder
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		recorded = serve(q.service.servers[0], r)
	}()
	submitters := slices.DeleteFunc(q.companies(), func(c *company) bool {
		return len(c.users) == 0 || w.isHeld(c, numbers[0].country, pool{}) || !w.isFree(c, "marketing", numbers[0])
	})
	if able && !isOffered && s.shared && len(submitters) > 0 && s.budget(w.now) > 2 {
		c := oneOf(t, "company", submitters...)
		awaited := submission{company: c, by: c.users[0], to: numbers[0], kind: "marketing", content: "awaited"}
		if w.isOutranked(s, w.outcomeOf(awaited).made) != no {
			t.Logf("%s waits behind others and disconnects", s.no)
			leave()
			<-answered
			s.heard = w.now
			return
		}
		q.send(t, awaited)
		isOffered = true
	}
	if !isOffered {
		t.Logf("%s waits and disconnects", s.no)
		leave()
		<-answered
		s.heard = w.now // the caller possibly disconnected before the server recorded its poll
		return
	}
	<-answered
	rows := dataOf[[]claimedTask](t, q.service.checked(t, r, recorded))
	if len(rows) == 0 {
		t.Fatalf("%s waited and got nothing", s.no)
	}
	q.claimed(t, s, 3, rows)
}

// drain makes all senders claim until no sender gets a task. Afterwards no task that a sender could claim is allowed to remain.
func (q *sequence) drain(t *rapid.T) {
	w := q.world
	for more := true; more; {
		more = false
		for _, s := range w.senders {
			dies := q.kill != nil
			more = len(q.claimAs(t, s, oneOf(t, "limit", 3, 100))) > 0 || dies || more
		}
	}
	for _, x := range w.tasks {
		for _, s := range w.senders {
			if o, offered := w.offers(s)[x]; offered && w.isOutranked(s, x) == no && s.isReady(w.now) && o.cost <= s.budget(w.now) {
				t.Fatalf("no sender gets a task, but %s still waits and %s could take it", x.name, s.no)
			}
		}
	}
}

// appForComparison returns a new app for the shared pool, in which no task of priority 9 waits. retire retires the app. Call retire after the comparison:
// otherwise the app would take the tasks of senders with limits.
func (q *sequence) appForComparison(t *rapid.T) (app *sender, retire func()) {
	w := q.world
	for _, x := range w.tasks {
		if x.status == pending && x.priority == 9 && w.pool(x) == (pool{}) {
			t.Skip("other tasks of this priority wait")
		}
	}
	app = q.newApp()
	q.claimed(t, app, 1, dataOf[[]claimedTask](t, q.service.call(t, "", http.MethodPost, claimPath, map[string]any{"app_id": app.no, "limit": 1})))
	return app, func() {
		app.status = "retired"
		q.admin(t, http.MethodPatch, "/api/v1/admin/senders/"+app.no, map[string]any{"status": app.status})
	}
}

// compareCompanies makes two companies compete for one sender, and checks that each company gets a share by its weight.
func (q *sequence) compareCompanies(t *rapid.T) {
	w := q.world
	var two []*company
	for _, c := range q.companies() {
		if len(c.users) > 0 && len(two) < 2 {
			two = append(two, c)
		}
	}
	if len(two) < 2 || len(w.tasks)+16 > maxTasks {
		t.Skip("too few companies, or too many tasks")
	}
	if slices.ContainsFunc(two, func(c *company) bool {
		return w.isHeld(c, numbers[0].country, pool{}) || !w.isFree(c, "marketing", numbers[0])
	}) {
		t.Skip("a switch or a rule stops the messages of one")
	}
	app, retire := q.appForComparison(t)
	defer retire()
	left := map[*company]int{}
	of := map[*task]*company{}
	for _, c := range two {
		batch := make([]submission, 8)
		for i := range batch {
			batch[i] = submission{company: c, by: c.users[0], to: numbers[0], kind: "marketing", content: "fair", priority: new(9)}
		}
		for _, x := range q.sendBatch(t, batch) {
			left[c]++
			of[x] = c
		}
	}
	served := map[*company]float64{}
	for left[two[0]] > 0 && left[two[1]] > 0 {
		given := q.claimAs(t, app, rapid.IntRange(1, 4).Draw(t, "limit"))
		if len(given) == 0 { // the app gets no tasks now
			return
		}
		for _, x := range given {
			c := of[x]
			if c == nil || left[two[0]] == 0 || left[two[1]] == 0 {
				continue
			}
			left[c]--
			served[c] += 1 / c.weight
			a, b := served[two[0]], served[two[1]]
			if math.Abs(a-b) > 1/two[0].weight+1/two[1].weight+1e-9 {
				t.Fatalf("%s and %s, of the weights %g and %g, got %g and %g tasks", two[0].no, two[1].no, two[0].weight, two[1].weight,
					a*two[0].weight, b*two[1].weight)
			}
		}
	}
}

// compareUsers makes users of a company submit to one pool, sometimes between claims, and checks that the users take turns: while two users both have waiting
// tasks, neither gets more than two tasks ahead of the other.
func (q *sequence) compareUsers(t *rapid.T) {
	w := q.world
	c := someOf(t, "company", q.companies())
	for len(c.users) < 3 {
		q.createUser(t, c, c.top)
	}
	if len(w.tasks)+24 > maxTasks || !w.isFree(c, "marketing", numbers[0]) {
		t.Skip("too many tasks, or a rule stops them")
	}
	app, retire := q.appForComparison(t)
	defer retire()
	left, of := map[*user]int{}, map[*task]*user{}
	ahead := map[[2]*user]int{} // how many more tasks the first user got than the second user while both had waiting tasks
	for round, submitted := 0, 0; ; round++ {
		if submitted < 3 && (submitted == 0 || oneOf(t, "another user submits", true, false)) {
			batch := make([]submission, 8)
			for i := range batch {
				batch[i] = submission{company: c, by: c.users[submitted], to: numbers[0], kind: "marketing", content: "turn", priority: new(9)}
			}
			for _, x := range q.sendBatch(t, batch) {
				left[x.by]++
				of[x] = x.by
			}
			submitted++
			if rapid.Bool().Draw(t, "and the next") {
				continue
			}
		}
		given := q.claimAs(t, app, rapid.IntRange(1, 5).Draw(t, "limit"))
		if len(given) == 0 {
			return // all tasks were claimed, or the app gets no tasks now
		}
		for _, x := range given {
			by := of[x]
			if by == nil {
				continue
			}
			for other, n := range left {
				if other == by || n == 0 {
					continue
				}
				ahead[[2]*user{by, other}]++
				ahead[[2]*user{other, by}]--
				if ahead[[2]*user{by, other}] > 2 {
					t.Fatalf("%s got %d tasks more than %s, which waits too", by.name, ahead[[2]*user{by, other}], other.name)
				}
			}
			left[by]--
		}
	}
}

// someReport draws a report on a task, mostly from the sender that has leased the task.
func (q *sequence) someReport(t *rapid.T, x *task) (report, map[string]any) {
	apps := []string{q.world.senders[0].no}
	leases := []int64{0, 0}
	for _, lease := range slices.Sorted(maps.Keys(x.leasedTo)) {
		apps, leases = append(apps, x.leasedTo[lease]), append(leases, lease)
	}
	r := report{app: x.holder, lease: x.lease}
	if x.status != processing || oneOf(t, "by anybody", false, false, false, true) {
		r.app = oneOf(t, "app", apps...)
	}
	if x.lease == 0 || oneOf(t, "of any lease", false, false, true) {
		r.lease = oneOf(t, "lease", leases...)
	}
	r.ok = oneOf(t, "sent", true, false)
	body := map[string]any{"task_id": x.id, "app_id": r.app, "status": failed}
	if r.ok {
		body["status"] = success
	} else {
		r.shouldRetry = oneOf(t, "should retry", true, true, false)
		body["should_retry"] = r.shouldRetry
		if seconds := optional(t, "retry after", 0, 0, 5, 120); seconds != nil {
			body["retry_after_seconds"] = *seconds
			after := time.Duration(*seconds) * time.Second
			r.after = &after
		}
	}
	if r.lease != 0 {
		body["lease_id"] = r.lease
	}
	return r, body
}

// report reports on a leased task.
func (q *sequence) report(t *rapid.T) {
	held := slices.DeleteFunc(slices.Clone(q.world.tasks), func(x *task) bool { return x.status != processing })
	q.reportOn(t, someOf(t, "task", held))
}

// reportAnything reports on any task. The report can be a repetition, too late, or without a lease id.
func (q *sequence) reportAnything(t *rapid.T) { q.reportOn(t, someOf(t, "task", q.world.tasks)) }

func (q *sequence) reportOn(t *rapid.T, x *task) {
	r, body := q.someReport(t, x)
	path := oneOf(t, "path", "/api/v1/sms/report", "/app/api/v1/sms/report")
	a, lost := q.ask(t, "", http.MethodPost, path, body)
	if lost {
		q.reportedPerhaps(t, []*task{x}, []report{r})
		return
	}
	effect := q.world.report(x, r)
	t.Logf("report on %s %s: %s", x.name, encoded(t, body), effect)
	q.touch(x)
	q.touchSender(q.world.sender(r.app))
	switch {
	case effect == "refused" && (a.Status != http.StatusConflict || a.Body.Error.Reason != "task.not_held"):
		t.Fatalf("%s never held %s: %s", r.app, x.name, a.Raw)
	case effect != "refused" && a.Status != http.StatusOK:
		t.Fatalf("a report on %s with the effect %s: %s", x.name, effect, a.Raw)
	}
}

func (q *sequence) reportBatch(t *rapid.T) {
	w := q.world
	if len(w.tasks) == 0 {
		t.Skip("there are no tasks")
	}
	n := rapid.IntRange(1, 6).Draw(t, "reports")
	var bodies []map[string]any
	var reports []report
	var on []*task
	for range n {
		held := slices.DeleteFunc(slices.Clone(w.tasks), func(x *task) bool { return x.status != processing })
		if len(held) == 0 {
			held = w.tasks
		}
		x := oneOf(t, "task", held...)
		r, body := q.someReport(t, x)
		bodies, on, reports = append(bodies, body), append(on, x), append(reports, r)
		q.touch(x)
	}
	a, lost := q.ask(t, "", http.MethodPost, "/api/v1/sms/report-batch", map[string]any{"reports": bodies})
	if lost {
		q.reportedPerhaps(t, on, reports)
		return
	}
	data := dataOf[struct {
		Items []struct {
			Code   int
			TaskID string `json:"task_id"`
			Effect string
		}
	}](t, a)
	for i, item := range data.Items {
		effect := w.report(on[i], reports[i])
		t.Logf("report on %s %s: %s", on[i].name, encoded(t, bodies[i]), effect)
		code := http.StatusOK
		if effect == "refused" {
			code = http.StatusConflict
		}
		if item.Effect != effect || item.Code != code || item.TaskID != on[i].id {
			t.Fatalf("report %d on %s, want %s: %+v", i, on[i].name, effect, item)
		}
	}
}

// recordSeen makes the servers store recent polls, as a sweep does every 20 seconds.
func (q *sequence) recordSeen(t *rapid.T) {
	for _, server := range q.service.servers {
		if _, err := server.Senders.SweepSeen(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (q *sequence) pass(t *rapid.T) {
	q.recordSeen(t)
	d := oneOf(t, "time", time.Second, 10*time.Second, 50*time.Second, 5*time.Minute, 11*time.Minute, 61*time.Minute, 25*time.Hour)
	q.moveTo(t, q.world.now.Add(d))
	t.Logf("%s pass, it is %s", d, q.world.now.Format(time.DateTime))
}

// passUntil moves the time close to an event: a task becomes due or expires, a lease expires, or a sender becomes ready.
func (q *sequence) passUntil(t *rapid.T) {
	w := q.world
	var moments []time.Time
	for _, x := range w.tasks {
		switch x.status {
		case pending:
			if moments = append(moments, x.due); x.end() != nil {
				moments = append(moments, *x.end())
			}
		case processing:
			moments = append(moments, x.until)
		}
	}
	for _, s := range w.senders {
		moments = append(moments, s.next)
	}
	for _, list := range w.counted {
		for _, e := range list {
			moments = append(moments, e.at.Add(time.Minute), e.at.Add(time.Hour))
		}
	}
	for _, b := range w.blocks {
		if b.expires != nil {
			moments = append(moments, *b.expires)
		}
	}
	moments = slices.DeleteFunc(moments, func(at time.Time) bool { return !at.After(w.now.Add(time.Microsecond)) })
	slices.SortFunc(moments, time.Time.Compare)
	at := someOf(t, "moment", slices.CompactFunc(moments, time.Time.Equal))
	q.recordSeen(t)
	q.moveTo(t, at.Add(oneOf(t, "off by", 0, -time.Microsecond, time.Microsecond)))
	t.Logf("it is %s", w.now.Format("2006-01-02 15:04:05.000000"))
}

// sweep runs one of the sweeps that the service runs periodically.
func (q *sequence) sweep(t *rapid.T) {
	w, tasks := q.world, q.service.any().Queue
	var got, want int
	var err error
	what := oneOf(t, "what", "recover", "recover", "expire", "queue", "age", "switches", "fold", "blocks")
	switch what {
	case "recover":
		got = dataOf[struct {
			Count int `json:"recovered_count"`
		}](t, q.admin(t, http.MethodPost, "/api/v1/admin/recover-zombie-tasks", nil)).Count
		want = w.recover()
	case "expire":
		got, err = tasks.Expire(t.Context())
		want = w.expire()
	case "queue":
		_, err = tasks.Queue(t.Context())
		w.queue()
	case "age":
		_, err = tasks.Age(t.Context())
		w.age()
	case "switches":
		_, err = tasks.FollowSwitches(t.Context())
	case "blocks":
		if got, err = q.service.any().Blocks.EnforceAll(t.Context()); got != 0 {
			t.Fatalf("%d tasks waited although blocks forbid them", got)
		}
		if err == nil {
			got, err = q.service.any().Blocks.DeleteExpired(t.Context())
		}
		want = w.deleteExpiredBlocks()
	case "fold": // this sweep changes no value of the model
		_, err = q.service.any().History.Fold(t.Context())
	}
	t.Logf("sweep: %s, %d", what, got)
	if err != nil || got != want {
		t.Fatalf("%s: %d, want %d, %v", what, got, want, err)
	}
}
