package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/testkit/apptest"
)

// originOf returns the origin of a request of a company.
func originOf(b *apptest.Bundle, company string) submit.Origin {
	b.T.Helper()
	return submit.Origin{User: "of " + company, CompanyID: apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = $1", company)}
}

func onSender(no, content string) submit.Submission {
	return submit.Submission{PhoneNumber: apptest.Phone, Content: content, Raw: []byte("{}"), MessageType: submit.Marketing, SenderNo: no}
}

// submitOn submits a message of a company that only the sender no is allowed to send. It returns the id of the task.
func submitOn(b *apptest.Bundle, company, no, content string) string {
	b.T.Helper()
	made, err := b.App.Submissions.Submit(b.T.Context(), onSender(no, content), originOf(b, company))
	if err != nil {
		b.T.Fatal(err)
	}
	return made.TaskID
}

func expectRefusedOn(b *apptest.Bundle, company, no string) {
	b.T.Helper()
	_, err := b.App.Submissions.Submit(b.T.Context(), onSender(no, "x"), originOf(b, company))
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Kind != fault.Invalid || refused.Fields[0].Name != "sender_no" {
		b.T.Errorf("%s on %s: %v", company, no, err)
	}
}

func takeTexts(b *apptest.Bundle, no string) (texts []string) {
	b.T.Helper()
	for _, task := range b.Take(no, 100) {
		texts = append(texts, task.Content)
	}
	slices.Sort(texts)
	return texts
}

func expectTaken(b *apptest.Bundle, no string, want ...string) {
	b.T.Helper()
	if got := takeTexts(b, no); !slices.Equal(got, want) {
		b.T.Errorf("%s took %v, want %v", no, got, want)
	}
}

// move runs the sweeps that move tasks to other pools.
func move(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Queue.Move(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	if _, err := b.App.Queue.Queue(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func TestOnlyTheNamedSenderReceivesATask(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	for _, no := range []string{"one", "other", "free"} {
		b.AddSender(map[string]any{"sender_no": no})
	}
	for _, no := range []string{"one", "other"} {
		b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": no, "message_type": "marketing"})
	}
	submitOn(b, "acme", "one", "a of one")
	submitOn(b, "acme", "free", "a of free")
	submitOn(b, "beta", "free", "b of free")
	expectTaken(b, "other")
	b.SubmitMany("shared", 1, nil)
	expectTaken(b, "free", "a of free", "b of free", "shared 0")
	expectTaken(b, "one", "a of one")
	if n := b.Count("SELECT count(*) FROM pools WHERE sender_id IS NOT NULL"); n != 3 {
		t.Errorf("%d pools of one sender", n)
	}
	id := submitOn(b, "acme", "one", "again")
	if n := b.Count("SELECT count(*) FROM pools WHERE sender_id IS NOT NULL"); n != 3 {
		t.Errorf("%d pools of one sender", n)
	}
	if e := b.Explain(id); e.Reason != api.BecauseQueued || len(e.Senders) != 1 || e.Senders[0].SenderNo != "one" {
		t.Errorf("%+v", e)
	}
}

// A company can name a sender of its own routes, or a shared sender without routes. It cannot name a sender that is reserved for another company.
func TestCompanyCannotNameTheSenderOfAnotherCompany(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	for _, no := range []string{"of-acme", "of-beta", "free", "retired"} {
		b.AddSender(map[string]any{"sender_no": no})
	}
	b.AddSender(map[string]any{"sender_no": "kept", "is_shared": false})
	b.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "of-acme", "message_type": "verification"})
	beta := b.AddRouteWith(map[string]any{"company_no": "beta", "sender_no": "of-beta", "message_type": "marketing"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/retired", map[string]any{"status": "retired"})
	for _, no := range []string{"of-beta", "kept", "mail", "retired", "unknown"} {
		expectRefusedOn(b, "acme", no)
	}
	submitOn(b, "acme", "of-acme", "x")
	submitOn(b, "acme", "free", "x")
	submitOn(b, "beta", "free", "x")
	submitOn(b, "beta", "of-beta", "x")
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/admin/routes/", beta.RouteNo), map[string]any{"status": "off"})
	expectRefusedOn(b, "beta", "of-beta")
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", beta.RouteNo), nil)
	submitOn(b, "acme", "of-beta", "x") // the sender is shared again
	b.AddRouteWith(map[string]any{"company_no": "beta", "sender_no": "free", "message_type": "marketing"})
	expectRefusedOn(b, "acme", "free")
	submitOn(b, "beta", "free", "x")
}

// A task that is bound to a sender stays bound to it after route changes, retries and expired leases.
func TestTaskOfOneSenderStaysBoundAfterRouteChangesAndRetries(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.AddSender(map[string]any{"sender_no": "other"})
	route := b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "one", "message_type": "marketing"})
	for i := range 5 {
		submitOn(b, "acme", "one", fmt.Sprint(i))
	}
	tasks := b.Take("one", 4)
	b.Report(tasks[0].TaskID, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), nil)
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "other", "message_type": "marketing"})
	b.Report(tasks[1].TaskID, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if n, err := b.App.Queue.Release(t.Context(), "one", []queue.Unused{{TaskID: tasks[2].TaskID, LeaseID: tasks[2].LeaseID, Tried: true}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	b.ExpireLeases()
	b.Recover()
	move(b)
	expectTaken(b, "other")
	if n := b.Count("SELECT count(DISTINCT pool_id) FROM queue"); n != 1 {
		t.Errorf("the tasks wait in %d pools", n)
	}
	expectTaken(b, "one", "0", "1", "2", "3", "4")
}

func TestTaskOfOneSenderWaitsWhileTheSenderIsOff(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.AddSender(map[string]any{"sender_no": "other"})
	id := submitOn(b, "default", "one", "x")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"status": "off"})
	submitOn(b, "default", "one", "y")
	move(b)
	expectTaken(b, "one")
	expectTaken(b, "other")
	if e := b.Explain(id); e.Reason != api.BecauseNoSender || len(e.Senders) != 1 || *e.Senders[0].Why != api.WhyOff {
		t.Errorf("%+v", e)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"status": "on"})
	expectTaken(b, "one", "x", "y")
}

func TestATaskWhoseSenderServesOnlyAnotherCompanyShowsWhyItWaits(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "one"})
	id := submitOn(b, "default", "one", "x")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"is_shared": false})
	route := b.AddRoute("acme", "one", 1)
	move(b)
	expectTaken(b, "one")
	if e := b.Explain(id); e.Reason != api.BecauseNoSender || len(e.Senders) != 1 || e.Senders[0].Why == nil || *e.Senders[0].Why != api.WhyNotServing {
		t.Errorf("%+v", e)
	}
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"is_shared": true})
	if e := b.Explain(id); len(e.Senders) != 1 || !e.Senders[0].CanTake {
		t.Errorf("%+v", e)
	}
	expectTaken(b, "one", "x")
}

// The internal route of a pool of one sender is hidden: administrators cannot see or change it.
func TestRouteOfAPoolOfOneSenderIsHidden(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	b.AddSender(map[string]any{"sender_no": "free"})
	audited := b.Count("SELECT count(*) FROM audit")
	submitOn(b, "acme", "free", "x")
	no := apptest.Scan[int64](b, "SELECT id FROM routes")
	path := fmt.Sprint("/api/v1/admin/routes/", no)
	b.Expect(404, "routing.not_found", "GET", path, nil)
	b.Expect(404, "routing.not_found", "PATCH", path, map[string]any{"status": "off"})
	b.Expect(404, "routing.not_found", "DELETE", path, nil)
	if page := apptest.Decode[api.RoutePage](t, b.Expect(200, "", "GET", "/api/v1/admin/routes", nil)); len(page.Items) != 0 {
		t.Errorf("%+v", page.Items)
	}
	if a := b.Expect(200, "", "GET", "/api/v1/admin/senders", nil, reader...); strings.Contains(a.Raw, "free") {
		t.Errorf("the company sees a sender that is not of its routes: %s", a.Raw)
	}
	b.Exec("UPDATE routes SET created_at = now() - interval '2 days'")
	expectTaken(b, "free", "x")
	b.Exec("DELETE FROM queue")
	if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM audit"); n != audited {
		t.Errorf("%d changes in the audit", n-audited)
	}
	b.AddRoute("acme", "free", 1)
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'route'"); n != 1 {
		t.Errorf("%d changes of routes in the audit", n)
	}
}

func TestSenderCannotBeDeletedWhileTasksNameThisSender(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "ACME"})
	b.AddSender(map[string]any{"sender_no": "one"})
	id := submitOn(b, "acme", "one", "x")
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/one", nil)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/senders/one", nil)
	expectRefusedOn(b, "acme", "one")
	b.Expect(409, "task.sender_gone", "POST", apptest.RequeuePath(id), nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/acme", nil)
}

// A pool of one sender is deleted if it is empty and more than a day old. The pool is created again when a task needs it.
func TestSweepDeletesAnEmptyPoolOfOneSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	deleteRetired := func(want int) {
		t.Helper()
		if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != want || err != nil {
			t.Errorf("deleted %d pools, want %d, %v", n, want, err)
		}
	}
	held := submitBatch(b, 7, 1, func(s *submit.Submission) { s.SenderNo = "one" })[0]
	deleteRetired(0)
	b.Exec("UPDATE routes SET created_at = now() - interval '25 hours'")
	deleteRetired(0) // a task is queued
	hold(b, 1)
	deleteRetired(0) // the task is held
	release(b, 1)
	b.Take("one", 1)
	deleteRetired(0) // the task is leased
	b.Report(held, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 3600})
	deleteRetired(0) // the task waits for a retry
	cancelBatch(b, 1)
	deleteRetired(1)
	if n := b.Count("SELECT (SELECT count(*) FROM pools WHERE sender_id IS NOT NULL) + (SELECT count(*) FROM routes) + (SELECT count(*) FROM fair_ranks)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	submitOn(b, "default", "one", "x")
	expectTaken(b, "one", "x")
}

// The sweep does not delete a pool to which a transaction is adding a task. If a submission finds that its pool was deleted, it creates the pool again.
func TestSweepKeepsAPoolOfOneSenderWhileTasksAreAdded(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	submitOn(b, "default", "one", "first")
	expectTaken(b, "one", "first")
	b.Exec("DELETE FROM queue")
	b.Exec("UPDATE routes SET created_at = now() - interval '25 hours'")
	err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
		if _, err := b.App.Submissions.SubmitAll(ctx, []submit.Submission{onSender("one", "second")}, originOf(b, "default")); err != nil {
			return err
		}
		n, err := b.App.Directory.DeleteRetiredPools(t.Context())
		if n != 0 {
			t.Error("the pool was deleted")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expectTaken(b, "one", "second")
	b.Exec("DELETE FROM queue")
	submitOn(b, "default", "one", "third") // the directory in memory now contains the pool
	expectTaken(b, "one", "third")
	b.Exec("DELETE FROM queue")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SELECT FROM pools WHERE sender_id IS NOT NULL FOR UPDATE", "DELETE FROM routes", "DELETE FROM pools WHERE sender_id IS NOT NULL",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.App.Submissions.Submit(t.Context(), onSender("one", "fourth"), originOf(b, "default"))
		done <- err
	}()
	b.AwaitLockWait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	expectTaken(b, "one", "fourth")
}

// Pools of one sender are deleted as soon as they are empty. No task is lost: each task is stored in an existing pool. The test deletes the pool at most
// twice during one submission, because a submission is refused after more deletions. In production, a pool exists for at least a day.
func TestConcurrentPoolDeletionLosesNoTask(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	origin := originOf(b, "default")
	made := 0
	stored := make(chan struct{}, 1)
	apptest.Together(3, func(i int) {
		switch i {
		case 0:
			defer close(stored)
			for n := range 30 {
				if _, err := b.App.Submissions.Submit(t.Context(), onSender("one", fmt.Sprint(n)), origin); err != nil {
					t.Error(err)
				}
				select {
				case stored <- struct{}{}:
				default:
				}
			}
		case 1:
			for range stored {
				b.Exec("UPDATE routes SET created_at = now() - interval '25 hours'")
				if _, err := b.App.Directory.DeleteRetiredPools(t.Context()); err != nil {
					t.Error(err)
				}
			}
		default:
			for range 30 {
				for _, task := range b.Take("one", 100) {
					made++
					b.Report(task.TaskID, "one", 2, nil)
				}
			}
		}
	})
	made += len(b.Take("one", 100))
	if made != 30 {
		t.Errorf("%d tasks were claimed", made)
	}
}

// A requeued task waits for its only sender again, even if the pool was deleted meanwhile.
func TestRequeuedTaskOfOneSenderWaitsForThatSender(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.AddSender(map[string]any{"sender_no": "other"})
	route := b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "one", "message_type": "marketing"})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "other", "message_type": "marketing"})
	ids := []string{submitOn(b, "acme", "one", "a"), submitOn(b, "acme", "one", "b")}
	cancel := func() {
		t.Helper()
		if n, err := b.App.Tasks.CancelAll(t.Context(), ids, "operator"); n != 2 || err != nil {
			t.Fatalf("cancelled %d, %v", n, err)
		}
	}
	cancel()
	b.Requeue(ids[0])
	if n, err := b.App.Tasks.RequeueAll(t.Context(), ids, "operator", ""); n != 1 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	move(b)
	expectTaken(b, "other")
	cancel()
	b.Exec("UPDATE routes SET created_at = now() - interval '25 hours'")
	if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != 1 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if n, err := b.App.Tasks.RequeueAll(t.Context(), ids, "operator", ""); n != 2 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	expectTaken(b, "other")
	cancel()
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), map[string]any{"status": "off"})
	b.Expect(409, "task.sender_gone", "POST", apptest.RequeuePath(ids[0]), nil)
	if n, err := b.App.Tasks.RequeueAll(t.Context(), ids, "operator", ""); n != 0 || err != nil {
		t.Fatalf("requeued %d, %v", n, err)
	}
	b.Expect(200, "", "PATCH", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), map[string]any{"status": "on"})
	b.Requeue(ids[0])
	expectTaken(b, "one", "a")
}

// A transaction creates a pool and stores tasks in it. If the transaction is rolled back, the pool does not exist.
func TestRolledBackTransactionCreatesNoPoolOfOneSender(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	origin := originOf(b, "default")
	undo := errors.New("undo")
	for _, end := range []error{undo, nil} {
		err := b.App.DB.Tx(t.Context(), func(ctx context.Context) error {
			subs := []submit.Submission{onSender("one", "a"), onSender("one", "b"), onSender("none", "c")}
			outcomes, err := b.App.Submissions.SubmitAll(ctx, subs, origin)
			if err != nil {
				return err
			}
			var refused *fault.Error
			if outcomes[0].Err != nil || outcomes[1].Err != nil || !errors.As(outcomes[2].Err, &refused) {
				t.Errorf("%+v", outcomes)
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	expectTaken(b, "one", "a", "b")
}

// A task that names its sender waits while no route and no setting allows this sender to send for the company.
func TestTaskThatNamesASenderWaitsWhileTheSenderIsNotAllowed(t *testing.T) {
	for _, c := range []struct {
		name    string
		off, on func(b *apptest.Bundle, route string)
		isOwn   bool // true: a route of the company names the sender; false: the sender is shared
	}{
		{
			"the route is off", func(b *apptest.Bundle, route string) {
				b.Expect(200, "", "PATCH", route, map[string]any{"status": "off"})
			},
			func(b *apptest.Bundle, route string) {
				b.Expect(200, "", "PATCH", route, map[string]any{"status": "on"})
			}, true,
		},
		{
			"the route is deleted", func(b *apptest.Bundle, route string) { b.Expect(200, "", "DELETE", route, nil) },
			func(b *apptest.Bundle, _ string) { b.AddRoute("acme", "one", 1) }, true,
		},
		{
			"the sender is not shared any more", func(b *apptest.Bundle, _ string) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"is_shared": false})
			}, func(b *apptest.Bundle, _ string) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/one", map[string]any{"is_shared": true})
			}, false,
		},
		{
			"a route of another company names it", func(b *apptest.Bundle, _ string) { b.AddRoute("beta", "one", 1) },
			func(b *apptest.Bundle, _ string) { b.AddRoute("acme", "one", 1) }, false,
		},
		{
			"the company does not use shared senders", func(b *apptest.Bundle, _ string) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"uses_shared_senders": false})
			}, func(b *apptest.Bundle, _ string) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/companies/acme", map[string]any{"uses_shared_senders": true})
			}, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apptest.New(t)
			b.AddCompany("acme", 1)
			b.AddCompany("beta", 1)
			b.AddSender(map[string]any{"sender_no": "one", "is_shared": !c.isOwn})
			route := ""
			if c.isOwn {
				route = fmt.Sprint("/api/v1/admin/routes/", b.AddRoute("acme", "one", 1).RouteNo)
			}
			id := submitOn(b, "acme", "one", "bound")
			c.off(b, route)
			expectTaken(b, "one")
			expectRefusedOn(b, "acme", "one")
			if e := b.Explain(id); e.Reason == api.BecauseQueued || len(e.Senders) != 0 && e.Senders[0].CanTake {
				t.Errorf("%s: %s, %+v", e.Reason, e.Summary, e.Senders)
			}
			c.on(b, route)
			expectTaken(b, "one", "bound")
		})
	}
}
