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

// The oldest waiting task is the one that has been due longest, wherever it stands in the order.
func TestTheOldestWaitingTaskIsFoundWhereverItIs(t *testing.T) {
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
				t.Errorf("%v s when the oldest is gone", age)
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

// The statistics are exact after any change of waiting tasks, even by hand, and before, while and after facts are folded.
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

// logged computes the figures of senders from the rows of leases and reports. A report after the recovery counts from the recovery.
const logged = `
	SELECT s.sender_no, (SELECT count(*) FROM send_logs l WHERE l.app_id = s.sender_no) AS attempts,
		count(r) FILTER (WHERE r.effect = 'success') AS succeeded, count(r) FILTER (WHERE r.effect <> 'success') AS failed,
		coalesce(sum(extract(epoch FROM r.created_at - coalesce(r.leased_at, v.created_at)) * 1000), 0) AS response_ms,
		max(r.created_at) FILTER (WHERE r.effect = 'success') AS sent_at,
		greatest((SELECT max(l.created_at) FROM send_logs l WHERE l.app_id = s.sender_no), max(r.created_at)) AS seen_at
	FROM senders s
	LEFT JOIN report_logs r ON r.app_id = s.sender_no AND r.event = 'reported' AND r.effect NOT IN ('ignored', 'refused')
	LEFT JOIN report_logs v ON v.task_id = r.task_id AND v.lease_id = r.lease_id AND v.event = 'recovered'
	GROUP BY s.sender_no`

// Whatever happens to tasks, and whenever facts are folded, the statistics equal the rows of tasks, and the figures of senders those of
// leases and reports. Sums of milliseconds are rounded once for each report here.
func TestS4_3_FiguresOfSendersEqualTheLogs(t *testing.T) {
	b := apptest.New(t)
	seed := time.Now().UnixNano()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	headers := [][]string{nil, b.AddCompany("acme", 1)}
	apps := []string{"a", "b", "c"}
	type held struct {
		api.ClaimedTask
		app string
	}
	var leases []held // also those that have ended
	one := func() held { return leases[random.IntN(len(leases))] }
	may := func(a apptest.Answer) {
		t.Helper()
		if a.Status != 200 && a.Status != 409 { // 409: the task is in another state
			t.Fatal(a.Raw)
		}
	}
	did := map[string]int{}
	steps := []struct {
		name string
		do   func()
	}{
		{"submit", func() { b.SubmitMany("x", 1+random.IntN(6), nil, headers[random.IntN(len(headers))]...) }},
		{"claim", func() {
			app := apps[random.IntN(len(apps))]
			for _, task := range b.Take(app, 1+random.IntN(8)) {
				leases = append(leases, held{task, app})
			}
		}},
		{"report", func() {
			l := one()
			may(b.Call("POST", "/api/v1/sms/report", apptest.ReportBody(l.TaskID, l.app, 2+random.IntN(2), apptest.Report{"should_retry": random.IntN(2) == 0})))
		}},
		{"report as somebody else", func() { may(b.Call("POST", "/api/v1/sms/report", apptest.ReportBody(one().TaskID, "d", 2, nil))) }},
		{"report a batch", func() {
			reports := []apptest.Report{}
			for range 1 + random.IntN(9) {
				l := one()
				reports = append(reports, apptest.ReportBody(l.TaskID, l.app, 2, apptest.Report{"lease_id": l.LeaseID}))
			}
			b.Expect(200, "", "POST", "/api/v1/sms/report-batch", map[string]any{"reports": reports})
		}},
		{"release", func() {
			l := one()
			if _, err := b.App.Tasks.Release(t.Context(), l.app, []queue.Unused{{TaskID: l.TaskID, LeaseID: l.LeaseID, Tried: random.IntN(2) == 0}}); err != nil {
				t.Fatal(err)
			}
		}},
		{"recover", func() {
			b.Exec("UPDATE queue SET lease_until = now() - interval '1 second' WHERE lease_until IS NOT NULL AND hashtext(task_id || $1) % 3 = 0", strconv.Itoa(random.Int()))
			b.Recover()
			b.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()") // which changes no figure
		}},
		{"cancel", func() { may(b.Call("POST", "/api/v1/sms/task/"+one().TaskID+"/cancel", nil)) }},
		{"expire", func() {
			b.Exec("UPDATE queue SET expires_at = now() WHERE lease_until IS NULL AND hashtext(task_id || $1) % 9 = 0", strconv.Itoa(random.Int()))
			if _, err := b.App.Tasks.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"fold", func() {
			if _, err := b.App.History.Fold(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, app := range apps {
		b.SubmitMany("x", 5, nil)
		for _, task := range b.Take(app, 5) {
			leases = append(leases, held{task, app})
		}
	}
	b.ExpireLeases()
	b.Recover()
	b.Report(leases[0].TaskID, leases[0].app, 2, nil) // after the recovery
	for range 300 {
		step := steps[random.IntN(len(steps))]
		step.do()
		did[step.name]++
		if got, want := statistics(b), counted(b); got != want {
			t.Fatalf("after %s: %+v, the rows say %+v", step.name, got, want)
		}
		if wrong := apptest.Scan[string](b, `
			SELECT coalesce(string_agg(u::text || ' and not ' || l::text, E'\n'), '') FROM (`+logged+`) l
			JOIN senders s ON s.sender_no = l.sender_no
			JOIN sender_totals u ON u.sender_id = s.id
			WHERE (u.attempts, u.succeeded, u.failed) <> (l.attempts, l.succeeded, l.failed)
				OR abs(u.response_ms - l.response_ms) > u.succeeded + u.failed
				OR u.seen_at IS DISTINCT FROM l.seen_at OR u.sent_at IS DISTINCT FROM l.sent_at`); wrong != "" {
			t.Fatalf("after %s: %s", step.name, wrong)
		}
	}
	t.Log(did)
}
