package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/gen/dispatchq"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

func routePath(r api.Route) string {
	return fmt.Sprint("/api/v1/admin/routes/", r.RouteNo)
}

// rivals adds senders with equal routes of the default company. Each sender polls once.
func rivals(b *apptest.Bundle, senders ...string) {
	b.T.Helper()
	for _, no := range senders {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("default", no, 1)
		b.Take(no, 1)
	}
}

const abroad = "+4915112345678"

func TestS3_9_SharesMatchWeightsForClaimsOfAnySize(t *testing.T) {
	for _, limit := range []int{1, 4, 7, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := apptest.New(t)
			weights := map[string]int{"three": 3, "one": 1, "two": 2}
			for no, weight := range weights {
				b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
				b.AddRoute("default", no, weight)
			}
			for no := range weights {
				b.Take(no, 1) // after a poll, a sender is not silent
			}
			b.SubmitMany("x", 1000, nil)
			var took []string
			for empty := 0; len(took) < 1000 && empty < 100; {
				for no := range weights {
					got := b.Take(no, limit)
					for range got {
						took = append(took, no)
					}
					if empty++; len(got) > 0 {
						empty = 0
					}
				}
			}
			for from := 0; from+500 <= len(took); from++ {
				n := map[string]int{}
				for _, no := range took[from : from+500] {
					n[no]++
				}
				for no, weight := range weights {
					if off := math.Abs(float64(n[no])/500 - float64(weight)/6); off > 0.02 {
						t.Fatalf("of the 500 tasks from %d on, %s has %d, off by %.3f", from, no, n[no], off)
					}
				}
			}
			if len(took) != 1000 {
				t.Errorf("%d of 1000 tasks were taken", len(took))
			}
		})
	}
}

// A waiting message follows the current routes. The routes of its country are used first, then the routes for any country, then the shared senders.
func TestWaitingTasksFollowTheRoutes(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddCountry("DE", "49", nil)
	for _, no := range []string{"german", "anywhere"} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
	}
	expect := func(when, no string, want ...string) {
		t.Helper()
		var got []string
		for _, task := range b.Take(no, 100) {
			got = append(got, task.Content)
			b.Report(task.TaskID, no, 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
		}
		b.Exec("UPDATE tasks SET retry_count = 0")
		slices.Sort(got)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s, %s got %v, want %v", when, no, got, want)
		}
	}
	b.SubmitMany("home", 1, nil, acme...)
	b.SubmitMany("abroad", 1, map[string]any{"phone_number": abroad}, acme...)
	b.SubmitMany("later", 1, map[string]any{"phone_number": abroad, "expect_send_time": time.Now().Add(time.Hour)}, acme...)

	anywhere := b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "anywhere"})
	expect("with a route", "shared")
	german := b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "german", "country_no": "DE"})
	expect("with a route of the country", "german", "abroad 0")
	expect("with a route of the country", "anywhere", "home 0")

	b.Expect(200, "", "PATCH", routePath(german), map[string]any{"status": "off"})
	expect("with the route of the country off", "shared")
	expect("with the route of the country off", "german")
	expect("with the route of the country off", "anywhere", "abroad 0", "home 0")
	b.SubmitMany("new", 1, map[string]any{"phone_number": abroad}, acme...)
	expect("with the route of the country off", "anywhere", "abroad 0", "home 0", "new 0")

	b.Expect(200, "", "PATCH", routePath(german), map[string]any{"status": "on"})
	b.Exec("UPDATE tasks SET due_at = now() WHERE due_at > now()")
	expect("with the route of the country on again", "german", "abroad 0", "later 0", "new 0")
	b.Expect(200, "", "DELETE", routePath(german), nil)
	expect("without the route of the country", "shared")
	expect("without the route of the country", "anywhere", "abroad 0", "home 0", "later 0", "new 0")

	// When a task is leased while its route is deleted, the retry follows the current routes.
	b.Exec("UPDATE tasks SET status = 4")
	b.SubmitMany("held", 1, nil, acme...)
	held := b.Take("anywhere", 1)
	if len(held) != 1 || held[0].Content != "held 0" {
		t.Fatalf("%v", held)
	}
	b.Expect(200, "", "DELETE", routePath(anywhere), nil)
	b.Report(held[0].TaskID, "anywhere", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	expect("without a route", "anywhere")
	expect("without a route", "shared", "held 0")
	if n := b.Count("SELECT count(*) FROM tasks t JOIN pools p ON p.id = t.pool_id WHERE t.status = 0 AND p.company_id IS NOT NULL"); n != 0 {
		t.Errorf("%d tasks wait in pools of a company", n)
	}
	b.Expect(200, "", "DELETE", "/api/v1/admin/countries/DE", nil)
}

func TestACountryAndACompanyWithoutRoutesCanBeDeleted(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "acme"})
	b.AddCountry("DE", "49", nil)
	b.AddSender(map[string]any{"sender_no": "german"})
	r := b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "german", "country_no": "DE"})
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/countries/DE", nil)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
	b.Expect(200, "", "DELETE", routePath(r), nil)
	r = b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "german", "country_no": "DE"})
	b.Expect(200, "", "DELETE", routePath(r), nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/countries/DE", nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/acme", nil)
	b.Exec("UPDATE pools SET retired_at = now() - interval '31 days' WHERE retired_at IS NOT NULL")
	if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != 2 || err != nil {
		t.Errorf("deleted %d pools, %v", n, err)
	}
}

func TestDeletionOfAPoolDeletesItsRanks(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "theirs", "is_shared": false})
	r := b.AddRoute("default", "theirs", 1)
	b.SubmitMany("x", 2, nil)
	b.Expect(200, "", "DELETE", routePath(r), nil)
	b.SubmitMany("y", 1, nil)
	b.Exec("UPDATE pools SET retired_at = now() - interval '31 days' WHERE retired_at IS NOT NULL")
	if n, err := b.App.Directory.DeleteRetiredPools(t.Context()); n != 1 || err != nil {
		t.Errorf("deleted %d pools, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM fair_ranks WHERE pool_id NOT IN (SELECT id FROM pools)"); n != 0 {
		t.Errorf("%d ranks of a deleted pool", n)
	}
	if n := b.Count("SELECT count(*) FROM fair_ranks"); n != 1 {
		t.Errorf("%d ranks of the shared pool", n)
	}
}

// A server that still caches the old routes can store a task in the wrong pool. A sweep moves the task to a new pool, or out of a deleted pool.
func TestTasksInOutdatedPoolsMoveToTheCurrentRoutes(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "theirs", "is_shared": false})
	r := b.AddRoute("default", "theirs", 1)
	pool := apptest.Scan[int64](b, "SELECT pool_id FROM routes")
	b.SubmitMany("x", 2, nil)
	b.Exec("UPDATE tasks SET pool_id = 1, lane = NULL, rank = NULL WHERE content = 'x 0'")
	b.Exec("UPDATE tasks SET pool_id = 1 WHERE content = 'x 1'")
	if n, err := b.App.Queue.Move(t.Context()); n != 2 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
	if got := b.Take("theirs", 10); len(got) != 2 {
		t.Errorf("the route's sender got %v", got)
	}
	// A late sweep also moves such tasks. After this sweep the pools are settled, because no server caches the old routes any longer.
	b.SubmitMany("late", 1, nil)
	b.Exec("UPDATE tasks SET pool_id = 1 WHERE content = 'late 0'")
	b.Exec("UPDATE pools SET unsettled_since = now() - interval '1 hour' WHERE unsettled_since IS NOT NULL")
	if n, err := b.App.Queue.Move(t.Context()); n != 1 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM pools WHERE unsettled_since IS NOT NULL"); n != 0 {
		t.Errorf("%d pools are still unsettled", n)
	}
	b.Take("theirs", 10)
	b.Expect(200, "", "DELETE", routePath(r), nil)
	b.SubmitMany("y", 1, nil)
	b.Exec("UPDATE tasks SET pool_id = $1 WHERE content = 'y 0'", pool)
	if n, err := b.App.Queue.Move(t.Context()); n != 1 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
	if got := b.Take("shared", 10); len(got) != 1 {
		t.Errorf("a shared sender got %v", got)
	}
}

// takeAsAll claims n tasks as the sender all, limit at a time. It returns the number of tasks by company.
func takeAsAll(b *apptest.Bundle, limit, n int) map[string]int {
	b.T.Helper()
	got := map[string]int{}
	for taken := 0; taken < n; {
		tasks := b.Take("all", min(limit, n-taken))
		if len(tasks) == 0 {
			b.T.Fatalf("took %d of %d", taken, n)
		}
		taken += len(tasks)
		for who, k := range owners(tasks) {
			got[who] += k
		}
	}
	return got
}

func TestSenderServesTheCompaniesOfItsPoolsByWeight(t *testing.T) {
	for _, limit := range []int{1, 3, 10, 100} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := apptest.New(t)
			b.AddSender(map[string]any{"sender_no": "all"})
			b.AddCountry("DE", "49", nil)
			weights := map[string]float64{"one": 1, "three": 3, "two": 2, "shared": 2, "also": 1}
			var sum float64
			for _, no := range []string{"one", "three", "two", "shared", "also"} {
				sum += weights[no]
				who := b.AddCompany(no, weights[no])
				if no != "shared" && no != "also" {
					b.AddRouteWith(map[string]any{"company_no": no, "sender_no": "all"})
				}
				if no == "two" { // the company two has tasks in two pools, but only one share
					b.AddRouteWith(map[string]any{"company_no": no, "sender_no": "all", "country_no": "DE"})
					b.SubmitMany(no, 300, map[string]any{"phone_number": abroad}, who...)
				}
				b.SubmitMany(no, 500, nil, who...)
				if no == "one" {
					takeAsAll(b, 100, 100) // a company that waits alone can use all capacity, and has no debt later
				}
			}
			got := takeAsAll(b, limit, 400)
			for no, weight := range weights {
				if want := 400 * weight / sum; math.Abs(float64(got[no])-want) > want/10 {
					t.Errorf("%s got %d of 400, want %.0f: %v", no, got[no], want, got)
				}
			}
			// A pool earns no credit while it is empty.
			b.Exec("UPDATE tasks SET status = 4 WHERE status = 0 AND content LIKE 'three %'")
			takeAsAll(b, 50, 100)
			b.SubmitMany("three", 300, nil, apptest.Basic("user-of-three", apptest.UserPassword)...)
			got = takeAsAll(b, limit, 90)
			if n := got["three"]; n < 27 || n > 33 {
				t.Errorf("after a pause, the company with a third of the weight got %d of 90: %v", n, got)
			}
		})
	}
}

// A task that has waited for an hour receives the highest priority below real-time messages. It is sent among the tasks of this priority, not after all of
// them.
func TestAgedTasksTakeTurnsWithTheHighestPriorityBelowRealTime(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("old", 30, map[string]any{"priority": 9})
	b.Exec("UPDATE tasks SET rank = rank + 1e6") // simulates the ranks after many tasks of this priority
	b.SubmitMany("urgent", 50, map[string]any{"priority": 2})
	b.Exec("UPDATE tasks SET due_at = now() - interval '61 minutes' WHERE priority = 9")
	if n, err := b.App.Queue.Age(t.Context()); n != 30 || err != nil {
		t.Fatalf("aged %d, %v", n, err)
	}
	took := map[string]int{}
	for range 8 { // urgent tasks are submitted continuously
		b.SubmitMany("urgent", 10, map[string]any{"priority": 2})
		for who, n := range owners(b.Take("app", 10)) {
			took[who] += n
		}
	}
	if took["old"] != 30 {
		t.Errorf("of the next 80: %v", took)
	}
	if n, err := b.App.Queue.Age(t.Context()); n != 0 || err != nil {
		t.Errorf("aged %d again, %v", n, err)
	}
}

func TestS3_9_BackupReceivesTasksWhileNoPrimaryIsAvailable(t *testing.T) {
	for name, routed := range map[string]bool{"of a route": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			b := apptest.New(t)
			for no, sort := range map[string]float64{"primary": 2, "second": 2, "backup": 1.5, "last": 0} {
				body := map[string]any{"sender_no": no, "is_shared": !routed, "interval_ms": 1}
				if !routed {
					body["sort"] = sort
				}
				b.AddSender(body)
				if routed {
					b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": no, "sort": sort})
				}
			}
			b.SubmitMany("x", 300, nil)
			makeReady := func() { b.Exec("UPDATE sender_states SET next_available_at = '-infinity'") }
			takes := func(when string, want string) {
				t.Helper()
				var got []string
				for _, no := range []string{"primary", "second", "backup", "last"} {
					makeReady()
					b.Take(no, 1) // after a poll, the sender is not silent
				}
				for _, no := range []string{"last", "backup", "second", "primary"} {
					makeReady()
					if len(b.Take(no, 4)) > 0 {
						got = append(got, no)
					}
				}
				if fmt.Sprint(got) != want {
					t.Errorf("%s: %v, want %s", when, got, want)
				}
			}
			patch := func(no string, body map[string]any) {
				t.Helper()
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/"+no, body)
			}
			takes("all are available", "[second primary]")
			// A primary sender is available while it waits for its interval between two messages.
			b.Exec("UPDATE sender_states st SET next_available_at = now() + interval '10 seconds' FROM senders s WHERE s.id = st.sender_id AND s.sort = 2")
			if got := b.Take("backup", 1); len(got) != 0 && !routed {
				t.Errorf("the backup claimed %v while a primary waited for its interval", got)
			}
			patch("primary", map[string]any{"status": "off"})
			takes("one primary is off", "[second]")
			patch("second", map[string]any{"limits": map[string]any{"per_day": 0}})
			takes("the other primary is out of quota", "[backup]")
			patch("backup", map[string]any{"low_switch": 5})
			b.Expect(200, "", "POST", "/api/v1/admin/senders/backup/balance", map[string]any{"change": 5})
			takes("the backup is at low_switch", "[last]")
			patch("second", map[string]any{"limits": map[string]any{"per_day": nil}})
			takes("a primary is back", "[second]")
			breaker := func(until string) {
				b.Exec("UPDATE sender_states st SET openings = 1, rest_reason = 'x', rest_until = " + until + " FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'second'")
			}
			breaker("now() + interval '1 minute'")
			takes("the breaker of the primary is open", "[last second]") // the worker of this sender would not claim now, but the test claims
			breaker("NULL")
			takes("the breaker is closed", "[second]")
			b.Exec("UPDATE sender_states st SET seen_at = now() - interval '2 minutes' FROM senders s WHERE s.id = st.sender_id AND s.sender_no = 'second'")
			makeReady()
			if got := b.Take("last", 1); len(got) != 1 {
				t.Errorf("the last sender waits for a silent primary")
			}
		})
	}
}

// A claim skips tasks that are too large for the sender, with any limit and in every pool.
func TestClaimSkipsTasksThatAreTooLarge(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "few", "limits": map[string]any{"per_day": 1}})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "few"})
	large := strings.Repeat("长", 100)
	b.SubmitMany(large, 20, nil)
	b.SubmitMany(large, 20, nil, acme...)
	b.SubmitMany("small", 1, nil, acme...)
	if got := b.Take("few", 1); len(got) != 1 || got[0].Content != "small 0" {
		t.Errorf("in the other pool: %v", got)
	}
	b.SubmitMany("small", 2, nil)
	more := func(n int) {
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/few", map[string]any{"limits": map[string]any{"per_day": n}})
	}
	more(2)
	if got := b.Take("few", 1); len(got) != 1 || got[0].Content != "small 0" {
		t.Errorf("after the large tasks: %v", got)
	}
	more(5)
	if got := owners(b.Take("few", 10)); got["small"] != 1 || got[large] != 1 {
		t.Errorf("with three segments left: %v", got)
	}
	// The search reads a limited number of tasks.
	b.SubmitMany(large, 2000, nil, acme...)
	b.SubmitMany("small", 1, nil, acme...)
	more(6)
	if got := b.Take("few", 1); len(got) != 0 {
		t.Errorf("claimed after 2000 tasks that are too large: %v", got)
	}
}

// Concurrent claims have locked the first tasks of the pool. A sender with a quota claims the tasks behind any number of locked tasks. If the
// remaining quota of a sender is smaller than the largest possible message, its search stops at the locked tasks and does not read the whole pool.
func TestSenderWithAQuotaClaimsTasksBehindLockedTasks(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "quota", "limits": map[string]any{"per_day": 150}})
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, lane, rank)
		SELECT 't' || lpad(i::text, 5, '0'), '', '', 'x', 160, i FROM generate_series(1, 20000) i`)
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT FROM queue WHERE rank <= 1000 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if got := b.Take("quota", 100); len(got) != 100 || got[0].TaskID != "t01001" {
		t.Errorf("with a quota of 150: %d tasks", len(got))
	}
	if got := b.Take("quota", 100); len(got) != 50 {
		t.Errorf("with 50 segments left: %d tasks", len(got))
	}
	claim, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Rollback(t.Context())
	if _, err := claim.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"); err != nil {
		t.Fatal(err)
	}
	one, read := int64(1), 0
	offers, err := dispatchq.New(claim).TaskOffer(t.Context(), dispatchq.TaskOfferParams{
		SenderNo: "last", PoolIds: []int64{1}, MaxTasks: []int64{1}, RivalRooms: []int64{0}, FromSegments: []int64{0},
		IsTight: true, CountsSegments: true, SegmentsLeft: &one,
	})
	if err == nil {
		err = claim.QueryRow(t.Context(), "SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'queue'").Scan(&read)
	}
	if err != nil || len(offers) != 0 || read > 6000 {
		t.Errorf("with one segment left: %d offers from %d rows read, %v", len(offers), read, err)
	}
}

func TestMessageOnANonSMSChannelCostsOneSegment(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": "pager", "name": "pager"})
	b.AddSender(map[string]any{"sender_no": "pager", "channel": "pager", "balance": 10, "segment_size": 5, "sign": "签"})
	long := strings.Repeat("长", 180)
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, segments, pool_id)
		SELECT 't' || i, 'a', 'a', $1, 3, (SELECT p.id FROM pools p JOIN channels c ON c.id = p.channel_id WHERE c.channel = 'pager') FROM generate_series(1, 4) i`, long)
	if got := b.Take("pager", 4); len(got) != 4 {
		t.Errorf("took %d", len(got))
	}
	if got := *b.GetSender("pager").Balance; got != 6 {
		t.Errorf("balance %d, want 6", got)
	}
}

// A channel is deleted together with its shared pool, so the deletion is refused while a task waits in this pool.
func TestChannelWithAWaitingTaskCannotBeDeleted(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": "pager", "name": "pager"})
	b.Exec(`INSERT INTO tasks (task_id, phone_number, recipient, content, pool_id)
		SELECT 't', 'a', 'a', 'x', (SELECT p.id FROM pools p JOIN channels c ON c.id = p.channel_id WHERE c.channel = 'pager')`)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/channels/pager", nil)
	b.Exec("UPDATE tasks SET status = 4")
	b.Expect(200, "", "DELETE", "/api/v1/admin/channels/pager", nil)
}

// The test enqueues a message without a notification, because the row of a notification would prevent the deletion of its company.
func TestDeletionOfAChannelDeletesItsRanks(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": "pager", "name": "pager"})
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "acme"})
	b.Submit("the rank of another channel stays")
	company := apptest.Scan[int64](b, "SELECT id FROM companies WHERE company_no = 'acme'")
	var ids []string
	err := b.App.DB.Tx(t.Context(), func(ctx context.Context) (err error) {
		ids, err = b.App.Submissions.Enqueue(ctx, submit.Rendered{
			Channel: "pager", Content: "x", MessageType: submit.Notification, Origin: submit.Origin{CompanyID: company},
		}, []submit.Person{{UserID: "u", Address: "a"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.App.Queue.Queue(t.Context()); n != 1 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	expectRanks := func(when string, want int) {
		t.Helper()
		if n := b.Count("SELECT count(*) FROM fair_ranks"); n != want {
			t.Errorf("%s: %d ranks, want %d", when, n, want)
		}
	}
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/channels/pager", nil)
	expectRanks("while a task waits", 2)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+ids[0]+"/cancel", nil)
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
	b.Expect(200, "", "DELETE", "/api/v1/admin/channels/pager", nil)
	expectRanks("without the channel", 1)
	b.Expect(200, "", "DELETE", "/api/v1/admin/companies/acme", nil)
}

// A sender that is busy with a higher priority in another pool does not delay its rivals in this pool.
func TestRivalThatIsBusyInAnotherPoolDelaysNoSender(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("busy", 1)
	rivals(b, "both", "only")
	b.AddRouteWith(map[string]any{"company_no": "busy", "sender_no": "both"})
	b.SubmitMany("urgent", 200, map[string]any{"priority": 0}, apptest.Basic("user-of-busy", apptest.UserPassword)...)
	b.SubmitMany("x", 100, nil)
	took := 0
	for range 12 {
		took += len(b.Take("only", 10))
		if got := owners(b.Take("both", 10)); got["x"] != 0 {
			t.Fatalf("took %v", got)
		}
	}
	if took < 90 {
		t.Errorf("the sender only claimed %d of 100 tasks", took)
	}
}

// A claim waits for another claim of the same sender. The waiting claim sees the tasks of the other claim, but has read its rivals earlier. It must not treat
// the rivals as absent and exceed its share.
func TestS3_9_ConcurrentClaimsOfOneSenderStayWithinItsShare(t *testing.T) {
	b := apptest.New(t)
	for no, weight := range map[string]int{"one": 1, "three": 3} {
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute("default", no, weight)
		b.Take(no, 1) // after a poll, a sender is not silent
	}
	b.SubmitMany("x", 100, nil)
	b.Exec("UPDATE routes SET served = 100")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	serve := func(no string, served int) {
		if _, err := tx.Exec(t.Context(), "UPDATE routes r SET served = $2 FROM senders s WHERE s.id = r.sender_id AND s.sender_no = $1", no, served); err != nil {
			t.Error(err)
		}
	}
	serve("one", 109) // the maximum lead
	serve("three", 105)
	took := make(chan int, 1)
	go func() { took <- len(b.Take("one", 50)) }()
	apptest.Eventually(t, "the claim waits for the other", func() bool {
		return b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-took; n != 0 {
		t.Errorf("one claimed %d more tasks", n)
	}
	if n := len(b.Take("three", 3)); n != 3 {
		t.Errorf("three claimed %d tasks", n)
	}
	if served := apptest.Scan[float64](b, "SELECT r.served FROM routes r JOIN senders s ON s.id = r.sender_id WHERE s.sender_no = 'three'"); served != 106 {
		t.Errorf("three counts as served %v", served)
	}
}

// An old retry can leave a hole in the ranks of the shared pool. Tasks behind the hole do not wait for the other pools of the sender.
func TestGapInTheRanksOfAPoolDelaysNoCompany(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddSender(map[string]any{"sender_no": "all"})
	b.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "all"})
	b.SubmitMany("default", 50, nil)
	b.Exec("UPDATE tasks SET rank = rank + 1e6 WHERE content <> 'default 0'")
	b.SubmitMany("acme", 50, nil, acme...)
	if got := takeAsAll(b, 1, 40); got["default"] < 18 || got["default"] > 22 {
		t.Errorf("of 40: %v", got)
	}
}

// A company has a route for one country and other tasks in the shared pool. The company receives its share in each pool, and the other companies receive
// their shares.
func TestCompanyInTwoPoolsDoesNotReduceOtherShares(t *testing.T) {
	for _, limit := range []int{1, 5, 50} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := apptest.New(t)
			b.AddCountry("DE", "49", nil)
			both, other := b.AddCompany("both", 1), b.AddCompany("other", 1)
			b.AddSender(map[string]any{"sender_no": "all"})
			b.AddRouteWith(map[string]any{"company_no": "both", "sender_no": "all", "country_no": "DE"})
			b.AddRouteWith(map[string]any{"company_no": "other", "sender_no": "all"})
			b.SubmitMany("both", 150, nil, both...)
			b.SubmitMany("both", 150, map[string]any{"phone_number": abroad}, both...)
			b.SubmitMany("other", 300, nil, other...)
			b.SubmitMany("default", 300, nil)
			got := takeAsAll(b, limit, 280)
			if got["both"] < 126 || got["both"] > 154 || got["other"] < 63 || got["other"] > 77 || got["default"] < 63 || got["default"] > 77 {
				t.Errorf("of 280: %v", got)
			}
		})
	}
}

// A backup sender receives all tasks that are too large for the quota of its primary senders, and no other tasks.
func TestBackupReceivesTasksThatAreTooLargeForItsPrimaries(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "primary", "is_shared": false, "limits": map[string]any{"per_month": 1}})
	b.AddSender(map[string]any{"sender_no": "backup", "is_shared": false})
	b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": "primary", "sort": 1})
	b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": "backup"})
	b.Take("primary", 1)
	b.SubmitMany("small", 5, nil)
	b.SubmitMany(strings.Repeat("长", 100), 20, nil)
	if got := owners(b.Take("backup", 15)); len(got) != 1 || got["small"] != 0 {
		t.Errorf("the backup got %v", got)
	}
	if got := owners(b.Take("primary", 15)); got["small"] != 1 {
		t.Errorf("the primary got %v", got)
	}
	if got := b.Take("backup", 15); len(got) != 9 {
		t.Errorf("then the backup got %d, want 9", len(got))
	}
}

// A task failed with a sender. The sender retries the task if the remaining quota of each rival is too small for the task.
func TestRetryDoesNotWaitForARivalWithoutQuota(t *testing.T) {
	b := apptest.New(t)
	rivals(b, "one", "few")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/few", map[string]any{"limits": map[string]any{"per_month": 1}})
	b.Submit(strings.Repeat("长", 100))
	got := b.Take("one", 1)
	b.Report(got[0].TaskID, "one", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if got := b.Take("one", 1); len(got) != 1 {
		t.Errorf("the retry waits for a rival without quota")
	}
}

// A pool contains only a retry that a sender is not allowed to claim. If the sender claims a task from another pool, it keeps its unused share of this pool. If
// the sender claims nothing, it loses this share.
func TestSenderKeepsItsUnusedShareOfAPoolAfterAClaimFromAnotherPool(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("busy", 1)
	rivals(b, "both", "only")
	b.AddRouteWith(map[string]any{"company_no": "busy", "sender_no": "both"})
	b.SubmitMany("x", 1, nil)
	failed := b.Take("both", 1)
	b.Report(failed[0].TaskID, "both", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	b.SubmitMany("busy", 300, nil, apptest.Basic("user-of-busy", apptest.UserPassword)...)
	b.SubmitMany("x", 300, nil)
	if n, err := b.App.Queue.Queue(t.Context()); n != 1 || err != nil {
		t.Fatalf("queued %d, %v", n, err)
	}
	both, only := 0, 0
	for range 100 {
		both += owners(b.Take("both", 1))["x"]
		only += len(b.Take("only", 1))
	}
	if both < 40 || only-both > 20 {
		t.Errorf("the sender both claimed %d tasks of the pool, the sender only claimed %d", both, only)
	}
}

// Ranks are comparable only within one priority. A retry of an aged task returns to its original priority, so the retry receives a new rank.
func TestRetryOfAnAgedTaskReceivesARankOfItsOwnPriority(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("urgent", 50, map[string]any{"priority": 0})
	b.Take("app", 50) // the ranks of priority 0 are then much larger than those of priority 9
	b.SubmitMany("old", 1, map[string]any{"priority": 9})
	b.Exec("UPDATE tasks SET due_at = now() - interval '61 minutes' WHERE content = 'old 0'")
	if n, err := b.App.Queue.Age(t.Context()); n != 1 || err != nil {
		t.Fatalf("aged %d, %v", n, err)
	}
	old := b.Take("app", 1)
	b.Report(old[0].TaskID, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	if rank := apptest.Scan[*float64](b, "SELECT rank FROM tasks WHERE content = 'old 0'"); rank != nil {
		t.Errorf("the retry keeps the rank %v of priority 0", *rank)
	}
}
