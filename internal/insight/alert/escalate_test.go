package alert_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// delivery describes, as the API returns it, how one receiver was notified of an alert.
type delivery struct {
	ReceiverNo            int64      `json:"receiver_no"`
	DeliveredAt           *time.Time `json:"delivered_at"`
	ResolutionDeliveredAt *time.Time `json:"resolution_delivered_at"`
	QueuedAt              *time.Time `json:"queued_at"`
	EscalatedAt           *time.Time `json:"escalated_at"`
	EscalatedFrom         *int64     `json:"escalated_from"`
}

// deliveries returns the deliveries of the newest alert by receiver.
func (w *watched) deliveries() map[int64]delivery {
	w.T.Helper()
	page := apptest.Decode[struct {
		Items []struct {
			Deliveries []delivery `json:"deliveries"`
		} `json:"items"`
	}](w.T, w.Expect(200, "", "GET", alertsPath+"?limit=1", nil))
	if len(page.Items) == 0 {
		w.T.Fatal("no alert")
	}
	by := map[int64]delivery{}
	for _, d := range page.Items[0].Deliveries {
		by[d.ReceiverNo] = d
	}
	return by
}

// notSent returns the details of all events alert.not_sent, in order.
func (w *watched) notSent() (all []string) {
	w.T.Helper()
	for _, text := range apptest.Scan[[]string](w.Bundle, `SELECT coalesce(array_agg(detail::text ORDER BY id), '{}') FROM events WHERE event = 'alert.not_sent'`) {
		var d struct {
			ReceiverNo int64    `json:"receiver_no"`
			Channels   []string `json:"escalated_channels"`
			Receivers  []int64  `json:"escalated_receivers"`
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			w.T.Fatal(err)
		}
		slices.Sort(d.Channels)
		all = append(all, fmt.Sprint(d.ReceiverNo, d.Channels, d.Receivers))
	}
	return all
}

// newEscalating returns a server with the rule of newNotified and two receivers. The rule notifies the first receiver, u1, by e-mail; u1 also has a DingTalk
// name. The second receiver, u2, has only an e-mail address. An app serves each channel.
func newEscalating(t *testing.T) (w *watched, first, second int64) {
	t.Helper()
	w, rule := newNotified(t, "")
	w.Exec("DELETE FROM routes")
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.AddSender(map[string]any{"sender_no": "ding", "channel": "dingtalk"})
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com", "dingtalk_name": "u1"}, map[string]any{"user_id": "u2", "email": "u2@example.com"})
	first = addReceiver(w.Bundle, `{"name":"first","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`).ReceiverNo
	second = addReceiver(w.Bundle, `{"name":"second","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u2"]}`).ReceiverNo
	w.patch(rule, fmt.Sprintf(`{"receivers":[%d]}`, first))
	w.polled("mail", "ding")
	return w, first, second
}

// sends makes an app claim all its tasks and report them with the given status. It returns the number of tasks.
func (w *watched) sends(sender string, status int) int {
	w.T.Helper()
	tasks := w.Claim(sender, 100)
	for _, task := range tasks {
		w.Report(task.TaskID, sender, status, nil)
	}
	return len(tasks)
}

// pass advances the clock and runs the sweeps of alerts once.
func (w *watched) pass(seconds int) {
	w.T.Helper()
	w.after(seconds)
	w.polled("mail", "ding")
	w.evaluate()
	w.notify()
}

func TestAlertIsDeliveredWhenMessageIsSent(t *testing.T) {
	w, first, _ := newEscalating(t)
	w.late()
	w.notify()
	if d := w.deliveries()[first]; d.DeliveredAt != nil || d.QueuedAt == nil {
		t.Fatalf("delivered before it was sent: %+v", d)
	}
	w.pass(20)
	if n := w.sends("mail", 2); n != 1 {
		t.Fatalf("%d messages", n)
	}
	sent := w.at
	w.pass(10)
	if d := w.deliveries()[first]; d.DeliveredAt == nil || !d.DeliveredAt.Equal(sent) || d.EscalatedAt != nil {
		t.Fatalf("sent at %s: %+v", sent, d)
	}
	w.pass(600) // a delivery whose message was sent does not escalate
	w.over()
	w.notify()
	if d := w.deliveries()[first]; d.ResolutionDeliveredAt != nil {
		t.Errorf("the end of the alert counts as delivered before its message was sent: %+v", d)
	}
	w.sends("mail", 2)
	w.pass(10)
	if d := w.deliveries()[first]; d.ResolutionDeliveredAt == nil || len(w.deliveries()) != 1 {
		t.Errorf("%+v", w.deliveries())
	}
	if all := w.notSent(); len(all) != 0 {
		t.Errorf("events %v", all)
	}
}

// The route of the receiver's channel is switched off, so the message waits. The alert escalates to the receiver's other channel, which sends no message
// either. The alert then escalates to the other receiver. After that, the escalation ends.
func TestUnsentAlertEscalatesToOtherChannelsThenOtherReceivers(t *testing.T) {
	w, first, second := newEscalating(t)
	route := fmt.Sprint("/api/v1/admin/routes/", w.AddRoute("default", "mail", 1).RouteNo)
	w.Expect(200, "", "PATCH", "/api/v1/admin/companies/default", `{"uses_shared_senders":false}`)
	w.Expect(200, "", "PATCH", route, `{"status":"off"}`)
	w.late()
	w.notify()
	if n := w.sends("mail", 2); n != 0 {
		t.Fatalf("sent %d through a route that is switched off", n)
	}
	w.pass(290)
	if d := w.deliveries(); len(d) != 1 || d[first].EscalatedAt != nil || w.notifiedThrough() != "email" {
		t.Fatalf("too early: %+v", d)
	}
	w.pass(10)
	if d := w.deliveries(); len(d) != 1 || d[first].EscalatedAt == nil || d[first].DeliveredAt != nil || w.notifiedThrough() != "dingtalk,email" {
		t.Fatalf("through %s: %+v", w.notifiedThrough(), d)
	}
	w.pass(290)
	if d := w.deliveries(); len(d) != 1 {
		t.Fatalf("too early: %+v", d)
	}
	w.pass(10)
	d := w.deliveries()
	if len(d) != 2 || d[second].EscalatedFrom == nil || *d[second].EscalatedFrom != first || d[second].QueuedAt == nil || w.notifiedThrough() != "dingtalk,email,email" {
		t.Fatalf("through %s: %+v", w.notifiedThrough(), d)
	}
	for range 20 { // the delivery to the second receiver does not escalate, although its message is not sent either
		w.pass(300)
	}
	want := []string{fmt.Sprint(first, []string{"dingtalk"}, []int64{}), fmt.Sprint(first, []string{}, []int64{second})}
	if got := w.notSent(); !slices.Equal(got, want) || w.notifiedThrough() != "dingtalk,email,email" {
		t.Errorf("through %s, events %v, want %v", w.notifiedThrough(), got, want)
	}
	w.Expect(200, "", "PATCH", route, `{"status":"on"}`)
	w.pass(1)
	w.sends("mail", 2)
	w.pass(1)
	if d := w.deliveries(); d[first].DeliveredAt == nil || d[second].DeliveredAt == nil {
		t.Errorf("%+v", d)
	}
	w.over() // all notified receivers are notified of the end
	w.notify()
	if w.notifiedThrough() != "dingtalk,email,email,email,email" {
		t.Errorf("the end is sent through %s", w.notifiedThrough())
	}
}

// After a failed message, the next channel or receiver is tried immediately.
func TestAlertWithFailedMessageEscalatesImmediately(t *testing.T) {
	w, first, second := newEscalating(t)
	w.late()
	w.notify()
	w.sends("mail", 3)
	w.pass(5)
	if w.notifiedThrough() != "dingtalk,email" {
		t.Fatalf("notified through %s", w.notifiedThrough())
	}
	w.sends("ding", 3)
	w.pass(5)
	d := w.deliveries()
	if d[second].QueuedAt == nil || d[first].DeliveredAt != nil {
		t.Fatalf("%+v", d)
	}
	w.sends("mail", 3) // the message to the second receiver also fails
	w.pass(5)
	w.pass(600)
	if got := w.notSent(); len(got) != 2 {
		t.Errorf("events %v", got)
	}
}

// Every channel of the receiver rejects the notification. The same run therefore notifies the other receiver.
func TestAlertThatEveryChannelRejectsEscalatesImmediately(t *testing.T) {
	w, first, second := newEscalating(t)
	w.Exec("DELETE FROM contacts WHERE user_id = 'u1'")
	w.late()
	w.notify()
	w.pass(5)
	d := w.deliveries()
	if d[second].QueuedAt == nil || d[first].EscalatedAt == nil {
		t.Fatalf("%+v", d)
	}
	if got := w.notSent(); len(got) != 1 || !strings.Contains(got[0], fmt.Sprint([]int64{second})) {
		t.Errorf("events %v", got)
	}
}

// The server that enqueued the alert stops. The database contains the state of the delivery, and the other servers escalate the alert once.
func TestAnotherServerEscalatesAfterServerStops(t *testing.T) {
	w, _, _ := newEscalating(t)
	w.late()
	w.notify()
	servers := []*app.App{apptest.Another(w.Bundle), apptest.Another(w.Bundle)}
	w.after(300)
	w.polled("mail", "ding")
	apptest.Together(4, func(i int) {
		if _, err := servers[i%2].Notifier.Notify(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if got := w.notSent(); len(got) != 1 || w.notifiedThrough() != "dingtalk,email" {
		t.Errorf("through %s, events %v", w.notifiedThrough(), got)
	}
}

// Alerts that have ended, are acknowledged or are silenced do not escalate.
func TestEndedOrAcknowledgedAlertDoesNotEscalate(t *testing.T) {
	for name, act := range map[string]func(w *watched){
		"over": (*watched).over,
		"acknowledged": func(w *watched) {
			w.Expect(200, "", "POST", fmt.Sprintf("%s/%d/acknowledge", alertsPath, w.alerts("")[0].AlertID), `{}`)
		},
		"silenced": func(w *watched) {
			w.Exec("UPDATE alert_rules SET silenced_until = now() + interval '1 day'")
		},
		"never": func(w *watched) { // escalation is disabled for this receiver
			w.Exec("UPDATE alert_deliveries SET escalate_at = NULL")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, first, _ := newEscalating(t)
			w.late()
			w.notify()
			act(w)
			w.pass(301)
			w.pass(301)
			if got := w.notSent(); len(got) != 0 || len(w.deliveries()) != 1 {
				t.Errorf("events %v, %+v", got, w.deliveries())
			}
			w.sends("mail", 2) // the waiting message is sent now, and the API shows the delivery as sent
			w.pass(1)
			if w.deliveries()[first].DeliveredAt == nil {
				t.Errorf("%+v", w.deliveries())
			}
		})
	}
}

// Each receiver has its own escalation time. Zero means that its deliveries never escalate.
func TestEachReceiverHasItsOwnEscalationTime(t *testing.T) {
	w, first, _ := newEscalating(t)
	path := fmt.Sprint(receiversPath, "/", first)
	seconds := func(want int64) {
		t.Helper()
		r := apptest.Decode[struct {
			EscalateSeconds int64 `json:"escalate_seconds"`
		}](t, w.Expect(200, "", "GET", path, nil))
		if r.EscalateSeconds != want {
			t.Errorf("escalates after %d s, want %d", r.EscalateSeconds, want)
		}
	}
	seconds(300)
	w.Expect(200, "", "PATCH", path, `{"escalate_seconds":60}`)
	seconds(60)
	w.late()
	w.notify()
	w.pass(60)
	if got := w.notSent(); len(got) != 1 {
		t.Errorf("events %v", got)
	}
	w.over()
	w.Expect(200, "", "PATCH", path, `{"escalate_seconds":0}`)
	seconds(0)
	w.late()
	w.notify()
	w.sends("mail", 3)
	w.pass(3600)
	if got := w.notSent(); len(got) != 1 {
		t.Errorf("events %v", got)
	}
	w.Expect(422, "request.invalid", "PATCH", path, `{"escalate_seconds":-1}`)
}

// A program rejects an alert. After the escalation time, people are notified instead.
func TestAlertThatProgramRejectsEscalatesToPeople(t *testing.T) {
	w, rule := newNotified(t, "")
	am := newAlertmanager(t)
	am.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	w.AddSender(map[string]any{"sender_no": "mail", "channel": "email"})
	w.PutContacts(map[string]any{"user_id": "u1", "email": "u1@example.com"})
	program := addReceiver(w.Bundle, fmt.Sprintf(`{"name":"am","kind":"alertmanager","url":"%s/am"}`, am.URL)).ReceiverNo
	people := addReceiver(w.Bundle, `{"name":"p","kind":"notification","company_no":"default","channels":["email"],"user_ids":["u1"]}`).ReceiverNo
	w.patch(rule, fmt.Sprintf(`{"receivers":[%d]}`, program))
	w.polled("mail")
	w.late()
	w.notify()
	w.after(60)
	w.notify()
	if d := w.deliveries(); len(d) != 1 {
		t.Fatalf("too early: %+v", d)
	}
	w.after(300)
	w.polled("mail")
	w.notify()
	if d := w.deliveries(); d[people].QueuedAt == nil || d[program].DeliveredAt != nil {
		t.Errorf("%+v", d)
	}
}
