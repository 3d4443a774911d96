package app_test

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	api "lksms/gen/client"
	"lksms/internal/app"
	"lksms/internal/dispatch/queue"
	"lksms/internal/testkit/apptest"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + traceID + "-00f067aa0ba902b7-01"
	traceHeader = "Traceparent"
)

// traceCollector receives spans as OTLP over HTTP.
type traceCollector struct {
	*httptest.Server
	mu   sync.Mutex
	all  []*spans.Span
	from map[string]string // attributes of the server
}

func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{from: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range request.GetResourceSpans() {
			for _, a := range of.GetResource().GetAttributes() {
				c.from[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, scope := range of.GetScopeSpans() {
				c.all = append(c.all, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// find returns the spans with a name and an attribute.
func (c *traceCollector) find(name, attribute, value string) (found []*spans.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		for _, a := range s.GetAttributes() {
			if s.GetName() == name && a.GetKey() == attribute && a.GetValue().GetStringValue() == value {
				found = append(found, s)
			}
		}
	}
	return found
}

func newTraced(t *testing.T, c *traceCollector) *apptest.Bundle {
	return apptest.NewWith(t, apptest.DefaultRules, func(o *app.Options) {
		apptest.WithSecrets(o)
		o.TraceURL = c.URL + "/v1/traces"
	})
}

func TestATraceCoversATaskFromSubmissionToReport(t *testing.T) {
	c := newTraceCollector(t)
	b := newTraced(t, c)
	id := apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send",
		map[string]any{"phone_number": apptest.Phone, "content": "traced"}, traceHeader, traceparent)).TaskID
	plain := b.Submit("plain")
	for _, task := range b.Claim("app", 10) {
		switch {
		case task.TaskID == id && (task.Traceparent == nil || *task.Traceparent != traceparent):
			t.Errorf("the claim returned the traceparent %v", task.Traceparent)
		case task.TaskID == plain && task.Traceparent != nil:
			t.Errorf("the claim returned a traceparent for a task without one: %s", *task.Traceparent)
		}
		b.Report(task.TaskID, "app", int(queue.Success), nil)
	}
	var submit, claim, report []*spans.Span
	apptest.Eventually(t, "the spans are exported", func() bool {
		submit = c.find("POST /api/v1/sms/send", "http.route", "POST /api/v1/sms/send")
		claim, report = c.find("claim of task", "lksms.task_id", id), c.find("report", "lksms.task_id", id)
		return len(submit) == 2 && len(claim) == 1 && len(report) == 1
	})
	for _, s := range []*spans.Span{submit[0], claim[0], report[0]} {
		if hex.EncodeToString(s.GetTraceId()) != traceID || hex.EncodeToString(s.GetParentSpanId()) != "00f067aa0ba902b7" {
			t.Errorf("%s is in trace %x under %x", s.GetName(), s.GetTraceId(), s.GetParentSpanId())
		}
	}
	if len(claim[0].GetLinks()) != 1 {
		t.Error("the claim of the task has no link to its request")
	}
	if s := submit[1]; hex.EncodeToString(s.GetTraceId()) == traceID || len(s.GetParentSpanId()) > 0 {
		t.Errorf("the other submission is in trace %x", s.GetTraceId())
	}
	if all := c.find("claim of task", "lksms.task_id", plain); len(all) > 0 {
		t.Error("the task without a traceparent has a trace")
	}
	if all := c.find("report", "lksms.task_id", plain); len(all) != 1 || len(all[0].GetParentSpanId()) == 0 {
		t.Errorf("the report of the task is not part of a request: %v", all)
	}
	if n := b.Count("SELECT count(*) FROM messages WHERE traceparent IS NOT NULL"); n != 1 {
		t.Errorf("%d messages have a traceparent", n)
	}
	if c.from["service.name"] != "lksms" || c.from["service.version"] != "devel" {
		t.Errorf("the server calls itself %v", c.from)
	}
	for _, path := range []string{"/health", "/metrics"} {
		if all := c.find("GET "+path, "http.route", "GET "+path); len(all) > 0 {
			t.Errorf("%s has a span", path)
		}
	}
}

// headersOf makes a provider store the traceparent of each message. The function `of` returns the traceparent by the text of the message.
func headersOf(p *apptest.Provider) (of func(text string) (string, bool)) {
	var mu sync.Mutex
	headers := map[string]string{}
	p.Does(func(w http.ResponseWriter, r *http.Request) {
		seen := p.Seen()
		mu.Lock()
		defer mu.Unlock()
		headers[seen[len(seen)-1]] = strings.Join(r.Header[traceHeader], "; ")
		_, _ = io.WriteString(w, `{"code":"0"}`)
	})
	return func(text string) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		for body, header := range headers {
			if strings.Contains(body, text) {
				return header, true
			}
		}
		return "", false
	}
}

// sendTraced submits a message with a traceparent and a message without one. It returns the traceparent headers that the provider got for each.
func sendTraced(b *apptest.Bundle, p *apptest.Provider) (traced, plain string) {
	b.T.Helper()
	of := headersOf(p)
	b.AddSender(map[string]any{"sender_no": "pushed", "kind": "http-sms", "config": p.SenderConfig()})
	b.App.Pusher.Start()
	for text, headers := range map[string][]string{"traced": {traceHeader, traceparent}, "plain": nil} {
		made := apptest.Decode[api.SentBatch](b.T, b.Expect(200, "", "POST", apptest.BatchPath,
			map[string]any{"messages": []any{map[string]any{"phone_number": apptest.Phone, "content": text}}}, headers...))
		b.AwaitStatus(*made.Items[0].TaskID, queue.Success)
	}
	traced, _ = of("traced")
	plain, isThere := of("plain")
	if !isThere {
		b.T.Error("the provider did not get the message without a traceparent")
	}
	return traced, plain
}

func TestAProviderGetsTheTraceparentOfTheSubmission(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	if traced, plain := sendTraced(b, apptest.NewProvider(t)); traced != traceparent || plain != "" {
		t.Errorf("the provider got %q and %q", traced, plain)
	}
}

func TestAnAttemptAtAProviderIsASpanOfTheTrace(t *testing.T) {
	c := newTraceCollector(t)
	b := newTraced(t, c)
	traced, plain := sendTraced(b, apptest.NewProvider(t))
	var sent []*spans.Span
	apptest.Eventually(t, "the spans are exported", func() bool {
		sent = c.find("send", "lksms.kind", "http-sms")
		return len(sent) == 2
	})
	want := ""
	for _, s := range sent {
		if hex.EncodeToString(s.GetTraceId()) == traceID {
			want = "00-" + traceID + "-" + hex.EncodeToString(s.GetSpanId()) + "-01"
		}
	}
	if traced != want || plain != "" {
		t.Errorf("the provider got %q and %q, want %q", traced, plain, want)
	}
	if all := c.find("send", "lksms.outcome", "sent"); len(all) != 2 {
		t.Errorf("%d spans contain the outcome", len(all))
	}
}

func TestRetriesKeepTheTraceparentAndInvalidTraceparentsAreIgnored(t *testing.T) {
	b := apptest.New(t)
	send := func(text string, values ...string) string {
		headers := []string{}
		for _, value := range values {
			headers = append(headers, traceHeader, value)
		}
		return apptest.Decode[api.Submitted](t, b.Expect(200, "", "POST", "/api/v1/sms/send",
			map[string]any{"phone_number": apptest.Phone, "content": text}, headers...)).TaskID
	}
	for _, wrong := range []string{
		"", "x", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", "ff-" + traceID + "-00f067aa0ba902b7-01",
		"00-" + strings.ToUpper(traceID) + "-00f067aa0ba902b7-01", traceparent + "-more", strings.Repeat(traceparent, 20),
	} {
		send("wrong", wrong)
	}
	if n := b.Count("SELECT count(*) FROM queue WHERE traceparent IS NOT NULL"); n != 0 {
		t.Errorf("%d tasks have an invalid traceparent", n)
	}
	b.Exec("DELETE FROM queue")
	id := send("again", traceparent)
	for range 2 {
		task := b.Claim("app", 1)[0]
		if task.TaskID != id || task.Traceparent == nil || *task.Traceparent != traceparent {
			t.Fatalf("claimed %+v", task)
		}
		b.Report(id, "app", int(queue.Failed), apptest.Report{"should_retry": true, "retry_after_seconds": 0})
	}
}

func TestACollectorThatHangsDelaysNoRequest(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b := apptest.New(t)
	options := b.Options
	options.TraceURL = "http://" + silent.Addr().String() + "/v1/traces"
	second, err := app.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/sms/tasks", nil)
	r.SetBasicAuth(apptest.Username, apptest.Password)
	second.Handler.ServeHTTP(w, r)
	if took := time.Since(began); w.Code != 200 || took > 2*time.Second {
		t.Errorf("answered %d after %v", w.Code, took)
	}
	began = time.Now()
	second.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the server took %v to stop", took)
	}
}
