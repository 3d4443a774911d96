package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

// contents claims all tasks as a sender, n at a time, and returns their contents in the order of the claims.
func contents(b *apptest.Bundle, sender string, n int) (all []string) {
	b.T.Helper()
	for {
		got := b.Take(sender, n)
		if len(got) == 0 {
			return all
		}
		for _, task := range got {
			all = append(all, task.Content)
		}
	}
}

// of returns the contents that begin with a word.
func of(all []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, word+" ") })
}

// expectOrder fails the test unless all contains n tasks of a flow in the order of their submission.
func expectOrder(t *testing.T, all []string, word string, n int) {
	t.Helper()
	mine := of(all, word)
	if len(mine) != n {
		t.Errorf("%s got %d tasks, want %d", word, len(mine), n)
	}
	for i, content := range mine {
		if want := fmt.Sprint(word, " ", i); content != want {
			t.Errorf("task %d of %s is %q, want %q", i, word, content, want)
			return
		}
	}
}

// expectTurns fails the test if a flow is ahead of another flow by more than two tasks while both flows wait.
func expectTurns(t *testing.T, all []string, words ...string) {
	t.Helper()
	total, took := map[string]int{}, map[string]int{}
	for _, word := range words {
		total[word] = len(of(all, word))
	}
	for i, content := range all {
		word, _, _ := strings.Cut(content, " ")
		took[word]++
		for _, other := range words {
			if total[word] > 0 && took[other] < total[other] && took[word] > took[other]+2 {
				t.Errorf("after %d tasks, %s has %d and %s has %d", i+1, word, took[word], other, took[other])
				return
			}
		}
	}
}

// users adds users to the default company. It returns the authorization headers of each user.
func users(b *apptest.Bundle, names ...string) (all [][]string) {
	for _, name := range names {
		all = append(all, b.AddUser(name, "submit", map[string]any{"top_priority": 0}))
	}
	return all
}

// S4.1: the users of a company take turns. A message of one user does not wait for 6000 messages of another user.
func TestS4_1_MessageDoesNotWaitForTheBacklogOfAnotherUser(t *testing.T) {
	for _, limit := range []int{1, 3} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := apptest.New(t)
			who := users(b, "anna", "bert")
			b.SubmitMany("anna", 6000, nil, who[0]...)
			b.Take("app", 100)
			b.SubmitMany("bert", 1, nil, who[1]...)
			var all []string
			for len(all) < 6 {
				for _, task := range b.Take("app", limit) {
					all = append(all, task.Content)
				}
			}
			if n := slices.Index(all, "bert 0"); n < 0 || n > 1 {
				t.Errorf("the message of bert is not among the next two: %v", all)
			}
			if mine := of(all, "anna"); mine[0] != "anna 100" || !slices.IsSorted(mine) {
				t.Errorf("anna's tasks are not in their order: %v", mine)
			}
		})
	}
}

// S4.1: three users with equal numbers of messages receive equal shares, for any size of a claim. The messages of each user are sent in order.
func TestS4_1_UsersOfACompanyTakeTurns(t *testing.T) {
	for _, limit := range []int{1, 4, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := apptest.New(t)
			who := users(b, "anna", "bert", "cora")
			b.SubmitMany("anna", 150, nil, who[0]...)
			b.SubmitMany("bert", 100, nil, who[1]...)
			b.SubmitMany("cora", 120, nil, who[2]...)
			all := contents(b, "app", limit)
			for i, name := range []string{"anna", "bert", "cora"} {
				expectOrder(t, all, name, []int{150, 100, 120}[i])
			}
			expectTurns(t, all, "anna", "bert", "cora")
		})
	}
}

// Users who submit later take turns with the users who are already served. The later messages of a user do not overtake the earlier messages of the same
// user.
func TestUsersWhoSubmitLaterTakeTurns(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert", "cora")
	next := map[string]int{}
	var all []string
	submit := func(i, n int) {
		name := []string{"anna", "bert", "cora"}[i]
		for range n {
			b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": fmt.Sprint(name, " ", next[name])}, who[i]...)
			next[name]++
		}
	}
	take := func(n int) {
		for _, task := range b.Take("app", n) {
			all = append(all, task.Content)
		}
	}
	submit(0, 30)
	take(5)
	submit(1, 10)
	submit(0, 5)
	take(9)
	submit(2, 12)
	submit(1, 10)
	take(10)
	submit(0, 5)
	submit(1, 1)
	all = append(all, contents(b, "app", 7)...)
	for name, n := range next {
		expectOrder(t, all, name, n)
	}
	expectTurns(t, all[5:14], "anna", "bert")
	if n := slices.Index(all, "cora 11"); n > 14+3*12 {
		t.Errorf("the last of 12 messages of cora is number %d: %v", n, all)
	}
}

// rowsOf submits n messages of a batch of the default company.
func rowsOf(b *apptest.Bundle, word string, n int, batch int64, user string) {
	b.T.Helper()
	subs := make([]submit.Submission, n)
	for i := range subs {
		subs[i] = submit.Submission{
			PhoneNumber: apptest.Phone, Content: fmt.Sprint(word, " ", i), Raw: []byte("{}"), MessageType: submit.Notification, BatchID: batch,
		}
	}
	for portion := range slices.Chunk(subs, 100) {
		outcomes, err := b.App.Submissions.SubmitAll(b.T.Context(), portion, submit.Origin{User: user, CompanyID: 1})
		if err != nil {
			b.T.Fatal(err)
		}
		for _, o := range outcomes {
			if o.Err != nil {
				b.T.Fatal(o.Err)
			}
		}
	}
}

// Each batch is a separate flow. Two batches of one user take turns. A batch and the single messages of its user also take turns.
func TestBatchesOfOneUserTakeTurns(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna")
	rowsOf(b, "first", 500, 1, "anna")
	rowsOf(b, "second", 400, 2, "anna")
	b.SubmitMany("single", 3, nil, who[0]...)
	all := contents(b, "app", 10)
	for i, word := range []string{"first", "second", "single"} {
		expectOrder(t, all, word, []int{500, 400, 3}[i])
	}
	expectTurns(t, all, "first", "second", "single")
}

// A company with many flows receives only its share. A company with a single flow receives its full share.
func TestManyFlowsDoNotIncreaseTheShareOfTheirCompany(t *testing.T) {
	for name, limit := range map[string]int{"one": 1, "some": 7, "many": 60} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			who := users(b, "anna", "bert", "cora", "dora")
			acme := b.AddCompany("acme", 2)
			b.SubmitMany("anna", 300, nil, who[0]...)
			b.SubmitMany("acme", 600, nil, acme...)
			for i, name := range []string{"bert", "cora", "dora"} {
				b.SubmitMany(name, 200, nil, who[1+i]...)
				b.Take("app", 30)
			}
			var all []string
			for len(all) < 300 {
				for _, task := range b.Take("app", limit) {
					all = append(all, task.Content)
				}
			}
			if n := len(of(all, "acme")); n*3 < 2*len(all)-9 || n*3 > 2*len(all)+9 {
				t.Errorf("of %d tasks, the company of the weight 2 got %d beside one of the weight 1", len(all), n)
			}
			expectTurns(t, of(all, "anna"), "anna", "bert", "cora", "dora")
			all = append(all, contents(b, "app", 100)...)
			if n := b.Count("SELECT count(*) FROM queue WHERE lease_until IS NULL"); n != 0 || len(all) != 1500-90 {
				t.Errorf("%d tasks are left, %d were taken", n, len(all))
			}
		})
	}
}

// A sender serves several pools. The flows of a company take turns in each pool.
func TestFlowsTakeTurnsInEachPool(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	acme := b.AddCompany("acme", 1)
	other := b.AddUser("other", "submit", map[string]any{"company_no": "acme"})
	b.AddSender(map[string]any{"sender_no": "both"})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "both"})
	b.SubmitMany("anna", 200, nil, who[0]...)
	b.SubmitMany("bert", 200, nil, who[1]...)
	b.SubmitMany("acme", 200, nil, acme...)
	b.SubmitMany("other", 200, nil, other...)
	all := contents(b, "both", 12)
	for _, name := range []string{"anna", "bert", "acme", "other"} {
		expectOrder(t, all, name, 200)
	}
	expectTurns(t, all[:600], "anna", "bert")
	expectTurns(t, all[:600], "acme", "other")
	mine := len(of(all[:400], "anna")) + len(of(all[:400], "bert"))
	if mine < 190 || mine > 210 {
		t.Errorf("of 400 tasks, %d are of one of two companies", mine)
	}
}

// Turns do not change priorities. Tasks of a higher priority are sent first, and flows take turns within each priority.
func TestFlowsTakeTurnsWithinEachPriority(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	for _, class := range []string{"marketing", "notification", "verification"} {
		for i, name := range []string{"anna", "bert"} {
			b.SubmitMany(name+class, 50, map[string]any{"message_type": class}, who[i]...)
		}
	}
	all := contents(b, "app", 9)
	for i, class := range []string{"verification", "notification", "marketing"} {
		part := all[100*i : 100*i+100]
		expectOrder(t, part, "anna"+class, 50)
		expectOrder(t, part, "bert"+class, 50)
		expectTurns(t, part, "anna"+class, "bert"+class)
	}
}

// Tasks that become due also take turns: the scheduled messages of one user do not delay the messages of another user.
func TestTasksThatBecomeDueTakeTurns(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert", "cora")
	later := map[string]any{"expect_send_time": time.Now().Add(time.Hour)}
	b.SubmitMany("anna", 200, later, who[0]...)
	b.SubmitMany("bert", 100, later, who[1]...)
	b.SubmitMany("cora", 20, nil, who[2]...)
	b.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()")
	if n, err := b.App.Queue.Queue(t.Context()); n != 300 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	all := contents(b, "app", 8)
	for i, name := range []string{"anna", "bert", "cora"} {
		expectOrder(t, all, name, []int{200, 100, 20}[i])
	}
	expectTurns(t, all, "anna", "bert", "cora")
}

// Flows that enter an empty queue together also take turns: the message of one user does not wait for the earlier messages of another user.
func TestFlowsThatEnterAnEmptyQueueTogetherTakeTurns(t *testing.T) {
	for name, served := range map[string]int{"a queue that was always empty": 0, "a queue that was emptied": 7} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			who := users(b, "anna", "bert")
			if served > 0 {
				b.SubmitMany("first", served, nil, who[0]...)
				contents(b, "app", 3)
			}
			later := map[string]any{"expect_send_time": time.Now().Add(time.Hour)}
			b.SubmitMany("anna", 300, later, who[0]...)
			b.SubmitMany("bert", 20, later, who[1]...)
			b.Exec("UPDATE queue SET due_at = now() WHERE due_at > now()")
			if n, err := b.App.Queue.Queue(t.Context()); n != 320 || err != nil {
				t.Fatalf("queued %d, %v", n, err)
			}
			all := contents(b, "app", 8)
			expectOrder(t, all, "anna", 300)
			expectOrder(t, all, "bert", 20)
			expectTurns(t, all, "anna", "bert")
		})
	}
}

// When a switch is on again, real-time messages are among the first, even if they were submitted after thousands of other messages.
func TestRealTimeMessagesAreAmongTheFirstWhenASwitchIsOnAgain(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	b.SubmitMany("anna", 6000, nil, who[0]...)
	b.SubmitMany("bert", 1, map[string]any{"message_type": "verification"}, who[1]...)
	for i, status := range []string{"off", "on"} { // all tasks are held, and then released
		b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": status})
		if n := b.Count("SELECT count(*) FROM queue WHERE due_at = held_due_at()"); n != []int{6001, 0}[i] {
			t.Fatalf("%d tasks are held", n)
		}
	}
	if first := taken(b.Take("app", 20)); !slices.Contains(first, "bert 0") {
		t.Errorf("the code is not among the first 20 messages: %v", first)
	}
}

// Leases are released, expire or fail, batches are paused, and routes of tasks change. No task is lost or leased twice, and the flows still take turns.
func TestNoTaskHasTwoLeasesWhileFlowsTakeTurns(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	rowsOf(b, "list", 120, 7, "anna")
	b.SubmitMany("anna", 100, nil, who[0]...)
	b.SubmitMany("bert", 80, nil, who[1]...)
	setBatch(b, "paused")
	started := apptest.Decode[[]api.ClaimedTask](t, b.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "app", "limit": 30, "start_seconds": 60}))
	failing := b.Take("app", 30)
	b.ExpireLeases()
	b.Recover()
	if again := b.Take("app", 30); len(started) != 30 || !slices.EqualFunc(again, started, func(x, y api.ClaimedTask) bool { return x.TaskID == y.TaskID }) {
		t.Errorf("leases that were not started were not taken again in their order:\n%v\n%v", started, again)
	}
	for _, task := range failing {
		b.Report(task.TaskID, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	}
	if _, err := b.App.Queue.HoldBatch(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if got := of(taken(b.Take("app", 30)), "list"); len(got) != 0 {
		t.Errorf("claimed %v of a paused batch", got)
	}
	setBatch(b, "running")
	if _, err := b.App.Queue.ReleaseBatch(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM queue WHERE rank IS NULL AND flow_rank IS NOT NULL"); n != 0 {
		t.Errorf("%d tasks without a rank have a flow rank", n)
	}
	b.AddSender(map[string]any{"sender_no": "theirs", "is_shared": false})
	b.AddRoute("default", "theirs", 1)
	left := contents(b, "theirs", 11)
	expectTurns(t, left[:60], "anna", "bert", "list")
	leased := b.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL")
	if n := b.Count("SELECT count(*) FROM queue"); n != 300 || leased != 300 || len(left) != 300-30-30 {
		t.Errorf("of 300 tasks %d are left, %d are leased, %d were taken last", n, leased, len(left))
	}
	if n := b.Count("SELECT count(DISTINCT lease_id) FROM queue"); n != 300 {
		t.Errorf("%d leases of 300 tasks", n)
	}
}

// The tasks of a batch that was just paused are not held yet. No claim returns them, also when flows of the company take turns.
func TestNoFlowReturnsTasksOfAPausedBatch(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	b.SubmitMany("anna", 20, nil, who[0]...)
	rowsOf(b, "list", 20, 7, "bert")
	b.SubmitMany("anna", 20, nil, who[0]...)
	setBatch(b, "paused")
	if all := contents(b, "app", 10); len(all) != 40 || len(of(all, "list")) != 0 {
		t.Errorf("claimed %v", all)
	}
}

func taken(tasks []api.ClaimedTask) (all []string) {
	for _, task := range tasks {
		all = append(all, task.Content)
	}
	return all
}

// An explanation counts the tasks that are claimed before a task while flows take turns.
func TestExplanationCountsTasksAheadByTurns(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	acme := b.AddCompany("acme", 1)
	b.SubmitMany("anna", 40, nil, who[0]...)
	b.SubmitMany("acme", 30, nil, acme...)
	b.SubmitMany("bert", 20, nil, who[1]...)
	b.Take("app", 8)
	b.SubmitMany("anna again", 5, nil, who[0]...)
	b.SubmitMany("code", 2, map[string]any{"message_type": "verification"}, who[0]...)
	ahead := map[string]int64{}
	rows, err := b.DB.Query(t.Context(), "SELECT task_id FROM queue WHERE lease_until IS NULL")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		ahead[id] = *b.Explain(id).Ahead
	}
	for n := int64(0); ; n++ {
		got := b.Take("app", 1)
		if len(got) == 0 {
			break
		}
		if ahead[got[0].TaskID] != n {
			t.Errorf("%q was taken after %d others, and the API announced %d", got[0].Content, n, ahead[got[0].TaskID])
		}
	}
}

// Several users submit while senders claim concurrently. Each task is leased once.
func TestConcurrentClaimsTakeTurns(t *testing.T) {
	b := apptest.New(t)
	names := []string{"anna", "bert", "cora"}
	who := users(b, names...)
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() {
			for from := 0; from < 300; from += 20 {
				b.SubmitMany(fmt.Sprint(name, from), 20, nil, who[i]...)
			}
		})
	}
	var took atomic.Int64
	for range 6 {
		group.Go(func() {
			for took.Load() < 900 {
				took.Add(int64(len(b.Take("app", 13))))
			}
		})
	}
	group.Wait()
	if n := b.Count("SELECT count(DISTINCT task_id) FROM queue WHERE lease_until IS NOT NULL"); n != 900 || took.Load() != 900 {
		t.Errorf("%d of 900 tasks were leased, and %d tasks were given out", n, took.Load())
	}
}

// A server of the previous version can store the rank of another pool in flow_rank, or queue tasks without a flow_rank. These tasks are sent, in any order.
func TestTasksOfAServerWithoutFlowRanksAreClaimed(t *testing.T) {
	b := apptest.New(t)
	who := users(b, "anna", "bert")
	b.SubmitMany("anna", 50, nil, who[0]...)
	b.SubmitMany("bert", 50, nil, who[1]...)
	b.Exec("UPDATE queue SET flow_rank = 1e9 WHERE content LIKE 'bert %1'")
	b.Exec("UPDATE queue SET flow_rank = -1e9 WHERE content LIKE 'bert %2'")
	b.Exec("UPDATE queue SET flow_rank = NULL WHERE content LIKE 'bert %3'")
	b.Exec("UPDATE fair_ranks SET flow = NULL, flow_finish = NULL")
	b.SubmitMany("anna again", 5, nil, who[0]...)
	if all := contents(b, "app", 6); len(all) != 105 {
		t.Errorf("claimed %d of 105 tasks", len(all))
	}
}
