package senders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"lksms/test/bench/measure"
)

// cluster is a set of servers on one database, and the senders that wait at these servers.
type cluster struct {
	*measure.Bench
	servers []measure.Server
	clients []*measure.Client // one client for each server

	waiting context.Context // cancelling it ends the waits of the senders
	enough  context.CancelFunc
	all     sync.WaitGroup
	failed  atomic.Int64 // number of failed claims and reports
	failure atomic.Pointer[error]
	onLease func(at time.Time, tasks []measure.Leased)
}

// startCluster stops the server of the stack and starts n other servers.
func startCluster(ctx context.Context, b *measure.Bench, n int) (*cluster, error) {
	c := &cluster{Bench: b}
	if err := b.Halt(); err != nil {
		return c, err
	}
	c.waiting, c.enough = context.WithCancel(ctx)
	for i := range n {
		one, err := b.Launch(ctx, fmt.Sprint("server-", n, "-", i))
		if err != nil {
			return c, errors.Join(err, c.stop(ctx))
		}
		client := b.ClientAt(one.Address, 12_000)
		client.HTTP.Dial = func(address string) (net.Conn, error) { return fasthttp.DialTimeout(address, time.Minute) } // thousands of clients connect at the same time
		c.servers, c.clients = append(c.servers, one), append(c.clients, client)
	}
	return c, nil
}

// stop ends the waits of the senders, stops the servers, and starts the server of the stack again.
func (c *cluster) stop(ctx context.Context) error {
	c.enough()
	var failed []error
	for _, one := range c.servers {
		failed = append(failed, one.Stop()) // a stopping server answers the claims that wait
	}
	c.all.Wait()
	if failure := c.failure.Load(); failure != nil {
		failed = append(failed, *failure)
	}
	failed = append(failed, c.Serve(ctx))
	return errors.Join(failed...)
}

// wait starts senders that claim at the server with the index at. Each sender waits for up to limit tasks and reports them. The waits last 20 to 30 seconds
// and start at different times.
func (c *cluster) wait(at, limit int, senderNos ...string) {
	for _, senderNo := range senderNos {
		c.all.Go(func() {
			time.Sleep(rand.N(time.Duration(len(senderNos)) * 5 * time.Millisecond))
			for c.waiting.Err() == nil {
				var tasks []measure.Leased
				body := fmt.Sprintf(`{"app_id":%q,"limit":%d,"wait":%d}`, senderNo, limit, 20+rand.IntN(11))
				err := c.clients[at].Call("POST", "/api/v1/sms/tasks/claim", body, &tasks)
				if err == nil && len(tasks) > 0 {
					if c.onLease != nil {
						c.onLease(time.Now(), tasks)
					}
					var reports []byte
					if reports, err = json.Marshal(map[string]any{"reports": measure.ReportsOf(tasks, senderNo)}); err == nil {
						err = c.clients[at].Call("POST", "/api/v1/sms/report-batch", string(reports), nil)
					}
				}
				if err != nil && c.waiting.Err() == nil { // a busy machine can exceed the five seconds after which the server closes a silent connection
					if c.failed.Add(1) > int64(10*len(senderNos)) {
						c.failure.Store(&err)
						return
					}
					time.Sleep(time.Second)
				}
			}
		})
	}
}

// awaitWaiting waits until n senders in total wait at the servers.
func (c *cluster) awaitWaiting(ctx context.Context, n float64) error {
	for {
		sums, err := c.metrics("lksms_senders_waiting")
		if err != nil || sums[0] >= n || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if failure := c.failure.Load(); failure != nil {
			return *failure
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// metrics returns the sums of metrics over all servers.
func (c *cluster) metrics(names ...string) ([]float64, error) {
	sums := make([]float64, len(names))
	for _, one := range c.servers {
		req, err := http.NewRequest("GET", "http://"+one.Address+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		req.SetBasicAuth("admin", measure.Password)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			for _, found := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllSubmatch(text, -1) {
				value, err := strconv.ParseFloat(string(found[1]), 64)
				if err != nil {
					return nil, err
				}
				sums[i] += value
			}
		}
	}
	return sums, nil
}

// cost contains the resources that the servers and PostgreSQL used per second.
type cost struct {
	servers, database float64 // percent of a core
	transactions      float64
	polls, pollMillis float64 // number of queue polls, and milliseconds per poll
}

func (c cost) String() string {
	return fmt.Sprintf("servers %.1f %%, PostgreSQL %.1f %% of a core, %.0f transactions/s, %.1f queue polls/s of %.2f ms", c.servers, c.database, c.transactions, c.polls, c.pollMillis)
}

// costs measures the cost during d. If meanwhile is not nil, it runs at the start of d and must end within d.
func (c *cluster) costs(ctx context.Context, d time.Duration, meanwhile func() error) (spent cost, err error) {
	read := func() (servers, database, transactions float64, polls []float64, err error) {
		for _, one := range c.servers {
			servers += measure.ProcessorSeconds(one.Cmd.Process.Pid)
		}
		database = c.DatabaseCPU()
		if err = c.DB.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&transactions); err == nil {
			polls, err = c.metrics("lksms_waiting_query_seconds_count", "lksms_waiting_query_seconds_sum")
		}
		return servers, database, transactions, polls, err
	}
	servers, database, transactions, polls, err := read()
	if err != nil {
		return spent, err
	}
	began := time.Now()
	if meanwhile != nil {
		if err := meanwhile(); err != nil {
			return spent, err
		}
	}
	time.Sleep(d - time.Since(began))
	took := time.Since(began).Seconds()
	servers2, database2, transactions2, polls2, err := read()
	if err != nil {
		return spent, err
	}
	return cost{
		servers: 100 * (servers2 - servers) / took, database: 100 * (database2 - database) / took, transactions: (transactions2 - transactions) / took,
		polls: (polls2[0] - polls[0]) / took, pollMillis: 1000 * (polls2[1] - polls[1]) / max(1, polls2[0]-polls[0]),
	}, nil
}

// AcrossServers measures how often servers poll the queue for their waiting senders. It also measures the time from a submission at one server until a sender
// that waits at another server gets the task.
func AcrossServers(ctx context.Context, b *measure.Bench) error {
	many := 1000
	if b.Short {
		many = 100
	}
	for _, c := range []struct {
		servers, senders int
		isPoolEach       bool
	}{{1, 100, false}, {1, many, false}, {3, 100, false}, {3, many, false}, {3, many, true}} {
		if err := waitAcross(ctx, b, c.servers, c.senders, c.isPoolEach); err != nil {
			return err
		}
	}
	return nil
}

func waitAcross(ctx context.Context, b *measure.Bench, servers, senders int, isPoolEach bool) (err error) {
	if err := errors.Join(b.Empty(ctx), removeCrowd(ctx, b), makeCrowd(ctx, b, 0, senders)); err != nil {
		return err
	}
	name := fmt.Sprintf("%d senders that wait at %d servers", senders, servers)
	if isPoolEach {
		name += ", each in its own pool"
		if err := routeCrowd(ctx, b); err != nil {
			return err
		}
	}
	c, err := startCluster(ctx, b, servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop(ctx), removeCrowd(ctx, b), b.Empty(ctx)) }()
	leases := &leaseTimes{at: map[string]time.Time{}}
	c.onLease = leases.record
	// With several servers, no sender waits at the first server, at which messages are submitted.
	at := make([][]string, servers)
	for i := range senders {
		k := 0
		if servers > 1 {
			k = 1 + i%(servers-1)
		}
		at[k] = append(at[k], fmt.Sprint("crowd-", i+1))
	}
	for k, senderNos := range at {
		c.wait(k, 1, senderNos...)
	}
	if err := c.awaitWaiting(ctx, float64(senders)); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	idle, err := c.costs(ctx, b.Time, nil)
	if err != nil {
		return err
	}
	most := float64(5 * servers)
	b.Add(measure.Figure{Name: name, Value: idle.String(), Target: fmt.Sprintf("<= %g queue polls/s", most), Met: idle.polls <= most+0.5})
	if isPoolEach {
		return nil
	}
	name = "from submit to a sender that waits at the same server"
	if servers > 1 {
		name = "from submit at one server to a sender that waits at another"
	}
	return wakes(ctx, b, c, leases, fmt.Sprintf("%s, %d senders, %d servers", name, senders, servers))
}

// leaseTimes contains the time at which each task was leased, by task id.
type leaseTimes struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (l *leaseTimes) record(at time.Time, tasks []measure.Leased) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, task := range tasks {
		l.at[task.TaskID] = at
	}
}

// wakes submits messages at the first server, and adds a figure: the time from submission until a waiting sender has the task.
func wakes(ctx context.Context, b *measure.Bench, c *cluster, leases *leaseTimes, name string) error {
	submittedAt := map[string]time.Time{} // guarded by leases.mu
	if _, err := measure.OpenLoop(ctx, 16, 20, 2*b.Time, func() error {
		began := time.Now()
		var sent measure.Leased
		err := c.clients[0].Call("POST", measure.SendPath, measure.SendBody(), &sent)
		leases.mu.Lock()
		defer leases.mu.Unlock()
		submittedAt[sent.TaskID] = began
		return err
	}); err != nil {
		return err
	}
	var took []time.Duration
	for deadline := time.Now().Add(10 * time.Second); len(took) < len(submittedAt) && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		took = took[:0]
		leases.mu.Lock()
		for id, began := range submittedAt {
			if at, isLeased := leases.at[id]; isLeased {
				took = append(took, at.Sub(began))
			}
		}
		leases.mu.Unlock()
	}
	if len(took) < len(submittedAt) {
		return fmt.Errorf("only %d of %d messages were claimed", len(took), len(submittedAt))
	}
	p50, p99 := measure.Millis(measure.Quantile(took, 0.5)), measure.Millis(measure.Quantile(took, 0.99))
	b.Add(measure.Figure{
		Name: name, Value: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", p50, p99),
		Compared: fmt.Sprint(len(took), " messages"), Target: "p99 <= 300 ms", Met: p99 <= 300,
	})
	return nil
}

// makeCrowd creates senders: driven senders and apps. A driven sender writes to the log, and has an interval, a daily limit, or neither. Existing senders
// remain unchanged.
func makeCrowd(ctx context.Context, b *measure.Bench, driven, apps int) error {
	return b.Exec(ctx, `WITH made AS (
			INSERT INTO senders (sender_no, name, kind, config, interval_ms, per_day)
			SELECT 'driven-' || i, 'driven', 'log', '{}'::jsonb, CASE WHEN i % 3 = 0 THEN 100 ELSE 0 END, CASE WHEN i % 3 = 1 THEN 1000000 END
			FROM generate_series(1, $1::int) i
			UNION ALL
			SELECT 'crowd-' || i, 'crowd', 'app', '{}'::jsonb, 0, NULL FROM generate_series(1, $2::int) i
			ON CONFLICT (sender_no) DO NOTHING
			RETURNING id
		)
		INSERT INTO sender_states (sender_id) SELECT id FROM made`, driven, apps)
}

// routeCrowd creates a pool with a route for each app of makeCrowd.
func routeCrowd(ctx context.Context, b *measure.Bench) error {
	return b.Exec(ctx, `WITH companies AS (
			INSERT INTO companies (company_no, name) SELECT 'crowd-' || s.id, s.id::text FROM senders s WHERE s.sender_no LIKE 'crowd-%' RETURNING id, name
		),
		pools AS (
			INSERT INTO pools (channel_id, company_id, message_type) SELECT 1, companies.id, 1 FROM companies RETURNING id, company_id
		),
		apart AS (
			UPDATE senders SET is_shared = false WHERE sender_no LIKE 'crowd-%'
		)
		INSERT INTO routes (pool_id, sender_id) SELECT pools.id, companies.name::bigint FROM pools JOIN companies ON companies.id = pools.company_id`)
}

// removeCrowd removes the senders of makeCrowd and drain, and the pools and routes of routeCrowd.
func removeCrowd(ctx context.Context, b *measure.Bench) error {
	return errors.Join(
		b.Exec(ctx, "DELETE FROM routes r USING senders s WHERE s.id = r.sender_id AND s.sender_no LIKE 'crowd-%'"),
		b.Exec(ctx, "DELETE FROM pools p USING companies c WHERE c.id = p.company_id AND c.company_no LIKE 'crowd-%'"),
		b.Exec(ctx, "DELETE FROM companies WHERE company_no LIKE 'crowd-%'"),
		b.Exec(ctx, "DELETE FROM senders WHERE sender_no LIKE 'crowd-%' OR sender_no LIKE 'driven-%' OR sender_no LIKE 'drain-%'"),
	)
}

// BigCrowd measures the cost of a thousand driven senders and nearly nine thousand apps that wait at three servers. It measures an idle system, and then a load
// of 200 messages per second.
func BigCrowd(ctx context.Context, b *measure.Bench) (err error) {
	const rate = 200
	driven, apps := 1000, 8900 // a database can contain 10,000 senders
	if b.Short {
		driven, apps = 100, 300
	}
	if err := errors.Join(b.Empty(ctx), removeCrowd(ctx, b)); err != nil {
		return err
	}
	c, err := startCluster(ctx, b, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop(ctx), removeCrowd(ctx, b), b.Empty(ctx)) }()
	time.Sleep(2 * time.Second)
	bare, err := c.costs(ctx, b.Time, nil)
	if err != nil {
		return err
	}
	b.Add(measure.Figure{Name: "3 servers, no sender waits", Value: bare.String(), Target: "no target", Met: true})
	// Each of the three servers drives the driven senders.
	for _, crowd := range []struct{ driven, apps int }{{driven, 0}, {driven, apps}} {
		if err := makeCrowd(ctx, b, crowd.driven, crowd.apps); err != nil {
			return err
		}
		at := make([][]string, 3)
		for i := range crowd.apps {
			at[i%3] = append(at[i%3], fmt.Sprint("crowd-", i+1))
		}
		for k, senderNos := range at {
			c.wait(k, 100, senderNos...)
		}
		if err := c.awaitWaiting(ctx, 0.95*float64(3*crowd.driven+crowd.apps)); err != nil {
			return err
		}
		time.Sleep(b.Time)
		name := fmt.Sprintf("%d driven senders and %d apps at 3 servers", crowd.driven, crowd.apps)
		idle, err := c.costs(ctx, 3*b.Time, nil)
		if err != nil {
			return err
		}
		b.Add(measure.Figure{Name: name + ", nothing to send", Value: idle.String(), Compared: fmt.Sprint(c.failed.Load(), " calls of senders failed"), Target: "no target", Met: true})
		var next, refused atomic.Int64
		busy, err := c.costs(ctx, 3*b.Time, func() error {
			_, err := measure.OpenLoop(ctx, measure.Connections, rate, 3*b.Time, func() error {
				if err := c.clients[next.Add(1)%3].Call("POST", measure.SendPath, measure.SendBody(), nil); err != nil {
					refused.Add(1) // 503, if the machine is too busy
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
		b.Add(measure.Figure{
			Name: fmt.Sprintf("%s, %d messages/s", name, rate), Value: busy.String(), Compared: fmt.Sprint(refused.Load(), " messages refused"),
			Target: "none refused", Met: refused.Load() == 0,
		})
		var wait float64
		if err := b.DB.QueryRow(ctx, `SELECT 1000 * percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM coalesce(r.leased_at, now()) - m.created_at))
			FROM messages m LEFT JOIN report_logs r ON r.task_id = m.task_id`).Scan(&wait); err != nil {
			return err
		}
		b.Add(measure.Figure{Name: "the same, from submit to claim", Value: fmt.Sprintf("p99 %.1f ms", wait), Target: "no target", Met: true})
	}
	return nil
}

// Callbacks measures whether work at one server slows down another. It submits at a server with only the role api and claims at a server with only the role
// claim. Meanwhile a server with another role works on callbacks or sweeps. The server of the stack has all other roles.
func Callbacks(ctx context.Context, b *measure.Bench) (err error) {
	const submits, claims, few, many = 200, 100, 200, 1000 // rates per second: submits, claims, and two rates of callbacks
	if err := errors.Join(b.Empty(ctx), b.Exec(ctx, "DELETE FROM senders WHERE sender_no = 'called'"), removeCrowd(ctx, b)); err != nil {
		return err
	}
	var sent atomic.Int64
	provider, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	numbering := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"code":"0","id":"n-%d"}`, sent.Add(1))
	})}
	go func() { _ = numbering.Serve(provider) }() // runs until Close
	defer numbering.Close()
	api, err := b.Launch(ctx, "api", "--roles=api")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Stop()) }()
	called, err := b.Launch(ctx, "callback", "--roles=callback")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, called.Stop()) }()
	claimed, err := b.Launch(ctx, "claim", "--roles=claim")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, claimed.Stop(), removeCrowd(ctx, b)) }()
	submitter, caller, claimer := b.ClientAt(api.Address, measure.Connections), b.ClientAt(called.Address, measure.Connections), b.ClientAt(claimed.Address, measure.Connections)

	n := int((few+2*many)*b.Time.Seconds()*float64(b.Rounds)) + int(3000*b.Time.Seconds()) // the second summand is the number of messages for floodCallbacks
	if b.Short {
		n = 2000
	}
	if err := sendThrough(ctx, b, provider.Addr(), n); err != nil {
		return err
	}
	if err := makeCrowd(ctx, b, 0, 1); err != nil {
		return err
	}
	var next atomic.Int64
	callBack := func() error {
		body := fmt.Sprintf(`{"msgid":"n-%d","status":"DELIVRD"}`, next.Add(1))
		return caller.Call("POST", "/api/v1/callbacks/called?token=s3cret-of-16-bytes", body, nil)
	}
	submit := func() error { return submitter.Call("POST", measure.SendPath, measure.SendBody(), nil) }
	claim := func() error {
		var tasks []measure.Leased
		if err := claimer.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"crowd-1","limit":1}`, &tasks); err != nil {
			return err
		}
		if len(tasks) != 1 {
			return errors.New("nothing to claim")
		}
		return nil
	}
	alone, err := besideCallbacks(ctx, b, "submits", submits, submit, callBack, few, many)
	if err != nil {
		return err
	}
	if _, err := besideCallbacks(ctx, b, "claims", claims, claim, callBack, many); err != nil { // this measurement claims the tasks that the previous one submitted
		return err
	}

	if err := floodCallbacks(ctx, b, submits, submit, callBack, alone); err != nil {
		return err
	}
	var delivered int
	if err := b.DB.QueryRow(ctx, "SELECT count(*) FROM receipts WHERE matched_at IS NOT NULL").Scan(&delivered); err != nil {
		return err
	}
	if int64(delivered) < min(next.Load(), int64(n))*9/10 {
		return fmt.Errorf("%d callbacks were sent, but only %d were matched", next.Load(), delivered)
	}
	return errors.Join(besideSweep(ctx, b, submitter, claimer, submits, submit), b.Empty(ctx))
}

// sendThrough sends n messages through a provider at an address, so that callbacks can report on these messages.
func sendThrough(ctx context.Context, b *measure.Bench, provider net.Addr, n int) error {
	admin := b.Client(8)
	config := fmt.Sprintf(`{"url":"http://%s/","body":{"to":"${recipient}","text":"${content}"},"answer":{"success":"code","equals":["0"],"number":"id"},
		"callback":{"verify":"token","number":"msgid","recipient":"mobile","state":"status","delivered":["DELIVRD"],"pending":["ENROUTE"],
		"answer":{"body":"{}","contentType":"application/json"}},"callbackSecret":"s3cret-of-16-bytes"}`, provider)
	if err := admin.Call("POST", "/api/v1/admin/senders", `{"sender_no":"called","name":"called","kind":"http-sms","status":"on","is_shared":true,"config":`+config+`}`, nil); err != nil {
		return err
	}
	for from := 0; from < n; from += 1000 {
		if err := admin.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(min(1000, n-from)), nil); err != nil {
			return err
		}
	}
	for reached := 0; reached < n; time.Sleep(100 * time.Millisecond) {
		if err := b.DB.QueryRow(ctx, "SELECT count(*) FROM report_logs WHERE outcome = 2").Scan(&reached); err != nil {
			return err
		}
	}
	return admin.Call("PATCH", "/api/v1/admin/senders/called", `{"status":"off"}`, nil) // the sender claims no more messages
}

// floodCallbacks measures submissions while callbacks arrive without a rate limit and use both cores. alone is the p99 of submissions without callbacks, in
// milliseconds.
func floodCallbacks(ctx context.Context, b *measure.Bench, submits float64, submit, callBack func() error, alone float64) error {
	flooded := make(chan error, 1)
	var rate float64
	go func() {
		var err error
		rate, err = measure.ClosedLoop(ctx, measure.Connections, b.Time, func(int) error { return callBack() })
		flooded <- err
	}()
	took, err := measure.OpenLoop(ctx, measure.Connections, submits, b.Time, submit)
	if err = errors.Join(err, <-flooded); err != nil {
		return err
	}
	full := measure.Millis(measure.Quantile(took, 0.99))
	b.AtMost(1.2, fmt.Sprintf("p99 of %.0f submits/s at one server, during %.0f callbacks/s without a rate limit at another", submits, rate), full, alone, "ms", "without callbacks")
	return nil
}

// besideCallbacks measures the p99 of calls at one server, without callbacks and while callbacks arrive at another server. It returns the p99 without
// callbacks, in milliseconds.
func besideCallbacks(ctx context.Context, b *measure.Bench, what string, rate float64, call, callBack func() error, callbacks ...float64) (alone float64, err error) {
	p99 := make([][]float64, 1+len(callbacks))
	for range b.Rounds {
		for i, beside := range append([]float64{0}, callbacks...) {
			flooded := make(chan error, 1)
			go func() {
				var err error
				if beside > 0 {
					_, err = measure.OpenLoop(ctx, measure.Connections, beside, b.Time, callBack)
				}
				flooded <- err
			}()
			took, err := measure.OpenLoop(ctx, measure.Connections, rate, b.Time, call)
			if err = errors.Join(err, <-flooded); err != nil {
				return 0, err
			}
			p99[i] = append(p99[i], measure.Millis(measure.Quantile(took, 0.99)))
		}
	}
	alone = measure.Median(p99[0])
	for i, beside := range callbacks {
		name := fmt.Sprintf("p99 of %.0f %s/s at one server, during %.0f callbacks/s at another", rate, what, beside)
		b.AtMost(1.2, name, measure.Median(p99[1+i]), alone, "ms", "without callbacks")
	}
	return alone, nil
}

// besideSweep compares submissions alone with submissions during a sweep. The sweep runs at a server with the role sweep and recovers expired leases.
func besideSweep(ctx context.Context, b *measure.Bench, submitter, claimer *measure.Client, rate float64, submit func() error) error {
	many := 20_000
	if b.Short {
		many = 1000
	}
	if err := b.Halt(); err != nil { // the server of the stack also runs the sweep
		return err
	}
	sweeper, err := b.Launch(ctx, "sweep", "--roles=sweep", "--processing-timeout-minutes=0.1") // the sweeper searches for expired leases every second
	if err != nil {
		return errors.Join(err, b.Serve(ctx))
	}
	err = b.Empty(ctx) // deletes the leases of earlier steps
	var alone, p99, swept []float64
	for range b.Rounds {
		if err != nil {
			break
		}
		var took []time.Duration
		if took, err = measure.OpenLoop(ctx, measure.Connections, rate, b.Time, submit); err != nil {
			break
		}
		alone = append(alone, measure.Millis(measure.Quantile(took, 0.99)))
		for n := 0; n < many && err == nil; n += 1000 {
			err = submitter.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(1000), nil)
		}
		for n := 0; n < many && err == nil; n += 100 {
			err = claimer.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"crowd-1","limit":100}`, nil)
		}
		if err = errors.Join(err, b.Exec(ctx, "UPDATE queue SET lease_until = now() WHERE lease_until IS NOT NULL")); err != nil {
			break
		}
		began := time.Now()
		sweeping, isOver := context.WithCancel(ctx)
		go func() {
			for isLeft := true; isLeft && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
				if b.DB.QueryRow(sweeping, "SELECT EXISTS (SELECT FROM queue WHERE lease_until <= now())").Scan(&isLeft) != nil {
					break
				}
			}
			isOver()
		}()
		if took, err = measure.OpenLoop(sweeping, measure.Connections, rate, time.Minute, submit); err != nil {
			break
		}
		p99, swept = append(p99, measure.Millis(measure.Quantile(took, 0.99))), append(swept, time.Since(began).Seconds())
	}
	if err = errors.Join(err, sweeper.Stop(), b.Serve(ctx)); err != nil {
		return err
	}
	b.AtMost(1.2, fmt.Sprintf("p99 of %.0f submits/s at one server, during a sweep of %d leases at another, for %.1f s", rate, many, measure.Median(swept)), measure.Median(p99), measure.Median(alone), "ms", "without a sweep")
	return nil
}
