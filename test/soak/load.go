package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
)

const (
	submitters  = 32
	senders     = 12
	callLimit   = 4 * time.Second
	keyedTries  = 10 // attempts for a message that is sent again until it is answered
	stranger    = "stranger"
	claimedMost = 20
)

// load runs the clients: submitters and senders that use the API as documented, and some that misuse it.
type load struct {
	history  *history
	provider *provider
	servers  []*server
	clients  []*api.ClientWithResponses // one for each server
	pools    []*http.Transport
	seed     uint64
	many     int          // number of submitters
	isPlain  bool         // clients use neither switches nor expires_at: the older version of an upgrade does not honour them
	serial   atomic.Int64 // serial number of the last message
	requeues atomic.Int64 // requeues that were answered
	misdeed  [misdeeds]atomic.Int64
}

// The misdeeds of senders.
const (
	duplicated = iota
	delayed
	reordered
	lostReport
	vanished
	forged
	misdeeds
)

var misdeedNames = [misdeeds]string{"duplicated", "delayed", "reordered", "lost", "missing, of a sender that vanished", "forged"}

func newLoad(seed uint64, h *history, p *provider, servers []*server) (*load, error) {
	l := &load{history: h, provider: p, servers: servers, seed: seed, many: submitters}
	for _, s := range servers {
		pool := &http.Transport{MaxIdleConnsPerHost: 64}
		client, err := api.NewClientWithResponses(s.url,
			api.WithHTTPClient(&http.Client{Timeout: callLimit, Transport: observer{history: h, server: s, base: pool}}),
			api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
				r.SetBasicAuth("admin", password)
				return nil
			}))
		if err != nil {
			return nil, fmt.Errorf("create client: %w", err)
		}
		l.clients, l.pools = append(l.clients, client), append(l.pools, pool)
	}
	return l, nil
}

// The first senders have an interval, a limit or a balance, and several pollers each, which would overdraw it
// together without locks.
const (
	counted        = 3
	countedPollers = 3
)

// setUp creates the senders with an interval, a limit or a balance, two more senders with routes, and the driven
// senders with routes.
func (l *load) setUp(ctx context.Context) error {
	client := l.clients[0]
	interval, perMinute, balance, warning, stop := int64(20), int64(120), int64(500), int64(450), int64(30)
	for i, body := range [counted]api.SenderRequest{
		{IntervalMs: &interval}, {Limits: &api.Limits{PerMinute: &perMinute}},
		{Balance: &balance, LowWarning: &warning, LowSwitch: &stop},
	} {
		body.SenderNo = fmt.Sprint("sender-", i)
		body.Name = body.SenderNo
		if res, err := client.CreateSenderWithResponse(ctx, nil, body); err != nil || res.JSON200 == nil {
			return fmt.Errorf("create sender: %w %s", err, res.Status())
		}
	}
	for i := counted; i < counted+2; i++ {
		no, weight := fmt.Sprint("sender-", i), int64(i)
		if res, err := client.CreateSenderWithResponse(ctx, nil, api.SenderRequest{SenderNo: no, Name: no}); err != nil || res.JSON200 == nil {
			return fmt.Errorf("create sender: %w %s", err, res.Status())
		}
		res, err := client.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: "default", MessageType: api.Marketing, SenderNo: no, Weight: &weight})
		if err != nil || res.JSON200 == nil {
			return fmt.Errorf("create route: %w %s", err, res.Status())
		}
	}
	for i := range pushed {
		no := fmt.Sprint("sender-push-", i)
		if res, err := client.CreateSenderWithResponse(ctx, nil, l.provider.sender(no, "/")); err != nil || res.JSON200 == nil {
			return fmt.Errorf("create driven sender: %w %s", err, res.Status())
		}
		res, err := client.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: "default", MessageType: api.Verification, SenderNo: no})
		if err != nil || res.JSON200 == nil {
			return fmt.Errorf("create route: %w %s", err, res.Status())
		}
	}
	return nil
}

// newMessage returns a message of any type, now and then scheduled for a moment later.
func (l *load) newMessage(rng *rand.Rand, phone string, text *string) api.SendRequest {
	m := api.SendRequest{PhoneNumber: phone, Content: text}
	switch n := rng.IntN(10); {
	case n == 0:
		kind := api.Marketing
		m.MessageType = &kind
	case n == 1:
		kind := api.Verification
		m.MessageType = &kind
	case n == 2:
		at := time.Now().Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
		m.ExpectSendTime = &at
	case n == 3 && !l.isPlain: // with luck it is claimed before
		at := time.Now().Add(time.Second + time.Duration(rng.IntN(5000))*time.Millisecond)
		m.ExpiresAt = &at
	}
	return m
}

// run submits and sends until ctx ends, and returns when every call has ended.
func (l *load) run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range l.many {
		rng := rand.New(rand.NewPCG(l.seed, uint64(round)<<16|uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				l.submitOne(rng)
				pause(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
			}
		})
	}
	for n := range senders + counted*(countedPollers-1) {
		i := n % senders // the counted senders get further pollers
		rng := rand.New(rand.NewPCG(l.seed, uint64(round)<<16|uint64(1<<8+n)))
		all.Go(func() {
			s := sender{load: l, rng: rng, appID: fmt.Sprint("sender-", i)}
			s.run(ctx)
		})
	}
	all.Wait()
}

// drain lets well-behaved senders empty the queue.
func (l *load) drain(ctx context.Context, empty func() bool) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.provider.calm.Store(true)
	defer l.provider.calm.Store(false)
	names := append(slices.Clone(tenantSenders), quiet) // the others of its route leave quiet its share until it counts as silent
	for i := range senders {
		names = append(names, fmt.Sprint("sender-", i))
	}
	for i, name := range names {
		rng := rand.New(rand.NewPCG(l.seed, uint64(i)))
		all.Go(func() {
			s := sender{load: l, rng: rng, appID: name, calm: true}
			s.run(ctx)
		})
	}
	for ctx.Err() == nil && !empty() {
		pause(ctx, 50*time.Millisecond)
	}
	cancel()
	all.Wait()
	for _, pool := range l.pools {
		pool.CloseIdleConnections()
	}
}

// call returns the context of a call. A call has its own deadline: the end of a round must not break it off.
func call() context.Context { return context.Background() }

func (l *load) any(rng *rand.Rand) *api.ClientWithResponses {
	return l.clients[rng.IntN(len(l.clients))]
}

func (l *load) submitOne(rng *rand.Rand) {
	serial := l.serial.Add(1)
	text := fmt.Sprintf("soak-%d-message-%d", l.seed, serial)
	phone := fmt.Sprintf("138%08d", serial)
	switch n := rng.IntN(100); {
	case n < 6:
		l.submitBatch(rng, phone, text)
	case n < 50:
		id := l.submit(l.any(rng), nil, l.newMessage(rng, phone, &text), text)
		switch m := rng.IntN(100); {
		case id == "":
		case m < 6:
			l.cancel(l.any(rng), id)
			if m == 0 {
				l.requeue(id)
			}
		case m < 9:
			l.misdeed[forged].Add(1)
			l.report(l.any(rng), api.ReportRequest{TaskID: id, AppID: stranger, Status: 2})
		}
	case n < 70:
		l.insist(rng, &api.SendSmsParams{IdempotencyKey: &text}, l.newMessage(rng, phone, &text), text)
	case n < 88:
		m := l.newMessage(rng, phone, &text)
		m.DedupKey = &text
		l.insist(rng, nil, m, text)
	default:
		l.submitDefault(rng, phone, text)
	}
}

// submit sends a request once, and returns the task id of the answer, if any.
func (l *load) submit(client *api.ClientWithResponses, params *api.SendSmsParams, body api.SendRequest, text string, as ...api.RequestEditorFn) string {
	res, err := client.SendSmsWithResponse(call(), params, body, as...)
	status, id := 0, ""
	if err == nil {
		status = res.StatusCode()
		if res.JSON200 != nil {
			id = res.JSON200.Data.TaskID
		}
	}
	o := outcomeOf(status, err)
	l.history.calls[o].Add(1)
	l.history.submitted(text, o, id)
	return id
}

// insist repeats a message with a key until it is answered, now and then twice at the same time, and once more
// afterwards.
func (l *load) insist(rng *rand.Rand, params *api.SendSmsParams, body api.SendRequest, text string) {
	for range keyedTries {
		id := ""
		if rng.IntN(4) == 0 {
			var both sync.WaitGroup
			for _, client := range l.clients {
				both.Go(func() { l.submit(client, params, body, text) })
			}
			both.Wait()
		} else {
			id = l.submit(l.any(rng), params, body, text)
		}
		if id != "" {
			break
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	if rng.IntN(4) == 0 {
		l.submit(l.any(rng), params, body, text)
	}
}

// submitBatch sends several messages in a request: half of the time without a key, else with a key and repeated until
// it is answered.
func (l *load) submitBatch(rng *rand.Rand, phone, text string) {
	var body api.SendBatchRequest
	for i := range 2 + rng.IntN(20) {
		one := fmt.Sprint(text, "-", i)
		m := l.newMessage(rng, phone, &one)
		if rng.IntN(3) == 0 {
			m.DedupKey = &one
		}
		body.Messages = append(body.Messages, m)
	}
	params, tries := &api.SendSmsBatchParams{}, 1
	if rng.IntN(2) == 0 {
		params.IdempotencyKey, tries = &text, keyedTries
	}
	for range tries {
		res, err := l.any(rng).SendSmsBatchWithResponse(call(), params, body)
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		whole := outcomeOf(status, err)
		l.history.calls[whole].Add(1)
		for i, m := range body.Messages {
			o, id := whole, ""
			if whole == answered {
				item := res.JSON200.Data.Items[i]
				o = outcomeOf(item.Code, nil)
				if item.TaskID != nil {
					id = *item.TaskID
				}
			}
			l.history.submitted(*m.Content, o, id)
		}
		if whole == answered {
			return
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
}

// submitDefault creates a default content for a number, and submits it several times at once.
func (l *load) submitDefault(rng *rand.Rand, phone, text string) {
	if !l.createDefault(rng, phone, text) {
		return
	}
	var all sync.WaitGroup
	for i := range 2 + rng.IntN(6) {
		all.Go(func() {
			l.submit(l.clients[i%len(l.clients)], nil, api.SendRequest{PhoneNumber: phone}, text)
		})
	}
	all.Wait()
}

func (l *load) createDefault(rng *rand.Rand, phone, text string) bool {
	for range keyedTries {
		res, err := l.any(rng).CreateDefaultContentWithResponse(call(), &api.CreateDefaultContentParams{IdempotencyKey: &text},
			api.DefaultContentRequest{PhoneNumber: phone, Content: text})
		if err == nil && res.StatusCode() == http.StatusOK {
			return true
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	return false
}

func (l *load) cancel(client *api.ClientWithResponses, id string) {
	res, err := client.CancelTaskWithResponse(call(), id)
	if err == nil && res.StatusCode() == http.StatusOK {
		l.history.cancel(id)
	}
}

// requeue requeues a task through both servers at once. At most one of the two may do it.
func (l *load) requeue(id string) {
	l.history.requeue(id)
	var all sync.WaitGroup
	var done atomic.Int64
	for _, client := range l.clients {
		all.Go(func() {
			res, err := client.RequeueTaskWithResponse(call(), id, api.RequeueTaskJSONRequestBody{})
			status := 0
			if err == nil {
				status = res.StatusCode()
			}
			if l.history.calls[outcomeOf(status, err)].Add(1); status == http.StatusOK {
				done.Add(1)
			}
		})
	}
	all.Wait()
	l.requeues.Add(done.Load())
}

// report sends one report. The server logs a report that it refuses because another app holds the task, too.
func (l *load) report(client *api.ClientWithResponses, body api.ReportRequest) {
	res, err := client.ReportTaskWithResponse(call(), body)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	o := outcomeOf(status, err)
	l.history.calls[o].Add(1)
	l.history.reported(body.TaskID, o, status == http.StatusOK || status == http.StatusConflict)
	switch {
	case body.AppID == stranger && status == http.StatusOK:
		l.history.breach("a report on %s by an app that never held it was accepted", body.TaskID)
	case status == http.StatusNotFound:
		l.history.breach("%s was answered to a client and does not exist", body.TaskID)
	}
}

// sender is an app that polls.
type sender struct {
	load  *load
	rng   *rand.Rand
	appID string
	calm  bool // claims well-behaved: reports every task as sent, at once

	late sync.WaitGroup
}

func (s *sender) run(ctx context.Context) {
	defer s.late.Wait()
	for ctx.Err() == nil {
		tasks := s.claim()
		switch {
		case len(tasks) == 0:
			pause(ctx, time.Duration(20+s.rng.IntN(80))*time.Millisecond)
		case !s.calm && s.rng.IntN(40) == 0:
			s.load.misdeed[vanished].Add(int64(len(tasks)))
		case s.calm || s.rng.IntN(4) == 0:
			s.sendAll(tasks)
		default:
			for _, t := range tasks {
				s.send(t)
			}
		}
	}
}

func (s *sender) claim() []api.ClaimedTask {
	limit := claimedMost
	if !s.calm {
		limit = 1 + s.rng.IntN(claimedMost)
	}
	return s.claimFrom(s.load.any(s.rng), limit, s.rng.IntN(3))
}

// claimFrom claims tasks through one server, and records the leases.
func (s *sender) claimFrom(client *api.ClientWithResponses, limit, wait int) []api.ClaimedTask {
	status := 0
	var answer *api.ClaimResponse
	var err error
	if s.rng.IntN(2) == 0 {
		var res *api.ClaimTasksResponse
		if res, err = client.ClaimTasksWithResponse(call(), &api.ClaimTasksParams{AppID: s.appID, Limit: &limit}); err == nil {
			status, answer = res.StatusCode(), res.JSON200
		}
	} else {
		var res *api.ClaimTasksNowResponse
		body := api.ClaimRequest{AppID: s.appID, Limit: &limit, Wait: &wait}
		if res, err = client.ClaimTasksNowWithResponse(call(), body); err == nil {
			status, answer = res.StatusCode(), res.JSON200
		}
	}
	s.load.history.calls[outcomeOf(status, err)].Add(1)
	if answer == nil {
		return nil
	}
	if len(answer.Data) > limit {
		s.load.history.breach("a claim of at most %d tasks got %d", limit, len(answer.Data))
	}
	for _, t := range answer.Data {
		s.load.history.took(claimed{s.appID, t})
	}
	return answer.Data
}

// sendAll reports all tasks as sent in one request, now and then one of them twice.
func (s *sender) sendAll(tasks []api.ClaimedTask) {
	var body api.ReportBatchRequest
	for _, t := range tasks {
		r := api.ReportRequest{TaskID: t.TaskID, AppID: s.appID, Status: success, LeaseID: &t.LeaseID}
		body.Reports = append(body.Reports, r)
		if s.rng.IntN(20) == 0 {
			body.Reports = append(body.Reports, r)
			s.load.misdeed[duplicated].Add(1)
		}
	}
	res, err := s.load.any(s.rng).ReportTasksWithResponse(call(), body)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	whole := outcomeOf(status, err)
	s.load.history.calls[whole].Add(1)
	for i, r := range body.Reports {
		o, logged := whole, false
		if whole == answered {
			code := res.JSON200.Data.Items[i].Code
			o, logged = outcomeOf(code, nil), code == http.StatusOK || code == http.StatusConflict
		}
		s.load.history.reported(r.TaskID, o, logged)
	}
}

const (
	success = 2
	failed  = 3
)

// send reports a task in one of the ways of real senders.
func (s *sender) send(t api.ClaimedTask) {
	l := s.load
	plain := api.ReportRequest{TaskID: t.TaskID, AppID: s.appID, Status: success} // as in the original documents: without the lease
	fenced := plain
	fenced.LeaseID = &t.LeaseID
	again := func(r api.ReportRequest) api.ReportRequest {
		yes, after := true, int32(s.rng.IntN(2))
		r.Status, r.ShouldRetry = failed, &yes
		if s.rng.IntN(3) == 0 {
			r.RetryAfterSeconds = &after
		}
		return r
	}
	either := fenced
	if s.rng.IntN(2) == 0 {
		either = plain
	}
	switch n := s.rng.IntN(100); {
	case n < 40:
		l.report(l.any(s.rng), fenced)
	case n < 50:
		l.report(l.any(s.rng), plain)
	case n < 56:
		r := plain
		r.Status = failed
		l.report(l.any(s.rng), r)
		if s.rng.IntN(2) == 0 {
			l.requeue(t.TaskID)
			if s.rng.IntN(2) == 0 { // a late report of the lease from before
				l.misdeed[duplicated].Add(1)
				l.report(l.any(s.rng), fenced)
			}
		}
	case n < 64:
		l.misdeed[duplicated].Add(1)
		s.atOnce(either, either)
	case n < 70:
		l.report(l.any(s.rng), again(either))
	case n < 78:
		l.misdeed[duplicated].Add(3)
		r := again(either)
		l.report(l.any(s.rng), r)
		s.atOnce(r, r, r)
	case n < 88: // about the time at which the lease expires
		l.misdeed[delayed].Add(1)
		client, wait := l.any(s.rng), lease+time.Duration(s.rng.IntN(1300)-200)*time.Millisecond
		s.late.Go(func() {
			time.Sleep(wait)
			l.report(client, either)
		})
	case n < 91:
		l.misdeed[lostReport].Add(1)
	case n < 94:
		l.misdeed[reordered].Add(1)
		s.atOnce(again(either), either)
	case n < 97: // success first, then a failure that comes too late
		l.misdeed[reordered].Add(1)
		l.report(l.any(s.rng), either)
		l.report(l.any(s.rng), again(either))
	default:
		l.misdeed[forged].Add(1)
		r := either
		r.AppID = stranger
		l.report(l.any(s.rng), r)
		l.report(l.any(s.rng), either)
	}
}

// atOnce sends reports concurrently through both servers.
func (s *sender) atOnce(reports ...api.ReportRequest) {
	var all sync.WaitGroup
	for i, r := range reports {
		client := s.load.clients[i%len(s.load.clients)]
		all.Go(func() { s.load.report(client, r) })
	}
	all.Wait()
}
