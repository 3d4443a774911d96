package batch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/platform/optional"
	"lksms/internal/testkit/apptest"
)

// refuse makes the database reject every statement that changes the row with the given number in batch_rows. allow ends this.
func refuse(b *apptest.Bundle, change string, row int) (allow func()) {
	b.T.Helper()
	b.Exec(fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.row_no = %d THEN RAISE EXCEPTION 'refused by the test'; END IF; RETURN NEW; END $$`, row))
	b.Exec(`CREATE TRIGGER refuse BEFORE ` + change + ` ON batch_rows FOR EACH ROW EXECUTE FUNCTION refuse()`)
	return func() {
		b.T.Helper()
		b.Exec("DROP TRIGGER refuse ON batch_rows")
	}
}

// expectOnce fails the test unless each of n rows has its own task, and no other task exists.
func expectOnce(b *apptest.Bundle, n int) {
	b.T.Helper()
	tasks, rows := b.Count("SELECT count(*) FROM messages WHERE batch_id IS NOT NULL"),
		b.Count("SELECT count(DISTINCT m.task_id) FROM batch_rows r JOIN messages m ON m.task_id = r.task_id AND m.batch_id = r.batch_id AND m.recipient = r.recipient")
	if tasks != n || rows != n {
		b.T.Errorf("%d tasks, of %d rows, want %d", tasks, rows, n)
	}
}

// B14: another server, or the same server after a restart, continues an interrupted step where it stopped.
func TestAnInterruptedBatchContinues(t *testing.T) {
	b := apptest.New(t)
	at := create(b, numbers(4500), "content", "hello", "auto_confirm", "true")
	allow := refuse(b, "INSERT", 4100) // row 4100 is in the third portion
	if n, err := b.App.Batches.Check(t.Context()); n != 4000 || err == nil {
		t.Errorf("checked %d, %v", n, err)
	}
	expect(b, get(b, at), "checking", "4000 rows, 4000 valid, 4000 waiting")
	allow()
	second := apptest.Another(b)
	if n, err := second.Batches.Check(t.Context()); n != 500 || err != nil {
		t.Errorf("checked %d, %v", n, err)
	}
	expect(b, get(b, at), "running", "4500 rows, 4500 valid, 4500 waiting")
	b.Exec("DROP FUNCTION refuse")
	allow = refuse(b, "UPDATE", 1050)
	if n, err := b.App.Batches.Feed(t.Context()); n != 1000 || err == nil {
		t.Errorf("fed %d, %v", n, err)
	}
	expectOnce(b, 1000)
	allow()
	if n, err := second.Batches.Feed(t.Context()); n != 3500 || err != nil {
		t.Errorf("fed %d, %v", n, err)
	}
	expectOnce(b, 4500)
	expect(b, get(b, at), "running", "4500 rows, 4500 valid, 4500 waiting")
}

// Contacts have no row numbers. If a contact leaves or joins the tag during an interruption of the check, the stored rows are wrong, and the check restarts.
func TestAnInterruptedCheckOfATagStartsAgain(t *testing.T) {
	b := apptest.New(t)
	b.Expect(200, "", "PUT", "/api/v1/tags/vip", nil)
	for first := 0; first < 2500; first += 500 {
		var contacts []map[string]any
		var ids []string
		for i := first; i < first+500; i++ {
			ids = append(ids, fmt.Sprintf("u%04d", i))
			contacts = append(contacts, map[string]any{"user_id": ids[i-first], "phone": fmt.Sprintf("138%08d", i)})
		}
		b.PutContacts(contacts...)
		b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"add": ids})
	}
	at := fmt.Sprintf("%s/%d", path, apptest.Decode[api.BatchCreated](t, form(b, 200,
		apptest.Form("", "", "", "name", "n", "content", "hello", "tag", "vip"))).BatchID)
	allow := refuse(b, "INSERT", 2100)
	if n, err := b.App.Batches.Check(t.Context()); n != 2000 || err == nil {
		t.Errorf("checked %d, %v", n, err)
	}
	allow()
	b.Expect(200, "", "POST", "/api/v1/tags/vip/contacts", map[string]any{"remove": []string{"u0003"}})
	check(b)
	expect(b, get(b, at), "ready", "2499 rows, 2499 valid, 2499 waiting")
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE recipient = '+8613800000003'"); n != 0 {
		t.Error("a contact that was removed from the tag has a row")
	}
	if n := b.Count("SELECT count(*) FROM batch_rows WHERE recipient = '+8613800002000'"); n != 1 {
		t.Errorf("the next contact has %d rows", n)
	}
}

func TestTwoServersProcessABatchConcurrently(t *testing.T) {
	b := apptest.New(t)
	servers := []*app.App{b.App, apptest.Another(b)}
	var all []string
	for range 3 {
		all = append(all, create(b, numbers(2100), "content", "hello", "auto_confirm", "true"))
	}
	apptest.Together(4, func(i int) {
		for range 3 {
			if _, err := servers[i%2].Batches.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := servers[i%2].Batches.Feed(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	feed(b)
	expectOnce(b, 3*2100)
	for _, at := range all {
		expect(b, get(b, at), "running", "2100 rows, 2100 valid, 2100 waiting")
	}
}

// The tasks of a batch still receive the status of the batch, even if further rows of the batch cannot be submitted. Other batches are processed in the same
// run.
func TestTheTasksOfABatchThatCannotBeSubmittedGetItsStatus(t *testing.T) {
	b := apptest.New(t)
	b.AddCompany("acme", 1)
	stuck := checked(b, numbers(3), "content", "hello", "auto_confirm", "true")
	feed(b)
	b.Exec("UPDATE batches SET fed_row = 0, fed = 0") // the rows are submitted again, which fails
	other := create(b, numbers(2500), "content", "hello", "auto_confirm", "true", "company_no", "acme")
	check(b)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.name = 'stuck' THEN RAISE EXCEPTION 'refused by the test'; END IF;
			UPDATE batches SET status = 'paused', is_held = true WHERE name = 'stuck' AND status = 'running';
			RETURN NEW;
		END $$;
		UPDATE batches SET name = 'stuck' WHERE submitted_by <> '' AND company_id = 1;
		CREATE TRIGGER refuse BEFORE UPDATE OF fed_row ON batches FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if _, err := b.App.Batches.Feed(t.Context()); err == nil {
		t.Error("the run had no failure")
	}
	if n := b.Count("SELECT count(*) FROM queue t JOIN batches b ON b.id = t.batch_id WHERE b.name = 'stuck' AND t.due_at = held_due_at()"); n != 3 {
		t.Errorf("%d of 3 tasks of the paused batch are held", n)
	}
	if n := b.Count("SELECT count(*) FROM queue t JOIN batches b ON b.id = t.batch_id WHERE b.name <> 'stuck' AND t.due_at < held_due_at()"); n != 2500 {
		t.Errorf("%d of 2500 tasks of the other batch wait", n)
	}
	if got := get(b, stuck); got.Status != "paused" {
		t.Errorf("the batch is %s", got.Status)
	}
	if got := get(b, other); got.Status != "running" {
		t.Errorf("the other batch is %s", got.Status)
	}
}

// A batch in its check can lack both a list and a tag, for example after a manual repair. Such a batch ends with a reason, and does not delay other batches.
func TestABatchWithoutAListIsCancelled(t *testing.T) {
	b := apptest.New(t)
	at, other := create(b, numbers(2), "content", "hello"), create(b, numbers(2), "content", "hello")
	b.Exec("UPDATE batches SET upload_id = NULL WHERE id = (SELECT min(id) FROM batches)")
	check(b)
	got := get(b, at)
	if got.Status != "cancelled" || got.Remark == nil || !strings.Contains(*got.Remark, "file") {
		t.Errorf("%s: %v", got.Status, optional.Value(got.Remark))
	}
	expect(b, get(b, other), "ready", "2 rows, 2 valid, 2 waiting")
}

// A check that hangs, because another transaction has locked its batch, delays neither the checks of batches that already wait, nor the checks of later
// batches.
func TestACheckThatHangsDelaysNoOtherBatch(t *testing.T) {
	b := apptest.New(t)
	stuck := create(b, numbers(1), "content", "hello")
	tx, err := b.DB.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM batches FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	waiting := create(b, numbers(2), "content", "hello")
	ended := make(chan error)
	go func() {
		_, err := b.App.Batches.Check(t.Context())
		ended <- err
	}()
	awaitReady := func(at string) {
		t.Helper()
		apptest.Eventually(t, "the batch is ready", func() bool { return get(b, at).Status == "ready" })
	}
	awaitReady(waiting)
	awaitReady(create(b, numbers(3), "content", "hello"))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	expect(b, get(b, stuck), "ready", "1 rows, 1 valid, 1 waiting")
}

// A batch that always causes a panic does not delay the checks and submissions of other batches, and is reported.
func TestABatchThatCausesAPanicDelaysNoOtherBatch(t *testing.T) {
	b := apptest.New(t)
	checked(b, numbers(1), "content", "hello", "auto_confirm", "true")
	create(b, numbers(1), "content", "hello", "auto_confirm", "true")
	b.Exec("ALTER TABLE batches DROP CONSTRAINT batches_message_type_known; UPDATE batches SET message_type = 7")
	other := create(b, numbers(2), "content", "hello", "auto_confirm", "true")
	if n, err := b.App.Batches.Check(t.Context()); n != 2 || err == nil || !strings.Contains(err.Error(), "check batch 2: panic") {
		t.Errorf("checked %d, %v", n, err)
	}
	if n, err := b.App.Batches.Feed(t.Context()); n != 2 || err == nil || !strings.Contains(err.Error(), "batch 1: panic") {
		t.Errorf("fed %d, %v", n, err)
	}
	expect(b, get(b, other), "running", "2 rows, 2 valid, 2 waiting")
}
