// Package messages measures the life of messages: submissions, claims, reports, batches, notifications and events.
package messages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/gen/dispatchq"
	"lksms/gen/queueq"
	"lksms/gen/senderq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/postgres"
	"lksms/test/bench/measure"
)

// SingleSubmit compares a submission of one message per request with one hand-written statement per transaction.
func SingleSubmit(ctx context.Context, b *measure.Bench) error {
	best, clients := 0.0, 0
	for _, n := range []int{8, 16, 32, 64} {
		rate, _, err := b.ByHand(ctx, n, min(b.Time, 3*time.Second), 0)
		if err != nil {
			return err
		}
		if rate > best {
			best, clients = rate, n
		}
	}
	c := b.Client(measure.Connections)
	send := func(int) error { return c.Call("POST", measure.SendPath, measure.SendBody(), nil) }
	var ours, theirs []float64
	for range b.Rounds {
		if err := b.Empty(ctx); err != nil {
			return err
		}
		rate, err := measure.ClosedLoop(ctx, measure.Connections, b.Time, send)
		if err != nil {
			return err
		}
		ours = append(ours, rate)
		if err := b.Empty(ctx); err != nil {
			return err
		}
		if rate, _, err = b.ByHand(ctx, clients, b.Time, 0); err != nil {
			return err
		}
		theirs = append(theirs, rate)
	}
	compared := fmt.Sprintf("pgbench, one statement, %d clients", clients)
	b.AtLeast(1.5, "single submit over HTTP, 64 connections", measure.Median(ours), measure.Median(theirs), "/s", compared)

	var ourTail, theirTail []float64
	for range b.Rounds {
		took, err := measure.OpenLoop(ctx, measure.Connections, measure.Median(ours)/2, b.Time, func() error { return send(0) })
		if err != nil {
			return err
		}
		ourTail = append(ourTail, measure.Millis(measure.Quantile(took, 0.99)))
		_, theirTook, err := b.ByHand(ctx, clients, b.Time, measure.Median(theirs)/2)
		if err != nil {
			return err
		}
		theirTail = append(theirTail, measure.Millis(measure.Quantile(theirTook, 0.99)))
	}
	b.AtMost(3, "the same, p99 at half that load", measure.Median(ourTail), measure.Median(theirTail), "ms", "pgbench's p99 at half its load")
	return b.Empty(ctx)
}

// liveInSQL runs the statements of measure.Live without HTTP.
func liveInSQL(ctx context.Context, b *measure.Bench, caller, n int) error {
	var p queueq.TaskSubmitParams
	for i := range measure.LifeSize {
		p.TaskIds = append(p.TaskIds, fmt.Sprintf("task_20261121_%d_%d_%d", caller, n, i))
		number := fmt.Sprintf("138%08d", rand.IntN(100_000_000))
		p.PhoneNumbers = append(p.PhoneNumbers, number)
		p.Recipients = append(p.Recipients, "+86"+number)
		p.FinalContents = append(p.FinalContents, "您的验证码是123456，请勿泄露")
		p.Sources = append(p.Sources, "bench")
		p.Submitters = append(p.Submitters, "admin")
		p.DedupKeys = append(p.DedupKeys, "")
		p.RequestIds = append(p.RequestIds, strconv.Itoa(n))
		p.Contents = append(p.Contents, "您的验证码是123456，请勿泄露")
		p.UseTemplates = append(p.UseTemplates, false)
		p.SourceIps = append(p.SourceIps, "127.0.0.1")
		p.UserAgents = append(p.UserAgents, "bench")
		p.RequestData = append(p.RequestData, []byte(measure.SendBody()))
		p.CompanyIds = append(p.CompanyIds, 1)
		p.PoolIds = append(p.PoolIds, 1)
		p.MessageTypes = append(p.MessageTypes, 1)
		p.CountryNos = append(p.CountryNos, "")
		p.Priorities = append(p.Priorities, 5)
		p.Segments = append(p.Segments, 1)
		p.Signs = append(p.Signs, "")
		p.AreTests = append(p.AreTests, false)
		p.EverySeconds = append(p.EverySeconds, nil)
		p.ExpectSendTimes = append(p.ExpectSendTimes, nil)
		p.ExpireTimes = append(p.ExpireTimes, nil)
	}
	if _, err := queueq.New(b.DB).TaskSubmit(ctx, p); err != nil {
		return err
	}
	appID := fmt.Sprint("sql-", caller)
	var rows []claim.Lease
	wait := 10 * time.Minute
	if err := b.DB.Dispatch(ctx, func(tx postgres.Runner) (err error) {
		rows, err = claim.On(ctx, tx, claim.Request{SenderNo: appID, Limit: measure.LifeSize}, claim.Rules{Lease: time.Hour, RetryMaxWait: &wait, SilentAfter: time.Minute})
		return err
	}); err != nil || len(rows) == 0 {
		return err
	}
	var r dispatchq.TaskReportParams
	for _, row := range rows {
		r.TaskIds = append(r.TaskIds, row.TaskID)
		r.SenderNos = append(r.SenderNos, appID)
		r.LeaseIds = append(r.LeaseIds, &row.LeaseID)
		r.Statuses = append(r.Statuses, 2)
		r.WantsRetries = append(r.WantsRetries, false)
		r.RetryDelaySeconds = append(r.RetryDelaySeconds, 0)
		r.ErrorMessages = append(r.ErrorMessages, "")
		r.RequestData = append(r.RequestData, []byte(`{"status":2}`))
		r.MaxRetryCounts, r.ProviderNos = append(r.MaxRetryCounts, 3), append(r.ProviderNos, "")
		r.InParts = append(r.InParts, false)
	}
	return claim.Dispatch(ctx, b.DB, func(q *dispatchq.Queries) error {
		_, err := q.TaskReport(ctx, r)
		return err
	})
}

// LifeOfTasks measures how many tasks per second are submitted, claimed and reported, with all logs. It compares this number with the jobs per second of River,
// and with the tasks per second of the same statements without HTTP.
func LifeOfTasks(ctx context.Context, b *measure.Bench) error {
	c := b.Client(measure.LifeCallers)
	var ours, rivers, bare []float64
	for round := range b.Rounds {
		if err := b.Empty(ctx); err != nil {
			return err
		}
		rate, err := measure.ClosedLoop(ctx, measure.LifeCallers, b.Time, func(i int) error { return measure.Live(c, fmt.Sprint("app-", i)) })
		if err != nil {
			return err
		}
		ours = append(ours, rate*measure.LifeSize)
		if err := b.Empty(ctx); err != nil {
			return err
		}
		counts := make([]int, measure.LifeCallers)
		for i := range measure.LifeCallers {
			if err := senderq.New(b.DB).SenderRegister(ctx, fmt.Sprint("sql-", i)); err != nil {
				return err
			}
		}
		rate, err = measure.ClosedLoop(ctx, measure.LifeCallers, b.Time, func(i int) error {
			counts[i]++
			return liveInSQL(ctx, b, i, round<<32|counts[i])
		})
		if err != nil {
			return err
		}
		bare = append(bare, rate*measure.LifeSize)
		if rate, err = b.River(ctx, measure.LifeCallers, measure.LifeSize, b.Time); err != nil {
			return fmt.Errorf("river: %w", err)
		}
		rivers = append(rivers, rate)
		if err := b.Exec(ctx, "TRUNCATE river_job"); err != nil {
			return err
		}
	}
	b.AtLeast(1, "life of a task over HTTP, batches of 100", measure.Median(ours), measure.Median(rivers), "tasks/s", "River, bulk insert and work")
	b.AtLeast(0.6, "the same", measure.Median(ours), measure.Median(bare), "tasks/s", "the same statements without HTTP")
	return b.Empty(ctx)
}

// WaitingSenders measures the cost of a thousand senders whose claims wait while no task exists.
func WaitingSenders(ctx context.Context, b *measure.Bench) error {
	if err := b.Empty(ctx); err != nil {
		return err
	}
	n, wait := 1000, 20
	if b.Short {
		n, wait = 100, 5
	}
	c := b.Client(n)
	waiting, enough := context.WithCancel(ctx)
	defer enough()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for i := range n {
		all.Go(func() {
			body := fmt.Sprintf(`{"app_id":"waits-%d","limit":100,"wait":%d}`, i, wait+i%11) // the waits differ, so that the claims do not end at the same time
			for waiting.Err() == nil {
				if err := c.Call("POST", "/api/v1/sms/tasks/claim", body, nil); err != nil {
					mu.Lock()
					failure = err
					mu.Unlock()
					return
				}
			}
		})
	}
	// Wait until all senders wait and the server has stored their polls. During the next ten minutes, the server does not store their polls again.
	for recorded := 0; recorded < n; time.Sleep(100 * time.Millisecond) {
		if err := b.DB.QueryRow(ctx, `SELECT count(*) FROM senders s JOIN sender_states st ON st.sender_id = s.id
			WHERE s.sender_no LIKE 'waits-%' AND st.seen_at IS NOT NULL`).Scan(&recorded); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second) // a session adds its writes to the statistics within a second
	const written = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables"
	var before, after int64
	if err := b.DB.QueryRow(ctx, written).Scan(&before); err != nil {
		return err
	}
	cpu, began := b.CPU(), time.Now()
	time.Sleep(3 * b.Time)
	used := (b.CPU() - cpu) / time.Since(began).Seconds() * 100
	if err := b.DB.QueryRow(ctx, written).Scan(&after); err != nil {
		return err
	}
	b.Add(measure.Figure{
		Name: fmt.Sprintf("%d senders that wait while no task exists", n), Value: fmt.Sprintf("%.1f %% of a core, %d rows written", used, after-before),
		Compared: "server and PostgreSQL", Target: "<= 5 %, no writes", Met: used <= 5 && after == before,
	})
	enough()
	// These tasks end the waits of all senders.
	for range n / 100 {
		if err := c.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(1000), nil); err != nil {
			break // all connections are in use until some claims get their response
		}
	}
	all.Wait()
	return errors.Join(failure, b.Empty(ctx))
}

// ManyPools compares a sender that waits in ten thousand empty pools with a sender that waits in ten.
func ManyPools(ctx context.Context, b *measure.Bench) error {
	many := 10_000
	if b.Short {
		many = 1000
	}
	var few, all []float64
	for range b.Rounds {
		for _, n := range []int{10, many} {
			used, err := waitInPools(ctx, b, n)
			if err != nil {
				return err
			}
			if n == many {
				all = append(all, used)
			} else {
				few = append(few, used)
			}
		}
	}
	b.AtMost(1.5, fmt.Sprintf("a sender that waits in %d empty pools", many), measure.Median(all), measure.Median(few), "% of a core", "in 10 pools")
	return nil
}

// waitInPools measures a waiting sender with a route in each of n pools. It returns the fraction of a core that the server and PostgreSQL use during the wait.
func waitInPools(ctx context.Context, b *measure.Bench, n int) (float64, error) {
	if err := errors.Join(b.Empty(ctx), b.Exec(ctx, `WITH companies AS (
			INSERT INTO companies (company_no, name) SELECT 'pools-' || i, 'pools' FROM generate_series(0, ($1::int - 1) / 3) i RETURNING id
		),
		pools AS (
			INSERT INTO pools (channel_id, company_id, message_type)
			SELECT 1, companies.id, kind FROM companies CROSS JOIN generate_series(0, 2) kind LIMIT $1 RETURNING id
		),
		sender AS (
			INSERT INTO senders (sender_no, name, is_shared) VALUES ('pools-' || $1, 'pools', false) RETURNING id
		),
		state AS (
			INSERT INTO sender_states (sender_id) SELECT sender.id FROM sender
		)
		INSERT INTO routes (pool_id, sender_id) SELECT pools.id, sender.id FROM pools CROSS JOIN sender`, n)); err != nil {
		return 0, err
	}
	const settle = 3 * time.Second // time for the first queue poll, and for the setup of new tables
	measured := min(b.Time, 25*time.Second)
	c := b.Client(2)
	answered := make(chan error, 1)
	go func() {
		wait := int((settle + measured + time.Second).Seconds())
		answered <- c.Call("POST", "/api/v1/sms/tasks/claim", fmt.Sprintf(`{"app_id":"pools-%d","wait":%d}`, n, wait), nil)
	}()
	time.Sleep(settle)
	cpu, began := b.CPU(), time.Now()
	time.Sleep(measured)
	used := (b.CPU() - cpu) / time.Since(began).Seconds() * 100
	return used, errors.Join(<-answered, b.Exec(ctx, "DELETE FROM routes"), b.Exec(ctx, "DELETE FROM senders WHERE sender_no LIKE 'pools-%'"),
		b.Exec(ctx, "DELETE FROM pools WHERE company_id IN (SELECT id FROM companies WHERE company_no LIKE 'pools-%')"),
		b.Exec(ctx, "DELETE FROM companies WHERE company_no LIKE 'pools-%'"))
}

// Handover measures the time from just before a submission until a waiting sender has the message.
func Handover(ctx context.Context, b *measure.Bench) error {
	if err := b.Empty(ctx); err != nil {
		return err
	}
	c := b.Client(4)
	n := int(b.Time.Milliseconds() / 10)
	submitted, taken := make(chan time.Time, 1), make(chan error, 1)
	took := make([]time.Duration, 0, n)
	go func() {
		for range n {
			var tasks []measure.Leased
			for len(tasks) == 0 {
				if err := c.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"waits","limit":1,"wait":30}`, &tasks); err != nil {
					taken <- err
					return
				}
			}
			took = append(took, time.Since(<-submitted))
			taken <- nil
		}
	}()
	for range n {
		time.Sleep(5 * time.Millisecond) // time for the sender to wait again
		submitted <- time.Now()
		if err := c.Call("POST", measure.SendPath, measure.SendBody(), nil); err != nil {
			return err
		}
		if err := <-taken; err != nil {
			return err
		}
	}
	p50, p99 := measure.Millis(measure.Quantile(took, 0.5)), measure.Millis(measure.Quantile(took, 0.99))
	b.Add(measure.Figure{
		Name: "from submit to a sender that waits", Value: fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", p50, p99), Compared: fmt.Sprint(n, " messages"),
		Target: "p50 <= 10 ms, p99 <= 50 ms", Met: p50 <= 10 && p99 <= 50,
	})
	return b.Empty(ctx)
}

// plainClaim is a claim that decides nothing: it leases the first tasks of one pool. It changes the rows of queue in the same way as the service. Like a claim
// of the service, it writes no log, because the report that ends a lease writes the log.
const plainClaim = `WITH first AS MATERIALIZED (
	SELECT q.task_id FROM queue q
	WHERE q.pool_id = 1 AND q.lease_until IS NULL AND q.lane IS NOT NULL
	ORDER BY q.lane, q.rank LIMIT 100 FOR UPDATE SKIP LOCKED
), leased AS (
	UPDATE queue q
	SET processing_app_id = $1, lease_id = nextval('lease_ids'), lease_until = now() + interval '1 hour', lease_limit = 100, updated_at = now()
	WHERE q.task_id = ANY (ARRAY(SELECT first.task_id FROM first)) AND q.lease_until IS NULL
	RETURNING q.*
)
SELECT l.task_id, l.phone_number, l.content, l.lease_id, l.retry_count + 1, l.lease_until FROM leased l ORDER BY l.lane, l.rank`

// decide returns the median duration of two claims of 100 tasks: the claim of the service without HTTP, and plainClaim. Both claims run alternately on the
// same tasks.
func decide(ctx context.Context, b *measure.Bench, n int) (ours, plain float64, err error) {
	wait := 10 * time.Minute
	var took [2][]time.Duration
	for i := range 2 * n {
		rows := 0
		began := time.Now()
		if i%2 == 0 {
			err = b.DB.Dispatch(ctx, func(tx postgres.Runner) error {
				tasks, err := claim.On(ctx, tx, claim.Request{SenderNo: "app", Limit: 100}, claim.Rules{Lease: time.Hour, RetryMaxWait: &wait, SilentAfter: time.Minute})
				rows = len(tasks)
				return err
			})
		} else {
			err = pgx.BeginTxFunc(ctx, b.DB.Pool(), pgx.TxOptions{}, func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, plainClaim, "app")
				rows = int(tag.RowsAffected())
				return err
			})
		}
		if err == nil && rows != 100 {
			err = fmt.Errorf("claimed %d of 100", rows)
		}
		if err != nil {
			return 0, 0, err
		}
		took[i%2] = append(took[i%2], time.Since(began))
	}
	return measure.Millis(measure.Quantile(took[0], 0.5)), measure.Millis(measure.Quantile(took[1], 0.5)), nil
}

// fillTable fills the large table, unless an earlier call filled it.
func fillTable(ctx context.Context, b *measure.Bench) error {
	var there bool
	if err := b.DB.QueryRow(ctx, "SELECT EXISTS (SELECT FROM messages WHERE task_id = 'finished000000001')").Scan(&there); err != nil || there {
		return err
	}
	if err := b.Empty(ctx); err != nil {
		return err
	}
	return errors.Join(
		b.FillFinished(ctx, "finished", b.Rows), b.FillRetries(ctx, "retry", b.Rows/10),
		b.FillPending(ctx, "pending", b.Rows/10, measure.DefaultCompany),
	)
}

// ClaimTimes compares a claim of 100 tasks from a full table with a claim of 100 tasks from an almost empty table.
func ClaimTimes(ctx context.Context, b *measure.Bench) error {
	n := min(100, b.Rows/10/100/2)
	c := b.Client(1)
	if err := errors.Join(b.Empty(ctx), b.FillPending(ctx, "pending", 100*(5*n+20), measure.DefaultCompany)); err != nil {
		return err
	}
	if _, err := b.Claims(ctx, c, 10); err != nil {
		return err
	}
	if err := b.Exec(ctx, "ANALYZE queue"); err != nil {
		return err
	}
	ours, plain, err := decide(ctx, b, 2*n)
	if err != nil {
		return err
	}
	b.Ratio("claim of 100 without HTTP", ours, plain, "ms", "a statement that only leases tasks", "no target", true)
	empty, err := b.Claims(ctx, c, n)
	if err != nil {
		return err
	}
	if err := fillTable(ctx, b); err != nil {
		return err
	}
	if _, err := b.Claims(ctx, c, 10); err != nil {
		return err
	}
	full, err := b.Claims(ctx, c, n)
	if err != nil {
		return err
	}
	b.AtMost(1.5, fmt.Sprintf("claim of 100 with %d pending, %d retries not due, %d finished", b.Rows/10, b.Rows/10, b.Rows), full, empty, "ms", "an almost empty table")
	return nil
}

// asked returns the 99th percentile of the response time of the statistics, in milliseconds, while rate messages per second are submitted.
func asked(ctx context.Context, b *measure.Bench, rate float64) (float64, error) {
	c := b.Client(measure.Connections + 1)
	loading, enough := context.WithCancel(ctx)
	defer enough()
	loaded := make(chan error, 1)
	go func() {
		_, err := measure.OpenLoop(loading, measure.Connections, rate, b.Time, func() error { return c.Call("POST", measure.SendPath, measure.SendBody(), nil) })
		loaded <- err
	}()
	var took []time.Duration
	for end := time.Now().Add(b.Time * 9 / 10); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		if err := c.Call("GET", "/api/v1/admin/task-statistics", "", nil); err != nil {
			enough()
			return 0, errors.Join(err, <-loaded)
		}
		took = append(took, time.Since(began))
	}
	enough()
	return measure.Millis(measure.Quantile(took, 0.99)), <-loaded
}

// StatisticsTimes measures exact counts of a full table under load, and how much counting slows down submissions.
func StatisticsTimes(ctx context.Context, b *measure.Bench) error {
	const rate = 4000
	if err := fillTable(ctx, b); err != nil {
		return err
	}
	var same bool
	const isSame = "SELECT count(*) = (SELECT sum(success) FROM task_totals) FROM report_logs WHERE outcome = 2" // outcome 2 is SUCCESS
	if err := b.DB.QueryRow(ctx, isSame).Scan(&same); err != nil {
		return err
	}
	if !same {
		return errors.New("the counts differ from the rows")
	}
	full, err := asked(ctx, b, rate)
	if err != nil {
		return err
	}
	if err := b.Empty(ctx); err != nil {
		return err
	}
	empty, err := asked(ctx, b, rate)
	if err != nil {
		return err
	}
	b.AtMost(2, fmt.Sprintf("task-statistics with %d tasks, p99 beside %d submits/s", b.Rows*12/10, rate), full, empty, "ms", "an empty table")
	b.Add(measure.Figure{Name: "the same", Value: measure.Show(full, "ms"), Target: "<= 5 ms", Met: full <= 5})

	c := b.Client(measure.Connections)
	var counted, uncounted []float64
	for range b.Rounds {
		for _, on := range []bool{true, false} {
			verb := map[bool]string{true: "ENABLE", false: "DISABLE"}[on]
			if err := errors.Join(b.Empty(ctx), b.Exec(ctx, "ALTER TABLE queue "+verb+" TRIGGER queue_facts_inserted")); err != nil {
				return err
			}
			rate, err := measure.ClosedLoop(ctx, measure.Connections, b.Time, func(int) error { return c.Call("POST", measure.SendPath, measure.SendBody(), nil) })
			if err != nil {
				return err
			}
			if on {
				counted = append(counted, rate)
			} else {
				uncounted = append(uncounted, rate)
			}
		}
	}
	if err := b.Exec(ctx, "ALTER TABLE queue ENABLE TRIGGER queue_facts_inserted"); err != nil {
		return err
	}
	b.AtLeast(0.9, "single submit, counted", measure.Median(counted), measure.Median(uncounted), "/s", "not counted")
	return b.Empty(ctx)
}

// claimsOfWaiting submits batches, and returns the median duration of a claim of one batch.
func claimsOfWaiting(ctx context.Context, b *measure.Bench, c *measure.Client) (float64, error) {
	const batches = 50
	for range batches {
		if err := c.Call("POST", "/api/v1/sms/send-batch", measure.LifeBody(measure.LifeSize), nil); err != nil {
			return 0, err
		}
	}
	return b.Claims(ctx, c, batches)
}

// SteadyLoad runs half of the peak load for a long time and compares the rates at its start and at its end.
func SteadyLoad(ctx context.Context, b *measure.Bench) error {
	c := b.Client(measure.LifeCallers)
	if err := b.Empty(ctx); err != nil {
		return err
	}
	// The peak is measured only after settle: in the first seconds on an empty table it is too high, because vacuum and checkpoints have not started.
	settle := min(30*time.Second, b.Steady/4)
	var peak float64
	for range 2 {
		var err error
		if peak, err = measure.ClosedLoop(ctx, measure.LifeCallers, settle, func(i int) error { return measure.Live(c, fmt.Sprint("app-", i)) }); err != nil {
			return err
		}
	}
	if err := b.Empty(ctx); err != nil {
		return err
	}
	if _, err := claimsOfWaiting(ctx, b, c); err != nil { // not measured: opens the connections and prepares the plans
		return err
	}
	if err := b.Empty(ctx); err != nil {
		return err
	}
	claimBefore, err := claimsOfWaiting(ctx, b, c)
	if err != nil {
		return err
	}
	if err := b.Empty(ctx); err != nil {
		return err
	}
	// The first and the last part of the time are compared, both at half the peak load. Then the peak is measured again.
	part := min(3*time.Minute, b.Steady/4)
	rates := []float64{}
	var worst float64
	for _, d := range []time.Duration{part, b.Steady - 2*part, part} {
		began := time.Now()
		took, err := measure.OpenLoop(ctx, measure.LifeCallers, peak/2, d, func() error { return measure.Live(c, "app") })
		if err != nil {
			return err
		}
		rates = append(rates, float64(len(took)*measure.LifeSize)/time.Since(began).Seconds())
		now, _ := b.Memory()
		worst = max(worst, now)
	}
	claimAfter, err := claimsOfWaiting(ctx, b, c)
	if err != nil {
		return err
	}
	after, err := measure.ClosedLoop(ctx, measure.LifeCallers, settle, func(i int) error { return measure.Live(c, fmt.Sprint("app-", i)) })
	if err != nil {
		return err
	}
	_, most := b.Memory()
	var dead, live int64
	// Each task has one row in messages. A waiting or leased task also has a row in queue.
	if err := b.DB.QueryRow(ctx, `SELECT sum(n_dead_tup)::bigint, sum(n_live_tup) FILTER (WHERE relname <> 'queue')::bigint
		FROM pg_stat_user_tables
		WHERE relname = 'queue' OR relid IN (SELECT relid FROM pg_partition_tree('messages'))`).Scan(&dead, &live); err != nil {
		return err
	}
	load := fmt.Sprintf("%s at half the peak", b.Steady)
	b.AtLeast(0.9, load+": the last part", rates[2], rates[0], "tasks/s", "the first part")
	b.AtMost(1.2, "a claim of 100 after "+load, claimAfter, claimBefore, "ms", "on an empty queue")
	b.AtLeast(0.9, "the peak after "+load, after*measure.LifeSize, peak*measure.LifeSize, "tasks/s", "the peak before")
	b.Add(measure.Figure{
		Name: "dead rows of tasks after " + load, Value: fmt.Sprint(dead), Compared: fmt.Sprint(live, " live ones"), Target: "<= 0.25 of the live ones",
		Met: float64(dead) <= 0.25*float64(live)+10_000,
	})
	b.Add(measure.Figure{Name: "memory of the server", Value: fmt.Sprintf("%.0f MiB, at most %.0f", worst, most), Target: "<= 150 MiB", Met: most <= 150})
	return b.Empty(ctx)
}
