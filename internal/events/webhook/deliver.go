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
	maxRuns        = 64  // slots for webhooks that run at the same time on one server, of those whose last post was taken
	maxFailingRuns = 16  // and of the others: receivers that hang take no slot of those that do not
	maxPosts       = 8   // posts at a time to one webhook
	maxRead        = 200 // events that one transaction of a run settles
	maxProbe       = maxPosts
	maxTurns       = 50 // transactions of a run, after which it waits for its next one

	// runLast is how long a run begins further posts: a receiver that is slow, but takes what it gets, leaves its slot to others.
	runLast = 10 * time.Second

	// againAfter is when a run that could not be settled is tried again, and then twice as long each time, up to maxPause.
	againAfter = 5 * time.Second

	// maxWaiting is how many events of a webhook may have failed; with more, it does not go on to further events, which stay in the feed.
	maxWaiting = 1000

	maxFailing = 5 * 24 * time.Hour // without a post that is taken, a webhook is switched off after it
	maxPause   = 5 * time.Minute    // the pause of a webhook after a run that failed, unless its receiver asked for more
	minPause   = 5 * time.Second

	maxDeliveries = 100 // posts of a webhook that are kept

	lookEvery = 200 * time.Millisecond
)

// delays are the times between the posts of an event; the last one repeats while the event is kept.
var delays = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// jittered returns a time that is up to a tenth shorter or longer, so that what failed together is not repeated together.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // dice
}

// end is how a run of a webhook ended.
type end struct {
	id    int64
	taken int
	err   error
}

// Deliver posts events to webhooks until nothing is due, and returns how many were taken. Each webhook has a goroutine of its own while it runs, so that
// one that hangs holds up no other. Several servers may run it: a webhook that both run posts events twice, and loses none.
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
	ticker := time.NewTicker(lookEvery)
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
		slices.SortStableFunc(due, func(a, b webhookq.WebhooksDueRow) int { return ran[a.ID].Compare(ran[b.ID]) }) // those that waited longest
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
		for isTime := false; !isTime; { // not at each end: many webhooks may end soon
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

// hasSlot reports whether another webhook may run beside those that do. A company has fewer runs than it leaves slots free, so that one with many slow
// receivers leaves some to the others, and one that is alone has half of them.
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

// breakage says that the last runs of a webhook could not be settled.
type breakage struct {
	err   error // of the last one
	runs  int
	until time.Time // when it is tried again
}

// run posts what is due to a webhook, in some transactions, and returns how many events were taken.
func (s *Service) run(ctx context.Context, id int64) (taken int, err error) {
	until := time.Now().Add(runLast)
	for range maxTurns {
		t, err := s.turn(ctx, id, until)
		if t != nil {
			taken += len(t.taken)
		}
		if err != nil || t == nil || !t.hasMore || time.Now().After(until) {
			return taken, err
		}
	}
	return taken, nil
}

// item is an event that a turn may post.
type item struct {
	feed.Event
	tries   int64
	isRetry bool // it is in webhook_retries; otherwise it is behind after_id
	answer  *Answer
	isLate  bool // it waits for an earlier event of its task
}

// turn is what is posted to a webhook and settled in one transaction.
type turn struct {
	webhookq.WebhookReadRow
	until   time.Time
	items   []*item
	next    int64 // the last event that was read, and is settled if all of them were posted
	hasMore bool

	stopped    atomic.Bool // no further post is begun: the receiver does not answer, or asked for a pause
	taken      []*item
	isGone     bool
	retryAfter time.Duration // the pause that the receiver asked for
}

// turn posts the next events of a webhook, and begins no post after a time. It returns nil if the webhook is off.
func (s *Service) turn(ctx context.Context, id int64, until time.Time) (*turn, error) {
	row, err := s.q.WebhookRead(ctx, webhookq.WebhookReadParams{ID: id, OnlyOn: true, MaxWaiting: maxWaiting})
	if postgres.IsNoRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, postgres.Wrap("read webhook", err, nil)
	}
	t := &turn{WebhookReadRow: row, until: until, next: row.AfterID}
	if err := s.collect(ctx, t); err != nil {
		return nil, err
	}
	if err := s.post(ctx, t); err != nil {
		return nil, err
	}
	return t, s.settle(ctx, t)
}

// collect reads what a turn posts: events that are due again, and then those behind after_id. A webhook that fails is tried with a few.
func (s *Service) collect(ctx context.Context, t *turn) error {
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

// post posts the items of a turn, some at a time, and those of one task one after the other.
func (s *Service) post(ctx context.Context, t *turn) error {
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
		if i > 0 && time.Now().After(t.until) { // each turn posts something
			t.stopped.Store(true)
		}
		if t.stopped.Load() || ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			for i, one := range group {
				if i > 0 && time.Now().After(t.until) {
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
	return ctx.Err() // the server stops: what failed then is no failure of the receiver
}

// bodies returns what is posted of events, by their ids.
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

// outcome is what a turn did, as settle stores it.
type outcome struct {
	posted    []*item // with an answer
	done      []int64 // retries that were taken
	retries   webhookq.WebhookRetriesPutParams
	reached   int64 // the webhook goes on behind this event: earlier ones that were not posted become retries, later ones are read again
	hasFailed bool
	pause     time.Duration // before the next turn
}

// outcome sorts the events of a turn into those that were taken, those that are tried again, and those that are read again.
func (t *turn) outcome() outcome {
	o := outcome{reached: t.AfterID, retries: webhookq.WebhookRetriesPutParams{WebhookID: t.ID}}
	for _, one := range t.items { // the last one that was posted, or that waits for another one of its task
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
			if one.answer.IsPause() { // otherwise it is said of this event alone
				t.retryAfter = max(t.retryAfter, one.answer.RetryAfter)
			}
			wait := max(jittered(delays[min(int(one.tries), len(delays)-1)]), one.answer.RetryAfter)
			o.retry(one, one.tries+1, wait.Seconds())
		case one.isLate:
			o.retry(one, one.tries, behind)
		case !one.isRetry && one.ID < o.reached:
			o.retry(one, 0, 0)
		case !one.isRetry: // it was not posted, and none behind it
			t.next = min(t.next, one.ID-1)
		}
	}
	o.pause = t.retryAfter
	if o.hasFailed && len(t.taken) == 0 {
		o.pause = max(o.pause, jittered(min(maxPause, minPause<<min(t.FailedRuns, 10))))
	}
	return o
}

// retry records that an event is tried again after some seconds.
func (o *outcome) retry(one *item, tries int64, wait float64) {
	r := &o.retries
	r.FeedIds, r.Tries, r.Waits = append(r.FeedIds, one.ID), append(r.Tries, tries), append(r.Waits, wait)
	r.DeliveryIds, r.AreRetries = append(r.DeliveryIds, 0), append(r.AreRetries, one.isRetry)
}

// settle stores what a turn did, in one transaction. If the webhook was changed meanwhile, it stores nothing, and the events are posted again.
func (s *Service) settle(ctx context.Context, t *turn) error {
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
		if err := s.q.WebhookDeliveriesDeleteOldest(ctx, webhookq.WebhookDeliveriesDeleteOldestParams{WebhookID: t.ID, Most: maxDeliveries}); err != nil {
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
	return postgres.Wrap("settle posts", err, nil)
}

// storeRetries stores what was posted, and which events are tried again. A webhook that takes events again gets all its retries at once.
func (s *Service) storeRetries(ctx context.Context, t *turn, o *outcome) error {
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

// behind is the wait of an event that waits for an earlier one of its task.
const behind = -1

// wellAfter is the number of failed runs in a row after which a post that is taken says that the receiver is well again, so that all that failed is
// posted again now. After fewer, the event itself may have been at fault, and would be posted with each other one.
const wellAfter = 2

// keepDeliveries keeps the last posts, and all that failed, which retries then name.
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
		return fmt.Errorf("keep posts: %w", err)
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

// Delivery is a post as it is shown.
type Delivery struct {
	webhookq.WebhookDeliveryListRow
	Body json.RawMessage // what was posted, made again; nil: the event was deleted
}

// Deliveries lists up to limit posts of a webhook with smaller ids than before, newest first. Fault: webhook.not_found.
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

// test is the type of the event that tests a webhook. It is in no feed.
const test = "webhook.test"

// Test posts an event of its own to a webhook, also to one that is off, and returns how it went. It changes nothing else. Fault: webhook.not_found.
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
	a.At = at // so that its body can be made again
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.q.WebhookHold(ctx, id); err != nil {
			return postgres.Wrap("lock webhook", err, errNone) // deleted meanwhile
		}
		p := webhookq.WebhookDeliveriesAddParams{WebhookID: id}
		addDelivery(&p, eventID, test, "", 1, a)
		if _, err := s.q.WebhookDeliveriesAdd(ctx, p); err != nil {
			return postgres.Wrap("keep post", err, nil)
		}
		return postgres.Wrap("delete posts", s.q.WebhookDeliveriesDeleteOldest(ctx, webhookq.WebhookDeliveriesDeleteOldestParams{WebhookID: id, Most: maxDeliveries}), nil)
	})
	return a, err
}

// Replay says which events are posted again: some, or those of a time.
type Replay struct {
	IDs      []int64
	From, To *time.Time
}

// maxReplay is how many events of a webhook may wait to be posted again, so that a replay goes no further.
const maxReplay = 10_000

var errFull = fault.AtLimit(maxReplay)

// Replayed is what a replay posts again.
type Replayed struct {
	Events     int64
	LastID     int64      // 0: none
	IsComplete bool       // no further event was asked for
	KeptSince  *time.Time // the time of the oldest event, if earlier ones were asked for and deleted; nil: none
}

// Replay posts events to a webhook again, with the same ids, also while it is paused. Those that it has still to post are left out. Faults: webhook.not_found, limit.reached.
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
			ByTime: r.From != nil, FromAt: from, ToAt: to, Most: int32(room),
		})
		if err == nil {
			err = s.q.WebhookRetriesBehind(ctx, id)
		}
		if err == nil && row.Events > 0 { // an event that is posted at this moment is posted again, and nobody waits for the end of a pause
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
