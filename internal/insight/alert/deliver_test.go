package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"lksms/gen/alertq"
	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
	"lksms/internal/testkit/pgtest"
)

// posted is an alert as documented for version 2 of the Alertmanager API.
type posted struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

// alertmanager is a stub of an Alertmanager. It rejects the same calls as a real Alertmanager.
type alertmanager struct {
	*httptest.Server
	mu     sync.Mutex
	calls  [][]posted
	header http.Header
	says   func(w http.ResponseWriter, r *http.Request) // nil: accepts all alerts
}

func newAlertmanager(t *testing.T) *alertmanager {
	t.Helper()
	a := &alertmanager{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		says := a.says
		a.mu.Unlock()
		if says != nil {
			says(w, r)
			return
		}
		var all []posted
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&all); err != nil || all == nil || r.Method != http.MethodPost || r.URL.Path != "/am/api/v2/alerts" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, one := range all {
			if one.Labels["alertname"] == "" || one.StartsAt.IsZero() || !one.EndsAt.IsZero() && one.EndsAt.Before(one.StartsAt) {
				t.Errorf("wrong: %+v", one)
			}
			for name, value := range one.Labels {
				if value == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
					t.Errorf("label %q is %q", name, value)
				}
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls, a.header = append(a.calls, all), r.Header
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *alertmanager) answers(says func(w http.ResponseWriter, r *http.Request)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says = says
}

// taken returns the calls since its previous call.
func (a *alertmanager) taken() [][]posted {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls
	a.calls = nil
	return calls
}

func (w *watched) notify() {
	w.T.Helper()
	if _, err := w.App.Notifier.Notify(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// newNotified returns a server with one rule about waits of more than ten seconds.
func newNotified(t *testing.T, more string) (*watched, api.AlertRule) {
	t.Helper()
	w := watchedOf(apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		apptest.WithSecrets(o)
		o.DatabaseURL = pgtest.NewWithClock(t)
	}))
	return w, w.only(`{"kind":"wait_time","level":"critical","threshold":10,"resolve_seconds":0` + more + `}`)
}

// late makes the rule of newNotified fire.
func (w *watched) late() {
	w.T.Helper()
	w.Submit("x")
	w.after(11)
	w.evaluate()
}

// over ends the alert of newNotified.
func (w *watched) over() {
	w.T.Helper()
	w.finish("phone")
	w.after(1)
	w.evaluate()
}

func TestAlertmanagerIsCalledWhileAlertFiresAndWhenItEnds(t *testing.T) {
	w, _ := newNotified(t, "")
	am := newAlertmanager(t)
	r := addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","language":"en","url":"%s/am/","authorization":"Bearer s3cret"}`, am.URL))
	w.notify()
	w.late()
	w.notify()
	w.notify()
	calls := am.taken()
	if len(calls) != 1 || len(calls[0]) != 1 || am.header.Get("Authorization") != "Bearer s3cret" {
		t.Fatalf("called %v with %v", calls, am.header)
	}
	first := calls[0][0]
	if first.Labels["alertname"] != "lksms_wait_time" || first.Labels["severity"] != "critical" || first.Labels["channel"] != "sms" ||
		!strings.Contains(first.Annotations["summary"], "has waited for 11 s") || !first.EndsAt.IsZero() {
		t.Errorf("delivered %+v", first)
	}
	path := fmt.Sprintf("%s/%d/acknowledge", alertsPath, w.alerts("")[0].AlertID)
	w.Expect(200, "", "POST", path, `{}`)
	w.after(60) // without this repeat, Alertmanager would resolve the alert
	w.evaluate()
	w.notify()
	again := am.taken()
	if len(again) != 1 || !again[0][0].StartsAt.Equal(first.StartsAt) || fmt.Sprint(again[0][0].Labels) != fmt.Sprint(first.Labels) || !again[0][0].EndsAt.IsZero() {
		t.Errorf("called again %v", again)
	}
	w.over()
	w.notify()
	w.notify()
	end := am.taken()
	if len(end) != 1 || !end[0][0].EndsAt.Equal(w.at) || fmt.Sprint(end[0][0].Labels) != fmt.Sprint(first.Labels) {
		t.Errorf("the end: %v", end)
	}
	d := w.alerts("")[0].Deliveries
	if len(d) != 1 || d[0].ReceiverNo != r.ReceiverNo || d[0].DeliveredAt == nil || d[0].ResolutionDeliveredAt == nil || d[0].Error != nil {
		t.Errorf("deliveries are %+v", d)
	}
}

func TestRejectingReceiverIsRetriedAndRaisesAlert(t *testing.T) {
	for name, says := range map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, "no\x00\xff")
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"breaks off": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
				conn.Close()
			}
		},
		"speaks no HTTP": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "nonsense")
				conn.Close()
			}
		},
		"floods": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newNotified(t, "")
			w.Exec("UPDATE alert_rules SET is_enabled = true WHERE kind = 'webhook_failing'")
			am := newAlertmanager(t)
			am.answers(says)
			good := newAlertmanager(t)
			bad := addReceiver(w.Bundle, fmt.Sprintf(`{"name":"bad","kind":"alertmanager","url":"%s/am"}`, am.URL))
			addReceiver(w.Bundle, fmt.Sprintf(`{"name":"good","kind":"alertmanager","url":"%s/am"}`, good.URL))
			w.late()
			w.notify()
			if len(good.taken()) != 1 {
				t.Error("the other receiver got nothing")
			}
			shown := apptest.Decode[api.AlertReceiver](t, w.Expect(200, "", "GET", fmt.Sprint(receiversPath, "/", bad.ReceiverNo), nil))
			d := w.alerts("")[0].Deliveries
			if shown.FailingSince == nil || shown.Error == nil || len(d) != 2 || d[0].DeliveredAt != nil || d[0].Error == nil {
				t.Errorf("%+v, %+v", shown, d)
			}
			w.notify()
			if n := w.Count("SELECT failures FROM alert_receiver_states WHERE receiver_id = $1", bad.ReceiverNo); n != 1 {
				t.Errorf("called again at once: %d", n)
			}
			for range 30 {
				w.after(11)
				w.evaluate()
				w.notify()
			}
			w.expect("wait_time critical sms", fmt.Sprintf("webhook_failing warning %d (bad)", bad.ReceiverNo))
			w.over()
			w.notify() // the failing receiver has not received the alert, so it does not receive the end
			am.answers(nil)
			w.after(121)
			w.evaluate()
			w.notify()
			w.evaluateFor(70)
			w.notify()
			w.expect()
			for _, call := range am.taken() {
				if slices.ContainsFunc(call, func(p posted) bool { return p.Labels["alertname"] == "lksms_wait_time" }) {
					t.Error("notified of an alert that is over")
				}
			}
		})
	}
}

// An empty call probes a failing receiver. The service therefore notices that the receiver works again, even if no delivery is due.
func TestFailingReceiverIsProbedEvenIfNoDeliveryIsDue(t *testing.T) {
	w, _ := newNotified(t, "")
	am := newAlertmanager(t)
	am.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	r := addReceiver(w.Bundle, fmt.Sprintf(`{"name":"bad","kind":"alertmanager","url":"%s/am"}`, am.URL))
	w.late()
	w.notify()
	w.over()
	am.answers(nil)
	w.after(20)
	w.notify()
	calls := am.taken()
	shown := apptest.Decode[api.AlertReceiver](t, w.Expect(200, "", "GET", fmt.Sprint(receiversPath, "/", r.ReceiverNo), nil))
	if len(calls) != 1 || len(calls[0]) != 0 || shown.FailingSince != nil || shown.Error != nil {
		t.Errorf("calls %v, %+v", calls, shown)
	}
}

func TestHangingReceiverDelaysNoOtherReceiver(t *testing.T) {
	w, _ := newNotified(t, "")
	ends := make(chan struct{})
	defer close(ends)
	hangs := newAlertmanager(t)
	hangs.answers(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ends:
		}
	})
	good := newAlertmanager(t)
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"hangs","kind":"alertmanager","url":"%s/am"}`, hangs.URL))
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"good","kind":"alertmanager","url":"%s/am"}`, good.URL))
	addReceiver(w.Bundle, `{"name":"people","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	w.late()
	sent := make(chan int)
	go func() {
		n, err := w.App.Notifier.Notify(t.Context())
		if err != nil {
			t.Error(err)
		}
		sent <- n
	}()
	apptest.Eventually(t, "the others are notified", func() bool {
		return len(good.taken()) > 0 && w.Count("SELECT count(*) FROM notifications") == 1
	})
	// The results of the other calls are being stored. If a transaction were open during calls, the transaction of the hanging call would be open now.
	apptest.Eventually(t, "no transaction is open during a call", func() bool {
		return w.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'") == 0
	})
	select {
	case <-sent:
		t.Fatal("the call that hangs had ended")
	default:
	}
	if n := <-sent; n != 2 {
		t.Errorf("delivered %d", n)
	}
	if n := w.Count("SELECT count(*) FROM alert_receiver_states WHERE failing_since IS NOT NULL"); n != 1 {
		t.Errorf("%d receivers fail", n)
	}
}

func TestPeopleAreNotifiedAtStartRepeatAndEndOfAlert(t *testing.T) {
	w, r := newNotified(t, `,"repeat_seconds":600,"channel":"sms"`)
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"}, map[string]any{"user_id": "u2"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1","u2"]}`)
	texts := func() (all []string) {
		rows, err := w.DB.Query(t.Context(), "SELECT title || '|' || content FROM renderings ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return all
	}
	w.late()
	other := apptest.Another(w.Bundle)
	for range 3 { // two servers notify at the same time
		apptest.Together(4, func(i int) {
			if _, err := []*app.App{w.App, other}[i%2].Notifier.Notify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if all := texts(); len(all) != 1 || !strings.Contains(all[0], "等待时间：sms|[严重] sms：有任务已等待 11 秒（阈值 10 秒）") {
		t.Fatalf("delivered %q", all)
	}
	w.after(590)
	w.evaluate()
	w.notify()
	if n := len(texts()); n != 1 {
		t.Errorf("notified again too early: %d", n)
	}
	w.after(10)
	w.evaluate()
	w.notify()
	if all := texts(); len(all) != 2 || !strings.Contains(all[1], "[严重，未恢复]") {
		t.Errorf("delivered %q", all)
	}
	w.patch(r, fmt.Sprintf(`{"silenced_until":%q}`, w.at.Add(time.Hour).Format(time.RFC3339)))
	w.after(1200)
	w.evaluate()
	w.notify()
	if n := len(texts()); n != 2 {
		t.Errorf("a silenced rule notified its receivers %d times", n)
	}
	w.patch(r, `{"silenced_until":null}`)
	w.Expect(200, "", "POST", fmt.Sprintf("%s/%d/acknowledge", alertsPath, w.alerts("")[0].AlertID), `{}`)
	w.notify()
	if n := len(texts()); n != 2 {
		t.Errorf("an acknowledged alert notified its receivers %d times", n)
	}
	w.over()
	w.notify()
	w.notify()
	if all := texts(); len(all) != 3 || !strings.Contains(all[2], "[已恢复]") {
		t.Errorf("delivered %q", all)
	}
	// The rule is deleted while its alert fires. People are notified of the end.
	w.late()
	w.notify()
	w.Expect(200, "", "DELETE", fmt.Sprint(rulesPath, "/", r.RuleNo), nil)
	w.notify()
	if all := texts(); len(all) != 5 || !strings.Contains(all[4], "[已恢复]") {
		t.Errorf("delivered %q", all)
	}
	if n := w.Count("SELECT count(*) FROM alert_deliveries WHERE end_told_at IS NULL"); n != 0 {
		t.Errorf("%d deliveries are open", n)
	}
}

// A rule is silenced when its alert begins. If the alert ends during the silence, nobody is notified. If the alert still fires after the silence, the receivers
// are notified then.
func TestReceiversAreNotifiedWhenSilenceOfAlertEnds(t *testing.T) {
	w, r := newNotified(t, "")
	am := newAlertmanager(t)
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","url":"%s/am"}`, am.URL))
	w.patch(r, fmt.Sprintf(`{"silenced_until":%q}`, w.at.Add(100*time.Second).Format(time.RFC3339)))
	w.late()
	w.notify()
	w.over()
	w.notify()
	w.late()
	w.notify()
	if calls := am.taken(); len(calls) != 0 {
		t.Errorf("delivered %v", calls)
	}
	w.after(100)
	w.evaluate()
	w.notify()
	if calls := am.taken(); len(calls) != 1 || len(calls[0]) != 1 {
		t.Errorf("delivered %v", calls)
	}
}

// polled records that apps have just polled, which makes their channels usable.
func (w *watched) polled(senderNos ...string) {
	w.T.Helper()
	w.Exec("UPDATE sender_states t SET seen_at = now() FROM senders s WHERE s.id = t.sender_id AND s.sender_no = ANY ($1)", senderNos)
}

// notifiedThrough returns the channels of all notifications.
func (w *watched) notifiedThrough() string {
	w.T.Helper()
	return apptest.Scan[string](w.Bundle, "SELECT coalesce(string_agg(c.channel, ',' ORDER BY c.channel), '') FROM notifications n JOIN channels c ON c.id = n.channel_id")
}

// onlyOwn returns the number of events about alerts whose own channel is the only way to their receivers.
func (w *watched) onlyOwn() int {
	w.T.Helper()
	return w.Count("SELECT count(*) FROM events WHERE event = 'alert.only_channel'")
}

func TestAlertAboutChannelAlsoUsesAnotherChannel(t *testing.T) {
	w, _ := newNotified(t, "")
	w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
	r := addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["sms"],"user_ids":["u1"]}`)
	channels, events := w.notifiedThrough, w.onlyOwn
	clear := func() {
		w.Exec("DELETE FROM alerts")
		w.Exec("UPDATE notifications SET ended_as = 3, next_run_at = NULL")
		w.Exec("DELETE FROM queue")
		w.Exec("DELETE FROM renderings; DELETE FROM notifications")
		w.Exec("SET LOCAL lksms.facts_version = '4'; DELETE FROM facts")
	}
	w.late() // no sender serves e-mail, so the short message is the only way
	w.notify()
	if a := w.alerts("")[0]; channels() != "sms" || !a.OnlyOwnChannel || events() != 1 {
		t.Fatalf("notified through %s, %+v, %d events", channels(), a, events())
	}
	w.notify()
	clear()
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.polled("mail")
	w.late()
	w.notify()
	if a := w.alerts("")[0]; channels() != "email,sms" || a.OnlyOwnChannel || events() != 1 {
		t.Errorf("notified through %s, %+v, %d events", channels(), a, events())
	}
	clear()
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"t","content":"c","enabled":false}`)
	am := newAlertmanager(t)
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","url":"%s/am"}`, am.URL))
	w.late() // e-mail has no template and cannot be used, but the program can be called
	w.notify()
	if a := w.alerts("")[0]; channels() != "sms" || a.OnlyOwnChannel || len(am.taken()) != 1 {
		t.Errorf("notified through %s, %+v", channels(), a)
	}
	clear()
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"t","content":"c"}`)
	w.polled("mail")
	w.Expect(200, "", "PATCH", fmt.Sprint(receiversPath, "/", r.ReceiverNo), `{"channels":["email"]}`)
	w.late() // an alert about a different channel needs no additional channel
	w.notify()
	if channels() != "email" {
		t.Errorf("notified through %s", channels())
	}
}

// Three rules find the same late task. People are notified only of the worst alert that their rules send to them. A program is notified of all alerts.
func TestPeopleAreNotifiedOfWorstAlertOfSubject(t *testing.T) {
	w, _ := newNotified(t, "")
	w.Exec("DELETE FROM alert_rules WHERE kind <> 'wait_time' OR threshold IS NOT NULL")
	w.Exec("UPDATE alert_rules SET is_enabled = true, resolve_seconds = 0")
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"}, map[string]any{"user_id": "u2", "email": "u2@example.com"})
	am := newAlertmanager(t)
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","url":"%s/am"}`, am.URL))
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","language":"en","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	sent := 0
	expect := func(want ...string) { // want contains the prefixes of the texts since the previous call of expect
		t.Helper()
		w.evaluate()
		w.notify()
		for _, task := range w.Claim("mail", 100) {
			w.Report(task.TaskID, "mail", 2, nil)
		}
		rows := apptest.Scan[[]string](w.Bundle, "SELECT coalesce(array_agg(substr(content, 1, position(']' in content)) ORDER BY id), '{}') FROM renderings")
		if got := fmt.Sprint(rows[sent:]); got != fmt.Sprint(want) {
			t.Fatalf("delivered %v, want %v", got, want)
		}
		sent = len(rows)
	}
	w.Submit("x")
	w.after(1801) // no evaluation has run for half an hour
	expect("[emergency]")
	if calls := am.taken(); len(calls) != 1 || len(calls[0]) != 3 {
		t.Errorf("the program got %v", calls)
	}
	w.after(1800) // the critical alert would repeat after one hour, and the warning after six hours
	expect("[emergency, still]")
	w.finish("phone")
	expect("[resolved]")

	w.Submit("x")
	w.after(301)
	expect("[warning]")
	w.after(300)
	expect("[critical]")
	w.after(7 * 3600)
	expect("[emergency]") // the lower alerts fire and are due again, but are not sent
	w.finish("phone")
	expect("[resolved]", "[resolved]", "[resolved]") // one message for each alert of which people were notified

	// An alert that one receiver does not get does not suppress other alerts for this receiver.
	other := addReceiver(w.Bundle, `{"name":"q","kind":"notification","language":"en","company_no":"default","channels":["email"],"user_ids":["u2"]}`)
	w.Exec("UPDATE alert_rules SET receivers = ARRAY[$1::bigint] WHERE level = 'emergency'", other.ReceiverNo)
	w.Exec("UPDATE alert_rules SET silenced_until = now() + interval '1 hour' WHERE level = 'critical'")
	w.Submit("x")
	w.after(1801)
	expect("[emergency]", "[warning]")
	w.after(3600) // the silence has ended by now
	expect("[emergency, still]", "[critical]")
	w.finish("phone")
	expect("[resolved]", "[resolved]", "[resolved]")
	// The worst alert ends first.
	w.Submit("x")
	w.after(1801)
	expect("[emergency]", "[critical]")
	w.Expect(200, "", "PUT", "/api/v1/admin/settings/monitoring", `{"wait_critical_seconds":0}`)
	expect("[resolved]", "[warning]")
}

// No sender serves e-mail. A waiting message about a wait must not raise an alert, neither while its own alert fires nor afterwards. Other waiting tasks do
// raise an alert.
func TestMessageAboutWaitRaisesNoWaitAlert(t *testing.T) {
	w, _ := newNotified(t, `,"repeat_seconds":60`)
	w.Exec("UPDATE alert_rules SET is_enabled = true, for_seconds = 0, resolve_seconds = 0, repeat_seconds = 60 WHERE kind IN ('pool_unserved', 'disk_low')")
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	pass := func(rounds int, want ...string) {
		t.Helper()
		for range rounds {
			w.after(60)
			w.evaluate()
			w.notify()
			w.expect(want...)
		}
	}
	mails := func() int {
		return w.Count("SELECT count(*) FROM queue WHERE lease_until IS NULL AND rendering_id IS NOT NULL")
	}
	w.late()
	pass(5, "pool_unserved critical sms", "wait_time critical sms")
	w.over()
	pass(5)
	if n := mails(); n != 12 { // messages about the starts, four repeats and the ends
		t.Errorf("%d mails wait", n)
	}
	w.Exec("INSERT INTO disk_spaces (host, folder, bytes, free_bytes, measured_at) VALUES ('a', '/x', 1000, 1, now() + interval '1 hour')")
	w.evaluate()
	w.notify()
	pass(5, "disk_low critical a:/x", "pool_unserved critical email", "wait_time critical email")
	w.Exec(`DELETE FROM queue WHERE rendering_id IN (
		SELECT r.id FROM renderings r JOIN notifications n ON n.id = r.notification_id JOIN alerts a ON a.id = n.biz_id WHERE a.kind = 'disk_low')`)
	w.Exec("DELETE FROM disk_spaces")
	w.evaluate()
	w.Exec("UPDATE alert_receivers SET channels = '{sms}'") // the end is sent through another channel
	w.notify()
	w.finish("phone")
	pass(5)
	if n := mails(); n < 20 {
		t.Errorf("%d mails wait", n)
	}
	w.Submit("x") // other waiting short messages still raise alerts
	pass(1, "pool_unserved critical sms", "wait_time critical sms")
}

// A channel is no fallback for the alert's own channel if nobody has an address on it, or if its sender cannot send.
func TestChannelThatReachesNobodyIsNotUsedAsFallback(t *testing.T) {
	for name, set := range map[string]func(w *watched){
		"no address": func(w *watched) { w.polled("mail") },
		"never polled": func(w *watched) {
			w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
		},
		"breaker open": func(w *watched) {
			w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
			w.polled("mail")
			w.Exec("UPDATE sender_states t SET openings = 1, rest_until = now(), rest_reason = 'x' FROM senders s WHERE s.id = t.sender_id AND s.sender_no = 'mail'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newNotified(t, "")
			w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
			w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone})
			addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["sms","email"],"user_ids":["u1"]}`)
			set(w)
			w.late()
			w.notify()
			if a := w.alerts("")[0]; !a.OnlyOwnChannel || w.onlyOwn() != 1 || a.Deliveries[0].QueuedAt == nil {
				t.Errorf("%+v, %d events", a, w.onlyOwn())
			}
		})
	}
}

// The message on the other channel fails. The alert counts as undelivered and is retried, although its own channel has accepted the message.
func TestAlertAboutChannelIsDeliveredOnlyThroughAnotherChannel(t *testing.T) {
	w, _ := newNotified(t, "")
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["sms","email"],"user_ids":["u1"]}`)
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${unknown}","content":"${unknown}"}`)
	for range 3 {
		w.polled("mail")
		w.late()
		w.notify()
		w.after(600)
	}
	a := w.alerts("")[0]
	if d := a.Deliveries[0]; d.QueuedAt != nil || d.Error == nil || !strings.Contains(*d.Error, "email") || a.OnlyOwnChannel {
		t.Fatalf("%+v, %+v", a, d)
	}
	if n := w.Count("SELECT count(*) FROM notifications n JOIN channels c ON c.id = n.channel_id WHERE c.channel = 'sms'"); n != 1 {
		t.Errorf("%d messages through its own channel", n)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${title}","content":"${text}"}`)
	w.after(3600)
	w.polled("mail")
	w.notify()
	if d := w.alerts("")[0].Deliveries[0]; d.QueuedAt == nil {
		t.Errorf("%+v", d)
	}
}

// The clock of the database is three days ahead of the clock of the server.
func TestNotificationOfAlertExpiresByDatabaseTime(t *testing.T) {
	w, _ := newNotified(t, "")
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	w.after(3 * 24 * 3600)
	w.late()
	w.notify()
	if n := w.Count("SELECT count(*) FROM tasks WHERE rendering_id IS NOT NULL AND expires_at > now() AND expires_at <= now() + interval '1 day'"); n != 1 {
		t.Errorf("%d tasks wait", n)
	}
}

// One channel of a receiver cannot be used. The delivery uses the other channels, and contains the error.
func TestFailingChannelOfReceiverDoesNotStopItsOtherChannels(t *testing.T) {
	w, _ := newNotified(t, "")
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	w.Expect(200, "", "POST", "/api/v1/admin/channels", `{"channel":"pigeon","name":"p"}`)
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["pigeon","email","dingtalk"],"user_ids":["u1"]}`)
	lonely := addReceiver(w.Bundle, `{"name":"q","kind":"notification","company_no":"default","channels":["pigeon"],"user_ids":["nobody"]}`)
	w.Expect(200, "", "DELETE", "/api/v1/admin/channels/pigeon", nil)
	w.late()
	w.notify()
	d := w.alerts("")[0].Deliveries
	if d[0].QueuedAt == nil || d[0].Error == nil || !strings.Contains(*d[0].Error, "pigeon") || !strings.Contains(*d[0].Error, "dingtalk") ||
		strings.Contains(*d[0].Error, "email") {
		t.Errorf("%+v: %v", d[0], *d[0].Error)
	}
	if d[1].QueuedAt != nil || d[1].Error == nil {
		t.Errorf("%+v", d[1])
	}
	w.after(29)
	w.notify()
	if n := w.Count("SELECT tries FROM alert_deliveries WHERE receiver_id = $1", lonely.ReceiverNo); n != 1 {
		t.Errorf("%d tries", n)
	}
	w.after(1)
	w.notify()
	if n := w.Count("SELECT tries FROM alert_deliveries WHERE receiver_id = $1", lonely.ReceiverNo); n != 2 {
		t.Errorf("%d tries", n)
	}
}

// An alert about all channels is sent on two channels, because either of them can fail.
func TestAlertAboutAllChannelsNeedsTwoChannels(t *testing.T) {
	w := newWatched(t)
	acme := w.AddCompany("acme", 1)
	w.only(`{"kind":"queue_depth","level":"warning","company_no":"acme","threshold":0,"for_seconds":0,"resolve_seconds":0}`)
	w.SubmitMany("x", 1, nil, acme...)
	w.AddSender(map[string]any{"sender_no": "phone"})
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone}, map[string]any{"user_id": "u2", "email": "u2@example.com"})
	first := addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["sms"],"user_ids":["u1"]}`)
	begin := func() {
		t.Helper()
		w.Exec("DELETE FROM alerts")
		w.Exec("DELETE FROM queue WHERE rendering_id IS NOT NULL")
		w.Exec("DELETE FROM renderings; DELETE FROM notifications")
		w.polled("phone", "mail")
		w.evaluate()
		w.notify()
	}
	begin()
	if a := w.alerts("")[0]; w.notifiedThrough() != "sms" || !a.OnlyOwnChannel || w.onlyOwn() != 1 || a.Deliveries[0].QueuedAt == nil {
		t.Errorf("notified through %s, %+v, %d events", w.notifiedThrough(), a, w.onlyOwn())
	}
	if n := w.Count("SELECT count(*) FROM events WHERE event = 'alert.only_channel' AND subject = 'acme'"); n != 1 {
		t.Errorf("%d events", n)
	}
	second := addReceiver(w.Bundle, `{"name":"q","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u2"]}`)
	begin() // two people are reached on different channels
	if a := w.alerts("")[0]; w.notifiedThrough() != "email,sms" || a.OnlyOwnChannel {
		t.Errorf("notified through %s, %+v", w.notifiedThrough(), a)
	}
	w.Expect(200, "", "DELETE", fmt.Sprint(receiversPath, "/", second.ReceiverNo), nil)
	w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
	begin() // one channel is not enough if two channels exist
	if a := w.alerts("")[0]; w.notifiedThrough() != "email,sms" || a.OnlyOwnChannel {
		t.Errorf("notified through %s, %+v", w.notifiedThrough(), a)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${unknown}","content":"${unknown}"}`)
	begin()
	for range 3 {
		w.after(100)
		w.polled("phone", "mail")
		w.notify()
	}
	if d := w.alerts("")[0].Deliveries[0]; d.QueuedAt != nil || d.Error == nil || w.notifiedThrough() != "sms" {
		t.Errorf("notified through %s, %+v", w.notifiedThrough(), d)
	}
	for _, task := range w.Claim("phone", 100) { // the short message fails and reaches nobody, so the next retry sends a short message again
		w.Report(task.TaskID, "phone", 3, nil)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${title}","content":"${text}"}`)
	w.after(3600)
	w.polled("phone", "mail")
	w.notify()
	if d := w.alerts("")[0].Deliveries[0]; d.QueuedAt == nil || d.Error != nil || w.notifiedThrough() != "email,sms,sms" {
		t.Errorf("notified through %s, %+v", w.notifiedThrough(), d)
	}
	// An alert about no channel needs only one channel.
	w.only(`{"kind":"partition_missing","level":"critical","threshold":100,"for_seconds":0}`)
	w.Exec("UPDATE alert_receivers SET channels = '{sms}' WHERE id = $1", first.ReceiverNo)
	begin()
	if a := w.alerts("")[0]; w.notifiedThrough() != "sms" || a.OnlyOwnChannel || w.onlyOwn() != 1 {
		t.Errorf("notified through %s, %+v", w.notifiedThrough(), a)
	}
}

// The receiver was deleted before the alert ended. After a day, no statement reads its delivery any more.
func TestUndeliverableEndOfAlertIsDroppedAfterOneDay(t *testing.T) {
	w, _ := newNotified(t, "")
	const many = 20_000
	w.Exec(`WITH made AS (
			INSERT INTO alerts (rule_id, kind, level, subject, value, started_at, fired_at, resolved_at, ended_by)
			SELECT 1, 'wait_time', 'warning', 's' || i, 1, now() - interval '3 days', now() - interval '3 days', now() - interval '25 hours', 'condition'
			FROM generate_series(1, $1) i RETURNING id
		)
		INSERT INTO alert_deliveries (alert_id, receiver_id, told_at) SELECT id, 1000, now() - interval '3 days' FROM made`, many)
	w.Exec("ANALYZE alerts; ANALYZE alert_deliveries")
	var sql string
	_, _ = alertq.New(capture{&sql}).AlertDeliveriesDue(t.Context(), alertq.AlertDeliveriesDueParams{MaxMessages: 3, BatchSize: 10})
	plan := apptest.Scan[string](w.Bundle, "EXPLAIN (ANALYZE, FORMAT JSON) "+strings.NewReplacer("$1", "3", "$2", "10").Replace(sql))
	var read float64
	for _, row := range regexp.MustCompile(`"Actual Rows": ([0-9.]+)`).FindAllStringSubmatch(plan, -1) {
		n, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		read = max(read, n)
	}
	if read >= many || !strings.Contains(plan, "alert_deliveries") {
		t.Errorf("reads %g rows of %d: %s", read, many, plan)
	}
}

// capture records the executed statements.
type capture struct{ sql *string }

func (c capture) Exec(_ context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	*c.sql = sql
	return pgconn.CommandTag{}, errors.ErrUnsupported
}

func (c capture) Query(_ context.Context, sql string, _ ...any) (pgx.Rows, error) {
	*c.sql = sql
	return nil, errors.ErrUnsupported
}

func (c capture) QueryRow(context.Context, string, ...any) pgx.Row { panic("no statement of one row") }

// The clock of the database is set back by one day. Repeats and retries happen on time, and not a day later.
func TestClockSetBackDoesNotStopNotifications(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"queue_depth","level":"critical","company_no":"default","threshold":0,"for_seconds":0,"resolve_seconds":0,"repeat_seconds":600}`)
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	good, bad := newAlertmanager(t), newAlertmanager(t)
	bad.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"good","kind":"alertmanager","url":"%s/am"}`, good.URL))
	failing := addReceiver(w.Bundle, fmt.Sprintf(`{"name":"bad","kind":"alertmanager","url":"%s/am"}`, bad.URL))
	addReceiver(w.Bundle, `{"name":"people","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	nobody := addReceiver(w.Bundle, `{"name":"nobody","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u2"]}`)
	w.Submit("x")
	w.after(86400)
	w.polled("mail")
	w.evaluate()
	w.notify()
	state := func() string {
		return fmt.Sprintf("%d calls, %d failed calls, %d messages, %d tries", len(good.taken()),
			w.Count("SELECT failures FROM alert_receiver_states WHERE receiver_id = $1", failing.ReceiverNo),
			w.Count("SELECT count(*) FROM queue WHERE rendering_id IS NOT NULL"),
			w.Count("SELECT tries FROM alert_deliveries WHERE receiver_id = $1", nobody.ReceiverNo))
	}
	if got := state(); got != "1 calls, 1 failed calls, 1 messages, 1 tries" {
		t.Fatalf("before: %s", got)
	}
	w.after(-86400)
	w.evaluate()
	w.notify()
	if got := state(); got != "1 calls, 2 failed calls, 2 messages, 2 tries" {
		t.Errorf("after: %s", got)
	}
	if n := w.Count("SELECT count(*) FROM alert_receiver_states WHERE failing_since > now()"); n != 0 {
		t.Error("a receiver fails since later")
	}
	w.notify()
	if got := state(); got != "0 calls, 2 failed calls, 2 messages, 2 tries" {
		t.Errorf("at once: %s", got)
	}
}

// A call about a firing alert is slow. Meanwhile the alert ends, and another server runs. The receiver must not receive the end first.
func TestOnlyOneServerCallsReceiverAtATime(t *testing.T) {
	w, _ := newNotified(t, "")
	am := newAlertmanager(t)
	addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","url":"%s/am"}`, am.URL))
	w.late()
	w.notify()
	w.after(60)
	began, goes := make(chan struct{}), make(chan struct{})
	am.answers(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-goes:
		case <-r.Context().Done():
		}
	})
	sent := make(chan error)
	go func() {
		_, err := w.App.Notifier.Notify(t.Context())
		sent <- err
	}()
	<-began
	am.answers(nil)
	am.taken()
	w.over()
	if _, err := apptest.Another(w.Bundle).Notifier.Notify(t.Context()); err != nil {
		t.Error(err)
	}
	if calls := am.taken(); len(calls) != 0 {
		t.Errorf("delivered %+v during a call", calls)
	}
	close(goes)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	w.notify()
	if calls := am.taken(); len(calls) != 1 || calls[0][0].EndsAt.IsZero() {
		t.Errorf("delivered %+v", calls)
	}
}

// The server was stopped, so the end of an alert is sent almost a day late. The message then waits for hours.
func TestLateMessageAboutEndRaisesNoWaitAlert(t *testing.T) {
	w, _ := newNotified(t, "")
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	w.late()
	w.notify()
	w.over()
	w.Exec("DELETE FROM queue WHERE rendering_id IS NOT NULL")
	w.after(23 * 3600)
	w.notify()
	w.after(3 * 3600)
	if n := w.Count("SELECT count(*) FROM queue WHERE rendering_id IS NOT NULL"); n != 1 {
		t.Fatalf("%d mails wait", n)
	}
	w.evaluate()
	w.expect()
}

// A campaign of the receiver's company waits. The alert overtakes the campaign on every channel, even while no message of the campaign is queued.
func TestAlertIsSentBeforeCampaignOfReceiverCompany(t *testing.T) {
	w, _ := newNotified(t, "")
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.polled("mail")
	contacts := make([]map[string]any, 300)
	people := make([]string, len(contacts))
	for i := range contacts {
		people[i] = fmt.Sprint("p", i)
		contacts[i] = map[string]any{"user_id": people[i], "email": people[i] + "@example.com"}
	}
	w.PutContacts(append(contacts, map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})...)
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["sms","email"],"user_ids":["u1"]}`)
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/9/email", `{"title":"t","content":"campaign"}`)
	w.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{"biz_type": 9, "biz_id": 1, "channels": []string{"email"}, "payload": map[string]any{}, "user_ids": people})
	w.SubmitMany("campaign", 100, nil)
	for range 5 {
		w.SubmitBody(map[string]any{"phone_number": apptest.Phone, "content": "code", "message_type": "verification"})
	}
	w.late()
	w.notify()
	for sender, limit := range map[string]int{"mail": 1, "phone": 1} {
		if got := w.Claim(sender, limit); len(got) != 1 || !strings.Contains(got[0].Content, "[严重]") && !strings.Contains(got[0].Content, "等待") {
			t.Errorf("%s got %+v", sender, got)
		}
	}
}
