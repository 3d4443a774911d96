package batch_test

import (
	"fmt"
	"maps"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// The explanation of a task and the preview of a row name the batch that holds the task or row. The preview names it before and after the tasks are held.
func TestTheExplanationNamesThePausedBatch(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	at := checked(b, numbers(2), "content", "hello", "auto_confirm", "true")
	feed(b)
	var id string
	for _, row := range apptest.Decode[struct{ Items []api.BatchRow }](t, b.Expect(200, "", "GET", at+"/rows", nil)).Items {
		id = *row.TaskID
	}
	no := get(b, at).BatchID
	heldBy := func() (string, string) {
		t.Helper()
		preview := apptest.Decode[api.BatchPreview](t, b.Expect(200, "", "GET", at+"/preview", nil))
		if preview.HeldBy == nil {
			preview.HeldBy = &api.HeldBy{}
		}
		return fmt.Sprint(*preview.HeldBy), fmt.Sprint(b.Explain(id).HeldBy)
	}
	expect := func(when, want string) {
		t.Helper()
		if preview, explained := heldBy(); preview != want || explained != want {
			t.Errorf("%s: the preview names %s, the explanation %s, want %s", when, preview, explained, want)
		}
	}
	expect("at first", "[]")
	get(b, at, "pause")
	expect("paused", fmt.Sprintf("[{%d batch}]", no))
	feed(b)
	expect("held", fmt.Sprintf("[{%d batch}]", no))
	if got := b.Explain(id); got.Reason != api.BecauseHeld {
		t.Errorf("the reason is %s", got.Reason)
	}
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": "off"})
	expect("off", fmt.Sprintf("[{%d batch} {sms channel}]", no))
	b.Expect(200, "", "PATCH", "/api/v1/admin/channels/sms", map[string]any{"status": "on"})
	get(b, at, "resume")
	feed(b)
	expect("resumed", "[]")
}

// With the duplicate rule row, rows are compared in the form in which they are sent. A text that begins with its own signature equals the text without this
// signature. A row that names the signature of the batch equals a row without a signature.
func TestDuplicatesAreFoundByTheTextThatIsSent(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	list := "phone,text,sign\n" +
		"13800138000,x,\n" + // the first row
		"13800138000,【公司】x,\n" +
		"13800138000,【公司】【公司】x,\n" +
		"13800138000, \u200b【公司】x,\n" +
		"13800138000,x,公司\n" +
		"13800138000,【公司】x,公司\n" +
		"13800138000,x,分店\n" + // a different signature
		"13800138000,【分店】x,分店\n" +
		"13800138000,【分店】x,\n" + // the text differs because it contains a foreign signature
		"13800138000,y,\n" +
		"13800138001,【公司】x,\n"
	at := checked(b, list, "content", "{text}", "sign", "公司", "dedup", "row", "auto_confirm", "true")
	expect(b, get(b, at), "running", "11 rows, 5 valid, 6 duplicate, 5 waiting")
	feed(b)
	texts := map[string]int{}
	for _, claimed := range b.Take("app", 20) {
		texts[claimed.PhoneNumber+" "+claimed.Content]++
	}
	for text, n := range texts {
		if n > 1 {
			t.Errorf("%q is sent %d times", text, n)
		}
	}
	if len(texts) != 5 {
		t.Errorf("sent: %v", texts)
	}
}

// If one request creates and confirms a batch, the batch names the user in confirmed_by and in its actions. The audit contains the confirmation once.
func TestABatchConfirmedByItsRequestRecordsTheUser(t *testing.T) {
	b := apptest.New(t)
	b.AddSender(map[string]any{"sender_no": "app"})
	at := create(b, numbers(2), "content", "hello", "auto_confirm", "true")
	check(b)
	got := get(b, at)
	if got.ConfirmedBy == nil || *got.ConfirmedBy != got.SubmittedBy || got.ChangedBy != nil && *got.ChangedBy != got.SubmittedBy {
		t.Errorf("confirmed by %v, changed by %v; submitted by %s", got.ConfirmedBy, got.ChangedBy, got.SubmittedBy)
	}
	if got.Acts == nil || len(*got.Acts) != 1 || (*got.Acts)[0].Act != "confirmed" || (*got.Acts)[0].Username != got.SubmittedBy {
		t.Errorf("acts: %v", got.Acts)
	}
	if n := b.Count(`SELECT count(*) FROM audit WHERE entity = 'batch' AND entity_key = $1 AND actor = $2 AND after ->> 'confirmed_by' = $2`, fmt.Sprint(got.BatchID), got.SubmittedBy); n != 1 {
		t.Errorf("%d lines in the audit", n)
	}
	other := get(b, checked(b, numbers(2), "content", "hello"))
	if n := b.Count(`SELECT count(*) FROM audit WHERE entity = 'batch' AND entity_key = $1`, fmt.Sprint(other.BatchID)); n != 0 || other.ConfirmedBy != nil {
		t.Errorf("a batch that waits for its confirmation: %d lines in the audit, confirmed by %v", n, other.ConfirmedBy)
	}
}

// The fault of an invalid tag names the field of the request that contains the tag.
func TestTheFaultOfATagNamesItsField(t *testing.T) {
	b := apptest.New(t)
	tag(b, "a")
	for field, tags := range map[string]map[string]any{
		"tag":         {"tag": "gone", "tags_all": []string{"a"}},
		"tags_all.0":  {"tags_all": []string{"gone"}},
		"tags_any.0":  {"tags_any": []string{"gone"}},
		"tags_none.0": {"tag": "a", "tags_none": []string{"gone"}},
	} {
		body := map[string]any{"name": "n", "content": "x"}
		maps.Copy(body, tags)
		if got := b.Expect(422, "request.invalid", "POST", "/api/v1/batches", body).Fields(); got != field {
			t.Errorf("%v: the error names %q", tags, got)
		}
	}
}
