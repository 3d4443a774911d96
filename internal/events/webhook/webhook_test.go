package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// taken is a post as a receiver received it.
type taken struct {
	ID     string
	Header http.Header
	Raw    []byte
	Type   string
	Data   api.MessageEventData
}

// receiver is a test server that receives events.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []taken
	answer func(w http.ResponseWriter, one taken) // nil: the receiver answers 204
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		one := taken{ID: req.Header.Get("webhook-id"), Header: req.Header, Raw: raw}
		var body struct {
			Type string
			Data api.MessageEventData
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("body %s: %v", raw, err)
		}
		one.Type, one.Data = body.Type, body.Data
		r.mu.Lock()
		r.got = append(r.got, one)
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(w, one)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(answer func(http.ResponseWriter, taken)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) answersStatus(status int) {
	r.answers(func(w http.ResponseWriter, _ taken) { w.WriteHeader(status) })
}

// posts returns the posts that were received since the previous call.
func (r *receiver) posts() []taken {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func ids(posts []taken) (all []string) {
	for _, p := range posts {
		all = append(all, p.ID)
	}
	return all
}

// bundle is a server with a key for secrets.
type bundle struct{ *apptest.Bundle }

func setup(t *testing.T) bundle {
	t.Helper()
	return bundle{apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)}
}

var everything = []string{
	feed.MessageSent, feed.MessageFailed, feed.MessageExpired, feed.MessageCancelled, feed.MessageDelivered, feed.MessageUndelivered, feed.BatchFinished,
}

// hook adds a webhook of all companies. fields overrides fields of the request.
func (b bundle) hook(url string, fields map[string]any, headers ...string) api.NewWebhook {
	b.T.Helper()
	body := map[string]any{"url": url, "events": everything}
	for k, v := range fields {
		body[k] = v
	}
	return apptest.Decode[api.NewWebhook](b.T, b.Expect(200, "", "POST", "/api/v1/webhooks", body, headers...))
}

func (b bundle) get(id int64) api.Webhook {
	b.T.Helper()
	return apptest.Decode[api.Webhook](b.T, b.Expect(200, "", "GET", path(id), nil))
}

func path(id int64) string { return fmt.Sprint("/api/v1/webhooks/", id) }

// send submits a message and reports it as sent. It returns the id of the task.
func (b bundle) send(headers ...string) string {
	b.T.Helper()
	id := apptest.Decode[api.Submitted](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, headers...)).TaskID
	b.ClaimIDs(100)
	b.Report(id, "app", 2, nil)
	return id
}

func (b bundle) receipt(id string) {
	b.T.Helper()
	err := b.App.DB.Tx(b.T.Context(), func(ctx context.Context) error {
		_, err := b.App.Queue.SettleReceipts(ctx, []queue.Final{{TaskID: id, State: 1, SenderNo: "app"}})
		return err
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

// deliver posts all due events.
func (b bundle) deliver() {
	b.T.Helper()
	if _, err := b.App.Feed.Sequence(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	if _, err := b.App.Webhooks.Deliver(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// wait simulates the passing of time: all waiting events become due, and the pauses of all webhooks end.
func (b bundle) wait() {
	b.T.Helper()
	b.Exec("UPDATE webhook_retries SET due_at = now() WHERE due_at IS NOT NULL")
	b.Exec("UPDATE webhooks SET rest_until = NULL")
}

func (b bundle) waiting() int { return b.Count("SELECT count(*) FROM webhook_retries") }

func (b bundle) deliveries(id int64) []api.WebhookDelivery {
	b.T.Helper()
	return apptest.Decode[api.WebhookDeliveryPage](b.T, b.Expect(200, "", "GET", path(id)+"/deliveries", nil)).Items
}

// B13: the official library verifies a post with each valid secret. The body of the post equals the event that a pull returns.
func TestTheOfficialLibraryVerifiesPosts(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	if !strings.HasPrefix(hook.Secret, "whsec_") || strings.Contains(b.Call("GET", path(hook.WebhookID), nil).Raw, "whsec_") {
		t.Errorf("secret %s", hook.Secret)
	}
	verifies := func(secret string, p taken) bool {
		t.Helper()
		wh, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return wh.Verify(p.Raw, p.Header) == nil
	}
	start := apptest.Decode[api.EventFeed](t, b.Expect(200, "", "GET", "/api/v1/events", nil)).NextCursor
	task := b.send()
	b.deliver()
	posts := r.posts()
	if len(posts) != 1 || !verifies(hook.Secret, posts[0]) || posts[0].Data.TaskID != task || posts[0].Type != feed.MessageSent {
		t.Fatalf("posts %+v", posts)
	}
	pulled := apptest.Decode[api.EventFeed](t, b.Expect(200, "", "GET", "/api/v1/events?after="+start, nil)).Items
	if len(pulled) != 1 || pulled[0].ID != posts[0].ID || !strings.Contains(string(posts[0].Raw), string(pulled[0].Data)) {
		t.Errorf("pulled %+v, posted %s", pulled, posts[0].Raw)
	}

	rotated := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/rotate", map[string]any{"overlap_seconds": 60}))
	b.send()
	b.deliver()
	if p := r.posts(); len(p) != 1 || !verifies(hook.Secret, p[0]) || !verifies(rotated.Secret, p[0]) || rotated.Secret == hook.Secret || rotated.RotatedAt == nil {
		t.Errorf("during the overlap: %+v", p)
	}
	b.Exec("UPDATE webhook_secrets SET valid_until = now() WHERE valid_until IS NOT NULL")
	b.send()
	b.deliver()
	if p := r.posts(); len(p) != 1 || verifies(hook.Secret, p[0]) || !verifies(rotated.Secret, p[0]) {
		t.Errorf("after the overlap: %+v", p)
	}
	last := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/rotate", map[string]any{"overlap_seconds": 0}))
	b.send()
	b.deliver()
	if p := r.posts(); len(p) != 1 || verifies(rotated.Secret, p[0]) || !verifies(last.Secret, p[0]) {
		t.Errorf("without an overlap: %+v", p)
	}
	for range 8 {
		b.Expect(200, "", "POST", path(hook.WebhookID)+"/rotate", map[string]any{})
	}
	b.send()
	b.deliver()
	if p := r.posts(); len(strings.Fields(p[0].Header.Get("webhook-signature"))) != 5 {
		t.Errorf("after many rotations: %s", p[0].Header.Get("webhook-signature"))
	}
}

// B13: an event that was not accepted is posted again on schedule, with the same id. The latest posts can be read.
func TestAFailedPostIsRepeated(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	r.answers(func(w http.ResponseWriter, _ taken) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("busy\x00", 1000))
	})
	b.send()
	b.deliver()
	first := r.posts()
	for i, want := range []float64{5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600, 24 * 3600} {
		got := apptest.Scan[float64](b.Bundle, "SELECT extract(epoch FROM due_at - now())::float8 FROM webhook_retries")
		if got < 0.89*want-1 || got > 1.11*want {
			t.Errorf("after %d posts the next one comes in %v s, want about %v", i+1, got, want)
		}
		b.deliver() // nothing is due yet
		b.wait()
		b.deliver()
		if p := r.posts(); len(p) != 1 || p[0].ID != first[0].ID {
			t.Fatalf("post %d: %v", i+2, ids(p))
		}
	}
	d := b.deliveries(hook.WebhookID)[0]
	if d.Attempt != 11 || d.Taken || *d.StatusCode != 500 || *d.Error != webhook.BadStatus || d.NextAt == nil || len(*d.Response) > 1024 || !strings.HasPrefix(*d.Response, "busy") {
		t.Errorf("last post %+v", d)
	}
	if d.EventID != first[0].ID || string(*d.Request) != string(first[0].Raw) {
		t.Errorf("the request is shown as %s, and was %s", *d.Request, first[0].Raw)
	}
	if w := b.get(hook.WebhookID); w.FailingSince == nil || w.Waiting != 1 {
		t.Errorf("webhook %+v", w)
	}
	r.answers(nil)
	b.wait()
	b.deliver()
	if d := b.deliveries(hook.WebhookID)[0]; !d.Taken || *d.StatusCode != 204 || d.Error != nil || b.waiting() != 0 {
		t.Errorf("last post %+v, %d wait", d, b.waiting())
	}
	if w := b.get(hook.WebhookID); w.FailingSince != nil || w.Status != api.WebhookOn {
		t.Errorf("webhook %+v", w)
	}
}

// B13: the server obeys the Retry-After header of a receiver, for the event and for the webhook.
func TestTheRetryAfterHeaderIsHonoured(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	for _, header := range []string{"7200", time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat)} {
		r.answers(func(w http.ResponseWriter, _ taken) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
		})
		b.send()
		b.deliver()
		b.send()
		b.deliver()
		if p := r.posts(); len(p) != 1 {
			t.Errorf("%d posts during the pause", len(p))
		}
		if n := b.Count("SELECT count(*) FROM webhooks WHERE rest_until BETWEEN now() + interval '119 minutes' AND now() + interval '121 minutes'"); n != 1 {
			t.Errorf("Retry-After: %s is not honoured by the webhook", header)
		}
		if n := b.Count("SELECT count(*) FROM webhook_retries WHERE due_at BETWEEN now() + interval '119 minutes' AND now() + interval '121 minutes'"); n != 1 {
			t.Errorf("Retry-After: %s is not honoured for the event", header)
		}
		r.answers(nil)
		b.wait()
		b.deliver()
		if p := r.posts(); len(p) != 2 {
			t.Errorf("%d posts after the pause", len(p))
		}
	}
}

// B13: a Retry-After that is too long counts as the maximum. If an answer does not request a pause of the webhook, its Retry-After delays only its event.
func TestARetryAfterHeaderForOneEventDelaysNoOtherEvent(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	bad := b.send()
	r.answers(func(w http.ResponseWriter, one taken) {
		if one.Data.TaskID == bad {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(422)
		}
	})
	good := b.send()
	b.deliver()
	if p := r.posts(); len(p) != 2 || b.Count("SELECT count(*) FROM webhooks WHERE rest_until IS NOT NULL") != 0 {
		t.Errorf("posts %v, and the webhook is paused", ids(p))
	}
	b.receipt(good)
	b.deliver()
	if p := r.posts(); len(p) != 1 || p[0].Data.TaskID != good {
		t.Errorf("posts %v", ids(p))
	}
	if n := b.Count("SELECT count(*) FROM webhook_retries WHERE due_at BETWEEN now() + interval '23 hours' AND now() + interval '25 hours'"); n != 1 {
		t.Error("the event does not wait for a day")
	}
}

// B13: if the clock of the database is set back, webhooks, waiting events and later events are still posted.
func TestWebhooksStillPostAfterTheClockIsSetBack(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	r.answersStatus(500)
	task := b.send()
	b.receipt(task)
	b.deliver()
	r.posts()
	r.answers(nil)
	b.Exec("UPDATE webhooks SET rest_until = now() + interval '3 days'")
	b.Exec("UPDATE webhook_retries SET due_at = now() + interval '3 days' WHERE due_at IS NOT NULL")
	b.deliver()
	b.deliver()
	if p := r.posts(); len(p) != 2 || b.waiting() != 0 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
}

// B13: while this server posts an event again, another server settles the same event. The event is not stored as a retry. Otherwise the receiver would get it
// after later events of its task.
func TestAnEventPostedByAnotherServerIsNotPostedAgain(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	r.answersStatus(500)
	b.send()
	b.deliver()
	b.wait()
	r.answers(func(w http.ResponseWriter, _ taken) {
		b.Exec("DELETE FROM webhook_retries") // same effect as an accepted post by the other server
		w.WriteHeader(500)
	})
	b.deliver()
	if n := b.waiting(); n != 0 {
		t.Errorf("%d events wait", n)
	}
}

// B13: if events of a webhook are deleted before they are posted, an operator event states their number.
func TestLostEventsOfAWebhookCauseAnOperatorEvent(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.AddCompany("acme", 1)
	b.AddCompany("other", 2)
	acme, other := apptest.Basic("user-of-acme", apptest.UserPassword), apptest.Basic("user-of-other", apptest.UserPassword)
	hook := b.hook(r.URL, map[string]any{"company_no": "acme", "events": []string{feed.MessageSent}})
	well := b.hook(newReceiver(t).URL, nil)
	r.answersStatus(500)
	first := b.send(acme...)
	b.deliver() // the post fails
	b.send(acme...)
	b.receipt(first) // the webhook has not subscribed to this type
	b.send(other...)
	b.Exec("UPDATE webhooks SET rest_until = now() + interval '1 hour' WHERE id = $1", hook.WebhookID)
	b.deliver()
	b.Exec("UPDATE feed SET at = at - interval '8 days'")
	for range 2 {
		if _, err := b.App.Feed.DeleteExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lost := apptest.Scan[string](b.Bundle, "SELECT coalesce(string_agg(subject || ' ' || (detail ->> 'events') || ' ' || (detail ->> 'company_no'), ', '), '') FROM events WHERE event = 'webhook.lost'")
	if want := fmt.Sprint(hook.WebhookID, " 2 acme"); lost != want {
		t.Errorf("lost %q, want %q; webhook %d has all", lost, want, well.WebhookID)
	}
	if first := apptest.Scan[string](b.Bundle, "SELECT detail ->> 'first_event_id' FROM events WHERE event = 'webhook.lost'"); !strings.HasPrefix(first, "evt_") {
		t.Errorf("from %q", first)
	}
}

// B13: the events of one task are posted in order, even if an earlier event fails. Events of other tasks are not delayed.
func TestTheEventsOfATaskStayInOrder(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	var bad string
	r.answers(func(w http.ResponseWriter, one taken) {
		if one.Data.TaskID == bad && one.Type == feed.MessageSent {
			w.WriteHeader(400)
		}
	})
	bad = b.send()
	good := b.send()
	b.deliver()
	if p := r.posts(); len(p) != 2 || p[0].Data.TaskID == p[1].Data.TaskID || b.waiting() != 1 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
	b.receipt(bad) // arrives while an earlier event of the task waits
	b.deliver()
	if p := r.posts(); len(p) != 0 || b.waiting() != 2 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
	b.receipt(good)
	b.wait()
	b.deliver()
	if p := r.posts(); len(p) != 2 || b.waiting() != 2 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
	b.Expect(200, "", "PATCH", path(1), map[string]any{"description": "mended"})
	r.answers(nil)
	b.wait()
	b.deliver()
	b.deliver()
	p := r.posts()
	if len(p) != 2 || p[0].Type != feed.MessageSent || p[1].Type != feed.MessageDelivered || p[1].Data.TaskID != bad || b.waiting() != 0 {
		t.Errorf("posts %+v, %d wait", p, b.waiting())
	}
}

// B13: a receiver refuses one event. This event is not posted again with each new event.
func TestARefusedEventIsNotPostedAgainWithEachNewEvent(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	bad := b.send()
	r.answers(func(w http.ResponseWriter, one taken) {
		if one.Data.TaskID == bad {
			w.WriteHeader(422)
		}
	})
	b.deliver()
	n := 0
	for range 10 {
		b.Exec("UPDATE webhooks SET rest_until = NULL")
		b.send()
		b.deliver()
		for _, p := range r.posts() {
			if p.Data.TaskID == bad {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("%d posts of the refused event", n)
	}
}

// B13: when a receiver recovers, all failed events are posted at once, and no event is lost.
func TestAReceiverThatRecoversGetsAllEvents(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	r.answersStatus(503)
	want := map[string]bool{}
	for i := range 40 {
		want[b.send()] = true
		if i%10 == 9 {
			b.Exec("UPDATE webhooks SET rest_until = NULL")
			b.deliver()
		}
	}
	r.posts()
	b.Exec("UPDATE webhooks SET rest_until = NULL")
	b.Exec("UPDATE webhook_retries SET due_at = now() + interval '10 hours' WHERE due_at IS NOT NULL")
	r.answers(nil)
	b.deliver()
	got := map[string]int{}
	for _, p := range r.posts() {
		got[p.Data.TaskID]++
	}
	for id := range want {
		if got[id] != 1 {
			t.Errorf("%s was posted %d times", id, got[id])
		}
	}
	if b.waiting() != 0 || b.get(hook.WebhookID).FailingSince != nil {
		t.Errorf("%d wait", b.waiting())
	}
}

// B13: hanging or dead receivers do not delay other receivers.
func TestAHangingReceiverDelaysNoOtherReceiver(t *testing.T) {
	b := setup(t)
	released := make(chan struct{})
	hanging := newReceiver(t)
	hanging.answers(func(http.ResponseWriter, taken) { <-released })
	defer close(released)
	for range 20 {
		b.hook(hanging.URL, nil)
	}
	dead := newReceiver(t)
	dead.Close()
	b.AddCompany("acme", 1)
	b.hook(dead.URL, map[string]any{"company_no": "default"})
	live := newReceiver(t)
	b.hook(live.URL, map[string]any{"company_no": "default"})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	for range 3 {
		b.send()
	}
	if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := b.App.Webhooks.Deliver(ctx)
		done <- err
	}()
	got := 0
	began := time.Now()
	apptest.Eventually(t, "the live receiver has the events", func() bool { got += len(live.posts()); return got == 3 })
	b.send()
	if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the live receiver has the next event while others hang", func() bool { got += len(live.posts()); return got == 4 })
	if took := time.Since(began); took > 8*time.Second { // a hanging post takes ten seconds
		t.Errorf("the delay was %v", took)
	}
	apptest.Eventually(t, "the dead receiver's failure is recorded", func() bool {
		return b.Count("SELECT count(*) FROM webhook_deliveries WHERE error = 'not_connected'") > 0
	})
	stop()
	if err := <-done; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

// B13: a company with many hanging receivers leaves slots for other companies.
func TestACompanyWithManySlowReceiversCannotUseAllSlots(t *testing.T) {
	b := setup(t)
	acme, beta := b.AddCompany("acme", 1), b.AddCompany("beta", 1)
	over := make(chan struct{})
	slow, quick := newReceiver(t), newReceiver(t)
	slow.answers(func(http.ResponseWriter, taken) { <-over })
	t.Cleanup(func() { close(over) })
	for range 20 {
		b.hook(slow.URL, map[string]any{"company_no": "acme"})
	}
	b.hook(quick.URL, map[string]any{"company_no": "beta"})
	b.Exec("UPDATE webhooks SET failing_since = now() - id * interval '-1 second'") // beta's webhook is the last in the order
	b.send(acme...)
	b.send(beta...)
	if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.App.Webhooks.Deliver(ctx) // ctx is cancelled during the posts
	}()
	apptest.Eventually(t, "the other company gets its event", func() bool { return len(quick.posts()) > 0 })
	called := 0
	apptest.Eventually(t, "half of the slots are taken", func() bool { called += len(slow.posts()); return called >= 8 })
	stop()
	<-ended
	if called += len(slow.posts()); called != 8 {
		t.Errorf("%d receivers of one company were called, want half of 16", called)
	}
}

// B13: the days during which a user was disabled do not count as failures of the user's webhooks.
func TestEnablingAUserResetsTheFailuresOfItsWebhook(t *testing.T) {
	b := setup(t)
	user := b.AddUser("shop", "submit", nil)
	id := b.hook("https://shop.example/", nil, user...).WebhookID
	b.Exec("UPDATE webhooks SET failing_since = now() - interval '6 days', failed_runs = 9, rest_until = now() + interval '1 hour'")
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"is_disabled": true})
	if b.get(id).FailingSince == nil {
		t.Error("the failures of the webhook are reset while its user is disabled")
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"is_disabled": false})
	if w := b.get(id); w.FailingSince != nil || b.Count("SELECT failed_runs + (rest_until IS NOT NULL)::int FROM webhooks") != 0 {
		t.Errorf("got %+v", w)
	}
}

// B13: a webhook is switched off immediately if its receiver answers 410, and after five days without an accepted post. In both cases an operator event is
// stored. A webhook that is switched on again continues where it stopped.
func TestAWebhookIsSwitchedOffAfterStatusGoneOrFiveDaysOfFailures(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	off := func(reason string) {
		t.Helper()
		w := b.get(hook.WebhookID)
		if w.Status != api.WebhookOff || w.OffReason == nil || *w.OffReason != reason {
			t.Errorf("webhook %+v, want off for %s", w, reason)
		}
		if n := b.Count("SELECT count(*) FROM events WHERE event = 'webhook.off' AND subject = $1 AND detail ->> 'reason' = $2", fmt.Sprint(hook.WebhookID), reason); n != 1 {
			t.Errorf("%d operator events", n)
		}
	}
	r.answersStatus(410)
	b.send()
	b.deliver()
	off("gone")
	b.send()
	b.wait()
	b.deliver()
	if p := r.posts(); len(p) != 1 {
		t.Errorf("%d posts, want the one that was answered with 410", len(p))
	}
	if _, err := b.App.Webhooks.StopUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.send() // the event is still recorded

	r.answersStatus(500)
	b.Expect(200, "", "PATCH", path(hook.WebhookID), map[string]any{"status": "on"})
	b.deliver()
	if p := r.posts(); len(p) != 3 {
		t.Errorf("%d posts after it was switched on, want 3", len(p))
	}
	b.Exec("UPDATE webhooks SET failing_since = now() - interval '119 hours'")
	b.wait()
	b.deliver()
	if w := b.get(hook.WebhookID); w.Status != api.WebhookOn {
		t.Errorf("off before five days: %+v", w)
	}
	b.Exec("UPDATE webhooks SET failing_since = now() - interval '121 hours'")
	b.wait()
	b.deliver()
	off("failing")
	r.posts()
	r.answers(nil)
	b.Expect(200, "", "PATCH", path(hook.WebhookID), map[string]any{"status": "on"})
	b.deliver()
	if p := r.posts(); len(p) != 3 || b.waiting() != 0 {
		t.Errorf("%d posts, %d wait", len(p), b.waiting())
	}
}

// B13: at most maxWaiting failed events of a dead receiver are stored. Further events stay in the feed, and are posted when the receiver recovers.
func TestADeadReceiverStoresABoundedNumberOfRows(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	b.Exec(`WITH f AS (INSERT INTO feed (company_id, submitted_by, type, at, data)
			SELECT 1, '', 'batch.finished', now(), '{}' FROM generate_series(1, 1000) RETURNING id)
		INSERT INTO webhook_retries (webhook_id, feed_id, tries, due_at) SELECT 1, id, 1, now() + interval '1 hour' FROM f`)
	b.Exec("UPDATE webhooks SET after_id = (SELECT max(id) FROM feed), failing_since = now(), failed_runs = 3")
	b.send()
	b.deliver()
	if p := r.posts(); len(p) > 0 || b.waiting() != 1000 {
		t.Errorf("%d posts, %d wait", len(p), b.waiting())
	}
	b.Exec("UPDATE webhook_retries SET due_at = now() WHERE feed_id = (SELECT min(feed_id) FROM webhook_retries)")
	b.deliver()
	if p := r.posts(); len(p) != 1001 || b.waiting() != 0 {
		t.Errorf("%d posts when it is back, %d wait", len(p), b.waiting())
	}
	if n := b.Count("SELECT count(*) FROM webhook_deliveries"); n != 100 {
		t.Errorf("%d posts are kept", n)
	}
}

// B13: an aborted run loses no event, because the run is repeated.
func TestAnEventSurvivesAWorkerThatIsKilled(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, nil)
	for range 3 {
		b.send()
	}
	b.Exec(`CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	b.Exec(`CREATE TRIGGER break_off AFTER INSERT ON webhook_deliveries FOR EACH STATEMENT EXECUTE FUNCTION break_off()`)
	if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.App.Webhooks.Deliver(t.Context()); err == nil {
		t.Fatal("the transaction was not broken off")
	}
	first := ids(r.posts())
	b.Exec("DROP TRIGGER break_off ON webhook_deliveries")
	b.deliver()
	again := ids(r.posts())
	slices.Sort(first)
	slices.Sort(again)
	if len(first) != 3 || !slices.Equal(first, again) {
		t.Errorf("posted %v, and again %v", first, again)
	}
}

// B13: a post to a user's address never reaches the networks of the server, even if the host name resolves to an address in them. Redirects are not followed.
func TestAUserCannotPostToNetworksOfTheServer(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	user := b.AddUser("shop", "submit", nil)
	port := r.URL[strings.LastIndex(r.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "192.168.0.1", "[::ffff:127.0.0.1]", "[fd00::1]", "0.0.0.0",
		"192.168.1.1.", "127.1", "2130706433", "0x7f.1", "0X7F000001", "0177.0.0.1", "1.2.3.4.5"} {
		body := map[string]any{"url": "http://" + host + port, "events": []string{"message.sent"}}
		if a := b.Expect(422, "request.invalid", "POST", "/api/v1/webhooks", body, user...); a.Fields() != "url" {
			t.Errorf("%s: %s", host, a.Raw)
		}
	}
	hook := b.hook("http://localhost"+port, nil, user...)
	if hook.Scope != api.WebhookOfUser || *hook.Username != "shop" {
		t.Errorf("webhook %+v", hook)
	}
	if a := apptest.Decode[api.WebhookTest](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/test", nil, user...)); a.Taken || *a.Error != webhook.RefusedAddress {
		t.Errorf("localhost: %+v %v", a, *a.Error)
	}
	b.send(user...)
	b.deliver()
	if p := r.posts(); len(p) > 0 {
		t.Errorf("the receiver got %v", ids(p))
	}
	if n := b.Count("SELECT count(*) FROM webhook_deliveries WHERE type <> 'webhook.test' AND error <> 'refused_address'"); n > 0 {
		t.Errorf("%d posts failed otherwise", n)
	}
	b.Expect(422, "request.invalid", "PATCH", path(hook.WebhookID), map[string]any{"url": r.URL}) // an admin changes the webhook, which still belongs to the user
	b.Expect(200, "", "PATCH", path(hook.WebhookID), map[string]any{"url": strings.Replace(r.URL, "127.0.0.1", "localhost", 1)})
	if a := apptest.Decode[api.WebhookTest](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/test", nil)); a.Taken {
		t.Error("an admin lets the webhook of a user reach the server's network")
	}

	target := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ taken) {
		w.Header().Set("Location", target.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	hook = b.hook(r.URL, nil)
	a := apptest.Decode[api.WebhookTest](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/test", nil))
	if a.Taken || *a.StatusCode != 307 || len(target.posts()) > 0 {
		t.Errorf("a redirect: %+v", a)
	}
}

// B13: a test event is posted immediately, even to a webhook that is off. The stored post contains the request.
func TestATestOfAWebhookIsPostedAtOnce(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	b.Expect(200, "", "PATCH", path(hook.WebhookID), map[string]any{"status": "off"})
	r.answers(func(w http.ResponseWriter, _ taken) { _, _ = io.WriteString(w, "hello") })
	a := apptest.Decode[api.WebhookTest](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/test", nil))
	if !a.Taken || *a.StatusCode != 200 || *a.Response != "hello" || a.Error != nil {
		t.Errorf("answer %+v", a)
	}
	p := r.posts()
	wh, _ := standardwebhooks.NewWebhook(hook.Secret)
	if len(p) != 1 || p[0].Type != "webhook.test" || wh.Verify(p[0].Raw, p[0].Header) != nil {
		t.Fatalf("posts %+v", p)
	}
	var body api.WebhookBody
	var data api.TestEventData
	if err := errors.Join(json.Unmarshal(p[0].Raw, &body), json.Unmarshal(body.Data, &data)); err != nil || data.WebhookID != hook.WebhookID {
		t.Errorf("the test %s says %+v, %v", p[0].Raw, data, err)
	}
	if d := b.deliveries(hook.WebhookID); len(d) != 1 || string(*d[0].Request) != string(p[0].Raw) || d[0].EventID != p[0].ID {
		t.Errorf("shown %+v, posted %s", d, p[0].Raw)
	}
	b.Expect(404, "webhook.not_found", "POST", path(99)+"/test", nil)
}

// B13: a replay posts events again, with the same ids. The events are selected by ids or by a period. Only events that the webhook subscribes to are posted.
func TestAReplayPostsTheSameEvents(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.AddCompany("acme", 1)
	acme := apptest.Basic("user-of-acme", apptest.UserPassword)
	hook := b.hook(r.URL, map[string]any{"company_no": "acme", "events": []string{feed.MessageSent}})
	all := b.hook(newReceiver(t).URL, nil)
	b.send(acme...)
	b.send(acme...)
	b.send() // a message of another company
	b.deliver()
	first := r.posts()
	if len(first) != 2 {
		t.Fatalf("posts %v", ids(first))
	}
	other := b.deliveries(all.WebhookID)
	replay := func(body map[string]any) api.WebhookReplayed {
		t.Helper()
		return apptest.Decode[api.WebhookReplayed](t, b.Expect(200, "", "POST", path(hook.WebhookID)+"/replay", body))
	}
	var everyID []string
	for _, d := range other {
		everyID = append(everyID, d.EventID)
	}
	if out := replay(map[string]any{"event_ids": append(everyID, "evt_999")}); out.Events != 2 || !out.Complete || out.LastEventID == nil {
		t.Errorf("replayed %+v", out)
	}
	b.deliver()
	if p := r.posts(); len(p) != 2 || !slices.Contains(ids(p), first[0].ID) || !slices.Contains(ids(p), first[1].ID) || string(p[0].Raw) == "" {
		t.Errorf("posts %v, want %v", ids(p), ids(first))
	}
	b.Exec("UPDATE feed SET at = at - interval '1 hour' WHERE id = $1", strings.TrimPrefix(first[0].ID, "evt_"))
	from := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	if out := replay(map[string]any{"from": from}); out.Events != 1 {
		t.Errorf("replayed %+v", out)
	}
	b.deliver()
	if p := r.posts(); len(p) != 1 || p[0].ID != first[1].ID {
		t.Errorf("posts %v", ids(p))
	}
	if out := replay(map[string]any{"from": "2026-01-01T00:00:00Z"}); out.Events != 2 || out.KeptSince != nil {
		t.Errorf("replayed %+v", out)
	}
	b.Exec("UPDATE feed SET at = at - interval '8 days' WHERE id = $1", strings.TrimPrefix(first[0].ID, "evt_"))
	if _, err := b.App.Feed.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := replay(map[string]any{"from": "2026-01-01T00:00:00Z"}); out.Events != 1 || out.KeptSince == nil || time.Since(*out.KeptSince) > time.Hour {
		t.Errorf("replayed %+v", out)
	}
	b.Expect(422, "request.invalid", "POST", path(hook.WebhookID)+"/replay", map[string]any{"event_ids": []string{"evt_1"}, "from": from})
	b.Expect(422, "request.invalid", "POST", path(hook.WebhookID)+"/replay", map[string]any{"to": from})
	b.Exec("WITH f AS (INSERT INTO feed (company_id, submitted_by, type, at, data) SELECT 2, '', 'batch.finished', now(), '{}' FROM generate_series(1, 10000) RETURNING id) "+
		"INSERT INTO webhook_retries (webhook_id, feed_id, due_at) SELECT $1, id, now() FROM f", hook.WebhookID)
	b.Expect(409, "limit.reached", "POST", path(hook.WebhookID)+"/replay", map[string]any{"event_ids": []string{"evt_1"}})
}

// B13: a replay ends the pause of a webhook, both after a failure and after a request of the receiver.
func TestAReplayEndsThePauseOfAWebhook(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	r.answers(func(w http.ResponseWriter, _ taken) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(503)
	})
	b.send()
	b.deliver()
	event := r.posts()[0].ID
	r.answers(nil)
	b.deliver()
	if p := r.posts(); len(p) != 0 {
		t.Fatalf("the webhook is not paused: posts %v", ids(p))
	}
	b.Expect(200, "", "POST", path(hook.WebhookID)+"/replay", map[string]any{"event_ids": []string{event}})
	b.deliver()
	if p := r.posts(); len(p) != 1 || p[0].ID != event || b.waiting() != 0 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
}

// B13: if an event is being posted while a replay selects it, the event is posted again.
func TestAReplayDuringAPostIsNotLost(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	b.send()
	b.deliver()
	event := r.posts()[0].ID
	replay := func() {
		b.Expect(200, "", "POST", path(hook.WebhookID)+"/replay", map[string]any{"event_ids": []string{event}})
	}
	var once sync.Once
	r.answers(func(http.ResponseWriter, taken) { once.Do(replay) })
	replay()
	b.deliver()
	b.deliver()
	if p := r.posts(); len(p) != 2 || b.waiting() != 0 {
		t.Errorf("posts %v, %d wait", ids(p), b.waiting())
	}
}

// B13: a webhook receives the events of its types that its owner can see. A user can read only the user's own webhooks.
func TestAWebhookGetsTheEventsThatItsOwnerCanSee(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	acme, beta := apptest.Basic("user-of-acme", apptest.UserPassword), apptest.Basic("user-of-beta", apptest.UserPassword)
	hook := b.hook(r.URL, map[string]any{"company_no": "acme", "events": []string{feed.MessageDelivered}})
	mine := b.send(acme...)
	b.receipt(mine)
	b.receipt(b.send(beta...))
	b.deliver()
	if p := r.posts(); len(p) != 1 || p[0].Data.TaskID != mine || p[0].Type != feed.MessageDelivered {
		t.Errorf("posts %+v", p)
	}
	own := b.hook("https://shop.example", nil, acme...)
	for _, id := range []int64{hook.WebhookID, own.WebhookID} {
		for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"GET", "/deliveries"}, {"POST", "/test"}} {
			b.Expect(404, "webhook.not_found", call[0], path(id)+call[1], nil, beta...)
		}
		b.Expect(404, "webhook.not_found", "PATCH", path(id), map[string]any{"status": "off"}, beta...)
		b.Expect(404, "webhook.not_found", "POST", path(id)+"/rotate", map[string]any{}, beta...)
		b.Expect(404, "webhook.not_found", "POST", path(id)+"/replay", map[string]any{"event_ids": []string{"evt_1"}}, beta...)
	}
	list := apptest.Decode[api.WebhookPage](t, b.Expect(200, "", "GET", "/api/v1/webhooks", nil, acme...)).Items
	if len(list) != 1 || list[0].WebhookID != own.WebhookID {
		t.Errorf("acme lists %+v", list)
	}
	b.Expect(403, "auth.other_company", "POST", "/api/v1/webhooks", map[string]any{"url": "https://x.example", "events": everything, "company_no": "beta"}, acme...)
	b.Expect(422, "request.invalid", "POST", "/api/v1/webhooks", map[string]any{"url": "https://user:secret@x.example", "events": everything})
	b.Expect(404, "company.not_found", "POST", "/api/v1/webhooks", map[string]any{"url": "https://x.example", "events": everything, "company_no": "nobody"})
	b.Expect(409, "version.stale", "PATCH", path(hook.WebhookID), map[string]any{"status": "off", "version": 99})
	for range 19 {
		b.hook("https://shop.example", nil, acme...)
	}
	b.Expect(409, "limit.reached", "POST", "/api/v1/webhooks", map[string]any{"url": "https://x.example", "events": everything}, acme...)
}

// B13: a webhook of a user or of a company cannot subscribe to events that it never receives, even if an admin changes it. A webhook that was stored with such
// events can still be changed.
func TestOnlyWebhooksOfAllCompaniesCanSubscribeToServiceEvents(t *testing.T) {
	b := setup(t)
	b.AddCompany("acme", 1)
	acme := apptest.Basic("user-of-acme", apptest.UserPassword)
	service := []string{feed.SenderSilent, feed.SenderRecovered, feed.SenderLowBalance, feed.AlertFiring, feed.AlertResolved, feed.AlertNotSent}
	all := b.hook("https://shop.example", map[string]any{"events": service[:1]})
	b.Expect(200, "", "PATCH", path(all.WebhookID), map[string]any{"events": service})
	company := b.hook("https://shop.example", map[string]any{"company_no": "acme"})
	own := b.hook("https://shop.example", nil, acme...)
	refused := func(method, path string, body map[string]any, headers ...string) {
		t.Helper()
		body["url"] = "https://shop.example"
		for _, one := range service {
			body["events"] = []string{feed.MessageSent, one}
			if a := b.Expect(422, "request.invalid", method, path, body, headers...); a.Fields() != "events.1" {
				t.Errorf("the wrong fields are %s", a.Fields())
			}
		}
	}
	refused("POST", "/api/v1/webhooks", map[string]any{}, acme...)
	refused("POST", "/api/v1/webhooks", map[string]any{"company_no": "acme"})
	refused("PATCH", path(own.WebhookID), map[string]any{}, acme...)
	refused("PATCH", path(own.WebhookID), map[string]any{})
	refused("PATCH", path(company.WebhookID), map[string]any{})

	b.Exec("UPDATE webhooks SET events = '{message.sent,sender.silent}' WHERE id = $1", own.WebhookID)
	b.Expect(200, "", "PATCH", path(own.WebhookID), map[string]any{"description": "stored before"}, acme...)
	if w := b.get(own.WebhookID); w.Description != "stored before" || len(w.Events) != 2 {
		t.Errorf("the webhook is %+v", w)
	}
	b.Expect(200, "", "PATCH", path(own.WebhookID), map[string]any{"events": []string{feed.MessageSent}}, acme...)
}

// B13: a webhook of a user gets only the events of the user's own submissions. It waits while the user is disabled, and is deleted when the user moves to
// another company.
func TestAWebhookIsDeletedWithItsUser(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	user := b.AddUser("shop", "submit", nil)
	hook := b.hook(strings.Replace(r.URL, "127.0.0.1", "localhost", 1), nil, user...)
	// This service equals the service of the server, except that users' webhooks can reach loopback, where the receiver listens.
	service := webhook.New(b.App.DB, b.Options.Secrets, b.App.Feed, webhook.Options{Log: b.Options.Log})
	deliver := func() {
		t.Helper()
		if _, err := b.App.Feed.Sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := service.Deliver(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mine := b.send(user...)
	b.send() // submissions of other users of the company cause no posts, even as the latest submissions
	deliver()
	if p := r.posts(); len(p) != 1 || p[0].Data.TaskID != mine {
		t.Errorf("posts %+v", p)
	}
	b.send(user...)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"is_disabled": true})
	deliver()
	if p := r.posts(); len(p) > 0 {
		t.Errorf("posts for a user that is disabled: %v", ids(p))
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"is_disabled": false})
	deliver()
	if p := r.posts(); len(p) != 1 {
		t.Errorf("posts %v", ids(p))
	}
	b.AddCompany("acme", 1)
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"company_no": "acme"})
	b.Expect(404, "webhook.not_found", "GET", path(hook.WebhookID), nil)
}

// B13: the deletion of a webhook deletes all its rows. A company with a webhook cannot be deleted. If a company has no webhook any more, its events are
// recorded for one more week.
func TestDeletingAWebhookDeletesAllItsRows(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.Expect(200, "", "POST", "/api/v1/admin/companies", map[string]any{"company_no": "acme", "name": "acme"})
	hook := b.hook(r.URL, map[string]any{"company_no": "acme"})
	b.Expect(409, "in_use", "DELETE", "/api/v1/admin/companies/acme", nil)
	r.answersStatus(500)
	user := b.AddUser("shop", "submit", map[string]any{"company_no": "acme"})
	b.send(user...)
	b.deliver()
	b.Expect(200, "", "DELETE", path(hook.WebhookID), nil)
	for _, table := range []string{"webhooks", "webhook_secrets", "webhook_retries", "webhook_deliveries"} {
		if n := b.Count("SELECT count(*) FROM " + table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	if _, err := b.App.Webhooks.StopUnused(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM feed_listeners WHERE NOT is_pushed AND listens_until > now() + interval '6 days'"); n != 1 {
		t.Errorf("%d listeners for a week more", n)
	}
	b.Exec("UPDATE feed_listeners SET listens_until = now() - interval '1 second'")
	b.send(user...)
	if n := b.Count("SELECT count(*) FROM feed_staged"); n != 0 {
		t.Errorf("%d events are recorded without a listener", n)
	}
	if _, err := b.App.Feed.DeleteExpired(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("SELECT count(*) FROM feed_listeners"); n != 0 {
		t.Errorf("%d listeners", n)
	}
}

// B13: if a webhook is changed during a run, the run is discarded and repeated with the change.
func TestTheRunOfAChangedWebhookIsRepeated(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	second := newReceiver(t)
	r.answers(func(w http.ResponseWriter, _ taken) {
		b.Expect(200, "", "PATCH", path(hook.WebhookID), map[string]any{"url": second.URL})
		w.WriteHeader(410)
	})
	b.send()
	b.deliver()
	if p := second.posts(); len(p) != 1 || b.get(hook.WebhookID).Status != api.WebhookOn {
		t.Errorf("the new receiver got %v; webhook %+v", ids(p), b.get(hook.WebhookID))
	}
}

// S4.10, B13: an erasure deletes the responses of receivers, because they can repeat posted data. An event that is published after the erasure does not contain
// the person.
func TestAnErasureDeletesTheResponsesOfReceivers(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, nil)
	r.answers(func(w http.ResponseWriter, one taken) { _, _ = w.Write(one.Raw) })
	b.send()
	b.deliver()
	if d := b.deliveries(hook.WebhookID)[0]; d.Response == nil || !strings.Contains(*d.Response, apptest.Phone) {
		t.Fatalf("post %+v", d)
	}
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": apptest.Phone})
	apptest.Eventually(t, "the erasure has ended", func() bool {
		b.Exec("UPDATE erasures SET next_at = now() WHERE status = 'running'")
		if _, err := b.App.Erasures.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.Count("SELECT count(*) FROM erasures WHERE status = 'running'") == 0
	})
	if a := b.Call("GET", path(hook.WebhookID)+"/deliveries", nil); strings.Contains(a.Raw, apptest.Phone) {
		t.Errorf("after the erasure: %s", a.Raw)
	}
}

// erase erases the person with a number.
func (b bundle) erase(number string) {
	b.T.Helper()
	b.Expect(200, "", "POST", "/api/v1/contacts/erasures", map[string]any{"phone": number})
	b.RunErasures()
	if n := b.Count("SELECT count(*) FROM erasures WHERE status <> 'finished'"); n > 0 {
		b.T.Fatal("the erasure is not finished")
	}
}

// answersLeft returns the stored answers of receivers.
func (b bundle) answersLeft() string {
	b.T.Helper()
	return apptest.Scan[string](b.Bundle, "SELECT coalesce(string_agg(response, ',' ORDER BY id), '') FROM webhook_deliveries")
}

// expectErasedAnswers checks that an erasure removes the answers that repeat an event about a number, including an answer that is stored during the erasure. cause
// causes an event about a number.
func (b bundle) expectErasedAnswers(r *receiver, cause func(number string)) {
	b.T.Helper()
	repeats := func(w http.ResponseWriter, one taken) { _, _ = w.Write(one.Raw) }
	const first, second, third = "+8613800000001", "+8613800000002", "+8613800000003"
	r.answers(repeats)
	cause(first)
	cause(second)
	b.deliver()
	if got := b.answersLeft(); !strings.Contains(got, first) || !strings.Contains(got, second) {
		b.T.Fatalf("stored are %q", got)
	}
	b.erase(first)
	if got := b.answersLeft(); strings.Contains(got, first) || !strings.Contains(got, second) {
		b.T.Errorf("left after the erasure of %s: %q", first, got)
	}
	r.answers(func(w http.ResponseWriter, one taken) {
		b.erase(third)
		repeats(w, one)
	})
	cause(third)
	b.deliver()
	if got := b.answersLeft(); strings.Contains(got, third) {
		b.T.Errorf("stored after the erasure: %q", got)
	}
}

// An answer of a receiver can repeat the message of a person. An erasure removes such answers, including answers that are stored during the erasure.
func TestAnErasureRemovesAnswersToReceivedMessages(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	hook := b.hook(r.URL, map[string]any{"events": []string{feed.MessageReceived}})
	b.AddSender(map[string]any{"sender_no": "phone"})
	receive := func(from string) {
		t.Helper()
		b.Expect(200, "", "POST", "/api/v1/sms/received", map[string]any{"app_id": "phone", "messages": []any{map[string]any{"from": from, "content": "I am " + from}}})
	}
	b.expectErasedAnswers(r, receive)
	if d := b.deliveries(hook.WebhookID); len(d) != 3 || d[0].Response != nil {
		t.Errorf("shown are %+v", d)
	}
	b.Exec("DELETE FROM feed")
	b.erase("+8613800000004")
	if got := b.answersLeft(); got != "" {
		t.Errorf("without the events, left are %q", got)
	}
}

// An answer of a receiver can repeat the event of a verification. An erasure removes such answers, including answers that are stored during the erasure.
func TestAnErasureRemovesAnswersToEventsOfVerifications(t *testing.T) {
	b, r := setup(t), newReceiver(t)
	b.hook(r.URL, map[string]any{"events": []string{feed.VerificationFailed}})
	end := func(number string) {
		t.Helper()
		v := apptest.Decode[api.VerificationStarted](t, b.Expect(200, "", "POST", "/api/v1/verifications", map[string]any{"phone_number": number, "purpose": "login"}))
		b.Expect(200, "", "POST", "/api/v1/verifications/"+v.VerificationID+"/cancel", nil)
	}
	b.expectErasedAnswers(r, end)
}
