package batch_test

import (
	"fmt"
	"testing"
	"time"

	api "lksms/gen/client"

	"lksms/internal/dispatch/quiet"
	"lksms/internal/testkit/apptest"
)

// If the service has a temporary problem, no row is rejected.
func TestTemporaryProblemsRejectNoRow(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.AddCompany("acme", 1)
	at := checked(b, numbers(150), "content", "hello", "auto_confirm", "true", "sender_no", "one")
	route := b.AddRoute("acme", "one", 1) // the sender now serves only acme, and not the company of the batch
	feed(b)
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE task_id IS NULL AND code IS NULL"); n != 150 {
		t.Errorf("%d rows wait for the sender", n)
	}
	b.Expect(200, "", "DELETE", fmt.Sprintf("/api/v1/admin/routes/%v", route.RouteNo), nil)

	b.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$")
	b.Exec("CREATE TRIGGER refuse BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION refuse()")
	if _, err := b.App.Batches.Feed(t.Context()); err == nil {
		t.Error("Feed returned no error")
	}
	b.Exec("DROP TRIGGER refuse ON messages")
	expect(b, get(b, at), "running", "150 rows, 150 valid, 150 waiting")
	feed(b)
	expect(b, get(b, at), "running", "150 rows, 150 valid, 150 waiting")
	expectOnce(b, 150)
}

// R5: a batch whose recipients all have quiet hours says so, before and after its rows are tasks, and its end is after them. A batch with one row to a country
// in which it is day goes on.
func TestABatchSaysThatItWaitsForTheEndOfQuietHours(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "one"})
	b.Exec("UPDATE sender_states SET seen_at = now()") // otherwise the batches wait for a sender
	b.SetQuiet("marketing", -time.Hour, 2*time.Hour)
	end := time.Now().Add(2 * time.Hour).Truncate(time.Minute)
	expectEnd := func(got api.Batch, latest time.Time) {
		t.Helper()
		if e := got.Estimate.EarliestEnd; e == nil || e.Before(end) || e.After(latest) {
			t.Errorf("the batch ends at %v, quiet hours at %v", e, end)
		}
	}
	moveQuiet := func() {
		t.Helper()
		b.Exec("UPDATE quiet_changes SET begins_at = now()")
		if _, err := b.App.Queue.MoveQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	marketing := []string{"content", "sale", "message_type", "marketing"}
	at := checked(b, numbers(30), marketing...)
	expectEnd(get(b, at), end)
	get(b, at, "confirm")
	abroad := checked(b, numbers(30)+"+12125550123\n", append(marketing, "auto_confirm", "true")...)
	for _, latest := range []time.Time{end, end.Add(quiet.Spread)} { // before the rows are tasks, and after
		got := get(b, at)
		if w := got.WaitsFor; w == nil || w.Reason != api.WaitsForQuiet || w.Until == nil || w.Until.Before(end) || w.Until.After(latest) {
			t.Errorf("the batch waits for %+v", w)
		}
		expectEnd(got, latest)
		if got = get(b, abroad); got.WaitsFor != nil {
			t.Errorf("the batch with a row abroad waits for %+v", got.WaitsFor)
		}
		expectEnd(got, latest)
		feed(b)
		moveQuiet()
	}
	b.SetHours("marketing", "")
	moveQuiet()
	if got := get(b, at); got.WaitsFor != nil || got.Estimate.EarliestEnd.After(end) {
		t.Errorf("without quiet hours, the batch waits for %+v and ends at %v", got.WaitsFor, got.Estimate.EarliestEnd)
	}
}
