package alert_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// watched is a server with a partition for each of the next days. The clock of its database is stopped until a test advances it.
type watched struct {
	*apptest.Bundle
	at time.Time
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	return watchedOf(apptest.NewWithClock(t))
}

func watchedOf(b *apptest.Bundle) *watched {
	w := &watched{b, time.Now().UTC().Truncate(time.Second)}
	w.after(0)
	b.Exec("SELECT task_partitions_ahead('day', now(), now() + interval '7 days')")
	return w
}

// after advances the clock by some seconds.
func (w *watched) after(seconds int) {
	w.T.Helper()
	w.at = w.at.Add(time.Duration(seconds) * time.Second)
	w.Exec("UPDATE clock.hand SET stopped = $1", w.at)
}

func (w *watched) evaluate() {
	w.T.Helper()
	if _, err := w.App.Alerts.Evaluate(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// evaluateFor evaluates every ten seconds for some seconds.
func (w *watched) evaluateFor(seconds int) {
	w.T.Helper()
	for ; seconds > 0; seconds -= 10 {
		w.after(min(10, seconds))
		w.evaluate()
	}
}

func (w *watched) alerts(query string) []api.Alert {
	w.T.Helper()
	return apptest.Decode[api.AlertPage](w.T, w.Expect(200, "", "GET", alertsPath+"?limit=100&"+query, nil)).Items
}

// expect fails the test unless exactly these alerts fire. Each alert is written as kind, level and subject.
func (w *watched) expect(want ...string) {
	w.T.Helper()
	got := []string{}
	for _, a := range w.alerts("status=firing") {
		got = append(got, fmt.Sprintf("%s %s %s", a.Kind, a.Level, a.Subject))
	}
	slices.Sort(got)
	slices.Sort(want)
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		w.T.Fatalf("firing are %q, want %q", got, want)
	}
}

// only disables all existing rules, and adds one rule.
func (w *watched) only(body string) api.AlertRule {
	w.T.Helper()
	w.Exec("UPDATE alert_rules SET is_enabled = false")
	return addRule(w.Bundle, body)
}

func (w *watched) patch(r api.AlertRule, body string) {
	w.T.Helper()
	w.Expect(200, "", "PATCH", fmt.Sprint(rulesPath, "/", r.RuleNo), body)
}

// finish claims and reports every task.
func (w *watched) finish(appID string) {
	w.T.Helper()
	for _, task := range w.Claim(appID, 100) {
		w.Report(task.TaskID, appID, 2, nil)
	}
}

// silence adds n apps on a channel. Their numbers begin with prefix. They last polled and sent an hour ago.
func (w *watched) silence(channel, prefix string, n int) {
	w.T.Helper()
	w.Exec(`WITH made AS (
			INSERT INTO senders (sender_no, name, channel_id, is_shared) SELECT $2 || i, 'n', c.id, true FROM channels c, generate_series(1, $3) i
			WHERE c.channel = $1 RETURNING id
		)
		INSERT INTO sender_states (sender_id, seen_at, sent_at) SELECT id, now() - interval '1 hour', now() - interval '1 hour' FROM made`,
		channel, prefix, n)
}

// storePolls stores the polls of apps, as the sweep does.
func (w *watched) storePolls() {
	w.T.Helper()
	if _, err := w.App.Senders.SweepSeen(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	w.fold()
}

// rollUp adds the staged rows of past minutes to the statistics.
func (w *watched) rollUp() {
	w.T.Helper()
	if _, err := w.App.Statistics.RollUp(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

func (w *watched) fold() {
	w.T.Helper()
	if _, err := w.App.History.Fold(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

func TestALongWaitRaisesOneAlertOfEachLevel(t *testing.T) {
	w := newWatched(t)
	w.Submit("x")
	w.evaluate()
	w.expect()
	w.evaluateFor(300)
	w.expect("pool_unserved critical sms")
	w.Exec("DELETE FROM alert_rules WHERE kind = 'pool_unserved'")
	w.Exec("DELETE FROM alerts")
	w.Exec("DELETE FROM events")
	w.after(1)
	for range 3 {
		w.evaluate()
		w.after(10)
	}
	w.expect("wait_time warning sms")
	w.after(300)
	w.evaluate()
	w.expect("wait_time critical sms", "wait_time warning sms")
	w.after(1200)
	w.evaluate()
	w.expect("wait_time critical sms", "wait_time emergency sms", "wait_time warning sms")
	w.finish("phone")
	w.evaluateFor(60)
	w.expect("wait_time critical sms", "wait_time emergency sms", "wait_time warning sms")
	w.evaluateFor(10)
	w.expect()
	all := w.alerts("status=resolved")
	if len(all) != 3 || w.Count("SELECT count(*) FROM alerts") != 3 {
		t.Fatalf("%d alerts", len(all))
	}
	for _, a := range all {
		if a.Value < *a.Threshold || *a.Channel != "sms" || a.StartedAt.After(a.FiredAt) || a.ResolvedAt.Sub(a.FiredAt) < time.Minute || *a.EndedBy != "condition" {
			t.Errorf("%+v", a)
		}
	}
	if n := w.Count("SELECT count(*) FROM events WHERE event = 'alert.firing' AND subject = 'sms' AND detail->>'kind' = 'wait_time'"); n != 3 {
		t.Errorf("%d events of a beginning", n)
	}
	if n := w.Count("SELECT count(*) FROM events WHERE event = 'alert.resolved'"); n != 3 {
		t.Errorf("%d events of an end", n)
	}
	w.Submit("y")
	w.after(301)
	w.evaluate()
	if n := len(w.alerts("status=firing&level=warning")); n != 1 || w.Count("SELECT count(*) FROM alerts") != 4 {
		t.Errorf("a second wait raised no separate alert: %d", n)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/settings/monitoring", `{"wait_warning_seconds":0}`)
	w.evaluateFor(70)
	w.expect()
}

// A server finds that a condition holds, and is then delayed. Meanwhile the condition ends, and another server ends the alert.
func TestDelayedEvaluationDoesNotOverwriteNewerEvaluation(t *testing.T) {
	w := newWatched(t)
	r := w.only(`{"kind":"queue_depth","level":"warning","company_no":"default","threshold":0,"for_seconds":0,"resolve_seconds":0}`)
	w.Submit("x")
	w.evaluate()
	w.expect("queue_depth warning default")
	tx, err := w.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM alert_rules WHERE id = $1 FOR NO KEY UPDATE", r.RuleNo); err != nil {
		t.Fatal(err)
	}
	late := make(chan error)
	go func() {
		_, err := w.App.Alerts.Evaluate(t.Context())
		late <- err
	}()
	w.AwaitLockWait()
	w.after(10)
	if _, err := tx.Exec(t.Context(), "UPDATE alerts SET cleared_at = now(), resolved_at = now(), ended_by = 'condition'"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err != nil {
		t.Error(err)
	}
	w.expect()
	w.after(10)
	w.evaluate() // this evaluation has newer data
	w.expect("queue_depth warning default")
}

// Two servers evaluate the same rule at the same time.
func TestTwoServersRaiseOneAlertForIncident(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"wait_time","level":"warning","threshold":10,"resolve_seconds":0}`)
	other := apptest.Another(w.Bundle)
	both := []*app.App{w.App, other, w.App, other}
	for range 5 {
		w.Submit("x")
		w.after(11)
		apptest.Together(len(both), func(i int) {
			if _, err := both[i].Alerts.Evaluate(t.Context()); err != nil {
				t.Error(err)
			}
		})
		w.expect("wait_time warning sms")
		w.finish("phone")
		apptest.Together(len(both), func(i int) {
			if _, err := both[i].Alerts.Evaluate(t.Context()); err != nil {
				t.Error(err)
			}
		})
		w.expect()
	}
	if n := w.Count("SELECT count(*) FROM alerts"); n != 5 {
		t.Errorf("%d alerts of 5 incidents", n)
	}
	if n := w.Count("SELECT count(*) FROM events WHERE event IN ('alert.firing', 'alert.resolved')"); n != 10 {
		t.Errorf("%d events of 5 incidents", n)
	}
}

// A rule is disabled while servers evaluate it. None of its alerts remains open.
func TestDisabledRuleHasNoOpenAlert(t *testing.T) {
	w := newWatched(t)
	r := w.only(`{"kind":"wait_time","level":"warning","threshold":10}`)
	w.Submit("x")
	w.after(11)
	for i := range 10 {
		w.patch(r, `{"enabled":true}`)
		apptest.Together(3, func(who int) {
			if who < 2 {
				if _, err := w.App.Alerts.Evaluate(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
			body, method := `{"enabled":false}`, "PATCH"
			if i == 9 {
				method = "DELETE"
			}
			if a := w.Call(method, fmt.Sprint(rulesPath, "/", r.RuleNo), body); a.Status != 200 {
				t.Error(a.Raw)
			}
		})
		if n := w.Count("SELECT count(*) FROM alerts WHERE resolved_at IS NULL"); n != 0 {
			t.Fatalf("%d alerts are open", n)
		}
	}
}

func TestAlertFiresAndEndsOnlyAfterConfiguredTimes(t *testing.T) {
	w := newWatched(t)
	r := w.only(`{"kind":"queue_depth","level":"warning","company_no":"default","threshold":0,"for_seconds":60,"resolve_seconds":60}`)
	wait := func() func() {
		id := w.Submit("x")
		return func() { w.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil) }
	}
	stop := wait()
	w.evaluateFor(50)
	stop() // the condition was met for too short a time; the next time counts from its own start
	w.evaluateFor(10)
	stop = wait()
	w.evaluateFor(50)
	w.expect()
	if w.Count("SELECT count(*) FROM alerts WHERE fired_at IS NULL") != 1 || len(w.alerts("")) != 0 {
		t.Error("a pending alert is shown, or lost")
	}
	w.evaluateFor(20)
	w.expect("queue_depth warning default")
	for range 5 { // the condition is met and not met alternately, but the alert stays one alert
		stop()
		w.evaluateFor(50)
		stop = wait()
		w.evaluateFor(30)
		w.expect("queue_depth warning default")
	}
	// No evaluation runs for ten minutes. This time does not count for a pending alert, and a firing alert continues.
	w.after(600)
	w.evaluate()
	w.expect("queue_depth warning default")
	stop()
	w.evaluateFor(70)
	w.expect()
	stop = wait()
	w.evaluate()
	w.after(600)
	w.evaluate()
	w.expect()
	w.evaluateFor(60)
	w.expect("queue_depth warning default")
	// A silenced rule is still evaluated.
	w.patch(r, fmt.Sprintf(`{"silenced_until":%q}`, w.at.Add(time.Hour).Format(time.RFC3339)))
	stop()
	w.evaluateFor(70)
	w.expect()
	if n := len(w.alerts("status=resolved")); n != 2 || w.Count("SELECT count(*) FROM alerts") != 2 {
		t.Errorf("%d alerts", n)
	}
}

// The clock of the database is set back by one day, while an alert is pending and while it is about to end.
func TestClockSetBackDoesNotStopAlerts(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"queue_depth","level":"warning","company_no":"default","threshold":0,"for_seconds":60,"resolve_seconds":60}`)
	id := w.Submit("x")
	w.after(3 * 86400)
	w.evaluate()
	w.after(-86400)
	w.evaluate()
	w.evaluateFor(50)
	w.expect()
	w.evaluateFor(10)
	w.expect("queue_depth warning default")
	w.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	w.evaluate()
	w.after(-86400)
	w.evaluate()
	w.evaluateFor(50)
	w.expect("queue_depth warning default")
	w.evaluateFor(10)
	w.expect()
}

func TestAlertEndsWhenRuleIsDisabledChangedOrDeleted(t *testing.T) {
	w := newWatched(t)
	w.AddCompany("acme", 1)
	for body, by := range map[string]string{
		`{"enabled":false}`: "rule_disabled", `{"level":"critical"}`: "rule_changed", `{"company_no":"acme"}`: "rule_changed",
		`{"threshold":1000}`: "condition", "": "rule_deleted",
	} {
		w.Exec("DELETE FROM alerts")
		r := w.only(`{"kind":"wait_time","level":"warning","threshold":10}`)
		w.Submit("x")
		w.after(20)
		w.evaluate()
		w.expect("wait_time warning sms")
		if body == "" {
			w.Expect(200, "", "DELETE", fmt.Sprint(rulesPath, "/", r.RuleNo), nil)
		} else {
			w.patch(r, body)
		}
		w.evaluateFor(70)
		if ended := w.alerts("status=resolved"); len(ended) != 1 || *ended[0].EndedBy != by {
			t.Errorf("%s: %+v", body, ended)
		}
		w.finish("phone")
	}
	// A change of only the name does not change alerts.
	w.Exec("DELETE FROM alerts")
	r := w.only(`{"kind":"wait_time","level":"warning","threshold":10}`)
	w.Submit("x")
	w.after(20)
	w.evaluate()
	w.patch(r, `{"name":"n","receivers":null}`)
	w.evaluate()
	if n := w.Count("SELECT count(*) FROM alerts WHERE resolved_at IS NULL"); n != 1 || len(w.alerts("")) != 1 {
		t.Errorf("%d alerts", n)
	}
}

func TestAlertEndsWhenSubjectIsRemoved(t *testing.T) {
	w := newWatched(t)
	w.Exec("UPDATE alert_rules SET for_seconds = 0, resolve_seconds = 0")
	w.AddSender(map[string]any{"sender_no": "poor", "balance": 5, "low_warning": 10, "is_shared": false})
	w.AddSender(map[string]any{"sender_no": "torn", "is_shared": false, "kind": "app"})
	w.Exec("UPDATE sender_states SET openings = 2, rest_until = now() WHERE sender_id = (SELECT id FROM senders WHERE sender_no = 'torn')")
	acme := w.AddCompany("acme", 1)
	route := w.AddRouteWith(map[string]any{"company_no": "acme", "sender_no": "torn"})
	w.SubmitMany("x", 1, nil, acme...)
	w.evaluate()
	w.expect("balance_low warning poor", "provider_trouble warning torn", "pool_unserved critical sms/acme/notification")
	one := w.alerts("status=firing")
	if !slices.ContainsFunc(one, func(a api.Alert) bool { return a.CompanyNo != nil && *a.CompanyNo == "acme" && *a.Channel == "sms" }) {
		t.Errorf("no alert contains its company: %+v", one)
	}
	w.Expect(200, "", "PATCH", "/api/v1/admin/senders/torn", `{"status":"retired"}`)
	w.Expect(200, "", "DELETE", fmt.Sprint("/api/v1/admin/routes/", route.RouteNo), nil)
	w.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/poor", nil) // a sender whose balance was changed cannot be deleted
	w.Expect(200, "", "PATCH", "/api/v1/admin/senders/poor", `{"status":"off"}`)
	w.after(1)
	w.evaluate()
	w.expect("pool_unserved critical sms") // after the deletion of its route, the task waits in the shared pool
	w.finish("phone")
	w.after(1)
	w.evaluate()
	w.expect()
	w.AddSender(map[string]any{"sender_no": "named"})
	r := addRule(w.Bundle, `{"kind":"sender_silent","level":"critical","sender_no":"named","threshold":0,"for_seconds":0,"resolve_seconds":0}`)
	w.after(1000)
	w.evaluate()
	w.expect("sender_silent critical named")
	w.Expect(409, "in_use", "DELETE", "/api/v1/admin/senders/named", nil)
	w.patch(r, `{"sender_no":null}`)
	w.Expect(200, "", "DELETE", "/api/v1/admin/senders/named", nil)
	w.evaluate()
	w.expect()
}

func TestNewInstallationAndIdlePhoneRaiseNoAlert(t *testing.T) {
	w := newWatched(t)
	w.Exec("UPDATE alert_rules SET for_seconds = 0")
	w.evaluate()
	w.after(86400)
	w.evaluate()
	w.expect()
	w.Claim("idle", 1)
	w.storePolls()
	for range 20 { // the phone polls, and its polls are stored at intervals
		w.after(300)
		w.Claim("idle", 1)
		w.storePolls()
		w.evaluate()
		w.expect()
	}
	w.after(3 * 86400) // the phone is switched off, but no message waits
	w.keepHistory()
	w.evaluate()
	w.Exec("DELETE FROM alert_rules WHERE kind = 'partition_missing'")
	w.evaluate()
	w.evaluateFor(70)
	w.expect()
}

func TestPhoneThatStopsPollingRaisesAlert(t *testing.T) {
	w := newWatched(t)
	w.AddSender(map[string]any{"sender_no": "routed"})
	w.AddRoute("default", "routed", 1)
	for _, id := range []string{"shared", "routed"} {
		w.SubmitMany("x", 1, map[string]any{"message_type": map[string]string{"shared": "marketing", "routed": "notification"}[id]})
		w.finish(id)
	}
	w.storePolls()
	w.after(590)
	w.evaluateFor(80)
	w.expect("sender_silent warning routed")
	w.evaluateFor(600) // polls of a phone without routes are stored every ten minutes
	w.expect("sender_silent warning routed")
	w.evaluateFor(80)
	w.expect("sender_silent warning routed", "sender_silent warning shared")
	for _, id := range []string{"shared", "routed"} {
		w.Claim(id, 1)
	}
	w.storePolls()
	w.evaluateFor(70)
	w.expect()
	if a := w.alerts("status=resolved"); len(a) != 2 || *a[0].SenderNo != "shared" || !strings.Contains(a[0].Summary, "shared has not polled") {
		t.Errorf("%+v", a)
	}
}

// An app that has stopped polling raises an alert for one week. Many such apps do not hide an app that becomes silent today, even if they exceed the limit of
// one query.
func TestAlertAboutMissingAppEndsAfterOneWeek(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"sender_silent","level":"warning","threshold":600,"for_seconds":0,"resolve_seconds":0}`)
	const week = 7 * 24 * 3600
	w.silence("sms", "gone", 150)
	addRule(w.Bundle, `{"kind":"sender_silent","level":"critical","sender_no":"gone1","threshold":600,"for_seconds":0,"resolve_seconds":0}`)
	w.evaluate()
	w.silence("sms", "new", 1)
	w.evaluate()
	firing := func() int {
		return w.Count("SELECT count(*) FROM alerts WHERE resolved_at IS NULL AND fired_at IS NOT NULL")
	}
	if n := firing(); n != 152 || w.Count("SELECT count(*) FROM alerts WHERE subject = 'new1'") != 1 {
		t.Errorf("%d fire", n)
	}
	w.after(week - 3600 + 600 + 660) // 660: polls of apps without routes are stored at intervals
	w.evaluate()
	if n := firing(); n != 152 {
		t.Errorf("%d fire after a week", n)
	}
	w.after(1)
	w.evaluate()
	w.expect("sender_silent critical gone1")
}

func TestQueueDepthExcludesTasksDueLater(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"queue_depth","level":"warning","threshold":3,"for_seconds":0,"resolve_seconds":0}`)
	w.SubmitMany("x", 5, map[string]any{"expect_send_time": w.at.Add(time.Hour)})
	w.SubmitMany("x", 3, nil)
	w.evaluate()
	w.expect()
	w.SubmitMany("x", 1, nil)
	w.evaluate()
	w.expect("queue_depth warning queue")
	if a := w.alerts("")[0]; a.Value != 4 || !strings.Contains(a.Summary, "4 tasks wait") {
		t.Errorf("%+v", a)
	}
	if a := w.Expect(200, "", "GET", alertsPath, nil, "Accept-Language", "zh"); !strings.Contains(a.Raw, "4 个任务在排队") {
		t.Error(a.Raw)
	}
	w.finish("phone")
	w.evaluate()
	w.expect()
}

func TestFailureRateAboveThresholdRaisesAlert(t *testing.T) {
	w := newWatched(t)
	w.AddCompany("acme", 1)
	w.only(`{"kind":"failure_rate","level":"warning","threshold":0.25,"window_seconds":600,"for_seconds":0,"resolve_seconds":0}`)
	addRule(w.Bundle, `{"kind":"failure_rate","level":"warning","company_no":"acme","for_seconds":0}`)
	addRule(w.Bundle,
		`{"kind":"failure_rate","level":"critical","channel":"sms","threshold":0.25,"window_seconds":600,"for_seconds":0,"resolve_seconds":0}`)
	end := func(n, status int) {
		w.SubmitMany("x", n, nil)
		for _, task := range w.Claim("s", n) {
			w.Report(task.TaskID, "s", status, nil)
		}
		w.after(60)
		w.evaluate()
	}
	w.evaluate()
	end(10, 3)
	w.expect() // too few tasks for a failure rate
	end(30, 2)
	w.expect() // 25 % is not more than 25 %
	end(1, 3)
	w.expect("failure_rate critical sms", "failure_rate warning all")
	for range 6 {
		end(20, 2)
	}
	w.expect()
	w.after(3600)
	w.evaluate()
	end(15, 3) // only the tasks in the window count, and not the tasks of the hour before
	w.expect()
	end(10, 3)
	w.expect("failure_rate critical sms", "failure_rate warning all")
}

// The shipped rule names the failing sender, even if other senders deliver its messages in the end and the total failure rate is low.
func TestSenderWithManyFailedAttemptsRaisesAlert(t *testing.T) {
	w := newWatched(t)
	for _, no := range []string{"bad", "good", "rare", "off"} {
		w.AddSender(map[string]any{"sender_no": no})
	}
	w.Exec("UPDATE alert_rules SET is_enabled = kind = 'sender_failing'")
	report := func(senderNo string, n, status int, more apptest.Report) {
		t.Helper()
		for _, task := range w.Claim(senderNo, n) {
			w.Report(task.TaskID, senderNo, status, more)
		}
	}
	retry := apptest.Report{"should_retry": true, "retry_after_seconds": 1}
	w.SubmitMany("x", 200, nil)
	report("bad", 14, 2, nil)
	report("bad", 6, 3, retry) // 30 % is not more than 30 %
	report("good", 80, 2, nil)
	report("rare", 19, 3, retry) // too few attempts for a failure rate
	report("off", 30, 3, retry)
	w.Exec("UPDATE senders SET status = 'off' WHERE sender_no = 'off'")
	w.evaluateFor(150)
	w.expect()
	report("bad", 1, 3, retry)
	w.evaluateFor(130)
	w.expect("sender_failing warning bad")
	if a := w.alerts("")[0]; a.SenderNo == nil || *a.SenderNo != "bad" || a.Channel == nil || *a.Channel != "sms" || !strings.Contains(a.Summary, "33.3") {
		t.Errorf("%+v", a)
	}
	w.after(900)
	w.evaluateFor(330)
	w.expect()
}

// An app claims messages and never reports them. Its attempts are unsuccessful, whether other apps deliver the messages later or not. Leases that were never started
// are no attempts. The rules about senders and channels count these attempts in facts, staged rows and statistics.
func TestSenderThatNeverReportsRaisesAlert(t *testing.T) {
	w := newWatched(t)
	for _, no := range []string{"mute", "idle", "good"} {
		w.AddSender(map[string]any{"sender_no": no, "lease_seconds": 60})
	}
	w.Exec("UPDATE alert_rules SET is_enabled = kind = 'sender_failing'")
	addRule(w.Bundle, `{"kind":"failure_rate","level":"critical","channel":"sms","threshold":0.2,"for_seconds":0}`)
	addRule(w.Bundle, `{"kind":"failure_rate","level":"warning","sender_no":"mute","threshold":0.2,"for_seconds":0}`)
	addRule(w.Bundle, `{"kind":"failure_rate","level":"warning","sender_no":"idle","threshold":0.2,"for_seconds":0}`)
	addRule(w.Bundle, `{"kind":"failure_rate","level":"warning","company_no":"default","threshold":0.2,"for_seconds":0}`)
	w.SubmitMany("x", 60, nil)
	for _, task := range w.Claim("good", 20) {
		w.Report(task.TaskID, "good", 2, nil)
	}
	w.Claim("mute", 20)
	w.Expect(200, "", "POST", "/api/v1/sms/tasks/claim", map[string]any{"app_id": "idle", "limit": 20, "start_seconds": 30})
	w.after(61)
	if n := w.Recover(); n != 40 {
		t.Fatalf("%d leases were taken back", n)
	}
	for _, task := range w.Claim("good", 40) {
		w.Report(task.TaskID, "good", 2, nil)
	}
	want := []string{"failure_rate critical sms", "failure_rate warning mute", "sender_failing warning mute"}
	w.evaluateFor(130)
	w.expect(want...)
	w.fold()
	w.evaluateFor(20)
	w.expect(want...)
	w.rollUp()
	w.evaluateFor(20)
	w.expect(want...)
	for _, a := range w.alerts("status=firing") {
		if share := map[string]float64{"sms": 20.0 / 80, "mute": 1}[a.Subject]; a.Value != share {
			t.Errorf("%s: %v, want %v", a.Subject, a.Value, share)
		}
	}
}

// A rule about a company counts tasks. A rule about a channel or a sender counts reports. The numbers are exact, whether the events are in facts, staged rows
// or statistics.
func TestFailureRateCanCoverCompanyChannelOrSender(t *testing.T) {
	w := newWatched(t)
	acme := w.AddCompany("acme", 1)
	for _, no := range []string{"bad", "good", "other"} {
		w.AddSender(map[string]any{"sender_no": no})
	}
	w.Exec("UPDATE alert_rules SET is_enabled = false")
	for _, filter := range []string{
		``, `,"company_no":"acme"`, `,"company_no":"default"`, `,"channel":"sms"`, `,"channel":"email"`, `,"sender_no":"bad"`, `,"sender_no":"good"`,
	} {
		addRule(w.Bundle, `{"kind":"failure_rate","level":"warning","threshold":0.2,"for_seconds":0,"resolve_seconds":0`+filter+`}`)
	}
	report := func(senderNo string, n, status int, more apptest.Report) {
		t.Helper()
		tasks := w.Claim(senderNo, n)
		if len(tasks) != n {
			t.Fatalf("%s claimed %d", senderNo, len(tasks))
		}
		for _, task := range tasks {
			w.Report(task.TaskID, senderNo, status, more)
		}
	}
	w.SubmitMany("x", 20, nil, acme...)
	report("bad", 20, 3, apptest.Report{"should_retry": true, "retry_after_seconds": 1})
	w.after(2)
	report("good", 20, 2, nil) // all messages were delivered: no task of acme failed
	w.SubmitMany("x", 40, nil)
	report("other", 30, 2, nil)
	report("other", 10, 3, nil)
	w.SubmitMany("x", 40, nil)
	report("other", 30, 2, nil)
	report("other", 10, 3, nil)
	w.SubmitMany("x", 50, map[string]any{"test": true}) // tests do not count as failures
	report("other", 50, 3, nil)
	check := func(when string) {
		t.Helper()
		w.evaluate()
		values := []string{}
		for _, a := range w.alerts("status=firing") {
			values = append(values, fmt.Sprintf("%s %.2f", a.Subject, a.Value))
			if (a.Channel == nil) != (a.Subject == "default") || (a.SenderNo == nil) != (a.Subject != "bad") {
				t.Errorf("%s: %+v", when, a)
			}
		}
		slices.Sort(values) // 20 of 100 tasks have failed, which is not more than a fifth
		if got := strings.Join(values, ", "); got != "bad 1.00, default 0.25, sms 0.33" {
			t.Errorf("%s: %s", when, got)
		}
	}
	check("facts")
	w.fold()
	check("folded")
	w.after(60)
	w.rollUp()
	check("rolled up")
	if n := w.Count("SELECT count(*) FROM facts") + w.Count("SELECT count(*) FROM statistics_staged"); n != 0 {
		t.Errorf("%d rows are not rolled up", n)
	}
	w.after(14 * 60)
	w.evaluate()
	w.expect()
}

// A receipt can arrive before the response to its message. Receipts of the last two minutes are therefore ignored.
func TestUnmatchedReceiptsRaiseAlert(t *testing.T) {
	w := newWatched(t)
	w.Exec("UPDATE alert_rules SET for_seconds = 0, resolve_seconds = 0")
	w.Exec(`INSERT INTO senders (sender_no, name, kind, config) VALUES ('one', 'n', 'http-sms', '{}'), ('two', 'n', 'http-sms', '{}')`)
	w.Exec("INSERT INTO sender_states (sender_id) SELECT id FROM senders WHERE sender_no IN ('one', 'two')")
	w.Exec(`INSERT INTO receipts (callback_id, sender_no, provider_no, state, created_at, matched_at)
		VALUES (1, 'one', 'matched', 1, now() - interval '10 minutes', now()), (1, 'one', 'old', 1, now() - interval '2 hours', NULL),
			(1, 'two', 'young', 1, now() - interval '1 minute', NULL)`)
	w.evaluate()
	w.expect()
	w.Exec("INSERT INTO receipts (callback_id, sender_no, provider_no, state, created_at) VALUES (1, 'one', 'stray', 1, now() - interval '3 minutes')")
	w.evaluate()
	w.expect("receipts_unmatched warning one")
	if a := w.alerts("")[0]; a.Value != 1 || *a.Channel != "sms" || *a.SenderNo != "one" {
		t.Errorf("%+v", a)
	}
	if got := w.Expect(200, "", "GET", "/metrics", nil).Raw; !strings.Contains(got, `lksms_receipts_unmatched{sender="one"} 2`) || strings.Contains(got, `lksms_receipts_unmatched{sender="two"}`) {
		t.Error("the metric does not show 2 receipts of one sender")
	}
	w.Exec("UPDATE receipts SET matched_at = now()")
	w.evaluate()
	w.expect()
}

func TestReceiptsDisksPartitionsAndReceiversRaiseAlerts(t *testing.T) {
	w := newWatched(t)
	w.Exec("UPDATE alert_rules SET for_seconds = 0, resolve_seconds = 0")
	w.Exec(`INSERT INTO senders (sender_no, name, kind, config) VALUES ('driven', 'n', 'http-sms', '{"callback":{}}'), ('both', 'n', 'http-sms', '{"callback":{"received":{"from":"f"},"delivered":["1"]}}'),
		('inbox', 'n', 'http-sms', '{"callback":{"verify":"token","number":"","delivered":null,"received":{"from":"f","content":"c","time":"t"}}}'), ('null', 'n', 'http-sms', '{"callback":null}'), ('mute', 'n', 'http-sms', '{}'), ('carrier', 'n', 'cmpp', '{"registered_delivery": null}'),
		('unasked', 'n', 'smpp', '{"registered_delivery": 0}'), ('failures', 'n', 'smpp', '{"registered_delivery": 18}'), ('silent', 'n', 'cmpp', '{"registered_delivery": 0}')`)
	w.Exec("INSERT INTO sender_states (sender_id) SELECT id FROM senders WHERE sender_no <> 'other'")
	w.evaluate()
	w.expect()
	w.after(60)
	w.Exec("UPDATE sender_states SET sent_at = now()")
	accept := func(n int, senders ...string) {
		w.Exec(`INSERT INTO facts (company_id, at, sender_no, success, reported_success)
			SELECT 1, now(), s, $1, $1 FROM unnest($2::text[]) s`, n, senders)
	}
	accept(19, "driven", "mute", "other")
	w.evaluate()
	w.expect()
	w.after(60) // the first messages are rolled up
	w.fold()
	w.rollUp()
	w.Exec("UPDATE sender_states SET sent_at = now()")
	accept(1, "driven")
	accept(20, "carrier", "unasked", "failures", "silent", "both", "inbox", "null")
	w.evaluate()
	w.expect("receipts_missing warning both", "receipts_missing warning carrier", "receipts_missing warning driven")
	w.Exec("UPDATE senders SET status = 'off' WHERE sender_no = 'both'")
	w.Exec("UPDATE senders SET status = 'off' WHERE sender_no = 'carrier'")
	w.evaluate()
	w.expect("receipts_missing warning driven")
	if a := w.alerts("")[0]; a.Value != 20 || *a.Channel != "sms" || *a.SenderNo != "driven" {
		t.Errorf("%+v", a)
	}
	w.Exec("INSERT INTO receipts (callback_id, sender_no, provider_no, state, matched_at) VALUES (1, 'driven', 'p', 1, now()), (1, 'other', 'p', 1, now())")
	w.evaluate()
	w.expect()

	w.Exec("INSERT INTO disk_spaces (host, folder, bytes, free_bytes) VALUES ('a', '/x', 1000, 99), ('b', '/x', 1000, 100)")
	w.evaluate()
	w.expect("disk_low critical a:/x")
	w.after(301) // the server has stopped by now
	w.evaluate()
	w.expect()

	w.after(7 * 86400)
	w.keepHistory()
	w.evaluate()
	w.expect("partition_missing critical partitions")
	if _, err := w.App.History.MakePartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.evaluate()
	w.expect()

	r := addReceiver(w.Bundle, `{"name":"am","kind":"alertmanager","url":"http://a.example"}`)
	w.Exec("UPDATE alert_receiver_states SET failing_since = now() - interval '301 seconds'")
	w.evaluate()
	w.expect(fmt.Sprintf("webhook_failing warning %d (am)", r.ReceiverNo))
	w.Expect(200, "", "DELETE", fmt.Sprint(receiversPath, "/", r.ReceiverNo), nil)
	w.evaluate()
	w.expect()
}

func TestServerMeasuresItsDisks(t *testing.T) {
	folder := t.TempDir()
	later := filepath.Join(folder, "made", "later") // this folder does not exist yet, like the export folder before the first export
	b := apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) { o.Folders = []string{folder, later} })
	if n, err := b.App.Alerts.MeasureDisks(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if n := b.Count("SELECT count(*) FROM disk_spaces WHERE folder IN ($1, $2) AND bytes > free_bytes AND free_bytes > 0", folder, later); n != 2 {
		t.Error("no sizes were written")
	}
}

// One rule is about a company, another about a channel. Thousands of older tasks of another company wait.
func TestLateTaskIsFoundBehindManyTasksOfAnotherCompany(t *testing.T) {
	w := newWatched(t)
	acme := w.AddCompany("acme", 1)
	w.AddSender(map[string]any{"sender_no": "s"})
	w.AddRoute("acme", "s", 1)
	w.only(`{"kind":"wait_time","level":"critical","threshold":60,"company_no":"acme"}`)
	addRule(w.Bundle, `{"kind":"wait_time","level":"critical","threshold":60,"channel":"oa"}`)
	w.SubmitMany("x", 11_000, nil) // more tasks than one query reads, all due before the late task
	w.after(10)
	w.SubmitMany("x", 1, nil, acme...)
	w.after(59)
	w.evaluate()
	w.expect()
	w.after(2)
	w.evaluate()
	w.expect("wait_time critical acme/sms")
}

func TestAlertIsAcknowledgedOnce(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"wait_time","level":"warning","threshold":10,"resolve_seconds":0}`)
	other := w.AddUser("other", "admin", nil)
	w.Submit("x")
	w.after(11)
	w.evaluate()
	path := fmt.Sprintf("%s/%d/acknowledge", alertsPath, w.alerts("")[0].AlertID)
	w.Expect(404, "alert.not_found", "POST", alertsPath+"/999/acknowledge", `{}`)
	first := apptest.Decode[api.Alert](t, w.Expect(200, "", "POST", path, `{}`))
	second := apptest.Decode[api.Alert](t, w.Expect(200, "", "POST", path, `{"remark":"charging"}`, other...))
	if *first.AcknowledgedBy != apptest.Username || *second.AcknowledgedBy != apptest.Username || *second.Remark != "charging" || second.Status != "firing" {
		t.Errorf("%+v, then %+v", first, second)
	}
	w.finish("phone")
	w.evaluate()
	w.Expect(409, "alert.not_firing", "POST", path, `{}`)
	w.after(181 * 86400)
	if _, err := w.App.Alerts.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.Count("SELECT count(*) FROM alerts"); n != 0 {
		t.Errorf("%d old alerts are kept", n)
	}
}

// keepHistory applies the settings of history, as the sweep does, and ignores errors.
func (w *watched) keepHistory() {
	w.T.Helper()
	_, _ = w.App.History.Keep(w.T.Context())
}

// A day that was not made history or dropped in time raises an alert. It ends when the day is dropped. It stays one alert while the reason for the
// delay changes.
func TestOverdueDayRaisesAlert(t *testing.T) {
	w := newWatched(t)
	w.only(`{"kind":"history_overdue","level":"warning","for_seconds":0}`)
	day := w.at.Format(time.DateOnly)
	w.Submit("x")
	w.Exec("DELETE FROM task_partitions WHERE first_day <> $1", day)
	w.after(2 * 86400) // the next run of the sweep makes this day history
	w.evaluate()
	w.expect()
	w.after(86400)
	w.evaluate()
	w.expect("history_overdue warning " + day)
	if a := w.alerts("")[0]; a.Value != 1 || *a.Threshold != 1 {
		t.Errorf("%+v", a)
	}
	w.Claim("app", 1)
	w.keepHistory()
	w.evaluateFor(70)
	w.expect("history_overdue warning " + day)
	w.Exec("UPDATE queue SET lease_until = NULL, due_at = now() + interval '9 days'")
	w.keepHistory()
	w.evaluateFor(70)
	w.expect()

	w.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"keep_days": 1}})
	w.evaluateFor(10)
	w.expect("history_overdue warning " + day)
	started := w.alerts("")[0].StartedAt
	w.keepHistory() // no export folder is configured
	w.evaluateFor(70)
	w.expect("history_overdue warning " + day)
	if a := w.alerts("")[0]; !a.StartedAt.Equal(started) {
		t.Errorf("the alert began again at %v, want %v", a.StartedAt, started)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"export": false}})
	w.keepHistory()
	w.evaluateFor(70)
	w.expect()
	if n := w.Count("SELECT count(*) FROM messages"); n != 1 {
		t.Errorf("%d messages are left", n)
	}
}
