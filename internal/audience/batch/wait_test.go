package batch_test

import (
	"fmt"
	"testing"

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
