package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// takeToStart claims tasks that must be started within the given number of seconds.
func takeToStart(b *apptest.Bundle, appID string, limit, seconds int) []api.ClaimedTask {
	b.T.Helper()
	return apptest.Decode[[]api.ClaimedTask](b.T, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim",
		map[string]any{"app_id": appID, "limit": limit, "start_seconds": seconds}))
}

// start reports that an app starts to send tasks.
func start(b *apptest.Bundle, appID string, tasks ...api.ClaimedTask) api.StartedBatch {
	b.T.Helper()
	leases := make([]map[string]any, len(tasks))
	for i, task := range tasks {
		leases[i] = map[string]any{"task_id": task.TaskID, "lease_id": task.LeaseID}
	}
	return apptest.Decode[api.StartedBatch](b.T, b.Expect(200, "", "POST", "/api/v1/sms/start", map[string]any{"app_id": appID, "leases": leases}))
}

// lasts returns the stored duration of a lease, from its claim to its end.
func lasts(b *apptest.Bundle, id string) time.Duration {
	b.T.Helper()
	seconds := apptest.Scan[float64](b, "SELECT extract(epoch FROM lease_until - updated_at)::float8 FROM queue WHERE task_id = '"+id+"'")
	return time.Duration(seconds * float64(time.Second))
}

// S4.6: a task that was claimed but not started returns to the queue soon. The task was not sent, so no attempt is counted, and on_unclear has no effect. A
// task that was started returns to the queue when its lease ends, and its outcome is unknown.
func TestExpiredLeaseIsUnclearOnlyIfTheTaskWasStarted(t *testing.T) {
	for onUnclear, effect := range map[string]string{"fail": "recovered unclear", "retry": "recovered retry"} {
		t.Run(onUnclear, func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "a", "on_unclear": onUnclear, "balance": 10, "limits": map[string]any{"per_day": 9}})
			b.SubmitMany("x", 2, nil)
			tasks := takeToStart(b, "a", 2, 600)
			begun, idle := tasks[0], tasks[1]
			if d := lasts(b, idle.TaskID); d != 10*time.Minute {
				t.Errorf("a lease that is not started lasts %s", d)
			}
			if until := b.Explain(idle.TaskID).StartUntil; until == nil || !until.Equal(idle.LeaseUntil) {
				t.Errorf("explained as to be started until %v, want %s", until, idle.LeaseUntil)
			}
			got := start(b, "a", begun)
			if got.Started != 1 || got.Refused != 0 || got.Items[0].LeaseUntil == nil || lasts(b, begun.TaskID) != apptest.DefaultRules.ProcessingTimeout {
				t.Fatalf("started %+v, the lease lasts %s", got, lasts(b, begun.TaskID))
			}
			if !got.Items[0].LeaseUntil.Equal(*b.Task(begun.TaskID).LeaseUntil) {
				t.Errorf("the lease expires at %s, the task shows %s", got.Items[0].LeaseUntil, b.Task(begun.TaskID).LeaseUntil)
			}
			if until := b.Explain(begun.TaskID).StartUntil; until != nil {
				t.Errorf("a started task is explained as to be started until %s", until)
			}
			b.Exec("UPDATE queue SET lease_until = now(), start_until = now() WHERE start_until = lease_until") // moves the time by ten minutes
			if n := b.Recover(); n != 1 {
				t.Errorf("recovered %d leases, want only the lease that was not started", n)
			}
			b.ExpectEffects(idle.TaskID, "recovered untried")
			if task := b.Task(idle.TaskID); task.Status != api.TaskPending || task.RetryCount != 0 || task.Result != nil {
				t.Errorf("%+v", task)
			}
			if s := b.GetSender("a"); *s.Balance != 9 || s.Used.Day != 1 {
				t.Errorf("the sender was charged %+v", s)
			}
			ledger(b, "a")
			refused := start(b, "a", idle)
			if refused.Refused != 1 || refused.Items[0].Error.Reason != "lease.not_held" || refused.Items[0].LeaseUntil != nil {
				t.Errorf("a lease that is over was started: %+v", refused)
			}
			b.ExpireLeases()
			if n := b.Recover(); n != 1 {
				t.Errorf("recovered %d leases, want only the lease that was started", n)
			}
			b.ExpectEffects(begun.TaskID, effect)
			if s := b.GetSender("a"); *s.Balance != 9 {
				t.Errorf("the balance after an attempt that was possibly sent is %d", *s.Balance)
			}
			again := b.Take("b", 2)
			if i := slices.IndexFunc(again, func(c api.ClaimedTask) bool { return c.TaskID == idle.TaskID }); i < 0 || again[i].Attempt != 1 {
				t.Errorf("claimed again as %+v", again)
			}
			events := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+idle.TaskID+"/timeline", nil))
			if e := events[2]; e.Event != api.EventRecovered || *e.Effect != api.EffectUntried || *e.AppID != "a" || *e.LeaseID != idle.LeaseID {
				t.Errorf("the timeline says %+v", e)
			}
		})
	}
}

// A sender that does not use starts keeps its leases for their full time.
func TestLeaseOfASenderThatNeverReportsAStartLastsItsFullTime(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "short", "lease_seconds": 60})
	b.SubmitMany("x", 3, nil)
	plain := b.Take("plain", 1)[0]
	for range 2 {
		if got := start(b, "plain", plain); got.Started != 1 || !got.Items[0].LeaseUntil.Equal(plain.LeaseUntil) {
			t.Errorf("%+v, want the lease until %s", got, plain.LeaseUntil)
		}
	}
	short := takeToStart(b, "short", 1, 600)[0] // no longer than the lease time of the sender
	if d := lasts(b, short.TaskID); d != time.Minute {
		t.Errorf("lasts %s", d)
	}
	if got := start(b, "short", short); got.Started != 1 || lasts(b, short.TaskID) != time.Minute {
		t.Errorf("%+v, lasts %s", got, lasts(b, short.TaskID))
	}
	idle := takeToStart(b, "short", 1, 600)[0]
	b.ExpireLeases()
	for _, got := range []api.StartedBatch{start(b, "plain", plain), start(b, "short", short, idle)} { // the leases have ended, although no sweep has run
		if got.Started != 0 {
			t.Errorf("expired leases were started: %+v", got)
		}
	}
	if n := b.Recover(); n != 3 {
		t.Errorf("recovered %d leases", n)
	}
	b.ExpectEffects(plain.TaskID, "recovered retry")
	b.ExpectEffects(short.TaskID, "recovered retry")
	b.ExpectEffects(idle.TaskID, "recovered untried")
}

func TestOnlyTheHolderStartsALease(t *testing.T) {
	b := apptest.New(t)
	bound := b.AddUser("bound", "send", map[string]any{"app_id": "mine"})
	b.AddCompany("other", 1)
	b.AddSender(map[string]any{"sender_no": "theirs"})
	b.AddRouteWith(map[string]any{"company_no": "other", "sender_no": "theirs"})
	b.AddSender(map[string]any{"sender_no": "mine"})
	b.SubmitMany("x", 1, nil)
	task := takeToStart(b, "mine", 1, 60)[0]
	until := b.Task(task.TaskID).LeaseUntil
	wrong := task
	wrong.LeaseID++
	unknown := task
	unknown.TaskID = "task_20231201_nobody"
	for _, got := range []api.StartedBatch{start(b, "theirs", task), start(b, "mine", wrong), start(b, "mine", unknown)} {
		if got.Started != 0 || got.Refused != 1 || got.Items[0].Code != 409 || got.Items[0].Error.Reason != "lease.not_held" {
			t.Errorf("%+v", got)
		}
	}
	body := map[string]any{"app_id": "theirs", "leases": []any{map[string]any{"task_id": task.TaskID, "lease_id": task.LeaseID}}}
	b.Expect(403, "auth.other_app", "POST", "/api/v1/sms/start", body, bound...)
	if now := b.Task(task.TaskID).LeaseUntil; !now.Equal(*until) {
		t.Errorf("the lease runs until %s, want %s", now, until)
	}
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/start", map[string]any{"app_id": "mine", "leases": []any{}})
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/start", map[string]any{"app_id": "mine", "leases": []any{map[string]any{"task_id": task.TaskID}}})
	b.Expect(422, "request.invalid", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "mine", "start_seconds": 0})
}

// Each lease of a batch has its own outcome, in the order of the request. A repeated lease has the same outcome.
func TestStartBatchReturnsOneOutcomePerLease(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 40, nil)
	tasks := takeToStart(b, "a", 40, 60)
	slices.Reverse(tasks)
	b.Report(tasks[3].TaskID, "a", 2, apptest.Report{"lease_id": tasks[3].LeaseID}) // reported without a start
	b.ExpectEffects(tasks[3].TaskID, "reported success")
	got := start(b, "a", append(tasks, tasks[0], tasks[3])...)
	if got.Started != 40 || got.Refused != 2 || len(got.Items) != 42 {
		t.Fatalf("started %d, refused %d of %d", got.Started, got.Refused, len(got.Items))
	}
	for i, task := range append(tasks, tasks[0], tasks[3]) {
		item, want := got.Items[i], 200
		if task.TaskID == tasks[3].TaskID {
			want = 409
		}
		if item.TaskID != task.TaskID || item.LeaseID != task.LeaseID || item.Code != want {
			t.Errorf("item %d: %+v, want %d of %s", i, item, want, task.TaskID)
		}
	}
	b.Exec("UPDATE senders SET lease_seconds = 7200 WHERE sender_no = 'a'")
	if again := start(b, "a", tasks[0]); again.Started != 1 || !again.Items[0].LeaseUntil.Equal(*got.Items[0].LeaseUntil) {
		t.Errorf("a second start extended the lease: %+v", again)
	}
}

// A task that crashes each sender waits longer after each claim. Meanwhile the other tasks are sent.
func TestRepeatedlyUnstartedTaskWaitsLonger(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	for i, most := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
		b.Exec("UPDATE queue SET due_at = now() - interval '1 second'")
		if len(takeToStart(b, fmt.Sprint("a", i), 1, 60)) != 1 {
			t.Fatalf("round %d: not claimed", i)
		}
		b.ExpireLeases()
		b.Recover()
		wait := time.Duration(apptest.Scan[float64](b, "SELECT extract(epoch FROM due_at - updated_at)::float8 FROM queue") * float64(time.Second))
		if wait != most {
			t.Errorf("round %d: due after %s, want %s", i, wait, most)
		}
	}
	if task := b.Task(id); task.RetryCount != 0 {
		t.Errorf("%+v", task)
	}
}

// A sender must start a task before it sends the task. If it sends without a start, its SUCCESS still counts, so that the message is not sent twice.
func TestSuccessReportWithoutAStartSettlesARecoveredTask(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	task := takeToStart(b, "a", 1, 60)[0]
	b.ExpireLeases()
	b.Recover()
	b.Report(id, "a", 2, apptest.Report{"lease_id": task.LeaseID})
	b.ExpectEffects(id, "recovered untried", "reported success")
	if got := b.Task(id).Status; got != api.TaskSuccess {
		t.Errorf("status %d", got)
	}
}

// If a start waits for the sweep, the start finds that the lease has ended. The sweep does not wait for a start, and skips its task.
func TestStartAfterAConcurrentSweepIsRefused(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 2, nil)
	tasks := takeToStart(b, "a", 2, 3600)
	sweep, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Rollback(t.Context())
	exec(t, sweep, "SELECT FROM queue WHERE task_id = '"+tasks[0].TaskID+"' FOR UPDATE")
	answer := make(chan api.StartedBatch, 1)
	go func() {
		defer close(answer) // runs also after a fatal failure, which ends only this goroutine
		answer <- start(b, "a", tasks[0])
	}()
	b.AwaitLockWait()
	exec(t, sweep, "UPDATE queue SET processing_app_id = NULL, lease_until = NULL, start_until = NULL, failed_app_id = 'a' WHERE task_id = '"+tasks[0].TaskID+"'")
	if err := sweep.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.Started != 0 {
		t.Errorf("a lease that was taken back is started: %+v", got)
	}

	b.Exec("UPDATE queue SET lease_until = now() - interval '1 second', start_until = now() - interval '1 second' WHERE task_id = $1", tasks[1].TaskID)
	starting, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer starting.Rollback(t.Context())
	exec(t, starting, "UPDATE queue SET lease_until = now() + interval '1 hour', start_until = NULL WHERE task_id = '"+tasks[1].TaskID+"'")
	if n := b.Recover(); n != 0 {
		t.Errorf("the sweep recovered %d leases that are being started", n)
	}
	if err := starting.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Recover(); n != 0 {
		t.Errorf("the sweep recovered %d started leases", n)
	}
	b.ExpectEffects(tasks[1].TaskID)
}

// Leases expire while senders start them, other senders claim tasks, and two sweeps recover tasks. Each lease is either started or recovered as untried. Only
// one sender is allowed to send the task.
func TestEachLeaseIsEitherStartedOrRecovered(t *testing.T) {
	b := apptest.New(t)
	const n = 200
	b.SubmitMany("x", n, nil)
	tasks := takeToStart(b, "a", n, 3600)
	// Some leases have ended, and some end after the test: a slow machine starts all others too late, and a fast one all in time.
	b.Exec(`UPDATE queue q SET lease_until = e.at, start_until = e.at
		FROM (SELECT task_id, clock_timestamp() + CASE row_number() OVER () % 10 WHEN 0 THEN interval '1 hour' WHEN 1 THEN interval '0' ELSE random() * interval '600 milliseconds' END AS at
			FROM queue) e
		WHERE e.task_id = q.task_id`)
	stop := make(chan struct{})
	var sweeps, starts sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := b.App.Queue.Recover(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var mu sync.Mutex
	begun := map[int64]bool{}
	for part := range slices.Chunk(tasks, n/4) {
		starts.Go(func() {
			for few := range slices.Chunk(part, 5) {
				got := start(b, "a", few...)
				mu.Lock()
				for _, item := range got.Items {
					begun[item.LeaseID] = item.Code == 200
				}
				mu.Unlock()
				time.Sleep(30 * time.Millisecond) // spreads the starts over the ends of the leases
			}
		})
	}
	starts.Wait()
	apptest.Eventually(t, "all other leases come back", func() bool { return b.Count("SELECT count(*) FROM queue WHERE start_until = lease_until") == 0 })
	close(stop)
	sweeps.Wait()
	var both, neither []string
	started := 0
	for _, task := range tasks {
		isBack := strings.Contains(strings.Join(b.Effects(task.TaskID), ","), "recovered untried")
		switch {
		case begun[task.LeaseID] && isBack:
			both = append(both, task.TaskID)
		case !begun[task.LeaseID] && !isBack:
			neither = append(neither, task.TaskID)
		case begun[task.LeaseID]:
			started++
		}
	}
	if len(both) > 0 || len(neither) > 0 {
		t.Errorf("%d leases were started and recovered, %d were neither started nor recovered: %v %v", len(both), len(neither), both, neither)
	}
	if started == 0 || started == n {
		t.Errorf("%d of %d leases were started: the test shows nothing", started, n)
	}
	held, waiting := b.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL"), b.Count("SELECT count(*) FROM queue WHERE lease_until IS NULL")
	if held != started || waiting != n-started {
		t.Errorf("%d tasks are held and %d wait, %d were started", held, waiting, started)
	}
}

// A task that was returned twice without an attempt waits for a few seconds. Nobody scheduled it, so the explanation is a later try.
func TestAReturnedTaskIsExplainedAsToBeTriedAgain(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("x")
	for _, no := range []string{"a", "b"} {
		b.AddSender(map[string]any{"sender_no": no})
	}
	for _, no := range []string{"a", "b"} {
		if got := takeToStart(b, no, 1, 600); len(got) != 1 {
			t.Fatalf("%s claimed %d", no, len(got))
		}
		b.Exec("UPDATE queue SET lease_until = now(), start_until = now() WHERE start_until = lease_until")
		b.Recover()
	}
	if e := b.Explain(id); e.Reason != api.BecauseRetryLater || e.IsDue {
		t.Errorf("%s: %s", e.Reason, e.Summary)
	}
}
