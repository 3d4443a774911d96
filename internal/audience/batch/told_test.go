package batch_test

import (
	"fmt"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/testkit/apptest"
)

// The explanation of a task and the preview of a row name the batch that holds them, before and after the tasks are held.
func TestAPausedBatchIsNamedAsWhatHoldsItsMessages(t *testing.T) {
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
