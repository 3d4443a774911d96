package feed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/events/feed"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// pull pulls the events after a cursor. An empty cursor means the end of the feed.
func pull(b *apptest.Bundle, after, more string, headers ...string) api.EventFeed {
	b.T.Helper()
	path := "/api/v1/events?limit=1000" + more
	if after != "" {
		path += "&after=" + after
	}
	return apptest.Decode[api.EventFeed](b.T, b.Expect(200, "", "GET", path, nil, headers...))
}

// sequence moves all staged events to the feed.
func sequence(b *apptest.Bundle) {
	b.T.Helper()
	if _, err := b.App.Feed.Sequence(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// dataOf returns the data of an event of a task.
func dataOf(t *testing.T, e api.EventOfFeed) (d api.MessageEventData) {
	t.Helper()
	if err := json.Unmarshal(e.Data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// taskTypes returns the types of the events of a task, in their order.
func taskTypes(t *testing.T, f api.EventFeed, id string) (types []string) {
	for _, e := range f.Items {
		if dataOf(t, e).TaskID == id {
			types = append(types, string(e.Type))
		}
	}
	return types
}

// send submits a message. The sender app reports its task with the given status. send returns the id of the task.
func send(b *apptest.Bundle, status int, more map[string]any) string {
	b.T.Helper()
	body := map[string]any{"phone_number": apptest.Phone, "content": "x"}
	for k, v := range more {
		body[k] = v
	}
	id := apptest.Decode[api.Submitted](b.T, b.Expect(200, "", "POST", "/api/v1/sms/send", body)).TaskID
	b.ClaimIDs(100)
	b.Report(id, "app", status, apptest.Report{"error_message": "gone"})
	return id
}

// receipt stores a receipt of a provider.
func receipt(b *apptest.Bundle, f queue.Final) {
	b.T.Helper()
	err := b.App.DB.Tx(b.T.Context(), func(ctx context.Context) error {
		_, err := b.App.Queue.SettleReceipts(ctx, []queue.Final{f})
		return err
	})
	if err != nil {
		b.T.Error(err)
	}
}

// B13: each end of a task is published with its data. If the task is requeued, its second end is published as well.
func TestEachEndOfATaskIsPublished(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "")
	if len(start.Items) > 0 {
		t.Errorf("%d events before the beginning", len(start.Items))
	}
	sent := send(b, 2, map[string]any{"dedup_key": "order-42", "source": "shop", "test": true})
	failed := send(b, 3, nil)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+failed+"/requeue", map[string]any{})
	b.ClaimIDs(1)
	b.Report(failed, "app", 2, nil)
	cancelled := b.Submit("y")
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+cancelled+"/cancel", nil)
	expired := b.Submit("z")
	b.Exec("UPDATE queue SET expires_at = now() - interval '1 second' WHERE task_id = $1", expired)
	if _, err := b.App.Queue.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, state := range []int16{2, 1} { // the message is first reported as undelivered, then as delivered
		receipt(b, queue.Final{TaskID: sent, State: state, Code: fmt.Sprint("C", state), SenderNo: "app"})
	}
	sequence(b)

	got := pull(b, start.NextCursor, "")
	for id, want := range map[string][]string{
		sent: {feed.MessageSent, feed.MessageUndelivered, feed.MessageDelivered}, failed: {feed.MessageFailed, feed.MessageSent},
		cancelled: {feed.MessageCancelled}, expired: {feed.MessageExpired},
	} {
		if types := taskTypes(t, got, id); !slices.Equal(types, want) {
			t.Errorf("events %v, want %v", types, want)
		}
	}
	first := dataOf(t, got.Items[0])
	if first.TaskID != sent || *first.Status != 2 || *first.PhoneNumber != apptest.Phone || *first.DedupKey != "order-42" || *first.Source != "shop" || !*first.Test ||
		*first.Attempt != 1 || *first.ProcessingAppID != "app" || *first.CompanyNo != "default" || first.EndedAt == nil || first.Delivery != nil {
		t.Errorf("data of the first event: %s", got.Items[0].Data)
	}
	for _, e := range got.Items {
		if d := dataOf(t, e); e.Type == feed.MessageDelivered && (*d.Delivery != api.TaskDelivered || *d.DeliveryCode != "C1" || d.Status != nil) {
			t.Errorf("data of the receipt: %s", e.Data)
		}
	}
	if types := pull(b, start.NextCursor, "&type=message.expired&type=message.failed"); len(types.Items) != 2 || types.NextCursor != got.NextCursor {
		t.Errorf("of two types: %+v", types)
	}
	if rest := pull(b, got.NextCursor, ""); len(rest.Items) > 0 || rest.NextCursor != got.NextCursor {
		t.Errorf("after the last event: %+v", rest)
	}
	page := apptest.Decode[api.EventFeed](t, b.Expect(200, "", "GET", "/api/v1/events?limit=2&after="+start.NextCursor, nil))
	if len(page.Items) != 2 || pull(b, page.NextCursor, "").Items[0].ID != got.Items[2].ID {
		t.Errorf("a page of two: %+v", page)
	}
}

// B13: the events of a company without listeners are not recorded. A company gets no events of another company.
func TestEventsAreRecordedOnlyForCompaniesWithListeners(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	rows := func() int { return w.Count("SELECT (SELECT count(*) FROM feed_staged) + (SELECT count(*) FROM feed)") }
	cancel := func(headers []string) string {
		id := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, headers...)).TaskID
		w.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, headers...)
		return id
	}
	cancel(w.Acme)
	cancel(w.Beta)
	if n := rows(); n != 0 {
		t.Fatalf("%d events without a listener", n)
	}
	start := pull(w.Bundle, "", "", w.Acme...)
	cancel(w.Beta)
	if n := rows(); n != 0 {
		t.Fatalf("%d events of a company that does not listen", n)
	}
	id := cancel(w.Acme)
	other := pull(w.Bundle, "", "", w.Beta...)
	cancel(w.Beta)
	sequence(w.Bundle)
	if n := rows(); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	if got := pull(w.Bundle, start.NextCursor, "", w.Acme...); len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID != id {
		t.Errorf("acme gets %+v", got)
	}
	if got := pull(w.Bundle, other.NextCursor, "", w.Beta...); len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID == id {
		t.Errorf("beta gets %+v", got)
	}
	reader := pull(w.Bundle, start.NextCursor, "", w.Reader...) // a reader of acme
	if len(reader.Items) != 1 {
		t.Errorf("a reader of acme gets %+v", reader)
	}
	second := w.AddUser("second-of-acme", "submit", map[string]any{"company_no": "acme"})
	if got := pull(w.Bundle, start.NextCursor, "", second...); len(got.Items) != 0 {
		t.Errorf("another user of acme gets %+v", got)
	}
	w.Expect(403, "auth.other_company", "GET", "/api/v1/events?company_no=beta", nil, w.Reader...)
	w.Expect(404, "company.not_found", "GET", "/api/v1/events?company_no=nobody", nil)

	w.Exec("UPDATE feed_listeners SET listens_until = now() - interval '1 second'")
	cancel(w.Acme)
	if n := rows(); n != 2 {
		t.Errorf("%d events after the listeners ended, want 2", n)
	}
	all := pull(w.Bundle, "", "")
	a, c := cancel(w.Acme), cancel(w.Beta)
	sequence(w.Bundle)
	got := pull(w.Bundle, all.NextCursor, "")
	if len(got.Items) != 2 || dataOf(t, got.Items[0]).TaskID != a || dataOf(t, got.Items[1]).TaskID != c {
		t.Errorf("an admin gets %+v", got)
	}
	if got := pull(w.Bundle, all.NextCursor, "&company_no=beta"); len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID != c {
		t.Errorf("an admin gets of beta %+v", got)
	}
}

// B13: if the sequencer is killed, its aborted transaction neither loses nor duplicates an event.
func TestAnEventSurvivesASequencerThatIsKilled(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "")
	var ids []string
	for range 5 {
		ids = append(ids, send(b, 2, nil))
	}
	b.Exec(`CREATE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	b.Exec(`CREATE TRIGGER break_off AFTER INSERT ON feed FOR EACH STATEMENT EXECUTE FUNCTION break_off()`)
	if _, err := b.App.Feed.Sequence(t.Context()); err == nil {
		t.Fatal("the transaction was not broken off")
	}
	if got := pull(b, start.NextCursor, ""); len(got.Items) > 0 {
		t.Errorf("events of a broken transaction: %+v", got)
	}
	b.Exec("DROP TRIGGER break_off ON feed")
	sequence(b)
	got := pull(b, start.NextCursor, "")
	for i, id := range ids {
		if len(got.Items) != len(ids) || dataOf(t, got.Items[i]).TaskID != id {
			t.Fatalf("events %+v, want those of %v", got.Items, ids)
		}
	}
}

// B13: two servers sequence the feed while tasks end. A reader that always continues after its last id reads every event. The events of one task are in order.
func TestAReaderMissesNothingWhileTwoServersSequence(t *testing.T) {
	b := apptest.New(t)
	second := apptest.Another(b)
	cursor := pull(b, "", "").NextCursor
	const tasks = 300
	b.SubmitMany("x", tasks, nil)
	leased := b.Take("app", tasks)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		apptest.Together(2, func(i int) {
			for ctx.Err() == nil {
				_, _ = []*feed.Service{b.App.Feed, second.Feed}[i].Sequence(ctx)
			}
		})
	}()
	go apptest.Together(4, func(i int) {
		for n := i; n < tasks; n += 4 {
			b.Call("POST", "/api/v1/sms/report", apptest.ReportBody(leased[n].TaskID, "app", 2, nil))
			receipt(b, queue.Final{TaskID: leased[n].TaskID, State: 1, SenderNo: "app"})
		}
	})
	types := map[string][]string{}
	apptest.Eventually(t, "all events are read", func() bool {
		f := pull(b, cursor, "")
		for _, e := range f.Items {
			id := dataOf(t, e).TaskID
			types[id] = append(types[id], string(e.Type))
		}
		cursor = f.NextCursor
		n := 0
		for _, all := range types {
			n += len(all)
		}
		return n == 2*tasks
	})
	stop()
	<-done
	for id, all := range types {
		if !slices.Equal(all, []string{feed.MessageSent, feed.MessageDelivered}) {
			t.Errorf("%s: %v", id, all)
		}
	}
}

// B13: a cursor is refused if later events were deleted or not recorded. A cursor of another database is also refused.
func TestAnExpiredCursorIsRefused(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	send(b, 2, nil)
	sequence(b)
	b.Exec("UPDATE feed SET at = at - interval '8 days'")
	for _, keep := range []struct{ days, deleted int }{{9, 0}, {7, 1}} {
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"feed_days": keep.days}})
		if n, err := b.App.Feed.DeleteExpired(t.Context()); n != keep.deleted || err != nil {
			t.Fatalf("deleted %d after %d days, %v", n, keep.days, err)
		}
	}
	b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings", map[string]any{"history": map[string]any{"feed_days": 5}}) // three days are refused, because a webhook can fail for five days
	oldest := func(cursor string) string {
		var body struct{ Error struct{ Oldest string } }
		if err := json.Unmarshal([]byte(b.Expect(409, "events.cursor_gone", "GET", "/api/v1/events?after="+cursor, nil).Raw), &body); err != nil {
			t.Fatal(err)
		}
		return body.Error.Oldest
	}
	next := oldest(start)
	pull(b, next, "")
	b.Exec("UPDATE feed_listeners SET listens_until = now() - interval '1 second'")
	send(b, 2, nil)                                                                                                     // this event has no listener
	b.Exec("INSERT INTO feed (company_id, submitted_by, type, at, data) VALUES (1, '', 'batch.finished', now(), '{}')") // this event has another listener
	if again := oldest(next); again == next {
		t.Errorf("the oldest cursor is %s, from before a time without a listener", again)
	}
	b.Expect(422, "request.invalid", "GET", "/api/v1/events?after=999999", nil)
}

// B13: the clock is set back. Events that were recorded before do not prevent the deletion of older events.
func TestEventsAreStillDeletedAfterTheClockIsSetBack(t *testing.T) {
	b := apptest.New(t)
	add := "INSERT INTO feed (company_id, submitted_by, type, at, data) SELECT 1, '', 'batch.finished', now() + $1::text::interval, '{}' FROM generate_series(1, $2)"
	b.Exec(add, "8 days", 10_000)
	b.Exec(add, "-8 days", 2)
	b.Exec(add, "0", 1)
	if n, err := b.App.Feed.DeleteExpired(t.Context()); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// B13: a waiting pull returns an event when it arrives. It returns without events if its time is over or the server stops.
func TestAPullWaitsForAnEvent(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	if got := pull(b, start, "&wait=1"); len(got.Items) > 0 {
		t.Errorf("got %+v", got)
	}
	got := make(chan api.EventFeed, 1)
	go func() { got <- pull(b, start, "&wait=30") }()
	apptest.Eventually(t, "the request waits", func() bool { return b.App.Feed.Waiting() == 1 })
	id := send(b, 2, nil)
	sequence(b)
	select {
	case f := <-got:
		if len(f.Items) != 1 || dataOf(t, f.Items[0]).TaskID != id {
			t.Errorf("got %+v", f)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("the request still waits")
	}
	ended := make(chan api.EventFeed, 1)
	cursor := pull(b, start, "").NextCursor
	go func() { ended <- pull(b, cursor, "&wait=30") }()
	apptest.Eventually(t, "the request waits again", func() bool { return b.App.Feed.Waiting() == 1 })
	b.App.Feed.StopWaiting()
	select {
	case f := <-ended:
		if len(f.Items) > 0 {
			t.Errorf("got %+v", f)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request waits for a server that stops")
	}
}

// B13: if a user is disabled during a waiting pull, the pull returns no events.
func TestADisabledUserGetsNoEvents(t *testing.T) {
	b := apptest.New(t)
	headers := b.AddUser("shop", "submit", nil)
	start := pull(b, "", "", headers...).NextCursor
	got := make(chan apptest.Answer, 1)
	go func() { got <- b.Call("GET", "/api/v1/events?wait=30&after="+start, nil, headers...) }()
	apptest.Eventually(t, "the request waits", func() bool { return b.App.Feed.Waiting() == 1 })
	id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, headers...)).TaskID
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/shop", map[string]any{"is_disabled": true})
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	sequence(b)
	if a := <-got; a.Status != 401 {
		t.Errorf("got %d %s", a.Status, a.Raw)
	}
}

// B13: if a user moves to another company during a waiting pull, the pull returns no events of the former company.
func TestAMovedUserGetsNoEventsOfItsFormerCompany(t *testing.T) {
	b := apptest.New(t)
	acme := b.AddCompany("acme", 1)
	b.AddCompany("beta", 1)
	reader := b.AddUser("reader", "read", map[string]any{"company_no": "acme"})
	start := pull(b, "", "", reader...).NextCursor
	got := make(chan apptest.Answer, 1)
	go func() { got <- b.Call("GET", "/api/v1/events?wait=30&after="+start, nil, reader...) }()
	apptest.Eventually(t, "the request waits", func() bool { return b.App.Feed.Waiting() == 1 })
	b.Expect(200, "", "PATCH", "/api/v1/admin/users/reader", map[string]any{"company_no": "beta"})
	id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, acme...)).TaskID
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil)
	sequence(b)
	if a := <-got; a.Status != 403 || a.Body.Error.Reason != "auth.other_company" {
		t.Errorf("got %d %s", a.Status, a.Raw)
	}
}

// B13: the end of a batch is published exactly once.
func TestTheEndOfABatchIsPublished(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	form := apptest.Form("file", "list.csv", "phone\n13800138000\n13800138001\n", "name", "spring", "content", "x")
	batch := apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType))
	if _, err := b.App.Batches.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Expect(200, "", "POST", fmt.Sprintf("/api/v1/batches/%d/confirm", batch.BatchID), nil)
	feedBatches := func() {
		if _, err := b.App.Batches.Feed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	feedBatches()
	for i, id := range b.ClaimIDs(10) {
		b.Report(id, "app", 2+i, nil)
	}
	feedBatches()
	feedBatches()
	sequence(b)
	got := pull(b, start, "&type=batch.finished")
	var d api.BatchEventData
	if len(got.Items) != 1 || json.Unmarshal(got.Items[0].Data, &d) != nil {
		t.Fatalf("got %+v", got)
	}
	if d.BatchID != batch.BatchID || d.Name != "spring" || d.Status != api.BatchEndedFinished || d.Counts.Success != 1 || d.Counts.Failed != 1 || d.Counts.Rows != 2 {
		t.Errorf("data %s", got.Items[0].Data)
	}
}

// B13: the end of a batch that was never confirmed is published exactly once.
func TestTheEndOfAnUnconfirmedBatchIsPublished(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	create := func(list string) int64 {
		form := apptest.Form("file", "list.csv", list, "name", "spring", "content", "x")
		return apptest.Decode[api.Batch](t, b.Expect(200, "", "POST", "/api/v1/batches", form, "Content-Type", apptest.FormType)).BatchID
	}
	check := func() {
		if _, err := b.App.Batches.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ready := create("phone\n13800138000\n13800138001\n")
	check()
	checking := create("phone\n13800138000\n")
	for _, id := range []int64{ready, checking, checking} {
		b.Expect(200, "", "POST", fmt.Sprintf("/api/v1/batches/%d/cancel", id), nil)
	}
	unreadable := create("phone\n\"1380013")
	check()
	if _, err := b.App.Batches.Feed(t.Context()); err != nil {
		t.Fatal(err)
	}
	sequence(b)
	var ended []string
	for _, e := range pull(b, start, "&type=batch.finished").Items {
		var d api.BatchEventData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, fmt.Sprint(d.BatchID, " ", d.Status, " ", d.Counts.Cancelled))
	}
	if want := []string{fmt.Sprint(ready, " cancelled 2"), fmt.Sprint(checking, " cancelled 0"), fmt.Sprint(unreadable, " cancelled 0")}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, want %v", ended, want)
	}
}

// B13: an event outlives the partition of its task. It then contains only the id of the task.
func TestAnEventIsKeptAfterThePartitionOfItsTaskIsDropped(t *testing.T) {
	b := apptest.New(t)
	start := pull(b, "", "").NextCursor
	id := send(b, 2, nil)
	sequence(b)
	b.Exec("DELETE FROM report_logs WHERE task_id = $1", id)
	got := pull(b, start, "")
	if want := fmt.Sprintf(`{"task_id":%q}`, id); len(got.Items) != 1 || string(got.Items[0].Data) != want {
		t.Errorf("got %+v", got)
	}
}

// B13: a running server sequences the feed periodically. It can stop even if requests wait for events.
func TestARunningServerPublishesEvents(t *testing.T) {
	b := apptest.New(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop, served := apptest.ServeUntil(t, b.App, listener)
	start := pull(b, "", "").NextCursor
	id := send(b, 2, nil)
	if got := pull(b, start, "&wait=20"); len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID != id {
		t.Errorf("got %+v", got)
	}
	waited := make(chan error, 1)
	cursor := pull(b, start, "").NextCursor
	go func() {
		req, _ := http.NewRequest("GET", "http://"+listener.Addr().String()+"/api/v1/events?wait=30&after="+cursor, nil)
		req.SetBasicAuth(apptest.Username, apptest.Password)
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode != 200 {
				err = fmt.Errorf("status %d", res.StatusCode)
			}
		}
		waited <- err
	}()
	apptest.Eventually(t, "the request waits", func() bool { return b.App.Feed.Waiting() == 1 })
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Error(err)
	}
}

// B13: a pull with an empty cursor starts at the oldest event since which all events of the company are stored.
func TestAnEmptyCursorStartsAtTheFirstEvent(t *testing.T) {
	w := apptest.NewTwoCompanies(t)
	first := func(headers ...string) api.EventFeed {
		return apptest.Decode[api.EventFeed](t, w.Expect(200, "", "GET", "/api/v1/events?after=", nil, headers...))
	}
	cancel := func(headers []string) string {
		id := apptest.Decode[api.Submitted](t, w.Expect(200, "", "POST", "/api/v1/sms/send", map[string]any{"phone_number": apptest.Phone, "content": "x"}, headers...)).TaskID
		w.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/cancel", nil, headers...)
		sequence(w.Bundle)
		return id
	}
	if got := first(w.Acme...); len(got.Items) != 0 || got.NextCursor != "0" {
		t.Errorf("before the first event: %+v", got)
	}
	old := cancel(w.Acme)
	start := first(w.Beta...) // no event of beta was recorded until now
	if len(start.Items) != 0 {
		t.Errorf("a new listener gets %+v", start)
	}
	ofBeta := cancel(w.Beta)
	for name, got := range map[string]api.EventFeed{"empty": first(w.Beta...), "of the first answer": pull(w.Bundle, start.NextCursor, "", w.Beta...)} {
		if len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID != ofBeta {
			t.Errorf("beta gets with the cursor %s: %+v", name, got)
		}
	}
	w.Expect(409, "events.cursor_gone", "GET", "/api/v1/events?after=0", nil, w.Beta...)

	w.Exec("UPDATE feed SET at = at - interval '8 days' WHERE task_id = $1", old)
	if n, err := w.App.Feed.DeleteExpired(t.Context()); n != 1 || err != nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	id := cancel(w.Acme)
	if got := first(w.Acme...); len(got.Items) != 1 || dataOf(t, got.Items[0]).TaskID != id {
		t.Errorf("after the deletion of older events, acme gets %+v", got)
	}
	w.Expect(409, "events.cursor_gone", "GET", "/api/v1/events?after=0", nil, w.Acme...)
}
