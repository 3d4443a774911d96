// Package senders measures many senders, and several servers on one database.
package senders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lksms/test/bench/measure"
)

// ManySenders compares a thousand senders, each with an interval and a quota, with ten senders that drain the same queue.
func ManySenders(ctx context.Context, b *measure.Bench) error {
	tasks, many := min(200_000, b.Rows/20), 1000
	if b.Short {
		many = 100
	}
	var fast, slow, fastDB, slowDB []float64
	for range b.Rounds {
		// The ten senders have no interval. Each of the thousand senders has an interval, and a quota that is used up while the senders drain the queue.
		rate, db, err := drain(ctx, b, tasks, 10, "0", fmt.Sprint(tasks))
		if err != nil {
			return err
		}
		fast, fastDB = append(fast, rate), append(fastDB, db)
		if rate, db, err = drain(ctx, b, tasks, many, "1 + i % 20", fmt.Sprintf("%d + i %% 200", tasks/many)); err != nil {
			return err
		}
		slow, slowDB = append(slow, rate), append(slowDB, db)
	}
	b.AtLeast(0.9, fmt.Sprintf("%d tasks drained by %d senders with intervals and quotas", tasks, many), measure.Median(slow), measure.Median(fast), "tasks/s", "10 senders")
	b.Add(measure.Figure{
		Name: "part of PostgreSQL in the processor time of this drain", Value: measure.Show(100*measure.Median(slowDB), "%"),
		Compared: measure.Show(100*measure.Median(fastDB), "%") + ", 10 senders", Target: "no target", Met: true,
	})

	if err := errors.Join(b.Empty(ctx), b.FillPending(ctx, "pending", 20_000, measure.DefaultCompany)); err != nil {
		return err
	}
	if err := makeSenders(ctx, b, 1, "86400000", "1000"); err != nil {
		return err
	}
	if err := b.Exec(ctx, "UPDATE sender_states SET next_available_at = now() + interval '1 day'"); err != nil {
		return err
	}
	c := b.Client(1)
	ready, err := b.Claims(ctx, c, 50)
	if err != nil {
		return err
	}
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if err := c.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"drain-1","limit":100}`, nil); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	cost := measure.Millis(measure.Quantile(took, 0.5))
	b.Ratio("claim by a sender that is not ready", cost, ready, "ms", "a claim of 100", "no target", true)
	return b.Empty(ctx)
}

// makeSenders replaces the senders of the last measurement by n senders with an interval and a quota.
func makeSenders(ctx context.Context, b *measure.Bench, n int, interval, quota string) error {
	return errors.Join(b.Exec(ctx, "DELETE FROM senders WHERE sender_no LIKE 'drain-%'"), b.Exec(ctx, fmt.Sprintf(`WITH made AS (
			INSERT INTO senders (sender_no, name, interval_ms, per_day) SELECT 'drain-' || i, 'drain', %s, %s FROM generate_series(1, %d) i
			RETURNING id
		)
		INSERT INTO sender_states (sender_id) SELECT id FROM made`, interval, quota, n)))
}

// drain fills the queue with tasks, and empties it with n senders. Each sender claims and reports, and waits while it is not ready. drain returns the tasks per
// second, and the share of PostgreSQL in the processor time.
func drain(ctx context.Context, b *measure.Bench, tasks, n int, interval, quota string) (float64, float64, error) {
	if err := errors.Join(b.Empty(ctx), makeSenders(ctx, b, n, interval, quota),
		b.FillPending(ctx, "pending", tasks, measure.DefaultCompany)); err != nil {
		return 0, 0, err
	}
	c := b.Client(n)
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	var left atomic.Int64
	left.Store(int64(tasks))
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	total, database := b.CPU(), b.DatabaseCPU()
	began := time.Now()
	for i := range n {
		all.Go(func() {
			appID := fmt.Sprint("drain-", i+1)
			for ctx.Err() == nil {
				var leases []measure.Leased
				err := c.Call("POST", "/api/v1/sms/tasks/claim", fmt.Sprintf(`{"app_id":%q,"limit":100,"wait":1}`, appID), &leases)
				if err == nil && len(leases) > 0 {
					var body []byte
					if body, err = json.Marshal(map[string]any{"reports": measure.ReportsOf(leases, appID)}); err == nil {
						err = c.Call("POST", "/api/v1/sms/report-batch", string(body), nil)
					}
				}
				if err != nil {
					failure.Store(&err)
					enough()
					return
				}
				if left.Add(-int64(len(leases))) <= 0 {
					enough()
				}
			}
		})
	}
	<-ctx.Done()
	rate := float64(tasks) / time.Since(began).Seconds()
	total, database = b.CPU()-total, b.DatabaseCPU()-database
	all.Wait()
	if err := failure.Load(); err != nil {
		return 0, 0, *err
	}
	return rate, database / max(total, 0.01), nil
}

// FairShares measures two things: the shares of companies in a queue that all companies fill, and the delay of other companies because of the backlog of one
// company.
func FairShares(ctx context.Context, b *measure.Bench) error {
	const companies = 10
	keys := make([]*measure.Client, companies)
	admin := b.Client(8)
	ids := make([]int64, companies)
	for i := range companies {
		no := fmt.Sprint("company-", i)
		var err error
		if keys[i], ids[i], err = measure.MakeAccount(ctx, b, admin, no, no, "submit"); err != nil {
			return err
		}
	}
	alone, err := waitOfSmall(ctx, b, keys, 0, 0)
	if err != nil {
		return err
	}
	beside, err := waitOfSmall(ctx, b, keys, ids[0], b.Rows/10)
	if err != nil {
		return err
	}
	b.AtMost(2, fmt.Sprintf("p99 wait of nine companies while a tenth has %d waiting", b.Rows/10), beside, alone, "ms", "without it")

	// One run has companies with equal weights, and the other run has three weights. Each company has more tasks than are served.
	for _, weights := range [][]float64{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 2, 5}} {
		if err := b.Empty(ctx); err != nil {
			return err
		}
		each := max(1000, b.Rows/1000)
		if err := errors.Join(weigh(admin, weights), enqueue(keys[:len(weights)], each)); err != nil {
			return err
		}
		for served := 0; served < each; served += 100 { // until the company that gets the largest share has almost no tasks left
			var leases []measure.Leased
			if err := admin.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"app","limit":100}`, &leases); err != nil {
				return err
			}
		}
		services, err := servicesOf(ctx, b, ids[:len(weights)])
		if err != nil {
			return err
		}
		if len(weights) == companies {
			index := jain(services)
			b.Add(measure.Figure{Name: "Jain's index of ten equal companies", Value: fmt.Sprintf("%.4f", index), Compared: "1 means equal", Target: ">= 0.98", Met: index >= 0.98})
			continue
		}
		worst := 0.0
		for i, off := range offs(services, weights) {
			worst = max(worst, 100*abs(off)*weights[i]/sum(weights))
		}
		b.Add(measure.Figure{Name: "shares of companies with weights 1, 2 and 5", Value: fmt.Sprintf("%.2f points off", worst), Compared: "share by weight", Target: "<= 2 points", Met: worst <= 2})
	}
	return errors.Join(acrossPools(ctx, b, admin, keys[:3], ids[:3]), b.Empty(ctx))
}

// acrossPools measures the shares of three companies. Each company waits in a separate pool, and one sender has a route in all three pools. The first company
// has already been served for a while when the others submit.
func acrossPools(ctx context.Context, b *measure.Bench, admin *measure.Client, keys []*measure.Client, ids []int64) error {
	const served = 400
	weights := []float64{1, 2, 5}
	// The sender can exist from an earlier run of this figure.
	_ = admin.Call("POST", "/api/v1/admin/senders", `{"sender_no":"across","name":"across","is_shared":false}`, nil)
	var routes []int64
	for i := range ids {
		var route struct {
			ID int64 `json:"route_no"`
		}
		body := fmt.Sprintf(`{"company_no":"company-%d","message_type":"notification","sender_no":"across"}`, i)
		if err := admin.Call("POST", "/api/v1/admin/routes", body, &route); err != nil {
			return err
		}
		routes = append(routes, route.ID)
	}
	if err := weigh(admin, weights); err != nil {
		return err
	}
	for _, limit := range []int{1, 7, 100} {
		claim := func(tasks int) (err error) {
			for ; tasks > 0 && err == nil; tasks -= limit {
				body := fmt.Sprintf(`{"app_id":"across","limit":%d}`, min(limit, tasks))
				err = admin.Call("POST", "/api/v1/sms/tasks/claim", body, nil)
			}
			return err
		}
		if err := errors.Join(b.Empty(ctx), enqueue(keys[:1], 2*served), claim(served), enqueue(keys[1:], 2*served)); err != nil {
			return err
		}
		before, err := servicesOf(ctx, b, ids)
		if err != nil {
			return err
		}
		if err := claim(served); err != nil {
			return err
		}
		services, err := servicesOf(ctx, b, ids)
		if err != nil {
			return err
		}
		for i := range services {
			services[i] -= before[i]
		}
		worst := 0.0
		for _, off := range offs(services, weights) {
			worst = max(worst, 100*abs(off))
		}
		b.Add(measure.Figure{
			Name:  fmt.Sprintf("shares of companies with weights 1, 2 and 5 in separate pools, %d tasks in claims of %d", served, limit),
			Value: fmt.Sprintf("%.1f %% off", worst), Compared: "share by weight", Target: "<= 10 %", Met: worst <= 10,
		})
	}
	for _, id := range routes {
		if err := admin.Call("DELETE", fmt.Sprint("/api/v1/admin/routes/", id), "", nil); err != nil {
			return err
		}
	}
	return nil
}

// weigh sets the weights of the first companies.
func weigh(admin *measure.Client, weights []float64) error {
	for i, weight := range weights {
		if err := admin.Call("PATCH", fmt.Sprint("/api/v1/admin/companies/company-", i), fmt.Sprintf(`{"weight":%g}`, weight), nil); err != nil {
			return err
		}
	}
	return nil
}

// enqueue submits messages for every company. perCompany is the number of messages of one company.
func enqueue(keys []*measure.Client, perCompany int) error {
	for _, key := range keys {
		for from := 0; from < perCompany; from += 1000 {
			if err := key.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(min(1000, perCompany-from)), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// servicesOf returns the number of claimed tasks of each company.
func servicesOf(ctx context.Context, b *measure.Bench, ids []int64) ([]float64, error) {
	services := make([]float64, len(ids))
	for i, id := range ids {
		if err := b.DB.QueryRow(ctx, "SELECT count(*) FROM queue WHERE lease_until IS NOT NULL AND company_id = $1", id).Scan(&services[i]); err != nil {
			return nil, err
		}
	}
	return services, nil
}

// offs returns, for each company, the relative difference of its services from its share by weight.
func offs(services, weights []float64) []float64 {
	offs := make([]float64, len(services))
	for i, n := range services {
		offs[i] = n/sum(services)/(weights[i]/sum(weights)) - 1
	}
	return offs
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// waitOfSmall returns the 99th percentile of the time from submission to claim, in milliseconds. Nine companies submit five messages per second each. Four
// senders poll twice per second for fifty tasks. Meanwhile the company big has backlog waiting tasks.
func waitOfSmall(ctx context.Context, b *measure.Bench, keys []*measure.Client, big int64, backlog int) (float64, error) {
	if err := b.Empty(ctx); err != nil {
		return 0, err
	}
	if backlog > 0 {
		if err := b.FillPending(ctx, "big", backlog, big); err != nil {
			return 0, err
		}
	}
	ctx, enough := context.WithTimeout(ctx, 2*b.Time)
	defer enough()
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	every := func(d, after time.Duration, call func() error) {
		all.Go(func() {
			time.Sleep(after)
			tick := time.NewTicker(d)
			defer tick.Stop()
			for {
				if err := call(); err != nil {
					failure.Store(&err)
					enough()
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	for i, key := range keys[1:] {
		every(200*time.Millisecond, time.Duration(i)*20*time.Millisecond, func() error { return key.Call("POST", measure.SendPath, measure.SendBody(), nil) })
	}
	poll := b.Client(4)
	for i := range 4 {
		body := fmt.Sprintf(`{"app_id":"poll-%d","limit":50}`, i)
		every(500*time.Millisecond, time.Duration(i)*125*time.Millisecond, func() error {
			return poll.Call("POST", "/api/v1/sms/tasks/claim", body, nil)
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	var wait float64
	// No task is reported, so all tasks are still in queue. For a leased task, updated_at is the time of its claim.
	err := b.DB.QueryRow(context.WithoutCancel(ctx), `SELECT percentile_cont(0.99) WITHIN GROUP (
			ORDER BY extract(epoch FROM CASE WHEN lease_until IS NULL THEN now() ELSE updated_at END - created_at) * 1000
		)
		FROM queue WHERE company_id <> $1 AND created_at < now() - interval '1 second'`, big).Scan(&wait)
	return wait, err
}

// jain returns Jain's index. The index is 1 if all services are equal, and 1/n if one company receives all services.
func jain(services []float64) float64 {
	var sum, squares float64
	for _, n := range services {
		sum, squares = sum+n, squares+n*n
	}
	return sum * sum / (float64(len(services)) * squares)
}

func abs(x float64) float64 { return max(x, -x) }
