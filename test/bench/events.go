package main

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
)

const hearers = 50 // companies with a webhook each; the receiver of the last one hangs

// receivers take the posts of webhooks, each at an address of its own. The last one never answers.
type receivers struct {
	urls  []string
	over  chan struct{}
	taken atomic.Int64

	mu   sync.Mutex
	lags []time.Duration // from what happened to its post
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
		go func() { _ = server.Serve(listener) }() // ends with the run
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

// begin forgets what was taken.
func (r *receivers) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lags = nil
	r.taken.Store(0)
}

func (r *receivers) lag(q float64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return quantile(r.lags, q).Seconds()
}

// hearings are what is compared: what the trigger of report_logs does with events, and who listens. The statements apply to the companies with webhooks.
const (
	hearNobody  = "UPDATE feed_listeners SET is_pushed = false, listens_until = now(); UPDATE webhooks SET status = 'off'"
	hearAnother = hearNobody + "; UPDATE feed_listeners SET listens_until = now() + interval '1 day' WHERE company_id = 1"
	hearAll     = "UPDATE feed_listeners SET is_pushed = true WHERE company_id <> 1; DELETE FROM webhook_retries; " +
		"UPDATE webhooks SET status = 'on', rest_until = NULL, failing_since = NULL, failed_runs = 0, " +
		"after_id = greatest((SELECT coalesce(max(id), 0) FROM feed), (SELECT pruned_id FROM feed_state))"
)

// startHearing prepares the companies, one webhook each, and returns the clients that submit for them.
func startHearing(ctx context.Context, b *bench, r *receivers) (clients []*client, err error) {
	c := b.client(connections)
	for i := range hearers {
		no := fmt.Sprint("hearer-", i)
		if err := c.call("POST", "/api/v1/admin/companies", fmt.Sprintf(`{"company_no":%q,"name":%q}`, no, no), nil); err != nil {
			return nil, err
		}
		if err := c.call("POST", "/api/v1/admin/users", fmt.Sprintf(`{"username":%q,"password":%q,"role":"submit","company_no":%q}`, no, password, no), nil); err != nil {
			return nil, err
		}
		hook := fmt.Sprintf(`{"url":%q,"events":["message.sent","message.failed"],"company_no":%q}`, r.urls[i], no)
		if err := c.call("POST", "/api/v1/webhooks", hook, nil); err != nil {
			return nil, err
		}
		clients = append(clients, b.clientOf(no, connections))
	}
	// The company of the admin, for which nothing is submitted here.
	return clients, b.exec(ctx, "INSERT INTO feed_listeners (company_id, since_id, is_pushed, listens_until) VALUES (1, 0, false, now())")
}

// eventFlow measures what webhooks cost those who submit and claim, whether companies listen or not, and how fast events are posted.
func eventFlow(ctx context.Context, b *bench) (err error) {
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
	if err := b.db.QueryRow(ctx, "SELECT pg_get_functiondef('report_logs_facts'::regproc)").Scan(&function); err != nil {
		return err
	}
	begin, end := strings.Index(function, "listening bigint[] := "), strings.Index(function, "BEGIN\n")
	if begin < 0 || end < begin {
		return fmt.Errorf("the trigger report_logs_facts has another form")
	}
	deaf := function[:begin] + "listening bigint[] := '{}';\n" + function[end:]
	admin := b.client(connections)
	lives := func() (float64, error) {
		calls, err := closedLoop(ctx, lifeCallers, b.Time, func(i int) error {
			if err := clients[rand.IntN(hearers)].call("POST", "/api/v1/sms/send-batch", lifeBody(lifeSize), nil); err != nil {
				return err
			}
			_, err := pull(admin, fmt.Sprint("life-", i), lifeSize)
			return err
		})
		return calls * lifeSize, err
	}
	var without, another, with, posted, p50, p99 []float64
	var costs [3][]float64 // processor time of a task in µs, as without, another, with
	for range b.Rounds {
		for i, kind := range []struct {
			function, who string
			rates         *[]float64
		}{{deaf, hearNobody, &without}, {function, hearAnother, &another}, {function, hearAll, &with}} {
			if err := b.empty(ctx); err != nil {
				return err
			}
			if err := b.exec(ctx, kind.function+"; TRUNCATE feed_staged, feed, webhook_retries; "+kind.who); err != nil {
				return err
			}
			r.begin()
			began, used := time.Now(), b.cpu()
			rate, err := lives()
			if err != nil {
				return err
			}
			*kind.rates = append(*kind.rates, rate)
			costs[i] = append(costs[i], (b.cpu()-used)/(rate*time.Since(began).Seconds())*1e6)
			if kind.rates == &with {
				posted = append(posted, float64(r.taken.Load())/time.Since(began).Seconds())
				if _, err := lastPosted(ctx, b); err != nil {
					return err
				}
				p50, p99 = append(p50, r.lag(0.5)), append(p99, r.lag(0.99))
			}
		}
	}
	b.atLeast(0.95, "life of tasks of companies that do not listen, beside one that does", median(another), median(without), "/s", "without events")
	b.atMost(1.05, "processor time of such a task, in the server and PostgreSQL", median(costs[1]), median(costs[0]), "µs", "without events")
	b.ratio(fmt.Sprintf("life of tasks of %d companies with a webhook each, of which one hangs", hearers), median(with), median(without), "/s", "without events", "told", true)
	b.ratio("processor time of such a task, with its event", median(costs[2]), median(costs[0]), "µs", "without events", "told", true)
	b.ratio("events posted meanwhile", median(posted), median(with), "/s", "tasks that ended", "told", true)
	b.add(figure{Name: "from the end of a task to its post, median and p99", Value: fmt.Sprintf("%.2g s, %.2g s", median(p50), median(p99)), Target: "told", Met: true})

	if err := postAlone(ctx, b, r); err != nil {
		return err
	}
	return b.exec(ctx, function+"; "+hearNobody+"; DELETE FROM webhooks; TRUNCATE feed, feed_staged, feed_listeners, webhook_retries")
}

// postAlone posts the events of the last round once more, while nothing else runs.
func postAlone(ctx context.Context, b *bench, r *receivers) error {
	if err := b.exec(ctx, hearAll+"; UPDATE webhooks SET after_id = 0"); err != nil {
		return err
	}
	r.begin()
	began, used, own := time.Now(), b.cpu(), b.databaseCPU()
	took, err := lastPosted(ctx, b)
	if err != nil {
		return err
	}
	n := float64(r.taken.Load())
	rate := n / (took.Sub(began)).Seconds()
	b.add(figure{Name: fmt.Sprintf("events posted while nothing else runs, of %.0f", n), Value: show(rate, "/s"), Target: ">= 5000 /s", Met: rate >= 5000})
	database := b.databaseCPU() - own
	b.add(figure{
		Name: "processor time of an event that is posted", Target: "told", Met: true,
		Value: fmt.Sprintf("%.0f µs in the server, %.0f µs in PostgreSQL", (b.cpu()-used-database)/n*1e6, database/n*1e6),
	})
	return nil
}

// lastPosted returns when nothing is left to be posted to the webhooks that take events.
func lastPosted(ctx context.Context, b *bench) (at time.Time, err error) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		var left bool
		err := b.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM feed_staged) OR EXISTS (
				SELECT FROM webhooks w WHERE w.url NOT LIKE '%/' || $1::text AND EXISTS (
					SELECT FROM feed f WHERE f.id > w.after_id AND f.company_id = w.company_id
				)
			)`, strconv.Itoa(hearers-1)).Scan(&left)
		if err != nil || !left {
			return time.Now(), err
		}
	}
	return at, fmt.Errorf("events are left after five minutes")
}
