package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lksms/client"
	api "lksms/gen/client"
	"lksms/internal/platform/standardwebhooks"
	"lksms/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// A program that uses the client depends on the generated client, and on the modules of both. It must not depend on packages of the server.
func TestTheClientImportsNoPackageOfTheServer(t *testing.T) {
	t.Parallel()
	list, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{if .Module.Main}}{{.ImportPath}}{{else}}{{.Module.Path}}{{end}}{{end}}",
		"lksms/client").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(list))
	slices.Sort(got)
	want := []string{
		"github.com/apapsch/go-jsonmerge/v2", "github.com/google/uuid", "github.com/oapi-codegen/nullable", "github.com/oapi-codegen/runtime",
		"github.com/standard-webhooks/standard-webhooks/libraries", "lksms/client", "lksms/gen/client",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the client imports %v", got)
	}
}

// dial returns a client with the credentials of the built-in admin.
func dial(t *testing.T, address string, more ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(address, client.Basic(apptest.Username, apptest.Password), more...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sweeping runs the sweeps of the server in the background.
func sweeping(b *apptest.Bundle) {
	b.T.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.T.Fatal(err)
	}
	stop, served := apptest.ServeUntil(b.T.(*testing.T), b.App, listener)
	b.T.Cleanup(func() { stop(); <-served })
}

func message(text string) client.Message {
	return client.Message{PhoneNumber: apptest.Phone, Content: &text}
}

// network is a proxy between a client and a server. It can lose responses.
type network struct {
	*httptest.Server
	mu   sync.Mutex
	lose func(*http.Request) int // returns -1 to lose the response, an HTTP status to return it without calling the server, or 0 to forward the request
	seen []string                // the calls
}

func newNetwork(t *testing.T, to string) *network {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{lose: func(*http.Request) int { return 0 }}
	const header = "X-Lose"
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(res *http.Response) error {
			if res.Request.Header.Get(header) != "" {
				return errors.New("lost")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r.Method+" "+r.URL.Path)
		loss := n.lose(r)
		n.mu.Unlock()
		switch {
		case loss > 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(loss)
			return
		case loss < 0:
			r.Header.Set(header, "yes")
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(n.Close)
	return n
}

// losesFirst makes the network lose the first calls, each call in the given way.
func (n *network) losesFirst(ways ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = nil
	n.lose = func(*http.Request) int {
		if len(ways) == 0 {
			return 0
		}
		way := ways[0]
		ways = ways[1:]
		return way
	}
}

func (n *network) calls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen)
}

func TestTheClientSubmitsClaimsAndReportsAMessage(t *testing.T) {
	b := apptest.New(t)
	c := dial(t, b.URL)
	sent, err := c.Send(t.Context(), message("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Explain(t.Context(), sent.TaskID); err != nil || e.Reason == "" {
		t.Fatalf("explain: %+v, %v", e, err)
	}
	held, err := c.Claim(t.Context(), client.Claim{AppID: "app", Limit: new(10), Wait: new(5)})
	if err != nil || len(held) != 1 || held[0].Content != "hello" {
		t.Fatalf("claim: %+v, %v", held, err)
	}
	if left := held[0].LeaseUntil.Sub(c.Now()); left < 29*time.Minute || left > 31*time.Minute {
		t.Errorf("the lease ends in %s", left)
	}
	ended := make(chan *client.TaskDetail, 1)
	seen := make(chan client.TaskStatus, 100)
	go func() {
		task, err := c.WaitForTask(t.Context(), sent.TaskID, func(d *client.TaskDetail) { seen <- d.Status })
		if err != nil {
			t.Error(err)
		}
		ended <- task
	}()
	if status := <-seen; status != client.Processing {
		t.Errorf("the status of the held task is %d", status)
	}
	report := client.Report{TaskID: sent.TaskID, AppID: "app", LeaseID: &held[0].LeaseID, Status: client.ReportSuccess}
	if err := c.Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	if task := <-ended; task == nil || task.Status != client.Success {
		t.Errorf("the task ended as %+v", task)
	}
	if events, err := c.Timeline(t.Context(), sent.TaskID); err != nil || len(events) != 3 {
		t.Errorf("timeline: %+v, %v", events, err)
	}
	if who, err := c.Who(t.Context()); err != nil || who.Username != apptest.Username {
		t.Errorf("who: %+v, %v", who, err)
	}
}

func TestBatchCallsReturnTheOutcomeOfEachItem(t *testing.T) {
	b := apptest.New(t)
	c := dial(t, b.URL)
	wrong := message("x")
	wrong.PhoneNumber = "1"
	sent, err := c.SendBatch(t.Context(), []client.Message{message("one"), wrong, message("two")})
	if err != nil || sent.Accepted != 2 || sent.Refused != 1 {
		t.Fatalf("send: %+v, %v", sent, err)
	}
	held, err := c.Claim(t.Context(), client.Claim{AppID: "app"})
	if err != nil || len(held) != 2 {
		t.Fatalf("claim: %+v, %v", held, err)
	}
	reported, err := c.ReportBatch(t.Context(), []client.Report{
		{TaskID: held[0].TaskID, AppID: "app", LeaseID: &held[0].LeaseID, Status: client.ReportFailed, ErrorMessage: new("空号")},
		{TaskID: held[1].TaskID, AppID: "other", Status: client.ReportSuccess},
	})
	if err != nil || reported.Accepted != 1 || reported.Refused != 1 {
		t.Fatalf("report: %+v, %v", reported, err)
	}
	if task, err := c.Requeue(t.Context(), held[0].TaskID, "the provider was down"); err != nil || task.Status != client.Pending {
		t.Errorf("requeue: %+v, %v", task, err)
	}
	if task, err := c.Cancel(t.Context(), held[0].TaskID); err != nil || task.Status != client.Cancelled {
		t.Errorf("cancel: %+v, %v", task, err)
	}
	if _, err := c.Cancel(t.Context(), held[0].TaskID); client.Reason(err) != "task.not_pending" {
		t.Errorf("cancel again: %v", err)
	}
}

func TestListMethodsReadAllPages(t *testing.T) {
	b := apptest.New(t)
	b.SubmitMany("x", 45, nil)
	c := dial(t, b.URL)
	ids := map[string]bool{}
	for task, err := range c.Tasks(t.Context(), client.TaskFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids[task.TaskID] = true
	}
	if len(ids) != 45 {
		t.Errorf("%d tasks", len(ids))
	}
	var wrong error
	for _, err := range c.Tasks(t.Context(), client.TaskFilter{Limit: new(1000)}) {
		wrong = err
	}
	if client.Reason(wrong) != "request.invalid" {
		t.Errorf("a wrong filter: %v", wrong)
	}
	b.AddSender(map[string]any{"sender_no": "phone_7"})
	for s, err := range c.Senders(t.Context(), client.SenderFilter{}) {
		if err != nil || s.SenderNo != "phone_7" {
			t.Errorf("sender %s, %v", s.SenderNo, err)
		}
	}
}

func TestReceivedMessagesAreHandedOverOnceAndRead(t *testing.T) {
	b := apptest.New(t)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL)
	for _, one := range []struct {
		message client.ReceivedInput
		calls   int
	}{
		{client.ReceivedInput{From: "13712345678", Content: "with an id", MessageNo: new("1")}, 2},
		{client.ReceivedInput{From: "13712345678", Content: "with a time", ReceivedAt: new(time.Now())}, 2},
		{client.ReceivedInput{From: "13712345678", Content: "without both"}, 1},
	} {
		n.losesFirst(-1)
		stored, err := c.Receive(t.Context(), "phone", []client.ReceivedInput{one.message})
		if n.calls() != one.calls || (err == nil) != (one.calls == 2) || err == nil && !*stored.Items[0].Deduplicated {
			t.Errorf("%s: %+v, %v after %d calls", one.message.Content, stored, err, n.calls())
		}
	}
	count, last := 0, client.Received{}
	for m, err := range c.ReceivedMessages(t.Context(), client.ReceivedFilter{Limit: new(1)}) {
		if err != nil {
			t.Fatal(err)
		}
		count, last = count+1, m
	}
	if count != 3 || last.Content != "with an id" {
		t.Errorf("%d messages, the first is %+v", count, last)
	}
	if m, err := c.ReadReceived(t.Context(), last.ReceivedID); err != nil || *m.ReadBy != apptest.Username {
		t.Errorf("read: %+v, %v", m, err)
	}
	if m, err := c.ReceivedMessage(t.Context(), last.ReceivedID); err != nil || m.ReadAt == nil {
		t.Errorf("get: %+v, %v", m, err)
	}
}

func TestAnErrorNamesTheFieldAndTheRequest(t *testing.T) {
	b := apptest.New(t)
	wrong := message("x")
	wrong.PhoneNumber = "12345678901"
	_, err := dial(t, b.URL).Send(t.Context(), wrong)
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Status != 422 || refused.Reason != "request.invalid" || len(refused.Fields) != 1 || refused.Fields[0].Field != "phone_number" ||
		refused.RequestID == "" || client.IsTemporary(err) {
		t.Fatalf("%#v", err)
	}
	if text := err.Error(); !strings.Contains(text, "phone_number") || !strings.Contains(text, refused.RequestID) {
		t.Errorf("text: %s", text)
	}
	if want := b.URL + "/docs/manual/sending.md#errors"; refused.Docs != want {
		t.Errorf("the page is %s, want %s", refused.Docs, want)
	}
	if _, err := dial(t, b.URL, client.WithLanguage("zh")).Task(t.Context(), "task_x"); !strings.Contains(fmt.Sprint(err), "任务") {
		t.Errorf("in Chinese: %v", err)
	}
}

func TestASubmissionWithLostResponsesCreatesOneMessage(t *testing.T) {
	b := apptest.New(t)
	n := newNetwork(t, b.URL)
	var notices atomic.Int64
	c := dial(t, n.URL, client.WithRetryNotice(func(err error, _ time.Duration) {
		notices.Add(1)
		if !client.IsTemporary(err) {
			t.Errorf("repeated after %v", err)
		}
	}))
	n.losesFirst(-1, 503, 429, -1)
	sent, err := c.Send(t.Context(), message("once"))
	if err != nil || sent.TaskID == "" {
		t.Fatalf("%+v, %v", sent, err)
	}
	// If an old connection breaks, net/http repeats a request with a key itself. So there are fewer notices than repetitions.
	if count := b.Count("SELECT count(*) FROM messages"); count != 1 || n.calls() != 5 || notices.Load() < 2 {
		t.Errorf("%d messages, %d calls, %d notices", count, n.calls(), notices.Load())
	}
	n.losesFirst(-1)
	if _, err := c.SendBatch(t.Context(), []client.Message{message("1"), message("2")}); err != nil {
		t.Fatal(err)
	}
	if count := b.Count("SELECT count(*) FROM messages"); count != 3 {
		t.Errorf("%d messages", count)
	}
	// Two calls create two messages, unless they share a key.
	for range 2 {
		if _, err := c.Send(t.Context(), message("named"), client.WithIdempotencyKey("order-7")); err != nil {
			t.Fatal(err)
		}
	}
	if count := b.Count("SELECT count(*) FROM messages"); count != 4 {
		t.Errorf("%d messages", count)
	}
}

func TestASubmissionWithAnUnknownOutcomeCanBeRepeatedWithItsKey(t *testing.T) {
	b := apptest.New(t)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL, client.WithRetries(1))
	n.losesFirst(-1, 429)
	_, err := c.Send(t.Context(), message("once"))
	unknown, ok := errors.AsType[*client.UnknownError](err)
	if !ok || unknown.IdempotencyKey == "" || !client.IsTemporary(err) || !strings.Contains(err.Error(), unknown.IdempotencyKey) {
		t.Fatalf("after a lost answer: %#v", err)
	}
	if _, err := c.Send(t.Context(), message("once"), client.WithIdempotencyKey(unknown.IdempotencyKey)); err != nil {
		t.Fatal(err)
	}
	if count := b.Count("SELECT count(*) FROM messages"); count != 1 {
		t.Errorf("%d messages", count)
	}
	// The program cancels the call while the server still processes the request.
	ctx, cancel := context.WithCancel(t.Context())
	n.mu.Lock()
	n.lose = func(*http.Request) int { cancel(); return -1 }
	n.mu.Unlock()
	if _, err = c.Send(ctx, message("x"), client.WithIdempotencyKey("order-8")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if unknown, ok = errors.AsType[*client.UnknownError](err); !ok || unknown.IdempotencyKey != "order-8" {
		t.Errorf("cancelled: %#v", err)
	}
	// These calls create nothing.
	n.losesFirst(429, 429)
	_, busy := c.Send(t.Context(), message("x"))
	n.losesFirst()
	_, invalid := c.Send(t.Context(), message(""))
	n.Close()
	_, closed := c.SendBatch(t.Context(), []client.Message{message("x")})
	for _, err := range []error{busy, invalid, closed} {
		if _, ok := errors.AsType[*client.UnknownError](err); ok || err == nil {
			t.Errorf("nothing was made: %#v", err)
		}
	}
}

// If a reused connection breaks, net/http sends the request again. Here the server no longer listens, so the error is "connection refused", although the
// server got the first request.
func TestARequestOnABrokenConnectionHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	calls := 0
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls > 1 {
			server.Listener.Close()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, `{"code":200,"data":{}}`)
	}))
	t.Cleanup(server.Close)
	c := dial(t, server.URL, client.WithRetries(0), client.WithHTTPClient(&http.Client{Transport: &http.Transport{}}))
	if _, err := c.Send(t.Context(), message("x")); err != nil {
		t.Fatal(err)
	}
	_, err := c.Send(t.Context(), message("x"))
	if _, ok := errors.AsType[*client.UnknownError](err); !ok || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

func TestUnsafeCallsAreNotRepeatedAfterALostResponse(t *testing.T) {
	b := apptest.New(t)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL)
	id := b.Submit("x")
	n.losesFirst(-1)
	if _, err := c.Claim(t.Context(), client.Claim{AppID: "app"}); !errors.Is(err, client.ErrUnreachable) || n.calls() != 1 {
		t.Errorf("claim: %v after %d calls", err, n.calls())
	}
	b.Report(id, "app", 3, nil)
	n.losesFirst(503)
	if _, err := c.Requeue(t.Context(), id, ""); !client.IsTemporary(err) || n.calls() != 1 {
		t.Errorf("requeue: %v after %d calls", err, n.calls())
	}
	n.losesFirst(429)
	if _, err := c.Requeue(t.Context(), id, ""); err != nil || n.calls() != 2 {
		t.Errorf("requeue: %v after %d calls", err, n.calls())
	}
	n.losesFirst(-1)
	if task, err := c.Cancel(t.Context(), id); err != nil || task.Status != client.Cancelled {
		t.Errorf("cancel: %+v, %v", task, err)
	}
	held := b.Submit("held")
	b.ClaimIDs(1)
	for _, lease := range []*int64{nil, new(int64(1))} {
		want := 1
		if lease != nil {
			want = 2 // the first response is lost
		}
		report := client.Report{TaskID: held, AppID: "app", LeaseID: lease, Status: client.ReportSuccess}
		n.losesFirst(503)
		if _ = c.Report(t.Context(), report); n.calls() != want {
			t.Errorf("report: %d calls, want %d", n.calls(), want)
		}
		n.losesFirst(503)
		if _, _ = c.ReportBatch(t.Context(), []client.Report{{TaskID: held, LeaseID: new(int64(1))}, report}); n.calls() != want {
			t.Errorf("reports: %d calls, want %d", n.calls(), want)
		}
	}
	n.losesFirst(401)
	if _, err := c.Task(t.Context(), id); err == nil || n.calls() != 1 {
		t.Errorf("unauthorized: %v after %d calls", err, n.calls())
	}
}

func TestABatchIsUploadedOnceAndFollowedToItsEnd(t *testing.T) {
	b := apptest.New(t)
	sweeping(b)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL)
	path := filepath.Join(t.TempDir(), "list.csv")
	list := "phone,name\n13800138000,张三\n13800138001,李四\n12,x\n"
	if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	n.losesFirst(-1, 503)
	form := client.BatchForm{Name: "recall", Content: new("{name}，您好"), Priority: new(int16(3)), Test: new(false)}
	created, err := c.CreateBatchFromFile(t.Context(), form, path)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := c.WaitForCheck(t.Context(), created.BatchID, nil)
	if err != nil || checked.Status != api.BatchReady || checked.Counts.Valid != 2 || checked.Counts.Invalid != 1 || *checked.Priority != 3 {
		t.Fatalf("checked: %+v, %v", checked, err)
	}
	count := 0
	for row, err := range c.BatchRows(t.Context(), created.BatchID, nil) {
		if err != nil || row.Row == 0 {
			t.Errorf("row: %+v, %v", row, err)
		}
		count++
	}
	if p, err := c.PreviewBatch(t.Context(), created.BatchID, 0); err != nil || *p.FinalContent != "张三，您好" || count != 3 {
		t.Errorf("preview: %+v, %v; %d rows", p, err, count)
	}
	n.losesFirst(-1)
	if _, err := c.ConfirmBatch(t.Context(), created.BatchID); err != nil {
		t.Fatal(err)
	}
	if p, err := c.PauseBatch(t.Context(), created.BatchID); err != nil || p.Status != api.BatchPaused {
		t.Errorf("pause: %+v, %v", p, err)
	}
	if p, err := c.ResumeBatch(t.Context(), created.BatchID); err != nil || p.Status != api.BatchRunning {
		t.Errorf("resume: %+v, %v", p, err)
	}
	ended := make(chan error, 1)
	go func() {
		for done := 0; done < 2; {
			held, err := c.Claim(t.Context(), client.Claim{AppID: "app", Wait: new(5)})
			for _, task := range held {
				report := client.Report{TaskID: task.TaskID, AppID: "app", LeaseID: &task.LeaseID, Status: client.ReportFailed}
				err = errors.Join(err, c.Report(t.Context(), report))
				done++
			}
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	finished, err := c.WaitForBatch(t.Context(), created.BatchID, func(*client.Batch) {})
	if err := errors.Join(err, <-ended); err != nil || finished.Status != api.BatchFinished || finished.Counts.Failed != 2 {
		t.Fatalf("finished: %+v, %v", finished, err)
	}
	if again, err := c.RequeueBatch(t.Context(), created.BatchID); err != nil || again.Count != 2 {
		t.Errorf("requeue: %+v, %v", again, err)
	}
	var names []string
	for one, err := range c.Batches(t.Context(), client.BatchFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, one.Name)
	}
	if !slices.Equal(names, []string{"recall"}) {
		t.Errorf("batches: %v", names)
	}
}

func TestCreateBatchAcceptsJSONObjectsAndRejectsAMissingList(t *testing.T) {
	b := apptest.New(t)
	c := dial(t, b.URL)
	rows := []byte(`[{"phone":"13800138000","name":"A"}]`)
	form := client.BatchForm{Name: "objects", Content: new("Dear {name}")}
	if _, err := c.CreateBatch(t.Context(), form, &client.List{Name: "rows.json", Content: bytes.NewReader(rows), Size: int64(len(rows))}); err != nil {
		t.Error(err)
	}
	if _, err := c.CreateBatch(t.Context(), form, nil); client.Reason(err) != "request.invalid" {
		t.Errorf("no list: %v", err)
	}
	if _, err := c.CreateBatchFromFile(t.Context(), form, filepath.Join(t.TempDir(), "none.csv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	created, err := c.CreateBatch(t.Context(), form, &client.List{Name: "rows.json", Content: bytes.NewReader(rows), Size: int64(len(rows))})
	if err != nil {
		t.Fatal(err)
	}
	if cancelled, err := c.CancelBatch(t.Context(), created.BatchID); err != nil || cancelled.Status != api.BatchCancelled {
		t.Errorf("cancel: %+v, %v", cancelled, err)
	}
}

func TestEventsContinueAfterTheServerReturns(t *testing.T) {
	b := apptest.New(t)
	sweeping(b)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL, client.WithRetries(0))
	n.losesFirst(0, -1, 503)
	types := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for page, err := range c.FollowEvents(ctx, "", client.EventFilter{Types: []client.EventType{"message.sent"}}) {
			if err != nil {
				ended <- err
				return
			}
			if len(page.Items) == 0 {
				types <- "begins"
			}
			for _, e := range page.Items {
				var data client.MessageEvent
				if err := json.Unmarshal(e.Data, &data); err != nil {
					t.Error(err)
				}
				types <- string(e.Type) + " " + data.TaskID
			}
		}
	}()
	if first := <-types; first != "begins" {
		t.Errorf("first %s", first)
	}
	id := b.Submit("x")
	b.Report(b.Claim("app", 1)[0].TaskID, "app", 2, nil)
	if second := <-types; second != "message.sent "+id {
		t.Errorf("then %s", second)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	b.Exec("UPDATE feed_state SET pruned_id = (SELECT max(id) FROM feed)")
	_, err := c.PullEvents(t.Context(), "0", 0, client.EventFilter{})
	if gone, ok := errors.AsType[*client.Error](err); !ok || gone.Reason != "events.cursor_gone" || gone.Oldest == "" {
		t.Errorf("a cursor from before: %#v", err)
	}
}

// A mistyped address never answers, so a follower must not wait for it forever.
func TestAFollowerFailsIfTheServerNeverAnswered(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the failed handshake
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	for address, temporary := range map[string]bool{closed.URL: true, untrusted.URL: false} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c := dial(t, address, client.WithRetries(1))
		expect := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, client.ErrUnreachable) || client.IsTemporary(err) != temporary || ctx.Err() != nil {
				t.Errorf("%s at %s: %v", what, address, err)
			}
		}
		_, err := c.WaitForTask(ctx, "task_1", nil)
		expect("a task", err)
		_, err = c.WaitForCheck(ctx, 1, nil)
		expect("a check", err)
		err = nil
		for _, err = range c.FollowEvents(ctx, "", client.EventFilter{}) {
			if err == nil {
				t.Fatal("a page")
			}
		}
		expect("events", err)
	}
}

// A program that waits for its own message has already received a response to Send. So the client knows that the address is correct.
func TestAFollowerContinuesAfterARestartBeforeItsFirstCall(t *testing.T) {
	b := apptest.New(t)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL, client.WithRetries(0))
	sent, err := c.Send(t.Context(), message("x"))
	if err != nil {
		t.Fatal(err)
	}
	b.Report(b.ClaimIDs(1)[0], "app", 2, nil)
	n.losesFirst(503, 503)
	if task, err := c.WaitForTask(t.Context(), sent.TaskID, nil); err != nil || task.Status != client.Success {
		t.Errorf("%+v, %v", task, err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hang) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := dial(t, silent.URL).Task(ctx, "task_1"); !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	impatient := dial(t, silent.URL, client.WithTimeout(10*time.Millisecond), client.WithRetries(1))
	if _, err := impatient.Task(t.Context(), "task_1"); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(busy.Close)
	_, err := dial(t, busy.URL).Task(t.Context(), "task_1")
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.RetryAfter != time.Hour {
		t.Errorf("%v", err)
	}
	nowhere := dial(t, "http://127.0.0.1:1", client.WithRetries(0))
	if _, err := nowhere.Claim(t.Context(), client.Claim{AppID: "app"}); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestResponsesOfOtherServersAreErrors(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"a page":               func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"another envelope":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"data":{"task_id":"x"}}`) },
		"no data":              func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"code":200}`) },
		"null as data":         func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"code":200,"data":null}`) },
		"no object":            func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `null`) },
		"data of another type": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"code":200,"data":[]}`) },
		"a proxy":              func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example", http.StatusFound)
		},
		"a response that is too large": func(w http.ResponseWriter, _ *http.Request) {
			for range 40 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			task, err := dial(t, server.URL).Send(t.Context(), message("x"))
			if err == nil || task != nil {
				t.Errorf("got %+v, %v", task, err)
			}
			if name == "a redirect" && !strings.Contains(err.Error(), "https://elsewhere.example") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestNewChecksURLsAndHidesCredentials(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		"", "127.0.0.1:8000", "ftp://x", "http://", "http://user:hidden@x", "http://x?key=hidden", "http://x/%zz:hidden", "http://x#y",
	} {
		if _, err := client.New(wrong, client.Key("k")); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	for _, secret := range []client.Credentials{client.Key("hidden"), client.Basic("hidden", "hidden")} {
		holder := struct{ C client.Credentials }{secret}
		if text := fmt.Sprintf("%v %+v %#v %s", holder, holder, holder, secret); strings.Contains(text, "hidden") {
			t.Errorf("shown: %s", text)
		}
	}
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header }))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL+"/behind/a/proxy", client.Key("k"), client.WithUserAgent("shop/1"), client.WithHTTPClient(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Task(t.Context(), "task_1")
	if header.Get("Authorization") != "Bearer k" || header.Get("User-Agent") != "shop/1" {
		t.Errorf("headers: %v", header)
	}
}

func TestWebhooksAreVerified(t *testing.T) {
	t.Parallel()
	now, body := time.Unix(1_700_000_000, 0), []byte(`{"type":"message.sent"}`)
	secret, other := "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", "whsec_YWJjZGVmMDEyMzQ1Njc4OQ=="
	sign := func(secret, timestamp string) string {
		key, err := standardwebhooks.Key(secret)
		if err != nil {
			t.Fatal(err)
		}
		return "v1," + standardwebhooks.Sign(key, "evt_1", timestamp, body)
	}
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	for name, one := range map[string]struct {
		secret, timestamp, signature string
		body                         []byte
		genuine                      bool
	}{
		"genuine":                             {secret, at(0), sign(secret, at(0)), body, true},
		"with signatures of two secrets":      {secret, at(0), sign(other, at(0)) + " " + sign(secret, at(0)), body, true},
		"with a signature of another version": {secret, at(0), "v1a,AAAA " + sign(secret, at(0)), body, true},
		"almost too old":                      {secret, at(-5 * time.Minute), sign(secret, at(-5*time.Minute)), body, true},
		"too old":                             {secret, at(-301 * time.Second), sign(secret, at(-301*time.Second)), body, false},
		"too far in the future":               {secret, at(301 * time.Second), sign(secret, at(301*time.Second)), body, false},
		"of no time":                          {secret, "-9223372036854775808", sign(secret, "-9223372036854775808"), body, false},
		"without a time":                      {secret, "", sign(secret, ""), body, false},
		"another secret":                      {secret, at(0), sign(other, at(0)), body, false},
		"another time":                        {secret, at(1), sign(secret, at(time.Second)), body, false},
		"another body":                        {secret, at(0), sign(secret, at(0)), []byte(`{}`), false},
		"no signature":                        {secret, at(0), "", body, false},
		"only the version":                    {secret, at(0), "v1,", body, false},
		"no secret":                           {"", at(0), sign("whsec_", at(0)), body, false},
		"an empty secret":                     {"whsec_", at(0), sign("whsec_", at(0)), body, false},
		"line breaks as a secret":             {"whsec_\r\n", at(0), sign("whsec_", at(0)), body, false},
		"no base64":                           {"whsec_!", at(0), sign(secret, at(0)), body, false},
	} {
		header := http.Header{}
		header.Set("Webhook-Id", "evt_1")
		header.Set("Webhook-Timestamp", one.timestamp)
		header.Set("Webhook-Signature", one.signature)
		if err := client.VerifyWebhook(one.secret, header, one.body, now); (err == nil) != one.genuine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWebhookPostOfTheServerIsVerified(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	got := make(chan error, 1)
	var secret atomic.Pointer[string]
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- client.VerifyWebhook(*secret.Load(), r.Header, body, time.Now())
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	hook := map[string]any{"url": receiver.URL, "events": []string{"message.sent"}}
	made := apptest.Decode[api.NewWebhook](t, b.Expect(200, "", "POST", "/api/v1/webhooks", hook))
	secret.Store(&made.Secret)
	b.Expect(200, "", "POST", fmt.Sprintf("/api/v1/webhooks/%d/test", made.WebhookID), nil)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestAVerificationIsStartedOnceAndACheckIsNotRepeated(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	n := newNetwork(t, b.URL)
	c := dial(t, n.URL)
	request := client.VerificationRequest{PhoneNumber: new(apptest.Phone), Purpose: "login"}
	n.losesFirst(-1, 503)
	started, err := c.StartVerification(t.Context(), request)
	if err != nil || b.Count("SELECT count(*) FROM verifications") != 1 {
		t.Fatalf("start: %+v, %v", started, err)
	}
	// The limits of a person last longer than the caller can wait.
	n.losesFirst()
	if _, err := c.StartVerification(t.Context(), request); client.Reason(err) != "recipient.limited" || n.calls() != 1 {
		t.Errorf("a second start: %v after %d calls", err, n.calls())
	}
	b.Exec("UPDATE capped_recipients SET times = ARRAY(SELECT t - interval '61 seconds' FROM unnest(times) AS t)")
	n.losesFirst(-1)
	if again, err := c.ResendVerification(t.Context(), started.VerificationID, client.VerificationResend{}); err != nil || again.TaskID == started.TaskID {
		t.Errorf("sent again: %+v, %v", again, err)
	}
	n.losesFirst(-1)
	if _, err := c.CheckVerification(t.Context(), started.VerificationID, "wrong"); !errors.Is(err, client.ErrUnreachable) || n.calls() != 1 {
		t.Errorf("check: %v after %d calls", err, n.calls())
	}
	check := client.VerificationCheck{PhoneNumber: new(apptest.Phone), Purpose: "login", Code: "wrong"}
	if checked, err := c.CheckNewestVerification(t.Context(), check); err != nil || checked.Status != client.CodeIsWrong || checked.AttemptsLeft != 3 {
		t.Errorf("check: %+v, %v", checked, err)
	}
	n.losesFirst(-1)
	if err := c.CancelVerification(t.Context(), started.VerificationID); err != nil {
		t.Errorf("cancel: %v", err)
	}
	if v, err := c.Verification(t.Context(), started.VerificationID); err != nil || v.Status != api.VerificationCancelled || len(v.TaskIds) != 2 {
		t.Errorf("the verification: %+v, %v", v, err)
	}
	if err := c.CancelVerification(t.Context(), started.VerificationID); client.Reason(err) != "verification.cancelled" {
		t.Errorf("a second cancel: %v", err)
	}
}

func TestACodeOfTheExampleSignsAPersonIn(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	c := dial(t, b.URL)
	id, err := sendCode(t.Context(), c, apptest.Phone, "203.0.113.9")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`\d{6}`).FindString(b.Claim("app", 1)[0].Content)
	for _, given := range []string{"wrong", code} {
		if is, err := isRight(t.Context(), c, id, given); is != (given == code) || err != nil {
			t.Errorf("the code %s is right: %t, %v", given, is, err)
		}
	}
	if is, err := isRight(t.Context(), c, id, code); is || client.Reason(err) != "verification.approved" {
		t.Errorf("a code that is used twice: %t, %v", is, err)
	}
}
