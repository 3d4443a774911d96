package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lksms/internal/app"
	"lksms/internal/testkit/apptest"
)

// BenchmarkSubmit submits messages through the whole server except net/http. In addition to the usual numbers it reports the processor time of this process
// per message, without PostgreSQL.
func BenchmarkSubmit(b *testing.B) {
	c := newCaller(b)
	c.run(32, 1, func(int) {
		c.post("/api/v1/sms/send", `{"phone_number":"`+number()+`","content":"您的验证码是123456，请勿泄露","source":"bench"}`)
	})
}

// BenchmarkMessagesFromSubmissionToReport submits, claims and reports batches of 100 messages through the whole server except net/http, with eight senders.
func BenchmarkMessagesFromSubmissionToReport(b *testing.B) {
	c := newCaller(b)
	const size = 100
	c.run(4, size, func(i int) {
		sender := fmt.Sprint("app-", i)
		messages := make([]string, size)
		for j := range messages {
			messages[j] = `{"phone_number":"` + number() + `","content":"您的验证码是123456，请勿泄露","source":"bench"}`
		}
		c.post("/api/v1/sms/send-batch", `{"messages":[`+strings.Join(messages, ",")+`]}`)
		var claimed struct {
			Data []struct {
				TaskID  string `json:"task_id"`
				LeaseID int64  `json:"lease_id"`
			} `json:"data"`
		}
		answer := c.post("/api/v1/sms/tasks/claim", fmt.Sprintf(`{"app_id":%q,"limit":%d}`, sender, size))
		if err := json.Unmarshal([]byte(answer), &claimed); err != nil {
			b.Error(err)
		}
		var reports []string
		for _, t := range claimed.Data {
			reports = append(reports, fmt.Sprintf(`{"task_id":%q,"lease_id":%d,"app_id":%q,"status":2}`, t.TaskID, t.LeaseID, sender))
		}
		if len(reports) > 0 {
			c.post("/api/v1/sms/report-batch", `{"reports":[`+strings.Join(reports, ",")+`]}`)
		}
	})
}

// caller calls its own server without net/http.
type caller struct {
	b      *testing.B
	server *apptest.Bundle
}

func newCaller(b *testing.B) caller {
	return caller{b, apptest.Open(b, apptest.DefaultRules, func(o *app.Options) { o.Log = slog.New(slog.DiscardHandler) })}
}

// run calls do from several goroutines: parallelism per processor. do receives the number of its goroutine. The reported numbers are per message; messages is
// the number of messages in one call of do.
func (c caller) run(parallelism, messages int, do func(i int)) {
	c.b.ReportAllocs()
	c.b.SetParallelism(parallelism)
	before := c.processorTime()
	c.b.ResetTimer()
	var goroutines atomic.Int64
	c.b.RunParallel(func(p *testing.PB) {
		for i := int(goroutines.Add(1)); p.Next(); {
			do(i)
		}
	})
	c.b.StopTimer()
	n := float64(c.b.N * messages)
	c.b.ReportMetric((c.processorTime()-before)/n, "cpu-µs/message")
	c.b.ReportMetric(n/c.b.Elapsed().Seconds(), "messages/s")
}

// processorTime returns the processor time of this process in microseconds.
func (c caller) processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		c.b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec)*1e6 + float64(u.Utime.Usec+u.Stime.Usec)
}

// post sends a POST request and returns the body of the response.
func (c caller) post(path, body string) string {
	r := httptest.NewRequestWithContext(c.b.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.SetBasicAuth(apptest.Username, apptest.Password)
	w := httptest.NewRecorder()
	if c.server.App.Handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		c.b.Errorf("%s: %d: %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

func number() string { return fmt.Sprintf("138%08d", rand.IntN(100_000_000)) }
