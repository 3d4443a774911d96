package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lksms/gen/webhookq"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/events/feed"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

const (
	maxRuns        = 64  // maximum number of concurrent runs on one server, for webhooks whose last post was accepted
	maxFailingRuns = 16  // the same for all other webhooks, so that receivers that hang use no slot of the others
	maxPosts       = 8   // maximum number of concurrent posts to one webhook
	maxRead        = 200 // maximum number of events that one portion posts and settles
	maxProbe       = maxPosts
	maxPortions    = 50 // maximum number of portions of one run; then the webhook waits for its next run

	// runLast is the time after which a run starts no further post, so that a slow receiver frees its slot for other webhooks.
	runLast = 10 * time.Second

	// againAfter is the delay before the repeat of a run whose outcome could not be stored. The delay doubles with each such run, up to maxPause.
	againAfter = 5 * time.Second

	// maxWaiting is the maximum number of failed events of a webhook. While a webhook has more failed events, the server posts no further events to it. These
	// events stay in the feed.
	maxWaiting = 1000

	maxFailing = 5 * 24 * time.Hour // a webhook is switched off after this time without an accepted post
	maxPause   = 5 * time.Minute    // maximum pause of a webhook after failed runs, unless its receiver requested a longer pause
	minPause   = 5 * time.Second

	maxDeliveries = 100 // maximum number of stored posts of a webhook

	pollInterval = 200 * time.Millisecond
)

// delays are the times between the posts of one event. The last delay repeats until the event expires.
var delays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// jittered returns d, changed at random by at most a tenth, so that posts that failed at the same time are repeated at different times.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // the number needs no cryptographic randomness
}

// end is the result of one run of a webhook.
type end struct {
	id    int64
	taken int
	err   error
}

// Deliver posts events to webhooks until no event is due, and returns the number of accepted posts. Each run has its own goroutine, so that a hanging webhook
// does not delay others. Several servers can call Deliver. If two servers run the same webhook, an event can be posted twice, but no event is lost.
func (s *Service) Deliver(ctx context.Context) (taken int, failures error) {
	running := map[int64]webhookq.WebhooksDueRow{}
	broken, ran := map[int64]breakage{}, map[int64]time.Time{}
	ended := make(chan end, maxRuns+maxFailingRuns)
	note := func(e end) {
		delete(running, e.id)
		taken += e.taken
		if e.err == nil {
			delete(broken, e.id)
		} else {
			b := broken[e.id]
			broken[e.id] = breakage{err: fmt.Errorf("webhook %d: %w", e.id, e.err), runs: b.runs + 1, until: time.Now().Add(min(maxPause, againAfter<<min(b.runs, 10)))}
		}
	}
	defer func() {
		for len(running) > 0 {
			note(<-ended)
		}
		for _, b := range broken {
			failures = errors.Join(failures, b.err)
		}
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		resting := slices.Collect(maps.Keys(running))
		for id, b := range broken {
			if time.Now().Before(b.until) {
				resting = append(resting, id)
			}
		}
		due, err := s.q.WebhooksDue(ctx, webhookq.WebhooksDueParams{
			Running: append([]int64{}, resting...), MaxWaiting: maxWaiting,
		})
		if err != nil {
			return taken, postgres.Wrap("find due webhooks", err, nil)
		}
		slices.SortStableFunc(due, func(a, b webhookq.WebhooksDueRow) int { return ran[a.ID].Compare(ran[b.ID]) }) // webhooks that have waited longest come first
		for _, w := range due {
			if hasSlot(w, running) {
				running[w.ID], ran[w.ID] = w, time.Now()
				go func() {
					n, err := s.run(ctx, w.ID)
					ended <- end{w.ID, n, err}
				}()
			}
		}
		if len(running) == 0 {
			return taken, nil
		}
		for isTime := false; !isTime; { // many webhooks can end at nearly the same time, so due webhooks are not searched after each end
			select {
			case e := <-ended:
				note(e)
				isTime = len(running) == 0
			case <-ticker.C:
				isTime = true
			case <-ctx.Done():
				isTime = true
			}
		}
	}
	return taken, nil
}

// hasSlot reports whether another webhook can run now. The company of the webhook must use fewer slots than are free. A company with many slow receivers
// therefore leaves slots for other companies, and a single company can use half of the slots.
func hasSlot(w webhookq.WebhooksDueRow, running map[int64]webhookq.WebhooksDueRow) bool {
	free, own := maxRuns, 0
	if w.IsFailing {
		free = maxFailingRuns
	}
	for _, other := range running {
		if other.IsFailing == w.IsFailing {
			free--
			if other.CompanyID == w.CompanyID {
				own++
			}
		}
	}
	return own < free
}

// breakage describes a webhook whose last runs failed: their outcomes could not be stored.
type breakage struct {
	err   error // error of the latest run
	runs  int
	until time.Time // time of the next run
}

// run posts the due events of a webhook in several portions, and returns the number of accepted posts.
func (s *Service) run(ctx context.Context, id int64) (taken int, err error) {
	until := time.Now().Add(runLast)
	for range maxPortions {
		t, err := s.postNext(ctx, id, until)
		if t != nil {
			taken += len(t.taken)
		}
		if err != nil || t == nil || !t.hasMore || time.Now().After(until) {
			return taken, err
		}
	}
	return taken, nil
}

// item is an event that a portion can post.
type item struct {
	feed.Event
	tries   int64
	isRetry bool // true: the event is in webhook_retries; false: its id is after after_id
	answer  *Answer
	isLate  bool // the event must wait for an earlier event of its task
}

// portion contains the events that are posted to a webhook and then settled in one transaction.
type portion struct {
	webhookq.WebhookReadRow
	deadline time.Time // no post starts after this time, except the first
	items    []*item
	next     int64 // last event that was read; if all events of the portion are posted, the webhook continues after this event
	hasMore  bool

	stopped    atomic.Bool // true: no further post is started, because the receiver does not answer or requested a pause
	taken      []*item
	isGone     bool
	retryAfter time.Duration // pause that the receiver requested
}

// postNext posts the next events of a webhook, and starts no post after the deadline. It returns nil if the webhook is off.
func (s *Service) postNext(ctx context.Context, id int64, deadline time.Time) (*portion, error) {
	row, err := s.q.WebhookRead(ctx, webhookq.WebhookReadParams{ID: id, OnlyOn: true, MaxWaiting: maxWaiting})
	if postgres.IsNoRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, postgres.Wrap("read webhook", err, nil)
	}
	t := &portion{WebhookReadRow: row, deadline: deadline, next: row.AfterID}
	if err := s.collect(ctx, t); err != nil {
		return nil, err
	}
	if err := s.post(ctx, t); err != nil {
		return nil, err
	}
	return t, s.settle(ctx, t)
}

// collect reads the events of a portion: first due retries, then events after after_id. If the last run of the webhook failed, collect reads only maxProbe events.
func (s *Service) collect(ctx context.Context, t *portion) error {
	most := maxRead
	if t.FailedRuns > 0 {
		most = maxProbe
	}
	due, err := s.q.WebhookRetriesDue(ctx, webhookq.WebhookRetriesDueParams{WebhookID: t.ID, PageLimit: int32(most)})
	if err != nil {
		return postgres.Wrap("read due events", err, nil)
	}
	for _, r := range due {
		t.items = append(t.items, &item{isRetry: true, tries: r.Tries, Event: feed.Event{
			ID: r.ID, CompanyID: r.CompanyID, SubmittedBy: r.SubmittedBy, Type: r.Type, TaskID: r.TaskID, LogID: r.LogID, At: r.At, Data: r.Data,
		}})
	}
	t.hasMore = len(due) == most
	if t.hasMore || !t.HasRoom {
		return nil
	}
	rows, err := s.feed.Read(ctx, task.Viewer{CompanyID: t.CompanyID, Owner: t.Username}, t.AfterID, maxRead)
	if err != nil {
		return err
	}
	t.hasMore = len(rows) == maxRead
	var tasks []string
	for _, e := range rows {
		if slices.Contains(t.Events, e.Type) {
			if len(t.items) == most {
				t.hasMore = true
				break
			}
			t.items = append(t.items, &item{Event: e})
			if e.TaskID != "" {
				tasks = append(tasks, e.TaskID)
			}
		}
		t.next = e.ID
	}
	if len(tasks) == 0 {
		return nil
	}
	waiting, err := s.q.WebhookTasksWaiting(ctx, webhookq.WebhookTasksWaitingParams{WebhookID: t.ID, TaskIds: tasks})
	if err != nil {
		return postgres.Wrap("find waiting tasks", err, nil)
	}
	for _, one := range t.items {
		one.isLate = !one.isRetry && one.TaskID != "" && slices.Contains(waiting, one.TaskID)
	}
	return nil
}

// post posts the items of a portion, several concurrently, but the items of one task in order.
func (s *Service) post(ctx context.Context, t *portion) error {
	var groups [][]*item
	of := map[string]int{}
	for _, one := range t.items {
		if one.isLate {
			continue
		}
		if place, isThere := of[one.TaskID]; isThere && one.TaskID != "" {
			groups[place] = append(groups[place], one)
			continue
		}
		of[one.TaskID] = len(groups)
		groups = append(groups, []*item{one})
	}
	if len(groups) == 0 {
		return nil
	}
	bodies, err := s.bodies(ctx, t.items, formOf(t.Form, t.ExternalID))
	if err != nil {
		return err
	}
	keys, err := s.secretsOf(ctx, t.ID)
	if err != nil {
		return err
	}
	poster, form := s.posterFor(t.IsTrusted), signedAs(t.Form)
	var all sync.WaitGroup
	slots := make(chan struct{}, maxPosts)
	for i, group := range groups {
		slots <- struct{}{}
		if i > 0 && time.Now().After(t.deadline) { // each portion posts at least one event
			t.stopped.Store(true)
		}
		if t.stopped.Load() || ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			for i, one := range group {
				if i > 0 && time.Now().After(t.deadline) {
					t.stopped.Store(true)
				}
				if t.stopped.Load() {
					return
				}
				a := poster.Do(ctx, posting{URL: t.Url, ID: feed.IDText(one.ID), Body: bodies[one.ID], Secrets: keys, Form: form})
				one.answer = &a
				if a.IsPause() || a.IsGone() {
					t.stopped.Store(true)
				}
				if a.Error != "" {
					for _, later := range group[i+1:] {
						later.isLate = true
					}
					return
				}
			}
		})
	}
	all.Wait()
	return ctx.Err() // the server is stopping, so later failures are not failures of the receiver
}

// bodies returns the bodies of the posts of events, by event id.
func (s *Service) bodies(ctx context.Context, items []*item, form form) (map[int64][]byte, error) {
	events := make([]feed.Event, len(items))
	for i, one := range items {
		events[i] = one.Event
	}
	rendered, err := s.feed.Render(ctx, events)
	if err != nil {
		return nil, err
	}
	bodies := make(map[int64][]byte, len(rendered))
	for _, one := range rendered {
		if bodies[one.ID], err = form.body(one); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}

// outcome is the result of a portion, as settle stores it.
type outcome struct {
	posted    []*item // items with an answer
	done      []int64 // ids of retries that were accepted
	retries   webhookq.WebhookRetriesPutParams
	reached   int64 // the webhook continues after this event; earlier events that were not posted become retries, and later events are read again
	hasFailed bool
	pause     time.Duration // time before the next portion
}

// outcome divides the events of a portion into accepted events, events that are retried, and events that are read again.
func (t *portion) outcome() outcome {
	o := outcome{reached: t.AfterID, retries: webhookq.WebhookRetriesPutParams{WebhookID: t.ID}}
	for _, one := range t.items { // find the last event that was posted, or that waits for an earlier event of its task
		if !one.isRetry && (one.answer != nil || one.isLate) {
			o.reached = max(o.reached, one.ID)
		}
	}
	for _, one := range t.items {
		switch {
		case one.answer != nil && one.answer.Error == "":
			o.posted, t.taken = append(o.posted, one), append(t.taken, one)
			if one.isRetry {
				o.done = append(o.done, one.ID)
			}
		case one.answer != nil:
			o.posted, o.hasFailed = append(o.posted, one), true
			t.isGone = t.isGone || one.answer.IsGone()
			if one.answer.IsPause() { // a Retry-After of any other answer applies only to its event
				t.retryAfter = max(t.retryAfter, one.answer.RetryAfter)
			}
			wait := max(jittered(delays[min(int(one.tries), len(delays)-1)]), one.answer.RetryAfter)
			o.retry(one, one.tries+1, wait.Seconds())
		case one.isLate:
			o.retry(one, one.tries, behind)
		case !one.isRetry && one.ID < o.reached:
			o.retry(one, 0, 0)
		case !one.isRetry: // neither this event nor a later new event was posted
			t.next = min(t.next, one.ID-1)
		}
	}
	o.pause = t.retryAfter
	if o.hasFailed && len(t.taken) == 0 {
		o.pause = max(o.pause, jittered(min(maxPause, minPause<<min(t.FailedRuns, 10))))
	}
	return o
}

// retry adds an event that is posted again after `wait` seconds.
func (o *outcome) retry(one *item, tries int64, wait float64) {
	r := &o.retries
	r.FeedIds, r.Tries, r.Waits = append(r.FeedIds, one.ID), append(r.Tries, tries), append(r.Waits, wait)
	r.DeliveryIds, r.AreRetries = append(r.DeliveryIds, 0), append(r.AreRetries, one.isRetry)
}

// settle stores the outcome of a portion in one transaction. If the webhook was changed during the portion, settle stores nothing, and the events are posted again
// later.
func (s *Service) settle(ctx context.Context, t *portion) error {
	o := t.outcome()
	t.hasMore = t.hasMore && o.pause == 0
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		now, err := s.q.WebhookSettle(ctx, webhookq.WebhookSettleParams{
			ID: t.ID, Version: t.Version, AfterID: t.AfterID, NextID: max(t.next, o.reached), Taken: len(t.taken) > 0, Failed: o.hasFailed, Pause: o.pause,
			MaxFailing: maxFailing,
		})
		if postgres.IsNoRows(err) {
			t.taken, t.hasMore = nil, false
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.storeRetries(ctx, t, &o); err != nil {
			return err
		}
		if err := s.q.WebhookDeliveriesDeleteOldest(ctx, webhookq.WebhookDeliveriesDeleteOldestParams{WebhookID: t.ID, MaxRows: maxDeliveries}); err != nil {
			return err
		}
		switch {
		case t.isGone:
			return s.q.WebhookOff(ctx, webhookq.WebhookOffParams{ID: t.ID, Reason: gone})
		case now.IsOver:
			return s.q.WebhookOff(ctx, webhookq.WebhookOffParams{ID: t.ID, Reason: failing})
		}
		return nil
	})
	return postgres.Wrap("store outcomes of posts", err, nil)
}

// storeRetries stores which events were accepted, and which events are retried. If a receiver has recovered (see wellAfter), all retries of its webhook become
// due.
func (s *Service) storeRetries(ctx context.Context, t *portion, o *outcome) error {
	if len(o.done) > 0 {
		if err := s.q.WebhookRetriesDone(ctx, webhookq.WebhookRetriesDoneParams{WebhookID: t.ID, FeedIds: o.done}); err != nil {
			return err
		}
	}
	if len(t.taken) > 0 && t.FailedRuns >= wellAfter {
		if err := s.q.WebhookRetriesNow(ctx, t.ID); err != nil {
			return err
		}
	}
	if err := s.keepDeliveries(ctx, t.ID, o.posted, &o.retries); err != nil {
		return err
	}
	if len(o.retries.FeedIds) > 0 {
		if err := s.q.WebhookRetriesPut(ctx, o.retries); err != nil {
			return err
		}
	}
	if o.hasFailed {
		if err := s.q.WebhookRetriesBehind(ctx, t.ID); err != nil {
			return err
		}
	}
	return s.q.WebhookRetriesFree(ctx, t.ID)
}

// behind is stored as the wait of an event that must wait for an earlier event of its task.
const behind = -1

// wellAfter is the number of consecutive failed runs that show a failure of the receiver. If a post is accepted after at least so many failed runs, the
// receiver has recovered, and all failed events become due. After fewer failed runs, a single event can be the cause. If such an event became due each time, it
// would be posted again with each new event.
const wellAfter = 2

// keepDeliveries stores the latest posts and all failed posts. A retry refers to its latest failed post.
func (s *Service) keepDeliveries(ctx context.Context, id int64, posted []*item, retries *webhookq.WebhookRetriesPutParams) error {
	p := webhookq.WebhookDeliveriesAddParams{WebhookID: id}
	slices.SortStableFunc(posted, func(a, b *item) int { return a.answer.At.Compare(b.answer.At) })
	for i, one := range posted {
		if one.answer.Error != "" || i >= len(posted)-maxDeliveries {
			addDelivery(&p, one.ID, one.Type, one.TaskID, one.tries+1, *one.answer)
		}
	}
	if len(p.FeedIds) == 0 {
		return nil
	}
	rows, err := s.q.WebhookDeliveriesAdd(ctx, p)
	if err != nil {
		return fmt.Errorf("store posts: %w", err)
	}
	ids := map[int64]int64{}
	for _, row := range rows {
		ids[row.FeedID] = row.ID
	}
	for i, feedID := range retries.FeedIds {
		if retries.Tries[i] > 0 {
			retries.DeliveryIds[i] = ids[feedID]
		}
	}
	return nil
}

func addDelivery(p *webhookq.WebhookDeliveriesAddParams, id int64, ofType, task string, attempt int64, a Answer) {
	p.FeedIds, p.Types, p.TaskIds, p.Ats = append(p.FeedIds, id), append(p.Types, ofType), append(p.TaskIds, task), append(p.Ats, a.At)
	p.Attempts, p.StatusCodes = append(p.Attempts, attempt), append(p.StatusCodes, int64(a.Status))
	p.Durations = append(p.Durations, a.Duration.Milliseconds())
	p.Errors, p.Responses = append(p.Errors, a.Error), append(p.Responses, a.Response)
}

// Delivery is a stored post of a webhook.
type Delivery struct {
	webhookq.WebhookDeliveryListRow
	Body json.RawMessage // the posted body, rendered again; nil: the event was deleted
}

// Deliveries lists up to limit posts of a webhook with smaller ids than `before`, newest first. Fault: webhook.not_found.
func (s *Service) Deliveries(ctx context.Context, user *string, id, before int64, limit int) ([]Delivery, error) {
	w, err := s.Get(ctx, user, id)
	if err != nil {
		return nil, err
	}
	form := formOf(w.Form, w.ExternalID)
	rows, err := s.q.WebhookDeliveryList(ctx, webhookq.WebhookDeliveryListParams{WebhookID: id, BeforeID: before, PageLimit: int32(limit)})
	if err != nil {
		return nil, postgres.Wrap("list posts", err, nil)
	}
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.FeedID
	}
	kept, err := s.q.FeedGet(ctx, ids)
	if err != nil {
		return nil, postgres.Wrap("read events", err, nil)
	}
	items := make([]*item, len(kept))
	for i, e := range kept {
		items[i] = &item{Event: feed.Event(e)}
	}
	bodies, err := s.bodies(ctx, items, form)
	if err != nil {
		return nil, err
	}
	all := make([]Delivery, len(rows))
	for i, row := range rows {
		all[i] = Delivery{row, bodies[row.FeedID]}
		if row.Type == test {
			if all[i].Body, err = form.test(id, row.FeedID, row.At); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// test is the type of the event that tests a webhook. This event is never in the feed.
const test = "webhook.test"

// Test posts a test event to a webhook, even if the webhook is off, and returns the answer. The post is stored in the list of posts. The state of the webhook
// does not change. Fault: webhook.not_found.
func (s *Service) Test(ctx context.Context, user *string, id int64) (a Answer, err error) {
	w, err := s.Get(ctx, user, id)
	if err != nil {
		return a, err
	}
	keys, err := s.secretsOf(ctx, id)
	if err != nil {
		return a, err
	}
	eventID, err := s.q.FeedIDNext(ctx)
	if err != nil {
		return a, postgres.Wrap("make event", err, nil)
	}
	at := time.Now()
	body, err := formOf(w.Form, w.ExternalID).test(id, eventID, at)
	if err != nil {
		return a, err
	}
	a = s.posterFor(w.IsTrusted).Do(ctx, posting{URL: w.Url, ID: feed.IDText(eventID), Body: body, Secrets: keys, Form: signedAs(w.Form)})
	a.At = at // the body can be rendered again only with the stored time
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.q.WebhookHold(ctx, id); err != nil {
			return postgres.Wrap("lock webhook", err, errNone) // the webhook was deleted meanwhile
		}
		p := webhookq.WebhookDeliveriesAddParams{WebhookID: id}
		addDelivery(&p, eventID, test, "", 1, a)
		if _, err := s.q.WebhookDeliveriesAdd(ctx, p); err != nil {
			return postgres.Wrap("store post", err, nil)
		}
		return postgres.Wrap("delete posts", s.q.WebhookDeliveriesDeleteOldest(ctx, webhookq.WebhookDeliveriesDeleteOldestParams{WebhookID: id, MaxRows: maxDeliveries}), nil)
	})
	return a, err
}

// Replay selects the events to post again, by their ids or by a period.
type Replay struct {
	IDs      []int64
	From, To *time.Time
}

// maxReplay is the maximum number of waiting events of a webhook. A replay stops at this limit.
const maxReplay = 10_000

var errFull = fault.AtLimit(maxReplay)

// Replayed is the result of a replay.
type Replayed struct {
	Events     int64
	LastID     int64      // last event that will be posted again; 0: no event
	IsComplete bool       // the replay contains all requested events
	KeptSince  *time.Time // time of the oldest stored event if some requested events were deleted; nil: none was deleted
}

// Replay posts events to a webhook again, with the same ids, even if the webhook is paused. It skips events that already wait to be posted. Faults:
// webhook.not_found, limit.reached.
func (s *Service) Replay(ctx context.Context, user *string, id int64, r Replay) (out Replayed, err error) {
	ids, from, to := r.IDs, optional.Value(r.From), optional.Or(r.To, time.Now())
	var span webhookq.FeedSpanRow
	switch {
	case r.From != nil:
		if span, err = s.q.FeedSpan(ctx, webhookq.FeedSpanParams{FromAt: from, ToAt: to}); err != nil {
			return out, postgres.Wrap("find events of a time", err, nil)
		}
	case len(ids) > 0:
		span.FirstID, span.LastID = slices.Min(ids), slices.Max(ids)
	default:
		ids = []int64{}
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		w, err := s.Get(ctx, user, id)
		if err != nil {
			return err
		}
		if _, err := s.q.WebhookHold(ctx, id); err != nil {
			return postgres.Wrap("lock webhook", err, errNone)
		}
		now, err := s.q.WebhookWaiting(ctx, id)
		if err != nil {
			return postgres.Wrap("count events", err, nil)
		}
		room := maxReplay - now.Waiting
		if room <= 0 {
			return errFull
		}
		row, err := s.q.WebhookReplay(ctx, webhookq.WebhookReplayParams{
			WebhookID: id, AllCompanies: w.CompanyID == nil, CompanyID: optional.Value(w.CompanyID), OfUser: w.Username != nil,
			SubmittedBy: optional.Value(w.Username), Types: w.Events, FromID: span.FirstID, UntilID: min(now.AfterID, span.LastID), Ids: ids,
			ByTime: r.From != nil, FromAt: from, ToAt: to, MaxRows: int32(room),
		})
		if err == nil {
			err = s.q.WebhookRetriesBehind(ctx, id)
		}
		if err == nil && row.Events > 0 { // end a pause, and invalidate a run in progress: an event that is being posted now is then posted again
			err = s.q.WebhookBegins(ctx, id)
		}
		out = Replayed{Events: row.Events, LastID: row.LastID, IsComplete: row.Events < room}
		if span.IsPruned && from.Before(span.OldestAt) {
			out.KeptSince = &span.OldestAt
		}
		return postgres.Wrap("replay events", err, nil)
	})
	return out, err
}

// Message identifies a received message of the feed.
type Message struct {
	ID, CompanyID int64
	At            time.Time // when the message was stored
	SubmittedBy   string    // the submitter of the task that the message answers; empty: it answers no task
}

// Forward makes a webhook post the event of a received message. If the webhook subscribes to such events, it gets the event anyway. Forward reports false if the
// event is not in the feed yet. It can be part of a larger transaction. Fault: webhook.not_found, also for a webhook of another company.
func (s *Service) Forward(ctx context.Context, id int64, m Message) (isInFeed bool, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.q.WebhookHold(ctx, id); err != nil {
			return postgres.Wrap("lock webhook", err, errNone)
		}
		w, err := s.forwardTo(ctx, id, m.CompanyID)
		if err != nil {
			return err
		}
		isSubscribed := slices.Contains(w.Events, feed.MessageReceived) && (w.Username == nil || *w.Username == m.SubmittedBy)
		isInFeed, err = s.q.WebhookForward(ctx, webhookq.WebhookForwardParams{
			WebhookID: id, At: m.At, CompanyID: m.CompanyID, ReceivedID: m.ID, IsSubscribed: isSubscribed,
		})
		return postgres.Wrap("forward received message", err, nil)
	})
	return isInFeed, err
}

// CheckForward returns the fault webhook.not_found if Forward would not make a webhook post messages of a company.
func (s *Service) CheckForward(ctx context.Context, id, companyID int64) error {
	_, err := s.forwardTo(ctx, id, companyID)
	return err
}

// forwardTo returns a webhook that can post messages of a company. Fault: webhook.not_found, also for a webhook of another company or one that is off.
func (s *Service) forwardTo(ctx context.Context, id, companyID int64) (Row, error) {
	w, err := s.Get(ctx, nil, id)
	if err == nil && (w.CompanyID != nil && *w.CompanyID != companyID || w.Status != On) {
		err = errNone
	}
	return w, err
}
