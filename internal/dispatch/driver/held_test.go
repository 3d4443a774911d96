package driver_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"testing"

	"lksms/internal/dispatch/driver"
	"lksms/internal/dispatch/driver/provider"
)

// The driver asks only once whether a message is allowed to be sent, because a second answer could differ from the first. If a message were held between the
// two answers, other messages of its group or batch would not be sent, without a stored reason.
func TestDriverChecksEachMessageOnceBeforeItsCall(t *testing.T) {
	t.Parallel()
	server, mails := newMailServer(t)
	merged := newProvider(t, says(200, `{"errcode":0,"msgid":1}`))
	for kind, config := range map[string]any{"dingtalk": map[string]any{"baseUrl": merged.URL, "agentId": "A", "corpId": "C"}, "email": mails} {
		encoded, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		asked := map[string]int{}
		want := map[string]int{"1": 1, "2": 1}
		if kind == "email" {
			want["1"]++ // the driver asks again after the login
		}
		d, err := driver.New(kind, encoded, provider.Tools{Log: slog.New(slog.DiscardHandler), MayBegin: func(_ context.Context, m provider.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			asked[m.TaskID]++
			return asked[m.TaskID] <= want[m.TaskID]
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range send(t.Context(), d, []provider.Message{
			{TaskID: "1", Recipient: "a@example.com", Content: "x", Group: 7}, {TaskID: "2", Recipient: "b@example.com", Content: "x", Group: 7},
		}) {
			if !o.OK {
				t.Errorf("%s: message %d was not sent: %+v", kind, i+1, o)
			}
		}
		if !maps.Equal(asked, want) {
			t.Errorf("%s was asked %v, want %v", kind, asked, want)
		}
	}
	if len(merged.seen()) != 1 || len(server.to) != 2 {
		t.Errorf("%d calls, mails to %v", len(merged.seen()), server.to)
	}
}
