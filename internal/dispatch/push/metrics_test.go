package push_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

func TestMetricsCountProviderAttemptsByOutcome(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	has := func(line string) bool {
		return strings.Contains("\n"+b.Expect(200, "", "GET", "/metrics", nil).Raw, "\nlksms_driver_request_seconds_"+line)
	}
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(30 * time.Millisecond)
		_, _ = w.Write([]byte(`{"code":"0"}`))
	})
	b.AwaitStatus(b.Submit("sent"), queue.Success)
	if !has(`count{kind="http-sms",outcome="sent"} 1`) || !has(`bucket{kind="http-sms",outcome="sent",le="0.025"} 0`) {
		t.Error("the sent message is not counted with its time")
	}
	p.Says(200, `{"code":"9","text":"no"}`)
	b.AwaitStatus(b.Submit("refused"), queue.Failed)
	if !has(`count{kind="http-sms",outcome="refused"} 1`) {
		t.Error("the refused message is not counted")
	}
	p.Says(200, `?`)
	b.Submit("unclear")
	apptest.Eventually(t, "the unclear answer is counted", func() bool { return has(`count{kind="http-sms",outcome="unclear"} 1`) })
	p.Says(401, ``)
	b.Submit("trouble")
	apptest.Eventually(t, "the trouble is counted", func() bool { return has(`count{kind="http-sms",outcome="trouble"} `) })
}
