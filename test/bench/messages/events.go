package messages

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"lksms/test/bench/measure"
)

const hearers = 50 // number of companies with a webhook; the receiver of the last webhook never responds

// receivers receive the posts of the webhooks. Each webhook has a different address. The receiver at the last address never responds.
type receivers struct {
	urls  []string
	over  chan struct{}
	taken atomic.Int64

	mu   sync.Mutex
	lags []time.Duration // for each event, the time until its post
}

func startReceivers() (*receivers, error) {
	r := &receivers{over: make(chan struct{})}
	for i := range hearers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		server := fasthttp.Server{Handler: r.take}
		if i == hearers-1 {
			server.Handler = func(*fasthttp.RequestCtx) { <-r.over }
		}
		r.urls = append(r.urls, "http://"+listener.Addr().String()+"/"+strconv.Itoa(i))
		go func() { _ = server.Serve(listener) }() // the server runs until the run ends
	}
	return r, nil
}

func (r *receivers) take(ctx *fasthttp.RequestCtx) {
	_, after, _ := bytes.Cut(ctx.PostBody(), []byte(`"timestamp":"`))
	text, _, _ := bytes.Cut(after, []byte(`"`))
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusBadRequest)
		return
	}
	r.taken.Add(1)
	r.mu.Lock()
	r.lags = append(r.lags, time.Since(at))
	r.mu.Unlock()
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// begin resets the counters.
func (r *receivers) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = nil
	r.taken.Store(0)
}

func (r *receivers) lag(q float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return measure.Quantile(r.lags, q).Seconds()
}

// Each of these statements prepares one measurement. In the first measurement, no company listens to events. In the second measurement, only the company of
// admin listens. In the third measurement, all companies with webhooks listen. The statements decide whether the trigger of report_logs stores events, and
// whether the server posts events.
const (
	listenNobody  = "UPDATE feed_listeners SET is_pushed = false, listens_until = now(); UPDATE webhooks SET status = 'off'"
	listenAnother = listenNobody + "; UPDATE feed_listeners SET listens_until = now() + interval '1 day' WHERE company_id = 1"
	listenAll     = "UPDATE feed_listeners SET is_pushed = true WHERE company_id <> 1; DELETE FROM webhook_retries; " +
		"UPDATE webhooks SET status = 'on', rest_until = NULL, failing_since = NULL, failed_runs = 0, " +
		"after_id = greatest((SELECT coalesce(max(id), 0) FROM feed), (SELECT pruned_id FROM feed_state))"
)

// startHearing creates the companies with one webhook each, and returns the clients that submit for them.
func startHearing(ctx context.Context, b *measure.Bench, r *receivers) (clients []*measure.Client, err error) {
	c := b.Client(measure.Connections)
	for i := range hearers {
		no := fmt.Sprint("hearer-", i)
		if err := c.Call("POST", "/api/v1/admin/companies", fmt.Sprintf(`{"company_no":%q,"name":%q}`, no, no), nil); err != nil {
			return nil, err
		}
		if err := c.Call("POST", "/api/v1/admin/users", fmt.Sprintf(`{"username":%q,"password":%q,"role":"submit","company_no":%q}`, no, measure.Password, no), nil); err != nil {
			return nil, err
		}
		hook := fmt.Sprintf(`{"url":%q,"events":["message.sent","message.failed"],"company_no":%q}`, r.urls[i], no)
		if err := c.Call("POST", "/api/v1/webhooks", hook, nil); err != nil {
			return nil, err
		}
		clients = append(clients, b.ClientOf(no, measure.Connections))
	}
	// Company 1 is the company of admin. No message of this company is submitted here.
	return clients, b.Exec(ctx, "INSERT INTO feed_listeners (company_id, since_id, is_pushed, listens_until) VALUES (1, 0, false, now())")
}

// EventFlow measures how much webhooks slow down submissions and claims, with and without companies that listen. It also measures how fast events are posted.
func EventFlow(ctx context.Context, b *measure.Bench) (err error) {
	r, err := startReceivers()
	if err != nil {
		return err
	}
	defer close(r.over)
	clients, err := startHearing(ctx, b, r)
	if err != nil {
		return err
	}
	var function string
	if err := b.DB.QueryRow(ctx, "SELECT pg_get_functiondef('report_logs_facts'::regproc)").Scan(&function); err != nil {
		return err
	}
	begin, end := strings.Index(function, "listening bigint[] := "), strings.Index(function, "BEGIN\n")
	if begin < 0 || end < begin {
		return fmt.Errorf("the trigger function report_logs_facts does not contain the expected text")
	}
	deaf := function[:begin] + "listening bigint[] := '{}';\n" + function[end:]
	admin := b.Client(measure.Connections)
	lives := func() (float64, error) {
		calls, err := measure.ClosedLoop(ctx, measure.LifeCallers, b.Time, func(i int) error {
			if err := clients[rand.IntN(hearers)].Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(measure.LifeSize), nil); err != nil {
				return err
			}
			_, err := measure.Pull(admin, fmt.Sprint("life-", i), measure.LifeSize)
			return err
		})
		return calls * measure.LifeSize, err
	}
	var without, another, with, posted, p50, p99 []float64
	var costs [3][]float64 // processor time per task in µs, for the three measurements: nobody listens, another company listens, all listen
	for range b.Rounds {
		for i, kind := range []struct {
			function, who string
			rates         *[]float64
		}{{deaf, listenNobody, &without}, {function, listenAnother, &another}, {function, listenAll, &with}} {
			if err := b.Empty(ctx); err != nil {
				return err
			}
			if err := b.Exec(ctx, kind.function+"; TRUNCATE feed_staged, feed, webhook_retries; "+kind.who); err != nil {
				return err
			}
			r.begin()
			began, used := time.Now(), b.CPU()
			rate, err := lives()
			if err != nil {
				return err
			}
			*kind.rates = append(*kind.rates, rate)
			costs[i] = append(costs[i], (b.CPU()-used)/(rate*time.Since(began).Seconds())*1e6)
			if kind.rates == &with {
				posted = append(posted, float64(r.taken.Load())/time.Since(began).Seconds())
				if _, err := lastPosted(ctx, b); err != nil {
					return err
				}
				p50, p99 = append(p50, r.lag(0.5)), append(p99, r.lag(0.99))
			}
		}
	}
	b.AtLeast(0.95, "life of tasks, only another company listens to events", measure.Median(another), measure.Median(without), "/s", "without events")
	b.AtMost(1.05, "processor time of these tasks, server and PostgreSQL", measure.Median(costs[1]), measure.Median(costs[0]), "µs", "without events")
	b.Ratio(fmt.Sprintf("life of tasks of %d companies with one webhook each, one receiver hangs", hearers), measure.Median(with), measure.Median(without), "/s", "without events", "no target", true)
	b.Ratio("processor time of these tasks, with their events", measure.Median(costs[2]), measure.Median(costs[0]), "µs", "without events", "no target", true)
	b.Ratio("events posted meanwhile", measure.Median(posted), measure.Median(with), "/s", "ended tasks", "no target", true)
	b.Add(measure.Figure{Name: "from the end of a task to the post of its event, median and p99", Value: fmt.Sprintf("%.2g s, %.2g s", measure.Median(p50), measure.Median(p99)), Target: "no target", Met: true})

	if err := postAlone(ctx, b, r); err != nil {
		return err
	}
	return b.Exec(ctx, function+"; "+listenNobody+"; DELETE FROM webhooks; TRUNCATE feed, feed_staged, feed_listeners, webhook_retries")
}

// postAlone posts the events of the last round again, while nothing else runs.
func postAlone(ctx context.Context, b *measure.Bench, r *receivers) error {
	if err := b.Exec(ctx, listenAll+"; UPDATE webhooks SET after_id = 0"); err != nil {
		return err
	}
	r.begin()
	began, used, own := time.Now(), b.CPU(), b.DatabaseCPU()
	took, err := lastPosted(ctx, b)
	if err != nil {
		return err
	}
	n := float64(r.taken.Load())
	rate := n / (took.Sub(began)).Seconds()
	b.Add(measure.Figure{Name: fmt.Sprintf("events posted while nothing else runs, of %.0f", n), Value: measure.Show(rate, "/s"), Target: ">= 5000 /s", Met: rate >= 5000})
	database := b.DatabaseCPU() - own
	b.Add(measure.Figure{
		Name: "processor time of an event that is posted", Target: "no target", Met: true,
		Value: fmt.Sprintf("%.0f µs in the server, %.0f µs in PostgreSQL", (b.CPU()-used-database)/n*1e6, database/n*1e6),
	})
	return nil
}

// lastPosted waits until all events are posted, except the events of the receiver that never responds. It returns the time at which the last event was posted.
func lastPosted(ctx context.Context, b *measure.Bench) (at time.Time, err error) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		var left bool
		err := b.DB.QueryRow(ctx, `SELECT EXISTS (SELECT FROM feed_staged) OR EXISTS (
				SELECT FROM webhooks w WHERE w.url NOT LIKE '%/' || $1::text AND EXISTS (
					SELECT FROM feed f WHERE f.id > w.after_id AND f.company_id = w.company_id
				)
			)`, strconv.Itoa(hearers-1)).Scan(&left)
		if err != nil || !left {
			return time.Now(), err
		}
	}
	return at, fmt.Errorf("not all events were posted within five minutes")
}
