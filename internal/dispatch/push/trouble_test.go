package push_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/platform/outbound"
	"lksms/internal/testkit/apptest"
)

// countEvents returns the number of operator events of a kind for a sender.
func countEvents(b *apptest.Bundle, event, subject string) int {
	b.T.Helper()
	return len(apptest.Decode[api.EventPage](b.T, b.Expect(200, "", "GET", "/api/v1/admin/events?event="+event+"&subject="+subject, nil)).Items)
}

func withKey(config map[string]any, key string) map[string]any {
	config["headers"] = map[string]any{"X-Key": key}
	return config
}

func TestNoMessageFailsBecauseOfAWrongKey(t *testing.T) {
	const messages = 300
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	p.WantsKey("right")
	b.SubmitMany("x", messages, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "config": withKey(p.SenderConfig(), "wrong")})
	pause := b.AwaitOpenBreaker("pushed")
	if !strings.Contains(pause.Reason, "401") || pause.Openings < 1 {
		t.Errorf("breaker: %+v", pause)
	}
	apptest.Eventually(t, "the breaker opened again", func() bool { return b.AwaitOpenBreaker("pushed").Openings >= 2 })
	if n := b.Count("SELECT count(*) FROM tasks WHERE status IN (0, 1) AND retry_count = 0"); n != messages {
		t.Errorf("%d of %d messages wait without a failed attempt", n, messages)
	}
	if n := countEvents(b, "sender.paused", "pushed"); n != 1 {
		t.Errorf("%d events sender.paused, want 1", n)
	}
	if calls := len(p.Seen()); calls > 20 {
		t.Errorf("%d calls with a wrong key", calls)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": withKey(p.SenderConfig(), "right")})
	apptest.Eventually(t, "all are sent", func() bool {
		return b.Count("SELECT count(*) FROM tasks WHERE status = 2 AND retry_count = 0") == messages
	})
	if s := b.GetSender("pushed"); s.Pause != nil || !s.IsReady {
		t.Errorf("the breaker is still open: %+v", s.Pause)
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE event = 'reported' AND effect = 'success'"); n != messages {
		t.Errorf("%d reports of success", n)
	}
}

// Trouble of the sender fails no message and uses no attempt. An error answer or a missing answer of the provider shows the trouble.
func TestNoMessageFailsBecauseOfSenderTrouble(t *testing.T) {
	t.Parallel()
	elsewhere := apptest.NewProvider(t)
	secured := httptest.NewUnstartedServer(http.NotFoundHandler())
	secured.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	status := func(code int) func(*apptest.Provider, map[string]any) {
		return func(p *apptest.Provider, _ map[string]any) { p.Says(code, "") }
	}
	at := func(url string) func(*apptest.Provider, map[string]any) {
		return func(_ *apptest.Provider, config map[string]any) { config["url"] = url }
	}
	for _, c := range []struct {
		name   string
		does   func(*apptest.Provider, map[string]any)
		reason string
		denied bool
	}{
		{name: "401", does: status(401), reason: "http_401"},
		{name: "403", does: status(403), reason: "http_403"},
		{name: "404", does: status(404), reason: "http_404"},
		{name: "407", does: status(407), reason: "http_407"},
		{name: "a redirect", does: func(p *apptest.Provider, _ map[string]any) {
			p.Does(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
		}, reason: "http_302"},
		{name: "a closed port", does: at("http://" + closed.Addr().String()), reason: "unreachable"},
		{name: "an unknown host name", does: at("http://no-such-host.invalid"), reason: "resolved"},
		{name: "a certificate that is not trusted", does: at(secured.URL), reason: "certificate"},
		{name: "a denied address", does: func(*apptest.Provider, map[string]any) {}, reason: "address_denied", denied: true},
		{name: "a code of the configuration", does: func(p *apptest.Provider, config map[string]any) {
			config["answer"].(map[string]any)["trouble"] = []string{"3"}
			p.Says(200, `{"code":"3","text":"no money"}`)
		}, reason: "no money"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
				apptest.WithSecrets(o)
				if c.denied {
					o.Outbound = outbound.Policy{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
				}
			})
			p := apptest.NewProvider(t)
			config := p.SenderConfig()
			c.does(p, config)
			b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": config})
			id := b.Submit("x")
			b.App.Pusher.Start()
			if pause := b.AwaitOpenBreaker("pushed"); !strings.Contains(pause.Reason, c.reason) {
				t.Errorf("breaker: %+v", pause)
			}
			apptest.Eventually(t, "the lease is released", func() bool {
				got := b.Task(id)
				return got.Status == api.TaskPending && got.RetryCount == 0
			})
			timeline := apptest.Decode[[]api.TimelineEvent](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil))
			if !slices.ContainsFunc(timeline, func(e api.TimelineEvent) bool {
				return e.Event == api.EventReleased && *e.Effect == api.EffectTroubled && e.Message != nil
			}) {
				t.Errorf("timeline %+v", timeline)
			}
			if c.denied {
				return
			}
			p.Says(200, `{"code":"0"}`)
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": p.SenderConfig()})
			b.AwaitStatus(id, queue.Success)
		})
	}
}

func TestOtherSendersReplaceASenderInTrouble(t *testing.T) {
	const messages = 200
	b, p := apptest.NewPushing(t, map[string]any{"is_shared": false})
	p.Says(401, "")
	b.AddRoute("default", "pushed", 3)
	b.AddSender(map[string]any{"sender_no": "other", "kind": "log", "is_shared": false})
	b.AddRoute("default", "other", 1)
	b.SubmitMany("x", messages, nil)
	apptest.Eventually(t, "the other sender sends everything", func() bool {
		return b.Count("SELECT count(*) FROM tasks WHERE status = 2 AND processing_app_id = 'other' AND retry_count = 0") == messages
	})
}

// With several servers, only one probe runs at a time and only one event is stored. An open breaker pauses the sender on all servers.
func TestOpenBreakerPausesTheSenderOnAllServers(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	second := apptest.Another(b)
	second.Pusher.Start()
	p.Says(403, "")
	b.SubmitMany("x", 50, nil)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
	apptest.Eventually(t, "the breaker opened again", func() bool { return b.AwaitOpenBreaker("pushed").Openings >= 2 })
	if n := countEvents(b, "sender.paused", "pushed"); n != 1 {
		t.Errorf("%d events", n)
	}
	// Before the breaker opens, each of the two servers can make 8 concurrent calls. Each probe makes one call.
	if n := len(p.Seen()); n > 2*8+4 {
		t.Errorf("%d calls", n)
	}
	// While one server sends a probe, the other server sends no message.
	release, tried := make(chan struct{}), len(p.Seen())
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	apptest.Eventually(t, "a probe is being sent", func() bool { return len(p.Seen()) > tried })
	began := apptest.Scan[time.Time](b, "SELECT clock_timestamp()")
	apptest.Eventually(t, "the probe has taken a while", func() bool {
		return apptest.Scan[time.Time](b, "SELECT clock_timestamp()").Sub(began) > 2500*time.Millisecond
	})
	if n := len(p.Seen()) - tried; n != 1 {
		t.Errorf("%d probes at once", n)
	}
	close(release)
	apptest.Eventually(t, "all are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2 AND retry_count = 0") == 50 })
	if n := countEvents(b, "sender.recovered", "pushed"); n != 1 {
		t.Errorf("%d events sender.recovered, want 1", n)
	}
}

// A message that causes trouble each time does not block the other messages of its sender forever.
func TestMessageThatCausesTroubleDoesNotBlockOtherMessages(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-To") == "+8613800138000" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	poison := b.Submit("x")
	for i := range 20 {
		b.SubmitBody(map[string]any{"phone_number": fmt.Sprint("1390013", 9000+i), "content": "x"})
	}
	config := p.SenderConfig()
	config["atOnce"], config["headers"] = 1, map[string]any{"X-To": "${recipient}"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "config": config})
	apptest.Eventually(t, "the others are sent", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status = 2") == 20 })
	if got := b.Task(poison); got.RetryCount != 0 || got.Status == api.TaskFailed {
		t.Errorf("the message was blamed: %+v", got)
	}
}

// Refused texts do not count as trouble of the sender, however many texts are refused, because other companies use the same sender.
func TestRefusedTextsDoNotOpenTheBreaker(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Text") == "good" {
			_, _ = io.WriteString(w, `{"code":"0","id":"p"}`)
			return
		}
		_, _ = io.WriteString(w, `{"code":"22","text":"not this text"}`)
	})
	config := p.SenderConfig()
	config["headers"] = map[string]any{"X-Text": "${content}"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	bad := b.Submit("bad")
	b.AwaitStatus(bad, queue.Failed)
	if n := len(p.Seen()); n < 20 {
		t.Errorf("the text was refused %d times, want at least 20", n)
	}
	if s := b.GetSender("pushed"); s.Pause != nil || b.Count("SELECT count(*) FROM events WHERE event = 'sender.paused'") != 0 {
		t.Errorf("the breaker is open: %+v", s.Pause)
	}
	b.AwaitStatus(b.Submit("good"), queue.Success)
}

// If a text cannot be written into a request, no provider receives it. Such a text does not close the breaker, and the next message is the next probe.
func TestUnwritableTextDoesNotCloseTheBreaker(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	p.Says(401, "")
	config := p.SenderConfig()
	config["headers"] = map[string]any{"X-Text": "${content}"}
	good := b.Submit("good")
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "config": config})
	b.AwaitOpenBreaker("pushed")
	bad := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "a\nb", "priority": 0}).TaskID
	b.AwaitStatus(bad, queue.Failed)
	openings := b.AwaitOpenBreaker("pushed").Openings
	apptest.Eventually(t, "another message is probed", func() bool { return b.AwaitOpenBreaker("pushed").Openings > openings })
	if n := b.Count("SELECT count(*) FROM events WHERE event = 'sender.recovered'"); n != 0 {
		t.Errorf("%d events sender.recovered, want none", n)
	}
	p.Says(200, `{"code":"0"}`)
	b.AwaitStatus(good, queue.Success)
}

// If the lease is too short for the batch, the leases of untried messages are returned. Every message is sent once.
func TestSlowBatchSendsEachMessageOnce(t *testing.T) {
	const messages = 9
	b, p := apptest.NewPushing(t, map[string]any{"status": "off", "lease_seconds": 6})
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(600 * time.Millisecond)
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	for i := range messages {
		b.SubmitBody(map[string]any{"phone_number": fmt.Sprint("1390013", 9000+i), "content": "x"})
	}
	config := p.SenderConfig()
	config["atOnce"], config["timeoutSeconds"] = 1, 10
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "config": config})
	apptest.Eventually(t, "all are sent", func() bool {
		return b.Count("SELECT count(*) FROM tasks WHERE status = 2 AND retry_count = 0") == messages
	})
	for to, n := range p.Recipients() {
		if n != 1 {
			t.Errorf("%s got %d messages", to, n)
		}
	}
	if n := b.Count("SELECT count(*) FROM report_logs WHERE effect = 'untried'"); n == 0 {
		t.Error("no lease was released: the batch was not slow")
	}
}

// The worker reports an outcome as soon as the outcome is known, while the driver still sends other messages of the batch.
func TestOutcomeIsReportedBeforeTheBatchEnds(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off"})
	release := make(chan struct{})
	defer close(release)
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-To") == "+8613900139001" {
			<-release
		}
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	quick := b.Submit("x")
	slow := b.SubmitBody(map[string]any{"phone_number": "13900139001", "content": "x"}).TaskID
	config := p.SenderConfig()
	config["atOnce"], config["headers"] = 1, map[string]any{"X-To": "${recipient}"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "config": config})
	apptest.Eventually(t, "the second message is being sent", func() bool { return len(p.Seen()) == 2 })
	b.AwaitStatus(quick, queue.Success)
	if got := b.Task(slow); got.Status != api.TaskProcessing {
		t.Errorf("the second task has status %v", got.Status)
	}
}

// A released task has the same lane, rank and attempts as before its claim, and no lease.
func TestReleasedTaskKeepsItsOrder(t *testing.T) {
	b := apptest.New(t)
	first, second := b.Submit("1"), b.Submit("2")
	lease := b.Claim("app", 1)[0]
	release := func(appID string, lease int64) int {
		t.Helper()
		n, err := b.App.Queue.Release(t.Context(), appID, []queue.Unused{{TaskID: first, LeaseID: lease, Reason: "why"}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := release("other", lease.LeaseID) + release("app", lease.LeaseID+1); n != 0 {
		t.Errorf("%d leases of other senders were released", n)
	}
	if n := release("app", lease.LeaseID); n != 1 {
		t.Errorf("%d leases were released, want 1", n)
	}
	if got := b.Task(first); got.Status != api.TaskPending || got.RetryCount != 0 || got.ProcessingAppID != nil || got.LeaseUntil != nil {
		t.Errorf("%+v", got)
	}
	if n := release("app", lease.LeaseID); n != 0 {
		t.Error("a lease was released twice")
	}
	b.Report(first, "app", 2, nil) // uses the released lease
	if got := b.ClaimIDs(2); !slices.Equal(got, []string{first, second}) {
		t.Errorf("claimed %v", got)
	}
	b.ExpectEffects(first, "released untried", "reported ignored")
	// Only the sweep, and not Release, recovers an expired lease.
	b.ExpireLeases()
	if n := release("app", apptest.Scan[int64](b, "SELECT lease_id FROM tasks WHERE task_id = $1", first)); n != 0 {
		t.Error("a lease that had run out was released")
	}
}

func TestReleasedRetryIsStillARetry(t *testing.T) {
	b := apptest.New(t)
	id := b.Submit("1")
	b.Claim("app", 1)
	b.Report(id, "app", 3, apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	for range 3 {
		leases := b.Claim("app", 1)
		if len(leases) != 1 || leases[0].Attempt != 2 {
			t.Fatalf("claimed %+v", leases)
		}
		if _, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: id, LeaseID: leases[0].LeaseID}}); err != nil {
			t.Fatal(err)
		}
	}
	// After the second trouble with the same task, the task waits before its next attempt.
	for range 2 {
		if _, err := b.App.Queue.Release(t.Context(), "app", []queue.Unused{{TaskID: id, LeaseID: b.Claim("app", 1)[0].LeaseID, Tried: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Claim("app", 1); len(got) != 0 {
		t.Errorf("claimed %+v", got)
	}
	if got := b.Task(id); !got.DueAt.After(time.Now()) || got.RetryCount != 1 {
		t.Errorf("%+v", got)
	}
}

// A daily quota that is used up lasts until the day ends in the quota's time zone.
func TestWeChatBreakerStaysOpenUntilTheQuotaDayEnds(t *testing.T) {
	b, _, says := apptest.NewWeChat(t)
	says(`{"errcode":45009,"errmsg":"reach max api daily quota limit"}`)
	id := b.SendOnce(nil).TaskID
	pause := b.AwaitOpenBreaker("mini")
	tomorrow := apptest.Scan[time.Time](b, "SELECT (date_trunc('day', now() AT TIME ZONE 'Asia/Shanghai') + interval '1 day') AT TIME ZONE 'Asia/Shanghai'")
	if !pause.Until.Equal(tomorrow) || pause.State != api.PauseOpen || !strings.Contains(pause.Reason, "45009") {
		t.Errorf("breaker %+v, want open until %v", pause, tomorrow)
	}
	if s := b.GetSender("mini"); s.IsReady || s.NextAvailableAt == nil || !s.NextAvailableAt.Equal(tomorrow) {
		t.Errorf("sender %+v", s)
	}
	apptest.Eventually(t, "the lease is released", func() bool { return b.Task(id).Status == api.TaskPending })
	if got := b.Task(id); got.RetryCount != 0 {
		t.Errorf("%+v", got)
	}
	says(`{"errcode":0,"msgid":7}`)
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/mini", map[string]any{"status": "on"})
	b.AwaitStatus(id, queue.Success)
}

// While one server fetches a token, the other servers wait for the token. No server keeps a transaction open.
func TestTokenIsFetchedOnceWithoutAnOpenTransaction(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	apptest.Another(b).Pusher.Start()
	release := make(chan struct{})
	usual := *p.Handler.Load()
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cgi-bin/stable_token" {
			<-release
		}
		usual(w, r)
	})
	var ids []string
	for i := range 4 {
		ids = append(ids, b.SendOnce(map[string]any{"business_id": 1000 + i}).TaskID)
		apptest.Eventually(t, "the task is held", func() bool { return b.Task(ids[i]).Status == api.TaskProcessing || i > 1 })
	}
	apptest.Eventually(t, "a token is being fetched", func() bool { return len(p.Seen()) > 0 })
	began := apptest.Scan[time.Time](b, "SELECT clock_timestamp()")
	apptest.Eventually(t, "the fetch has taken a while", func() bool { return apptest.Scan[time.Time](b, "SELECT clock_timestamp()").Sub(began) > time.Second })
	if n := b.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND xact_start < $1", began); n != 0 {
		t.Errorf("%d transactions are open", n)
	}
	close(release)
	for _, id := range ids {
		b.AwaitStatus(id, queue.Success)
	}
	if n := len(p.Seen()) - apptest.SentToWeChat(p); n != 1 {
		t.Errorf("%d tokens were fetched, want 1", n)
	}
}

// If a server dies while it fetches a token, the other servers wait at most until the lease of the dead server ends.
func TestAnotherServerFetchesTheTokenAfterACrash(t *testing.T) {
	b, p, _ := apptest.NewWeChat(t)
	b.Exec("INSERT INTO sender_tokens (sender_id, fetches, fetch_until) SELECT id, 1, now() + interval '1 hour' FROM senders WHERE sender_no = 'mini'")
	id := b.SendOnce(nil).TaskID
	apptest.Eventually(t, "the task is held", func() bool { return b.Task(id).Status == api.TaskProcessing })
	if len(p.Seen()) != 0 {
		t.Error("two servers fetch a token")
	}
	b.Exec("UPDATE sender_tokens SET fetch_until = now()")
	b.AwaitStatus(id, queue.Success)
}

// A sender that probes after trouble does not claim the message that caused the trouble if another sender can claim it. The pauses of the breaker and of the
// retry grow at the same rate, so the sender would otherwise claim this message again at each probe, for minutes.
func TestOtherSendersClaimTheMessageThatCausedTrouble(t *testing.T) {
	t.Parallel()
	route := func(b *apptest.Bundle, sender string, sort float64) {
		b.AddRouteWith(map[string]any{"company_no": "default", "sender_no": sender, "weight": 1, "sort": sort})
	}
	for name, begin := range map[string]func(b *apptest.Bundle){
		"of the same sort": func(b *apptest.Bundle) { route(b, "sick", 1); route(b, "well", 1) },
		"a backup":         func(b *apptest.Bundle) { route(b, "sick", 2); route(b, "well", 1) },
		"shared": func(b *apptest.Bundle) {
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/sick", map[string]any{"is_shared": true})
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/well", map[string]any{"is_shared": true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
			claim := func(sender string) []claim.Lease {
				t.Helper()
				rows, err := b.App.Queue.Claim(t.Context(), claim.Request{SenderNo: sender, Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				return rows
			}
			b.AddSender(map[string]any{"sender_no": "sick", "is_shared": false, "kind": "http-sms", "config": apptest.NewProvider(t).SenderConfig()})
			b.AddSender(map[string]any{"sender_no": "well", "is_shared": false})
			begin(b)
			if rows := claim("well"); len(rows) > 0 {
				t.Fatalf("claimed %d tasks from an empty queue", len(rows))
			}
			b.Submit("x")
			b.Exec("UPDATE tasks SET due_at = due_at - interval '1 hour'") // the task waited a long time before its first attempt
			rows := claim("sick")
			if len(rows) != 1 {
				t.Fatalf("claimed %d tasks, want 1", len(rows))
			}
			b.Exec("UPDATE sender_states SET openings = 1, rest_until = now() - interval '1 s', rest_reason = 'x' WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'sick')")
			if _, err := b.App.Queue.Release(t.Context(), "sick", []queue.Unused{{TaskID: rows[0].TaskID, LeaseID: rows[0].LeaseID, Tried: true}}); err != nil {
				t.Fatal(err)
			}
			other := b.Submit("y")
			e := apptest.Decode[api.Explanation](t, b.Expect(200, "", "GET", "/api/v1/sms/task/"+rows[0].TaskID+"/explain", nil))
			if len(e.Senders) != 2 || e.Senders[0].SenderNo != "well" || !e.Senders[0].CanTake || e.Senders[1].CanTake {
				t.Errorf("explained as %+v", e.Senders)
			}
			if got := claim("sick"); len(got) != 1 || got[0].TaskID != other {
				t.Errorf("sick takes %v, want only the other message", got)
			}
			if got := claim("well"); len(got) != 1 || got[0].TaskID != rows[0].TaskID {
				t.Errorf("well takes %v, want the first message", got)
			}
		})
	}
}

// The lease of a message ends when the message expires. The other messages of the claim keep their leases. Messages that were not sent cost nothing.
func TestMessageThatExpiresDuringABatchIsNotSent(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"status": "off", "balance": 10})
	config := p.SenderConfig()
	config["atOnce"] = 1
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	expires := time.Now().Add(3 * time.Second)
	first := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "first", "priority": 0}).TaskID
	code := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "priority": 1, "expires_at": expires}).TaskID
	last := b.Submit("last")
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		for time.Now().Before(expires.Add(10 * time.Millisecond)) {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
	b.AwaitStatus(first, 2)
	b.AwaitStatus(last, 2)
	apptest.Eventually(t, "the expired message has ended", func() bool {
		_, err := b.App.Queue.Expire(t.Context())
		return err == nil && b.Task(code).Status == api.TaskFailed
	})
	b.ExpectEffects(code, "released untried", "expired expired")
	if n := len(p.Seen()); n != 2 {
		t.Errorf("the provider was called %d times", n)
	}
	if s := b.GetSender("pushed"); *s.Balance != 8 {
		t.Errorf("the balance is %d", *s.Balance)
	}
}

// The lease of a message ends when quiet hours begin. A call that began earlier counts. The messages that were not sent wait for the end of the quiet hours, whatever
// on_unclear is, and cost nothing.
func TestMessagesThatQuietHoursInterruptAreNotSent(t *testing.T) {
	for _, onUnclear := range []string{"fail", "retry"} {
		t.Run(onUnclear, func(t *testing.T) {
			b, p := apptest.NewPushing(t, map[string]any{"status": "off", "balance": 10, "on_unclear": onUnclear})
			config := p.SenderConfig()
			config["atOnce"] = 1
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
			b.Exec("CREATE FUNCTION begin_quiet() RETURNS trigger LANGUAGE plpgsql AS " +
				"$$BEGIN NEW.quiet_from := clock_timestamp() + interval '2 seconds'; NEW.lease_until := NEW.quiet_from; RETURN NEW; END$$")
			b.Exec("CREATE TRIGGER begin_quiet BEFORE UPDATE ON queue FOR EACH ROW " +
				"WHEN (OLD.lease_until IS NULL AND NEW.lease_until IS NOT NULL) EXECUTE FUNCTION begin_quiet()")
			var ids []string
			for _, content := range []string{"first", "second", "third"} {
				ids = append(ids, b.Submit(content))
			}
			p.Does(func(w http.ResponseWriter, _ *http.Request) {
				apptest.Eventually(t, "the leases have ended", func() bool { return b.Count("SELECT count(*) FROM queue WHERE lease_until > now()") == 0 })
				if n, err := b.App.Queue.Recover(t.Context()); n != 0 || err != nil {
					t.Errorf("recovered %d leases that the sender can still return: %v", n, err)
				}
				_, _ = io.WriteString(w, `{"code":"0"}`)
			})
			b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on"})
			b.AwaitStatus(ids[0], 2)
			apptest.Eventually(t, "the sender has returned its leases", func() bool { return b.Count("SELECT count(*) FROM queue WHERE lease_until IS NOT NULL") == 0 })
			for _, id := range ids[1:] {
				b.ExpectEffects(id, "released untried")
				if task := b.Task(id); task.Status != api.TaskPending || task.RetryCount != 0 {
					t.Errorf("%+v", task)
				}
			}
			if n := len(p.Seen()); n != 1 {
				t.Errorf("the provider was called %d times", n)
			}
			if s := b.GetSender("pushed"); *s.Balance != 9 {
				t.Errorf("the balance is %d", *s.Balance)
			}
		})
	}
}

// The expiry of a message limits when a call can begin. A call that has begun continues until the timeout of its sender, and its outcome counts.
// Otherwise a company whose codes expire soon could stop a shared sender.
func TestCallContinuesAfterItsMessageExpires(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	expires := time.Now().Add(6 * time.Second)
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		for time.Now().Before(expires.Add(time.Second)) {
			select {
			case <-r.Context().Done():
				return // the call was cancelled
			case <-time.After(time.Millisecond):
			}
		}
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	code := b.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "expires_at": expires}).TaskID
	apptest.Eventually(t, "the message has ended", func() bool {
		_, err := b.App.Queue.Recover(t.Context())
		return err == nil && b.Task(code).Status >= api.TaskSuccess
	})
	if task := b.Task(code); task.Status != api.TaskSuccess {
		t.Errorf("%d: %v", task.Status, task.Result)
	}
	if s := b.GetSender("pushed"); s.Pause != nil {
		t.Errorf("the sender is paused: %+v", s.Pause)
	}
}
