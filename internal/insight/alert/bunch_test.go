package alert_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// newSilence returns a server with a rule about silent senders. The rule fires immediately, and notifies people by e-mail in English.
func newSilence(t *testing.T, more string) *watched {
	t.Helper()
	w := newWatched(t)
	w.only(`{"kind":"sender_silent","level":"warning","threshold":600,"for_seconds":0,"resolve_seconds":0` + more + `}`)
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "phone": apptest.Phone, "email": "u1@example.com"})
	addReceiver(w.Bundle, `{"name":"p","kind":"notification","language":"en","company_no":"default","channels":["email"],"user_ids":["u1"]}`)
	return w
}

// texts returns the titles and texts of all messages about alerts, in order.
func (w *watched) texts() []string {
	w.T.Helper()
	return apptest.Scan[[]string](w.Bundle, "SELECT coalesce(array_agg(title || '|' || content ORDER BY id), '{}') FROM renderings")
}

func TestManyAlertsShareOneMessage(t *testing.T) {
	w := newSilence(t, `,"repeat_seconds":3600`)
	addRule(w.Bundle, `{"kind":"disk_low","level":"critical","for_seconds":0,"resolve_seconds":0}`)
	w.Exec("INSERT INTO disk_spaces (host, folder, bytes, free_bytes, measured_at) VALUES ('a', '/x', 1000, 1, now() + interval '1 day')")
	w.silence("dingtalk", "s", 100)
	w.evaluate()
	other := apptest.Another(w.Bundle)
	notify := func() { // two servers notify at the same time
		t.Helper()
		w.polled("mail")
		for range 2 {
			apptest.Together(4, func(i int) {
				if _, err := []*app.App{w.App, other}[i%2].Notifier.Notify(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	notify()
	all := w.texts()
	if len(all) != 2 || !strings.HasPrefix(all[0], "little disk space: a:/x|[critical] a:/x: 0.1% of the disk is free") {
		t.Fatalf("delivered %q", all)
	}
	title, text, _ := strings.Cut(all[1], "|")
	if title != "100 alerts" || !strings.HasPrefix(text, "[warning] 100 alerts: silent sender: s1; silent sender: s10; ") ||
		!strings.HasSuffix(text, " more") || len(text) > 200 || len(text) < 150 {
		t.Errorf("delivered %q", all[1])
	}
	var named, more int
	named = strings.Count(text, "silent sender: ")
	if _, err := fmt.Sscanf(text[strings.LastIndex(text, "; and "):], "; and %d more", &more); err != nil || named+more != 100 {
		t.Errorf("%d named, %d more: %v", named, more, err)
	}
	if n := w.Count("SELECT count(*) FROM alert_deliveries WHERE told_at IS NOT NULL AND tries = 1 AND failures = 0"); n != 101 {
		t.Errorf("%d alerts count as delivered", n)
	}
	// All other alerts are acknowledged, so that four alerts repeat.
	w.Exec("UPDATE alerts SET acknowledged_at = now(), acknowledged_by = 'x' WHERE kind = 'disk_low' OR subject NOT IN ('s1', 's2', 's3', 's4')")
	w.after(3600)
	w.evaluate()
	notify()
	if all = w.texts(); len(all) != 3 || !strings.HasPrefix(all[2], "4 alerts|[warning, still] 4 alerts: silent sender: s1; ") || strings.Contains(all[2], "more") {
		t.Fatalf("delivered %q", all)
	}
	// At first, all alerts except two end. Then these two end.
	w.Exec("UPDATE sender_states t SET seen_at = now() FROM senders s WHERE s.id = t.sender_id AND s.sender_no NOT IN ('s7', 's8')")
	w.evaluate()
	notify()
	if all = w.texts(); len(all) != 4 || !strings.HasPrefix(all[3], "98 alerts|[resolved] 98 alerts: silent sender: s1; ") {
		t.Fatalf("delivered %q", all)
	}
	w.Exec("UPDATE sender_states SET seen_at = now()")
	w.evaluate()
	notify()
	if all = w.texts(); len(all) != 6 || !strings.HasPrefix(all[4], "silent sender: s7|[resolved] ") {
		t.Fatalf("delivered %q", all)
	}
	if n := w.Count("SELECT count(*) FROM alert_deliveries WHERE end_told_at IS NOT NULL"); n != 100 {
		t.Errorf("the end of %d alerts is delivered", n)
	}
}

// An operator's template can contain the variables of a single alert and also the number of alerts.
func TestTemplateCanUseNumberOfAlertsInMessage(t *testing.T) {
	w := newSilence(t, "")
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email",
		`{"title":"${count} ${level} ${kind} ${subject} ${phase}","content":"${summary}|${alert}|${rule}|"}`)
	w.silence("dingtalk", "s", 4)
	w.polled("mail")
	w.evaluate()
	w.notify()
	id := w.alerts("")[3].AlertID
	want := fmt.Sprintf("[4 warning sender_silent s1 firing|silent sender: s1; silent sender: s2; silent sender: s3; silent sender: s4|%d||]", id)
	if all := fmt.Sprint(w.texts()); all != want {
		t.Errorf("delivered %s, want %s", all, want)
	}
}

// Alerts about different channels have separate messages, so that each message can avoid the channel of its alert.
func TestAlertsAboutDifferentChannelsGetSeparateMessages(t *testing.T) {
	w := newSilence(t, "")
	w.Exec("UPDATE alert_receivers SET channels = '{sms,email}'")
	w.AddSender(map[string]any{"sender_no": "phone"})
	w.silence("sms", "s", 4)
	w.silence("email", "m", 4)
	w.silence("oa", "o", 2)
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${unknown}","content":"${unknown}"}`)
	for range 3 { // e-mail fails: alerts about e-mail are delivered, but alerts about sms are not
		w.polled("mail", "phone")
		w.evaluate()
		w.notify()
		w.after(120)
	}
	sent := w.Count("SELECT count(*) FROM alert_deliveries d JOIN alerts a ON a.id = d.alert_id WHERE d.told_at IS NOT NULL AND a.channel <> 'sms'")
	if n := w.Count("SELECT count(*) FROM alert_deliveries WHERE told_at IS NOT NULL"); n != 6 || sent != 6 {
		t.Errorf("%d are delivered, %d about other channels", n, sent)
	}
	if all := w.texts(); len(all) != 4 { // two of the four alerts about sms, and both alerts about oa, all through sms; no message was sent twice
		t.Errorf("delivered %q", all)
	}
	if n := w.Count("SELECT count(*) FROM notifications n JOIN alerts a ON a.id = n.biz_id WHERE n.dedup_key IS NULL OR n.submitted_by <> 'system:alerts'"); n != 0 {
		t.Errorf("%d without a key", n)
	}
	w.Expect(200, "", "PUT", "/api/v1/admin/notification-templates/32767/email", `{"title":"${title}","content":"${text}"}`)
	w.after(3600)
	w.polled("mail", "phone")
	w.notify()
	if n := w.Count("SELECT count(*) FROM alert_deliveries WHERE told_at IS NULL"); n != 0 {
		t.Errorf("%d are not delivered", n)
	}
	if all := w.texts(); len(all) != 5 {
		t.Errorf("delivered %q", all)
	}
}

// No sender serves e-mail, so the combined message about several wait_time alerts waits in the queue. This wait must not raise a new wait_time alert.
func TestMessageAboutManyWaitsRaisesNoWaitAlert(t *testing.T) {
	w := newSilence(t, "")
	for i := range 5 {
		company := fmt.Sprint("c", i)
		headers := w.AddCompany(company, 1)
		addRule(w.Bundle, fmt.Sprintf(`{"kind":"wait_time","level":"critical","company_no":%q,"threshold":10,"for_seconds":0,"resolve_seconds":0}`, company))
		w.SubmitMany("x", 1, nil, headers...)
	}
	addRule(w.Bundle, `{"kind":"wait_time","level":"emergency","channel":"email","threshold":10,"for_seconds":0,"resolve_seconds":0}`)
	w.silence("sms", "s", 4)
	w.after(11)
	w.evaluate()
	w.notify()
	if all := w.texts(); len(all) != 2 || !strings.HasPrefix(all[0], "5 alerts|[critical] ") || !strings.HasPrefix(all[1], "4 alerts|[warning] ") {
		t.Fatalf("delivered %q", all)
	}
	w.Exec("DELETE FROM queue WHERE rendering_id = (SELECT max(id) FROM renderings)") // otherwise the message about the silent senders would raise an alert
	w.after(11)
	w.evaluate()
	for _, a := range w.alerts("status=firing&level=emergency") {
		t.Errorf("%+v", a)
	}
}

// Apps become silent one after another. People receive some single messages, and then one message about all other apps.
func TestWarningsAreDelayedAfterManyMessages(t *testing.T) {
	w := newSilence(t, "")
	addRule(w.Bundle, `{"kind":"disk_low","level":"critical","for_seconds":0,"resolve_seconds":0}`)
	step := func() {
		w.after(10)
		w.polled("mail")
		w.evaluate()
		w.notify()
	}
	for i := range 20 {
		w.silence("dingtalk", fmt.Sprint("s", i, "_"), 1)
		step()
	}
	if all := w.texts(); len(all) != 3 {
		t.Fatalf("delivered %q", all)
	}
	w.Exec("INSERT INTO disk_spaces (host, folder, bytes, free_bytes) VALUES ('a', '/x', 1000, 1)")
	step()
	if all := w.texts(); len(all) != 4 || !strings.Contains(all[3], "[critical]") {
		t.Fatalf("delivered %q", all)
	}
	w.after(90)
	step() // within five minutes, people have received the first message, two more, and the critical message
	if all := w.texts(); len(all) != 4 {
		t.Fatalf("delivered %q", all)
	}
	step()
	if all := w.texts(); len(all) != 5 || !strings.HasPrefix(all[4], "17 alerts|") {
		t.Fatalf("delivered %q", all)
	}
}

// Different alerts are due for two servers, because another alert fires in between. No alert is sent twice.
func TestTwoServersWithDifferentDueAlertsSendEachAlertOnce(t *testing.T) {
	w := newSilence(t, "")
	w.silence("dingtalk", "s", 4)
	w.polled("mail")
	w.evaluate()
	w.Exec("INSERT INTO alert_deliveries (alert_id, receiver_id) SELECT a.id, r.id FROM alerts a, alert_receivers r")
	tx, err := w.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM alert_deliveries FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error)
	for n, server := range []*app.App{w.App, apptest.Another(w.Bundle)} {
		go func() {
			_, err := server.Notifier.Notify(t.Context())
			sent <- err
		}()
		apptest.Eventually(t, "the server waits", func() bool {
			return w.Count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > n
		})
		w.silence("dingtalk", "t", 1-n)
		w.evaluate()
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	if all := w.texts(); len(all) != 2 || !strings.HasPrefix(all[0], "4 alerts|") || !strings.HasPrefix(all[1], "silent sender: t1|") {
		t.Errorf("delivered %q", all)
	}
}
