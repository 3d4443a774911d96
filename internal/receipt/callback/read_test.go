package callback_test

import (
	"strings"
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

// A number is cut as that of the sent message is, so that both are equal.
func TestALongNumberIsCut(t *testing.T) {
	t.Parallel()
	c := callback.Config{Number: "id", State: "state"}
	got, _, err := c.Read([]byte(`{"id":"` + strings.Repeat("7", 300) + `","state":0.0}`))
	if err != nil || len(got) != 1 || got[0].Number != strings.Repeat("7", 200) || got[0].Code != "0" {
		t.Errorf("%+v, %v", got, err)
	}
}
