package app_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/testkit/apptest"
)

// A change that one server has acknowledged can be used on all other servers immediately, in spite of their caches.

// beside returns a bundle of a second server on the same database. Both servers have just read the directory.
func beside(b *apptest.Bundle) *apptest.Bundle {
	b.T.Helper()
	second := apptest.Another(b)
	server := httptest.NewServer(apptest.CheckAnswers(b.T, second.Handler))
	b.T.Cleanup(server.Close)
	other := *b
	other.App, other.URL = second, server.URL
	for _, one := range []*apptest.Bundle{b, &other} {
		one.Expect(200, "", "POST", "/api/v1/sms/send?dry_run=true", map[string]any{"phone_number": "13800138000", "content": "x", "use_template": false})
	}
	return &other
}

// Without its lock table, a job would run on no server.
func TestEachJobHasALockTable(t *testing.T) {
	b := apptest.New(t)
	metrics := b.Call("GET", "/metrics", nil).Raw
	jobs := regexp.MustCompile(`lksms_sweep_patience_seconds\{scope="cluster",sweep="([^"]+)"\}`).FindAllStringSubmatch(metrics, -1)
	if len(jobs) < 40 {
		t.Fatalf("%d jobs: %s", len(jobs), metrics)
	}
	for _, job := range jobs {
		if b.Count("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = 'lock_' || replace($1, '-', '_')", job[1]) != 1 {
			t.Errorf("no migration makes the table that locks %s", job[1])
		}
	}
}

func TestANewCompanyIsUsableOnEveryServerAtOnce(t *testing.T) {
	b := apptest.New(t)
	other := beside(b)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "new", "name": "new"})
	b.Expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": "new", "password": "secret-secret", "role": "submit", "company_no": "new"})
	user := apptest.Decode[api.User](t, other.Expect(200, "", "GET", "/api/v1/admin/users/new", nil))
	if user.CompanyNo != "new" {
		t.Errorf("the user belongs to %q", user.CompanyNo)
	}
	other.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": "13800138000", "content": "x", "use_template": false},
		apptest.Basic("new", "secret-secret")...)
}

func TestANewChannelIsImmediatelyUsableOnEveryServer(t *testing.T) {
	b := apptest.New(t)
	other := beside(b)
	b.Expect(200, "", "POST", "/api/v1/admin/channels", map[string]any{"channel": "voice", "name": "Voice"})
	b.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/3/voice", map[string]any{"title": "t", "content": "c"})
	b.AddSender(map[string]any{"sender_no": "caller", "channel": "voice"})
	other.Expect(200, "", "POST", "/api/v1/notifications/events",
		map[string]any{"event": "task_finished", "task_id": 1, "channels": []string{"voice"}, "user_ids": []string{"u"}})
	if got := other.Claim("caller", 1); len(got) != 1 {
		t.Errorf("the sender of the channel got %v", got)
	}
}

func TestANewCountryIsUsableOnEveryServerAtOnce(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": "CN", "name": "China", "dial_prefix": "86"})
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "new", "name": "new", "countries": []string{"CN"}})
	b.Expect(200, "", "POST", "/api/v1/admin/users", map[string]any{"username": "new", "password": "secret-secret", "role": "submit", "company_no": "new"})
	other := beside(b)
	send := func(code int, reason string) {
		t.Helper()
		other.Expect(code, reason, "POST", "/api/v1/sms/send", map[string]any{"phone_number": "+6581234567", "content": "x", "use_template": false},
			apptest.Basic("new", "secret-secret")...)
	}
	send(422, "request.invalid")
	b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": "SG", "name": "Singapore", "dial_prefix": "65", "region": "SG"})
	b.Expect(200, "", "PATCH", "/api/v1/admin/companies/new", map[string]any{"countries": []string{"CN", "SG"}})
	send(200, "")
}

// After a change on one server, other servers no longer use the old state.
func TestEveryServerAppliesAChangedCountryToTheNextMessage(t *testing.T) {
	b := apptest.New(t)
	send := func(at *apptest.Bundle, status int, reason, to string) api.Submitted {
		t.Helper()
		a := at.Expect(status, reason, "POST", "/api/v1/sms/send", map[string]any{"phone_number": to, "content": "x", "use_template": false})
		if status != 200 {
			return api.Submitted{}
		}
		return apptest.Decode[api.Submitted](t, a)
	}
	b.AddSender(map[string]any{"sender_no": "sgp", "is_shared": false})
	other := beside(b)
	send(other, 200, "", "+6581234567")
	b.Expect(200, "", "POST", "/api/v1/admin/countries", map[string]any{"country_no": "SG", "name": "Singapore", "dial_prefix": "65", "region": "SG"})
	b.Expect(200, "", "POST", "/api/v1/admin/routes", map[string]any{"company_no": "default", "message_type": "notification", "country_no": "SG", "sender_no": "sgp"})
	id := send(other, 200, "", "+6581234567").TaskID
	if got := b.Claim("sgp", 10); len(got) != 1 || got[0].TaskID != id {
		t.Errorf("the sender of the country got %v", got)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/countries/SG", map[string]any{"signature_required": true})
	send(other, 422, "request.invalid", "+6581234567")
	sent := apptest.Decode[api.SentBatch](t, other.Expect(200, "", "POST", apptest.BatchPath, map[string]any{"messages": []any{
		map[string]any{"phone_number": "+6581234567", "content": "x"}, map[string]any{"phone_number": "+6581234567", "content": "x", "sign": "ACME"},
	}}))
	if sent.Accepted != 1 || sent.Refused != 1 {
		t.Errorf("%d accepted, %d refused", sent.Accepted, sent.Refused)
	}
}

func TestSubmissionsSucceedWhileTheDirectoryChanges(t *testing.T) {
	b := apptest.New(t)
	other := beside(b)
	var done atomic.Bool
	var changing sync.WaitGroup
	for i := range 4 {
		no := fmt.Sprint("c", i)
		b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no})
		changing.Go(func() {
			for !done.Load() {
				b.Call("PATCH", "/api/v1/admin/companies/"+no, map[string]any{"weight": 2})
			}
		})
	}
	for i := range 100 {
		if a := other.Call("POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x", "use_template": false}); a.Status != 200 {
			t.Errorf("submission %d: %s", i, a.Raw)
		}
	}
	done.Store(true)
	changing.Wait()
}

// A message reaches a sender that waits at another server. At that server, one poll of the queue serves all senders and pools.
func TestAMessageReachesASenderThatWaitsAtAnotherServer(t *testing.T) {
	const pollInterval = 200 * time.Millisecond
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	senders := []string{"app"}
	for i := range 9 {
		no := fmt.Sprint("routed-", i)
		b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": no, "name": no})
		b.AddSender(map[string]any{"sender_no": no, "is_shared": false})
		b.AddRoute(no, no, 1)
		senders = append(senders, no)
	}
	other := beside(b)
	waiting, leave := context.WithCancel(t.Context())
	answered := make(chan string)
	var all sync.WaitGroup
	for _, no := range senders {
		all.Go(func() {
			for waiting.Err() == nil {
				leases, err := other.App.Queue.ClaimOrWait(waiting, claim.Request{SenderNo: no, Limit: 1}, 30*time.Second)
				if err != nil && waiting.Err() == nil {
					t.Error(err)
					return
				}
				for _, lease := range leases {
					answered <- lease.TaskID
				}
			}
		})
	}
	apptest.Eventually(t, "all senders wait", func() bool { return other.App.Queue.Waiting() == len(senders) })
	began, before := time.Now(), other.Polls()
	for i := range 5 {
		id := b.Submit(fmt.Sprint("message ", i))
		if got := <-answered; got != id {
			t.Errorf("the sender got %s, want %s", got, id)
		}
	}
	if n, most := other.Polls()-before, int(time.Since(began)/pollInterval)+1; n > most {
		t.Errorf("%d polls in %v", n, time.Since(began))
	}
	leave()
	all.Wait()
}

// A waiting claim notices that its pools change, on this server or another.
func TestAWaitingClaimNoticesThatItsPoolsChange(t *testing.T) {
	type change func(b *apptest.Bundle)
	for name, c := range map[string]struct{ before, change change }{
		"a route was added": {func(*apptest.Bundle) {}, func(b *apptest.Bundle) { b.AddRoute("default", "app", 1) }},
		"a route was switched on": {
			func(b *apptest.Bundle) {
				b.AddRoute("default", "app", 1)
				b.Expect(200, "", "PATCH", "/api/v1/admin/routes/1", map[string]any{"status": "off"})
			},
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/routes/1", map[string]any{"status": "on"})
			},
		},
		"the sender became shared": {
			func(*apptest.Bundle) {},
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"is_shared": true})
			},
		},
		"the sender was switched on": {
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"is_shared": true, "status": "off"})
			},
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"status": "on"})
			},
		},
		"the route of the others was deleted": {
			func(b *apptest.Bundle) {
				b.AddSender(map[string]any{"sender_no": "other", "is_shared": false})
				b.AddRoute("default", "other", 1)
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"is_shared": true})
			},
			func(b *apptest.Bundle) { b.Expect(200, "", "DELETE", "/api/v1/admin/routes/1", nil) },
		},
		"the interval became shorter": {
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"is_shared": true, "interval_ms": 3_600_000})
				b.Submit("before")
				if got := b.Claim("app", 1); len(got) != 1 {
					b.T.Fatalf("claimed %v", got)
				}
			},
			func(b *apptest.Bundle) {
				b.Expect(200, "", "PATCH", "/api/v1/admin/senders/app", map[string]any{"interval_ms": 1})
			},
		},
	} {
		for where, at := range map[string]func(b *apptest.Bundle) *apptest.Bundle{
			"here": func(b *apptest.Bundle) *apptest.Bundle { return b }, "on another server": beside,
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				b := apptest.New(t)
				b.AddSender(map[string]any{"sender_no": "app", "is_shared": false})
				c.before(b)
				changer := at(b)
				id := b.Submit("x")
				answered := make(chan []api.ClaimedTask, 1)
				go func() {
					a := b.Call("POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "app", "limit": 1, "wait": 30})
					answered <- apptest.Decode[[]api.ClaimedTask](t, a)
				}()
				apptest.Eventually(t, "the claim waits", func() bool { return b.App.Queue.Waiting() == 1 })
				began := time.Now()
				c.change(changer)
				if got := <-answered; len(got) != 1 || got[0].TaskID != id {
					t.Errorf("after %v the claim got %v", time.Since(began), got)
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("the claim noticed the change after %v", took)
				}
			})
		}
	}
}

// A change of a user or API key takes effect immediately on its server, and within two seconds on every other server.
func TestChangesOfUsersTakeEffectOnEveryServer(t *testing.T) {
	var late atomic.Int64 // seconds
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Second) }
	})
	other := beside(b)
	user := b.AddUser("system", "submit", nil)
	key := apptest.Decode[api.NewKey](t, b.Expect(200, "", "POST", "/api/v1/admin/users/system/keys", `{"name":"k"}`))
	bearer := []string{"Authorization", "Bearer " + key.Key}
	calls := func(status int, headers []string) {
		t.Helper()
		reason := map[int]string{401: "auth.required", 403: "auth.forbidden"}[status]
		b.Expect(status, reason, "GET", "/api/v1/sms/tasks", nil, headers...)
		late.Add(2)
		other.Expect(status, reason, "GET", "/api/v1/sms/tasks", nil, headers...)
	}
	calls(200, user)
	calls(200, bearer)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/system", `{"role":"send"}`)
	calls(403, user)
	calls(403, bearer)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/system", `{"role":"submit","is_disabled":true}`)
	calls(401, user)
	calls(401, bearer)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/system", `{"is_disabled":false}`)
	calls(200, user)
	calls(200, bearer)
	b.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/users/system/keys/", key.ID), nil)
	calls(401, bearer)
	calls(401, apptest.Basic("late", apptest.UserPassword))
	calls(200, b.AddUser("late", "submit", nil))
}

// A claim waits for up to half a minute. If its user loses the permission to claim meanwhile, the claim gets no task.
func TestAWaitingClaimIsRefusedAfterItsUserLosesThePermission(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       int
		reason, body string
	}{
		"disabled":         {401, "auth.required", `{"is_disabled":true}`},
		"another password": {401, "auth.required", `{"password":"another password"}`},
		"another role":     {403, "auth.forbidden", `{"role":"submit"}`},
		"another app":      {403, "auth.other_app", `{"app_id":"app_2"}`},
	} {
		for where, at := range map[string]func(b *apptest.Bundle) *apptest.Bundle{
			"here": func(b *apptest.Bundle) *apptest.Bundle { return b }, "on another server": beside,
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				var late atomic.Int64 // seconds
				b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
					o.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load()) * time.Second) }
				})
				b.AddSender(map[string]any{"sender_no": "app_1"})
				user, changer := b.AddUser("phone", "send", map[string]any{"app_id": "app_1"}), at(b)
				answered := make(chan apptest.Answer, 1)
				go func() {
					answered <- b.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"app_1","limit":1,"wait":30}`, user...)
				}()
				apptest.Eventually(t, "the claim waits", func() bool { return b.App.Queue.Waiting() == 1 })
				before := b.Polls() // the claim can still run again because of the new sender
				apptest.Eventually(t, "the claim waits after a poll", func() bool { return b.Polls() >= before+2 && b.App.Queue.Waiting() == 1 })
				changer.Expect(200, "", "PATCH", "/api/v1/admin/users/phone", c.body)
				if changer != b {
					late.Add(2)
					apptest.Eventually(t, "the server knows the change", func() bool {
						return b.Call("POST", "/api/v1/sms/tasks/claim", `{"app_id":"app_1","limit":1}`, user...).Status == c.status
					})
				}
				id := b.Submit("x")
				if a := <-answered; a.Status != c.status || a.Body.Error.Reason != c.reason {
					t.Errorf("the waiting claim got %s", a.Raw)
				}
				if got := b.Claim("app_1", 1); len(got) != 1 || got[0].TaskID != id {
					t.Errorf("the next claim got %v", got)
				}
			})
		}
	}
}

// A setting that is changed on one server takes effect on other servers within five seconds. An event records who changed it.
func TestS4_7_ChangedSettingsTakeEffectOnEveryServer(t *testing.T) {
	var options app.Options
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { options = *o })
	second, err := app.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	server := httptest.NewServer(apptest.CheckAnswers(t, second.Handler))
	t.Cleanup(server.Close)
	other := *b
	other.URL = server.URL
	priority := func() int16 {
		return other.Task(other.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "message_type": "marketing"}).TaskID).Priority
	}
	if got := priority(); got != 8 {
		t.Fatalf("priority %d", got)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"priority_marketing": 3})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", map[string]any{"priority_marketing": 3}) // changes nothing
	if got := b.Task(b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "x", "message_type": "marketing"}).TaskID).Priority; got != 3 {
		t.Errorf("on the same server the priority is %d", got)
	}
	apptest.Eventually(t, "the setting counts on the other server", func() bool { return priority() == 3 })
	events := apptest.Decode[api.EventPage](t, b.Expect(200, "", "GET", "/api/v1/admin/events?event=setting.changed", nil))
	if len(events.Items) != 1 || events.Items[0].Subject != "sms.priority_marketing" || fmt.Sprint(events.Items[0].Detail) != "map[by:admin from:8 to:3]" {
		t.Errorf("%+v", events.Items)
	}
	all := apptest.Decode[api.Settings](t, b.Expect(200, "", "GET", "/api/v1/admin/settings", nil))
	if *all.Sms.PriorityMarketing != 3 || *all.Sms.PriorityVerification != 1 || !*all.Queue.RegisterUnknownSenders {
		t.Errorf("%+v", all)
	}
}
