package callback_test

import (
	"testing"

	"lksms/internal/receipt/callback"
)

func TestAByteOrderMarkBeforeACallbackIsSkipped(t *testing.T) {
	t.Parallel()
	for format, body := range map[string]string{"json": `{"id":"7","state":"ok"}`, "form": "id=7&state=ok"} {
		c := callback.Config{Format: format, Number: "id", State: "state", Delivered: []string{"ok"}}
		got, leftOut, err := c.Read([]byte("\uFEFF" + body))
		if err != nil || leftOut > 0 || len(got) != 1 || got[0].Number != "7" || got[0].State != callback.Delivered {
			t.Errorf("%s: %+v, %d left out, %v", format, got, leftOut, err)
		}
	}
}
