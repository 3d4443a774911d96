package queue_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func statistics(b *apptest.Bundle) api.Statistics {
	b.T.Helper()
	return apptest.Decode[api.Statistics](b.T, b.Expect(200, "", "GET", "/api/v1/admin/task-statistics", nil))
}

// counted computes the statistics from all rows of tasks.
func counted(b *apptest.Bundle) (s api.Statistics) {
	b.T.Helper()
	if err := b.DB.QueryRow(b.T.Context(), `SELECT count(*) FILTER (WHERE status = 0 AND retry_count = 0),
		count(*) FILTER (WHERE status = 0 AND retry_count > 0), count(*) FILTER (WHERE status = 1),
		count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3) FROM tasks`).Scan(
		&s.PendingNewTasks, &s.PendingRetryTasks, &s.ProcessingTasks, &s.SuccessTasks, &s.FailedTasks); err != nil {
		b.T.Fatal(err)
	}
	return s
}

// The oldest waiting task is the task that has been due longest, at any position in the order.
func TestMetricsShowTheLongestWaitOfAnyTask(t *testing.T) {
	for name, waiting := range map[string]string{
		"a retry behind new tasks of priority 0": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 0, 1, 1, 0, now() - interval '1 hour')`,
		"a task with a later rank": `
			('new', 1, 0, 0, 0, 1, now() - interval '1 minute'), ('old', 1, 0, 0, 0, 9, now() - interval '1 hour')`,
		"a task of another priority": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
		"a task in another pool": `
			('new', 1, 0, 0, 0, 0, now() - interval '1 minute'), ('old', 77, 0, 0, 0, 0, now() - interval '1 hour')`,
		"a task that is not queued yet, in another pool": `
			('new', 1, 0, NULL, 0, NULL, now() - interval '1 minute'), ('later', 76, 0, NULL, 0, NULL, now() + interval '1 hour'),
			('old', 77, 0, NULL, 0, NULL, now() - interval '1 hour')`,
		"no scheduled task": `
			('later', 1, 0, NULL, 0, NULL, now() + interval '2 hours'), ('old', 1, 5, 160, 0, 0, now() - interval '1 hour')`,
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			if age := oldest(b); age != 0 {
				t.Errorf("%v s without a task", age)
			}
			b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, created_at, pool_id, priority, lane, retry_count, rank, due_at)
				SELECT v.task_id, '', '', 'x', now() - interval '1 day', v.pool_id, v.priority, v.lane::smallint, v.retry_count, v.rank::double precision, v.due_at
				FROM (VALUES ` + waiting + `) AS v (task_id, pool_id, priority, lane, retry_count, rank, due_at)`)
			if age := oldest(b); age < 3600 || age > 4200 {
				t.Errorf("%v s, want an hour", age)
			}
			b.Exec("UPDATE tasks SET status = 4 WHERE task_id = 'old'")
			if age := oldest(b); age > 1200 {
				t.Errorf("%v s after the oldest task was deleted", age)
			}
		})
	}
}

// oldest reads the age of the oldest waiting task from /metrics.
func oldest(b *apptest.Bundle) (seconds float64) {
	b.T.Helper()
	match := regexp.MustCompile(`(?m)^lksms_queue_oldest_pending_seconds (.+)$`).FindStringSubmatch(b.Expect(200, "", "GET", "/metrics", nil).Raw)
	if match == nil {
		b.T.Fatal("no age in the metrics")
	}
	seconds, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.T.Fatal(err)
	}
	return seconds
}

// The statistics are exact after every change of waiting tasks, including changes by hand. They are exact before, during and after facts are folded.
func TestS0_13_StatisticsEqualTheRows(t *testing.T) {
	b := apptest.New(t)
	fold := func() {
		if _, err := b.App.History.Fold(b.T.Context()); err != nil {
			b.T.Error(err)
		}
	}
	same := func(what string) {
		t.Helper()
		if got, want := statistics(b), counted(b); got != want {
			t.Errorf("after %s: %+v, the rows say %+v", what, got, want)
		}
	}
	for _, sql := range []string{
		"INSERT INTO tasks (task_id, phone_number, recipient, content) SELECT 't' || i, '', '', 'x' FROM generate_series(1, 100) i",
		"UPDATE tasks SET status = 2 WHERE task_id < 't3'",
		"UPDATE tasks SET content = 'y'",
		"UPDATE tasks SET retry_count = 1, status = 0 WHERE task_id > 't8'",
		"DELETE FROM tasks WHERE task_id LIKE '%5' AND status = 0",
		"DELETE FROM tasks WHERE false",
	} {
		b.Exec(sql)
		same(sql)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 25 {
				b.Submit("x")
				for _, claimed := range b.Claim("app", 3) {
					b.Report(claimed.TaskID, "app", 2, apptest.Report{"lease_id": claimed.LeaseID})
				}
			}
		})
	}
	for range 3 {
		all.Go(func() {
			for range 50 {
				fold()
			}
		})
	}
	all.Wait()
	same("concurrent work")
	fold()
	fold()
	same("folding")
	if n := b.Count("SELECT count(*) FROM facts"); n != 0 {
		t.Errorf("%d facts are left after folding", n)
	}
	if sender, leases := b.GetSender("app"), b.Count("SELECT count(*) FROM send_logs"); sender.Attempts != int64(leases) || sender.TotalSent != int64(leases) {
		t.Errorf("%d attempts, %d sent, the rows say %d", sender.Attempts, sender.TotalSent, leases)
	}
}

// logged is a query that computes the figures of senders from the rows of leases and reports. If a report follows a recovery, its response time begins at the
// recovery.
const logged = `
	SELECT s.sender_no, (SELECT count(*) FROM send_logs l WHERE l.app_id = s.sender_no) AS attempts,
		count(r) FILTER (WHERE r.effect = 'success') AS succeeded, count(r) FILTER (WHERE r.effect <> 'success') AS failed,
		(SELECT count(*) FROM report_logs e WHERE e.app_id = s.sender_no AND e.event = 'recovered' AND e.effect <> 'untried') AS unreported,
		coalesce(sum(extract(epoch FROM r.created_at - coalesce(r.leased_at, v.created_at)) * 1000), 0) AS response_ms,
		max(r.created_at) FILTER (WHERE r.effect = 'success') AS sent_at,
		greatest((SELECT max(l.created_at) FROM send_logs l WHERE l.app_id = s.sender_no), max(r.created_at)) AS seen_at
	FROM senders s
	LEFT JOIN report_logs r ON r.app_id = s.sender_no AND r.event = 'reported' AND r.effect NOT IN ('ignored', 'refused')
	LEFT JOIN report_logs v ON v.task_id = r.task_id AND v.lease_id = r.lease_id AND v.event = 'recovered'
	GROUP BY s.sender_no`

// lease is a lease that a sender app received.
type lease struct {
	api.ClaimedTask
	app string
}

// randomWork is a server on which the tests run random operations on the tasks of two companies.
type randomWork struct {
	*apptest.Bundle
	random  *rand.Rand
	headers [][]string // authorization headers, by company
	apps    []string
	leases  []lease // includes ended leases
}

func newRandomWork(t *testing.T) *randomWork {
	t.Helper()
	b := apptest.New(t)
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	w := &randomWork{Bundle: b, random: rand.New(rand.NewPCG(uint64(seed), 0)), headers: [][]string{nil, b.AddCompany("acme", 1)}, apps: []string{"a", "b", "c"}}
	for _, app := range w.apps {
		b.SubmitMany("x", 5, nil)
		w.claim(app, 5)
	}
	b.ExpireLeases()
	b.Recover()
	b.Report(w.leases[0].TaskID, w.leases[0].app, 2, nil) // after the recovery
	return w
}

// randomLease returns a random lease, which can have ended.
func (w *randomWork) randomLease() lease { return w.leases[w.random.IntN(len(w.leases))] }

func (w *randomWork) claim(app string, limit int) {
	w.T.Helper()
	for _, task := range w.Take(app, limit) {
		w.leases = append(w.leases, lease{task, app})
	}
}

// expectDoneOrRefused fails the test unless a request succeeded or failed because of the state of the task.
func (w *randomWork) expectDoneOrRefused(a apptest.Answer) {
	w.T.Helper()
	if a.Status != 200 && a.Status != 409 {
		w.T.Fatal(a.Raw)
	}
}

type step struct {
	name string
	do   func()
}

// steps returns the possible operations.
func (w *randomWork) steps() []step {
	return []step{
		{"submit", func() { w.SubmitMany("x", 1+w.random.IntN(6), nil, w.headers[w.random.IntN(len(w.headers))]...) }},
		{"claim", func() {
			app := w.apps[w.random.IntN(len(w.apps))]
			w.claim(app, 1+w.random.IntN(8))
		}},
		{"report", func() {
			l := w.randomLease()
			w.expectDoneOrRefused(w.Call("POST", "/api/v1/sms/report", apptest.ReportBody(l.TaskID, l.app, 2+w.random.IntN(2), apptest.Report{"should_retry": w.random.IntN(2) == 0})))
		}},
		{"report as somebody else", func() {
			w.expectDoneOrRefused(w.Call("POST", "/api/v1/sms/report", apptest.ReportBody(w.randomLease().TaskID, "d", 2, nil)))
		}},
		{"report a batch", func() {
			reports := []apptest.Report{}
			for range 1 + w.random.IntN(9) {
				l := w.randomLease()
				reports = append(reports, apptest.ReportBody(l.TaskID, l.app, 2, apptest.Report{"lease_id": l.LeaseID}))
			}
			w.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": reports})
		}},
		{"release", func() {
			l := w.randomLease()
			if _, err := w.App.Queue.Release(w.T.Context(), l.app, []queue.Unused{{TaskID: l.TaskID, LeaseID: l.LeaseID, Tried: w.random.IntN(2) == 0}}); err != nil {
				w.T.Fatal(err)
			}
		}},
		{"recover", func() {
			w.Exec("UPDATE queue SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL AND hashtext(task_id || $1) % 3 = 0", strconv.Itoa(w.random.Int()))
			w.Recover()
			w.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()") // changes no figure
		}},
		{"cancel", func() {
			w.expectDoneOrRefused(w.Call("POST", "/api/v1/sms/task/"+w.randomLease().TaskID+"/cancel", nil))
		}},
		{"expire", func() {
			w.Exec("UPDATE queue SET expires_at = now() WHERE lease_until IS NULL AND hashtext(task_id || $1) % 9 = 0", strconv.Itoa(w.random.Int()))
			if _, err := w.App.Queue.Expire(w.T.Context()); err != nil {
				w.T.Fatal(err)
			}
		}},
		{"fold", func() {
			if _, err := w.App.History.Fold(w.T.Context()); err != nil {
				w.T.Fatal(err)
			}
		}},
	}
}

// expectFigures fails the test unless the statistics and the figures of senders equal the values computed from the rows.
func (w *randomWork) expectFigures(step string) {
	w.T.Helper()
	if got, want := statistics(w.Bundle), counted(w.Bundle); got != want {
		w.T.Fatalf("after %s: %+v, the rows say %+v", step, got, want)
	}
	if wrong := apptest.Scan[string](w.Bundle, `
		SELECT coalesce(string_agg(u::text || ' and not ' || l::text, E'\n'), '') FROM (`+logged+`) l
		JOIN senders s ON s.sender_no = l.sender_no
		JOIN sender_totals u ON u.sender_id = s.id
		WHERE (u.attempts, u.succeeded, u.failed, u.unreported) <> (l.attempts, l.succeeded, l.failed, l.unreported)
			OR abs(u.response_ms - l.response_ms) > u.succeeded + u.failed
			OR u.seen_at IS DISTINCT FROM l.seen_at OR u.sent_at IS DISTINCT FROM l.sent_at`); wrong != "" {
		w.T.Fatalf("after %s: %s", step, wrong)
	}
}

// After any sequence of operations and folds, the statistics equal the rows of tasks. The figures of senders equal the rows of leases and reports. In this
// computation, milliseconds are rounded once for each report.
func TestS4_3_FiguresOfSendersEqualTheLogs(t *testing.T) {
	w := newRandomWork(t)
	steps, did := w.steps(), map[string]int{}
	for range 300 {
		step := steps[w.random.IntN(len(steps))]
		step.do()
		did[step.name]++
		w.expectFigures(step.name)
	}
	t.Log(did)
}
