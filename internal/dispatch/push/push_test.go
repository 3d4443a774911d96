package push_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	api "lksms/gen/client"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestDrivenSenderSendsAndReportsLikeAnApp(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"balance": 10, "sign": "平台"})
	id := b.Submit("你好")
	b.AwaitStatus(id, queue.Success)
	if got := p.Seen(); len(got) != 1 || !strings.Contains(got[0], `"to":"+8613800138000"`) || !strings.Contains(got[0], "【平台】你好") {
		t.Errorf("the provider got %v", got)
	}
	if n := b.Count("SELECT count(*) FROM deliveries d JOIN send_logs s ON s.id = d.lease_id WHERE d.task_id = $1 AND d.provider_no = 'p-1' AND d.sender_no = 'pushed'", id); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	if got := apptest.Decode[api.Sender](t, b.Expect(200, "", "GET", "/api/v1/admin/senders/pushed", nil)); *got.Balance != 9 || got.LeaseSeconds == nil {
		t.Errorf("sender %+v", got)
	}
}

func TestOutageIsRetriedButPermanentRefusalIsNot(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(500, "")
	id := b.Submit("x")
	apptest.Eventually(t, "the message has failed once", func() bool { return b.Task(id).RetryCount >= 1 })
	p.Says(200, `{"code":"0"}`)
	b.AwaitStatus(id, queue.Success)
	p.Says(200, `{"code":"9","text":"黑名单"}`)
	id = b.Submit("y")
	b.AwaitStatus(id, queue.Failed)
	if got := b.Task(id); got.RetryCount != 0 || got.Result == nil || *got.Result != "黑名单" {
		t.Errorf("%+v", got)
	}
}

// An answer of a provider can contain text that PostgreSQL cannot store (NUL, invalid UTF-8). The server drops these characters. Otherwise the report
// would be lost, and the message would be sent twice.
func TestReportIsStoredWithoutTextThatPostgreSQLRejects(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(200, `{"code":"0","id":"a\u0000b"}`)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	if n := b.Count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND provider_no = 'ab'", id); n != 1 {
		t.Errorf("%d deliveries", n)
	}
	p.Says(200, "{\"code\":\"9\",\"text\":\"\\u0000\xba\xda\"}")
	id = b.Submit("y")
	b.AwaitStatus(id, queue.Failed)
	p.Says(200, "\x00\xff")
	id = b.Submit("z")
	apptest.Eventually(t, "the attempt is stored as unclear", func() bool {
		return b.Count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND error <> ''", id) == 1
	})
	if got := p.Seen(); len(got) != 3 {
		t.Errorf("sent %d times", len(got))
	}
}

// Nobody knows whether an unclear message was sent. The message is therefore not sent again before its lease expires.
func TestMessageWithAnUnclearOutcomeKeepsItsLease(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(200, "<html>")
	id := b.Submit("x")
	apptest.Eventually(t, "the attempt is stored as unclear", func() bool {
		return b.Count("SELECT count(*) FROM deliveries WHERE task_id = $1 AND provider_no IS NULL AND error <> ''", id) == 1
	})
	if got := b.Task(id); int16(got.Status) != queue.Processing {
		t.Fatalf("the task has status %v", got.Status)
	}
	p.Says(200, `{"code":"0"}`)
	b.Exec("UPDATE tasks SET lease_until = now() WHERE task_id = $1", id)
	if n, err := b.App.Queue.Recover(t.Context()); n != 1 || err != nil {
		t.Fatalf("recovered %d, %v", n, err)
	}
	b.AwaitStatus(id, queue.Success)
	if got := p.Seen(); len(got) != 2 {
		t.Errorf("sent %d times", len(got))
	}
}

// Providers recognise a repeated message by its key. A retry has the same key; a requeue has a new key.
func TestRequeueChangesTheMessageKey(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	config := p.SenderConfig()
	config["body"] = []string{"${task_id}-${entered_unix_ms}", "${attempt}", "${lease_id}"}
	config["query"] = map[string]string{"to": "${recipient}", "text": "${content}"}
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	keys := func(n int) (got []string) {
		t.Helper()
		apptest.Eventually(t, "the message was sent", func() bool { return len(p.Seen()) == n })
		if err := json.Unmarshal([]byte(p.Seen()[n-1]), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var calls atomic.Int32
	p.Does(func(w http.ResponseWriter, _ *http.Request) { // a temporary refusal, a permanent refusal, and a success
		_, _ = io.WriteString(w, []string{`{"code":"8"}`, `{"code":"9"}`, `{"code":"0"}`}[calls.Add(1)-1])
	})
	id := b.Submit("x")
	first := keys(1)
	retry := keys(2)
	b.AwaitStatus(id, queue.Failed)
	b.Expect(200, "", "POST", "/api/v1/sms/task/"+id+"/requeue", `{}`)
	b.AwaitStatus(id, queue.Success)
	again := keys(3)
	if first[0] != retry[0] || first[1] == retry[1] || first[2] == retry[2] {
		t.Errorf("a retry: %v after %v", retry, first)
	}
	if again[0] == first[0] || again[1] != first[1] || again[2] == first[2] || again[2] == retry[2] {
		t.Errorf("a requeue: %v after %v and %v", again, first, retry)
	}
}

func TestSlowProviderDelaysOnlyItsOwnSender(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	release := make(chan struct{})
	defer close(release)
	p.Does(func(http.ResponseWriter, *http.Request) { <-release })
	slow := b.Submit("slow")
	apptest.Eventually(t, "the message is being sent", func() bool { return len(p.Seen()) == 1 })
	b.AddSender(map[string]any{"sender_no": "logs", "kind": "log"})
	for range 20 {
		b.AwaitStatus(b.Submit("x"), queue.Success)
	}
	if got := b.Task(slow); int16(got.Status) != queue.Processing {
		t.Errorf("the slow task has status %v", got.Status)
	}
}

func TestStoppingServerFinishesItsCalls(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	release := make(chan struct{})
	p.Does(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	id := b.Submit("x")
	apptest.Eventually(t, "the message is being sent", func() bool { return len(p.Seen()) == 1 })
	stopped := make(chan struct{})
	go func() {
		b.App.Pusher.Stop(t.Context())
		close(stopped)
	}()
	close(release)
	<-stopped
	if got := b.Task(id); int16(got.Status) != queue.Success {
		t.Errorf("the task has status %v, want SUCCESS", got.Status)
	}
}

func TestCancelledCallKeepsItsLease(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	release := make(chan struct{})
	defer close(release)
	p.Does(func(http.ResponseWriter, *http.Request) { <-release })
	id := b.Submit("x")
	apptest.Eventually(t, "the message is being sent", func() bool { return len(p.Seen()) == 1 })
	now, cancel := context.WithCancel(t.Context())
	cancel()
	b.App.Pusher.Stop(now)
	if got := b.Task(id); int16(got.Status) != queue.Processing {
		t.Errorf("the task has status %v, want PROCESSING", got.Status)
	}
}

// While the circuit breaker of a sender is open, other senders send its share of the messages. Later the sender is tried again.
func TestOtherSendersTakeTheShareOfABrokenProvider(t *testing.T) {
	b, p := apptest.NewPushing(t, map[string]any{"is_shared": false})
	p.Says(500, "")
	b.AddRoute("default", "pushed", 1)
	for i := range 8 {
		b.Submit(fmt.Sprint(i))
	}
	apptest.Eventually(t, "the sender pauses", func() bool {
		return b.Count("SELECT count(*) FROM sender_states st JOIN senders s ON s.id = st.sender_id WHERE s.sender_no = 'pushed' AND st.next_available_at > now()") == 1
	})
	b.AddSender(map[string]any{"sender_no": "other", "kind": "log", "is_shared": false})
	b.AddRoute("default", "other", 1)
	apptest.Eventually(t, "the other sends everything", func() bool { return b.Count("SELECT count(*) FROM tasks WHERE status <> 2") == 0 })
}

// After a change of the configuration, the next message uses the new configuration.
func TestChangedConfigurationAppliesToTheNextMessage(t *testing.T) {
	b, current := apptest.NewPushing(t, nil)
	b.AwaitStatus(b.Submit("x"), queue.Success)
	former := apptest.NewProvider(t)
	for range 5 {
		current, former = former, current
		sent := len(former.Seen())
		b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": current.SenderConfig()})
		b.AwaitStatus(b.Submit("x"), queue.Success)
		if len(former.Seen()) != sent {
			t.Fatal("a message was sent to the former provider")
		}
	}
}

// Messages of batches are sent to the batchUrl of the sender. A batch that names this sender is sent through this sender.
func TestBatchMessagesUseTheBatchURL(t *testing.T) {
	b, usual := apptest.NewPushing(t, nil)
	batches := apptest.NewProvider(t)
	config := usual.SenderConfig()
	config["batchUrl"] = batches.URL + "/batch?token=hunter3"
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"config": config})
	if shown := b.GetSender("pushed").Config; shown["batchUrl"] != batches.URL+"/***" {
		t.Errorf("shown: %v", shown)
	}
	if stored := apptest.Scan[string](b, "SELECT config::text FROM senders WHERE sender_no = 'pushed'"); strings.Contains(stored, "hunter3") {
		t.Errorf("stored: %s", stored)
	}
	origin := submit.Origin{User: "admin", CompanyID: 1}
	made, err := b.App.Submissions.Submit(t.Context(), submit.Submission{
		PhoneNumber: apptest.Phone, Content: "of a batch", Raw: []byte("{}"), BatchID: 7, SenderNo: "pushed",
	}, origin)
	if err != nil {
		t.Fatal(err)
	}
	b.AwaitStatus(made.TaskID, queue.Success)
	b.AwaitStatus(b.Submit("single"), queue.Success)
	if got := batches.Seen(); len(got) != 1 || !strings.Contains(got[0], "of a batch") {
		t.Errorf("the URL for batches got %v", got)
	}
	if got := usual.Seen(); len(got) != 1 || !strings.Contains(got[0], "single") {
		t.Errorf("the usual URL got %v", got)
	}
}

// The wait of a claim ends when the setup changes or when the server stops claiming.
func TestClaimWaitEndsOnChangeAndOnStop(t *testing.T) {
	b, _ := apptest.NewPushing(t, nil)
	waits := func(n int) func() bool { return func() bool { return b.App.Queue.Waiting() == n } }
	apptest.Eventually(t, "the sender waits", waits(1))
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "off", "version": b.GetSender("pushed").Version})
	apptest.Eventually(t, "a sender that is off does not wait", waits(0))
	b.Expect(200, "", "PATCH", "/api/v1/admin/senders/pushed", map[string]any{"status": "on", "version": b.GetSender("pushed").Version})
	apptest.Eventually(t, "the sender waits again", waits(1))
	b.App.Pusher.StopClaiming()
	apptest.Eventually(t, "a server that stops does not wait", waits(0))
}

// A provider can give a number with empty lines. The report of the message is stored all the same: otherwise the message would be sent again.
func TestANumberWithEmptyLinesDoesNotRepeatItsMessage(t *testing.T) {
	b, p := apptest.NewPushing(t, nil)
	p.Says(200, `{"code":"0","id":"\n7\n\n8\n"}`)
	id := b.Submit("x")
	b.AwaitStatus(id, queue.Success)
	if n := len(p.Seen()); n != 1 {
		t.Errorf("sent %d times", n)
	}
	if got := apptest.Scan[string](b, "SELECT string_agg(provider_no, ' ' ORDER BY id) FROM deliveries WHERE task_id = $1", id); got != "7 8" {
		t.Errorf("the numbers are %q", got)
	}
}
