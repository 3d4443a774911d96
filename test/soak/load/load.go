// Package load contains the clients that submit, claim and report, and records their responses.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	api "lksms/gen/client"
	"lksms/test/soak/stack"
)

// These constants are the size of the load and its limits.
const (
	submitters = 32
	senders    = 12
	CallLimit  = 4 * time.Second
	KeyedTries = 10 // maximum number of attempts for a message that is repeated until it gets a response
	stranger   = "stranger"
	MaxClaim   = 20
)

// Load runs the clients: submitters and senders that use the API as documented, and some that misuse it.
type Load struct {
	History    *History
	Provider   *Provider
	servers    []*stack.Server
	Clients    []*api.ClientWithResponses // one client for each server
	Pools      []*http.Transport
	Seed       uint64
	Submitters int          // number of clients that submit
	Contract   string       // of the older version of an upgrade; empty: every server has the contract of this version
	Serial     atomic.Int64 // serial number of the last message
	Requeues   atomic.Int64 // number of successful requeues
	Misdeed    [misdeeds]atomic.Int64
}

// isPlain reports whether the older version of an upgrade supports neither switches nor expires_at. The load does not use them then.
func (l *Load) isPlain() bool {
	return l.Contract != "" && !strings.Contains(l.Contract, "uses_shared_senders")
}

// Knows reports whether the older version of an upgrade knows a value of an enum.
func (l *Load) Knows(value string) bool {
	return l.Contract == "" || regexp.MustCompile(`[\[ ]`+regexp.QuoteMeta(value)+`[,\]]`).MatchString(l.Contract)
}

// These are the ways in which senders misuse reports.
const (
	duplicated = iota
	delayed
	reordered
	LostReport
	vanished
	forged
	misdeeds
)

// MisdeedNames describe the ways in which reports are misused.
var MisdeedNames = [misdeeds]string{"duplicated", "delayed", "reordered", "lost", "missing, of a sender that vanished", "forged"}

// New returns a load with a client for each server.
func New(seed uint64, h *History, p *Provider, servers []*stack.Server) (*Load, error) {
	l := &Load{History: h, Provider: p, servers: servers, Seed: seed, Submitters: submitters}
	for _, s := range servers {
		pool := &http.Transport{MaxIdleConnsPerHost: 64}
		client, err := api.NewClientWithResponses(s.URL,
			api.WithHTTPClient(&http.Client{Timeout: CallLimit, Transport: Observer{History: h, Server: s, Base: pool}}),
			api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
				r.SetBasicAuth("admin", stack.Password)
				return nil
			}))
		if err != nil {
			return nil, fmt.Errorf("create client: %w", err)
		}
		l.Clients, l.Pools = append(l.Clients, client), append(l.Pools, pool)
	}
	return l, nil
}

// The first senders have an interval, a limit or a balance. Each of these senders has several pollers, which together would exceed the interval, limit or
// balance if the server did not lock the sender.
const (
	counted        = 3
	countedPollers = 3
)

// SetUp creates three groups of senders: senders with an interval, a limit or a balance, senders with routes, and driven senders with routes.
func (l *Load) SetUp(ctx context.Context) error {
	client := l.Clients[0]
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
	for i := range Pushed {
		no := fmt.Sprint("sender-push-", i)
		if res, err := client.CreateSenderWithResponse(ctx, nil, l.Provider.sender(no, "/")); err != nil || res.JSON200 == nil {
			return fmt.Errorf("create driven sender: %w %s", err, res.Status())
		}
		res, err := client.CreateRouteWithResponse(ctx, nil, api.RouteRequest{CompanyNo: "default", MessageType: api.Verification, SenderNo: no})
		if err != nil || res.JSON200 == nil {
			return fmt.Errorf("create route: %w %s", err, res.Status())
		}
	}
	return nil
}

// newMessage returns a message of a random type. Some messages are scheduled for a moment later.
func (l *Load) newMessage(rng *rand.Rand, phone string, text *string) api.SendRequest {
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
	case n == 3 && !l.isPlain(): // a sender can claim the message before it expires
		at := time.Now().Add(time.Second + time.Duration(rng.IntN(5000))*time.Millisecond)
		m.ExpiresAt = &at
	}
	return m
}

// Run submits and sends until ctx ends, and returns when every call has ended.
func (l *Load) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range l.Submitters {
		rng := rand.New(rand.NewPCG(l.Seed, uint64(round)<<16|uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				l.submitOne(rng)
				stack.Pause(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
			}
		})
	}
	for n := range senders + counted*(countedPollers-1) {
		i := n % senders // the counted senders have several pollers
		rng := rand.New(rand.NewPCG(l.Seed, uint64(round)<<16|uint64(1<<8+n)))
		all.Go(func() {
			s := Sender{Load: l, Rng: rng, AppID: fmt.Sprint("sender-", i)}
			s.Run(ctx)
		})
	}
	all.Wait()
}

// Drain lets well-behaved senders empty the queue until empty returns true.
func (l *Load) Drain(ctx context.Context, empty func() bool) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.Provider.calm.Store(true)
	defer l.Provider.calm.Store(false)
	names := append(slices.Clone(tenantSenders), Quiet) // Quiet must also poll, because other senders do not take its share before it counts as silent
	for i := range senders {
		names = append(names, fmt.Sprint("sender-", i))
	}
	for i, name := range names {
		rng := rand.New(rand.NewPCG(l.Seed, uint64(i)))
		all.Go(func() {
			s := Sender{Load: l, Rng: rng, AppID: name, Calm: true}
			s.Run(ctx)
		})
	}
	for ctx.Err() == nil && !empty() {
		stack.Pause(ctx, 50*time.Millisecond)
	}
	cancel()
	all.Wait()
	for _, pool := range l.Pools {
		pool.CloseIdleConnections()
	}
}

// CallContext returns the context of a call. It does not end with the round, because the end of a round must not interrupt a call.
func CallContext() context.Context { return context.Background() }

// Any returns the client of a random server.
func (l *Load) Any(rng *rand.Rand) *api.ClientWithResponses {
	return l.Clients[rng.IntN(len(l.Clients))]
}

func (l *Load) submitOne(rng *rand.Rand) {
	serial := l.Serial.Add(1)
	text := fmt.Sprintf("soak-%d-message-%d", l.Seed, serial)
	phone := fmt.Sprintf("138%08d", serial)
	switch n := rng.IntN(100); {
	case n < 6:
		l.submitBatch(rng, phone, text)
	case n < 50:
		id := l.Submit(l.Any(rng), nil, l.newMessage(rng, phone, &text), text)
		switch m := rng.IntN(100); {
		case id == "":
		case m < 6:
			l.Cancel(l.Any(rng), id)
			if m == 0 {
				l.Requeue(id)
			}
		case m < 9:
			l.Misdeed[forged].Add(1)
			l.report(l.Any(rng), api.ReportRequest{TaskID: id, AppID: stranger, Status: 2})
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

// Submit sends a request once. It returns the task id from the response. If the response contains no task id, it returns "".
func (l *Load) Submit(client *api.ClientWithResponses, params *api.SendSmsParams, body api.SendRequest, text string, as ...api.RequestEditorFn) string {
	res, err := client.SendSmsWithResponse(CallContext(), params, body, as...)
	status, id := 0, ""
	if err == nil {
		status = res.StatusCode()
		if res.JSON200 != nil {
			id = res.JSON200.Data.TaskID
		}
	}
	o := OutcomeOf(status, err)
	l.History.Calls[o].Add(1)
	l.History.Submitted(text, o, id)
	return id
}

// insist repeats the submission of a message with a key until a response contains a task id. It runs some attempts twice at the same time, and submits some
// messages once more after the response.
func (l *Load) insist(rng *rand.Rand, params *api.SendSmsParams, body api.SendRequest, text string) {
	for range KeyedTries {
		id := ""
		if l.Contract == "" && rng.IntN(4) == 0 { // servers of two versions can lock the key under two numbers: one gets 500 then
			var both sync.WaitGroup
			for _, client := range l.Clients {
				both.Go(func() { l.Submit(client, params, body, text) })
			}
			both.Wait()
		} else {
			id = l.Submit(l.Any(rng), params, body, text)
		}
		if id != "" {
			break
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	if rng.IntN(4) == 0 {
		l.Submit(l.Any(rng), params, body, text)
	}
}

// submitBatch submits several messages in one request. Half of the requests have an idempotency key, and are repeated until they get a response.
func (l *Load) submitBatch(rng *rand.Rand, phone, text string) {
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
		params.IdempotencyKey, tries = &text, KeyedTries
	}
	for range tries {
		res, err := l.Any(rng).SendSmsBatchWithResponse(CallContext(), params, body)
		status := 0
		if err == nil {
			status = res.StatusCode()
		}
		whole := OutcomeOf(status, err)
		l.History.Calls[whole].Add(1)
		for i, m := range body.Messages {
			o, id := whole, ""
			if whole == Answered {
				item := res.JSON200.Data.Items[i]
				o = OutcomeOf(item.Code, nil)
				if item.TaskID != nil {
					id = *item.TaskID
				}
			}
			l.History.Submitted(*m.Content, o, id)
		}
		if whole == Answered {
			return
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
}

// submitDefault creates a default content for a number, and then submits several messages to the number at the same time.
func (l *Load) submitDefault(rng *rand.Rand, phone, text string) {
	if !l.createDefault(rng, phone, text) {
		return
	}
	var all sync.WaitGroup
	for i := range 2 + rng.IntN(6) {
		all.Go(func() {
			l.Submit(l.Clients[i%len(l.Clients)], nil, api.SendRequest{PhoneNumber: phone}, text)
		})
	}
	all.Wait()
}

func (l *Load) createDefault(rng *rand.Rand, phone, text string) bool {
	for range KeyedTries {
		res, err := l.Any(rng).CreateDefaultContentWithResponse(CallContext(), &api.CreateDefaultContentParams{IdempotencyKey: &text},
			api.DefaultContentRequest{PhoneNumber: phone, Content: text})
		if err == nil && res.StatusCode() == http.StatusOK {
			return true
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	return false
}

// Cancel cancels a task, and records a successful cancellation.
func (l *Load) Cancel(client *api.ClientWithResponses, id string) {
	res, err := client.CancelTaskWithResponse(CallContext(), id)
	if err == nil && res.StatusCode() == http.StatusOK {
		l.History.cancel(id)
	}
}

// Requeue requeues a task through both servers at the same time. At most one of the two requests is allowed to succeed.
func (l *Load) Requeue(id string) {
	l.History.requeue(id)
	var all sync.WaitGroup
	var done atomic.Int64
	for _, client := range l.Clients {
		all.Go(func() {
			res, err := client.RequeueTaskWithResponse(CallContext(), id, api.RequeueTaskJSONRequestBody{})
			status := 0
			if err == nil {
				status = res.StatusCode()
			}
			if l.History.Calls[OutcomeOf(status, err)].Add(1); status == http.StatusOK {
				done.Add(1)
			}
		})
	}
	all.Wait()
	l.Requeues.Add(done.Load())
}

// report sends one report. The server also logs a report that it rejects with 409 because another app has leased the task.
func (l *Load) report(client *api.ClientWithResponses, body api.ReportRequest) {
	res, err := client.ReportTaskWithResponse(CallContext(), body)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	o := OutcomeOf(status, err)
	l.History.Calls[o].Add(1)
	l.History.RecordReport(body.TaskID, o, status == http.StatusOK || status == http.StatusConflict)
	switch {
	case body.AppID == stranger && status == http.StatusOK:
		l.History.Breach("a report on %s by an app that never leased the task was accepted", body.TaskID)
	case status == http.StatusNotFound:
		l.History.Breach("a server returned %s to a client, but this task does not exist", body.TaskID)
	}
}

// Sender is an app that polls.
type Sender struct {
	Load  *Load
	Rng   *rand.Rand
	AppID string
	Calm  bool // the sender immediately reports every task as sent

	Late sync.WaitGroup
}

// Run claims and reports until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	defer s.Late.Wait()
	for ctx.Err() == nil {
		tasks := s.Claim()
		switch {
		case len(tasks) == 0:
			stack.Pause(ctx, time.Duration(20+s.Rng.IntN(80))*time.Millisecond)
		case !s.Calm && s.Rng.IntN(40) == 0:
			s.Load.Misdeed[vanished].Add(int64(len(tasks)))
		case s.Calm || s.Rng.IntN(4) == 0:
			s.SendAll(tasks)
		default:
			for _, t := range tasks {
				s.Send(t)
			}
		}
	}
}

// Claim claims a random number of tasks. A calm sender claims MaxClaim tasks.
func (s *Sender) Claim() []api.ClaimedTask {
	limit := MaxClaim
	if !s.Calm {
		limit = 1 + s.Rng.IntN(MaxClaim)
	}
	return s.claimFrom(s.Load.Any(s.Rng), limit, s.Rng.IntN(3))
}

// claimFrom claims tasks through one server, and records the leases.
func (s *Sender) claimFrom(client *api.ClientWithResponses, limit, wait int) []api.ClaimedTask {
	status := 0
	var answer *api.ClaimResponse
	var err error
	if s.Rng.IntN(2) == 0 {
		var res *api.ClaimTasksResponse
		if res, err = client.ClaimTasksWithResponse(CallContext(), &api.ClaimTasksParams{AppID: s.AppID, Limit: &limit}); err == nil {
			status, answer = res.StatusCode(), res.JSON200
		}
	} else {
		var res *api.ClaimTasksNowResponse
		body := api.ClaimRequest{AppID: s.AppID, Limit: &limit, Wait: &wait}
		if res, err = client.ClaimTasksNowWithResponse(CallContext(), body); err == nil {
			status, answer = res.StatusCode(), res.JSON200
		}
	}
	s.Load.History.Calls[OutcomeOf(status, err)].Add(1)
	if answer == nil {
		return nil
	}
	if len(answer.Data) > limit {
		s.Load.History.Breach("a claim of at most %d tasks got %d", limit, len(answer.Data))
	}
	for _, t := range answer.Data {
		s.Load.History.RecordClaims(Claimed{s.AppID, t})
	}
	return answer.Data
}

// SendAll reports all tasks as sent in one request. It repeats some of the reports within the request.
func (s *Sender) SendAll(tasks []api.ClaimedTask) {
	var body api.ReportBatchRequest
	for _, t := range tasks {
		r := api.ReportRequest{TaskID: t.TaskID, AppID: s.AppID, Status: success, LeaseID: &t.LeaseID}
		body.Reports = append(body.Reports, r)
		if s.Rng.IntN(20) == 0 {
			body.Reports = append(body.Reports, r)
			s.Load.Misdeed[duplicated].Add(1)
		}
	}
	res, err := s.Load.Any(s.Rng).ReportTasksWithResponse(CallContext(), body)
	status := 0
	if err == nil {
		status = res.StatusCode()
	}
	whole := OutcomeOf(status, err)
	s.Load.History.Calls[whole].Add(1)
	for i, r := range body.Reports {
		o, logged := whole, false
		if whole == Answered {
			code := res.JSON200.Data.Items[i].Code
			o, logged = OutcomeOf(code, nil), code == http.StatusOK || code == http.StatusConflict
		}
		s.Load.History.RecordReport(r.TaskID, o, logged)
	}
}

const (
	success = 2
	failed  = 3
)

// Send reports a task in a random way that real senders use, or misuse.
func (s *Sender) Send(t api.ClaimedTask) {
	l := s.Load
	plain := api.ReportRequest{TaskID: t.TaskID, AppID: s.AppID, Status: success} // the report does not contain the lease, as in the original documents
	fenced := plain
	fenced.LeaseID = &t.LeaseID
	again := func(r api.ReportRequest) api.ReportRequest {
		yes, after := true, int32(s.Rng.IntN(2))
		r.Status, r.ShouldRetry = failed, &yes
		if s.Rng.IntN(3) == 0 {
			r.RetryAfterSeconds = &after
		}
		return r
	}
	either := fenced
	if s.Rng.IntN(2) == 0 {
		either = plain
	}
	switch n := s.Rng.IntN(100); {
	case n < 40:
		l.report(l.Any(s.Rng), fenced)
	case n < 50:
		l.report(l.Any(s.Rng), plain)
	case n < 56:
		r := plain
		r.Status = failed
		l.report(l.Any(s.Rng), r)
		if s.Rng.IntN(2) == 0 {
			l.Requeue(t.TaskID)
			if s.Rng.IntN(2) == 0 { // a late report with a lease that is older than the requeue
				l.Misdeed[duplicated].Add(1)
				l.report(l.Any(s.Rng), fenced)
			}
		}
	case n < 64:
		l.Misdeed[duplicated].Add(1)
		s.atOnce(either, either)
	case n < 70:
		l.report(l.Any(s.Rng), again(either))
	case n < 78:
		l.Misdeed[duplicated].Add(3)
		r := again(either)
		l.report(l.Any(s.Rng), r)
		s.atOnce(r, r, r)
	case n < 88: // a report near the end of the lease
		l.Misdeed[delayed].Add(1)
		client, wait := l.Any(s.Rng), stack.Lease+time.Duration(s.Rng.IntN(1300)-200)*time.Millisecond
		s.Late.Go(func() {
			time.Sleep(wait)
			l.report(client, either)
		})
	case n < 91:
		l.Misdeed[LostReport].Add(1)
	case n < 94:
		l.Misdeed[reordered].Add(1)
		s.atOnce(again(either), either)
	case n < 97: // a success, and then a failure that is too late
		l.Misdeed[reordered].Add(1)
		l.report(l.Any(s.Rng), either)
		l.report(l.Any(s.Rng), again(either))
	default:
		l.Misdeed[forged].Add(1)
		r := either
		r.AppID = stranger
		l.report(l.Any(s.Rng), r)
		l.report(l.Any(s.Rng), either)
	}
}

// atOnce sends reports concurrently through both servers.
func (s *Sender) atOnce(reports ...api.ReportRequest) {
	var all sync.WaitGroup
	for i, r := range reports {
		client := s.Load.Clients[i%len(s.Load.Clients)]
		all.Go(func() { s.Load.report(client, r) })
	}
	all.Wait()
}
