package push_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

// answersOf returns the last provider answers of the sender "pushed".
func answersOf(b *apptest.Bundle) []api.SenderAnswer {
	b.T.Helper()
	return apptest.Decode[[]api.SenderAnswer](b.T, b.Expect(200, "", "GET", "/api/v1/admin/senders/pushed/answers", nil))
}

// eventOf returns the last timeline event of a kind for a task, or an empty event if none exists.
func eventOf(b *apptest.Bundle, id string, kind api.TimelineEventEvent) (found api.TimelineEvent) {
	b.T.Helper()
	for _, e := range apptest.Decode[[]api.TimelineEvent](b.T, b.Expect(200, "", "GET", "/api/v1/sms/task/"+id+"/timeline", nil)) {
		if e.Event == kind {
			found = e
		}
	}
	return found
}

// S3.12: each attempt stores the answer of the provider, without secrets.
func TestAttemptStoresProviderAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		says    string
		event   api.TimelineEventEvent
		outcome api.SenderOutcome
		message string
	}{
		"sent":       {200, `{"code":"0","id":"p-1","echo":"hunter2"}`, api.EventReported, api.OutcomeSent, ""},
		"refused":    {200, `{"code":"9","text":"wrong hunter2"}`, api.EventReported, api.OutcomeRefused, "wrong ***"},
		"unsaid":     {200, `{"state":"ok","echo":"hunter2"}`, api.EventUnclear, api.OutcomeUnclear, "answer not understood: no field `code`"},
		"unreadable": {200, `<html>hunter2`, api.EventUnclear, api.OutcomeUnclear, "answer not understood: it is not JSON"},
		"trouble":    {401, `{"message":"key hunter2 is unknown"}`, api.EventReleased, api.OutcomeTrouble, "the provider answered 401"},
	} {
		t.Run(name, func(t *testing.T) {
			b, p := apptest.NewPushing(t, nil)
			p.Says(c.status, c.says)
			id := b.Submit("x")
			want := fmt.Sprintf("%d %s", c.status, strings.ReplaceAll(c.says, "hunter2", "***"))
			var e api.TimelineEvent
			apptest.Eventually(t, "the answer is in the timeline", func() bool {
				e = eventOf(b, id, c.event)
				return e.Answer != nil
			})
			if *e.Answer != want || c.message != "" && (e.Message == nil || *e.Message != c.message) {
				t.Errorf("the timeline has %q, %v", *e.Answer, e.Message)
			}
			var last []api.SenderAnswer
			apptest.Eventually(t, "the answer stands at the sender", func() bool {
				last = answersOf(b)
				return len(last) > 0
			})
			if got := last[0]; got.Outcome != c.outcome || got.Answer == nil || *got.Answer != want || got.TaskID != id {
				t.Errorf("the sender has %+v", got)
			}
			if n := b.Count(`SELECT count(*) FROM report_logs WHERE request_data::text LIKE '%hunter2%' OR error_message LIKE '%hunter2%'`); n > 0 {
				t.Errorf("%d reports hold the secret", n)
			}
		})
	}
}

func TestLongAnswersAreCutAndTheLastTenAreStored(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"code":"0","pad":"`+strings.Repeat("短", 3000)+`hunter2"}`)
	})
	for i := range 13 {
		b.AwaitStatus(b.Submit(fmt.Sprint("x", i)), queue.Success)
	}
	var last []api.SenderAnswer
	apptest.Eventually(t, "ten answers stand", func() bool {
		last = answersOf(b)
		return len(last) == 10 && b.Count("SELECT count(*) FROM sender_answers") == 10
	})
	if got := []rune(*last[0].Answer); len(got) != 2000 {
		t.Errorf("the answer has %d characters", len(got))
	}
	b.Expect(404, "sender.not_found", "GET", "/api/v1/admin/senders/nobody/answers", nil)
}

// If no answer contains the configured success field, the breaker opens. Otherwise each message would be sent repeatedly, and no error would be visible.
func TestUnreadableAnswersOpenTheBreaker(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(200, `{"state":"ok"}`)
	for i := range 60 {
		b.Submit(fmt.Sprint("x", i))
	}
	pause := b.AwaitOpenBreaker("pushed")
	if pause.Reason != "unsaid: answer not understood: no field `code`" {
		t.Errorf("pause %+v", pause)
	}
	if n := len(p.Seen()); n > 40 {
		t.Errorf("%d messages were sent before", n)
	}
	p.Says(200, `{"code":"0"}`)
	apptest.Eventually(t, "the sender goes on", func() bool { return b.GetSender("pushed").Pause == nil })
}

// A DingTalk call sends one message to many people. Its answer counts once, so a single unreadable answer does not open the breaker.
func TestAnswerOfACallToManyPeopleCountsOnce(t *testing.T) {
	b, p := apptest.NewNotifying(t)
	p.Says(200, "<html>")
	var contacts, people []any
	for i := range 12 {
		id := fmt.Sprint("p", i)
		people, contacts = append(people, id), append(contacts, map[string]any{"user_id": id, "dingtalk_name": id})
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/contacts", map[string]any{"contacts": contacts})
	b.Expect(200, "", "POST", "/api/v1/notifications", map[string]any{
		"biz_type": 3, "biz_id": 1, "channels": []string{"dingtalk"}, "payload": map[string]any{"taskName": "x"}, "user_ids": people,
	})
	stored := "SELECT count(*) FROM sender_answers a JOIN senders s ON s.id = a.sender_id WHERE s.sender_no = 'ding'"
	apptest.Eventually(t, "the answer is stored", func() bool { return b.Count(stored) > 0 })
	if n := b.Count(stored); n != 1 || len(p.Seen()) != 1 {
		t.Errorf("%d answers of %d calls", n, len(p.Seen()))
	}
	if n := b.Count("SELECT count(*) FROM sender_states WHERE openings > 0"); n != 0 {
		t.Error("the breaker is open after one answer")
	}
}

// If the lease of a task expires, the result of the task contains the answer that the driver did not understand.
func TestRecoveredTaskContainsUnreadableAnswer(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(200, "<html>")
	id := b.Submit("x")
	apptest.Eventually(t, "the answer is in the timeline", func() bool { return eventOf(b, id, api.EventUnclear).Answer != nil })
	b.Exec("UPDATE queue SET lease_until = now() - interval '1 s' WHERE task_id = $1", id)
	if _, err := b.App.Queue.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := apptest.Scan[string](b, "SELECT result FROM queue WHERE task_id = $1", id); !strings.Contains(got, "it is not JSON") {
		t.Errorf("the result is %q", got)
	}
}
