package httpapi_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"lksms/internal/app"
	"lksms/internal/apptest"
)

// BenchmarkSubmit submits messages through the whole server except net/http. Beside the usual figures it reports the processor time of
// this process for a message, PostgreSQL excluded.
func BenchmarkSubmit(b *testing.B) {
	server := apptest.Open(b, apptest.DefaultRules, func(o *app.Options) { o.Log = slog.New(slog.DiscardHandler) })
	usage := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Sec+u.Stime.Sec)*1e6 + float64(u.Utime.Usec+u.Stime.Usec)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	before := usage()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			body := fmt.Sprintf(`{"phone_number":"138%08d","content":"您的验证码是123456，请勿泄露","source":"bench"}`, rand.IntN(100_000_000))
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/api/v1/sms/send", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.SetBasicAuth(apptest.Username, apptest.Password)
			w := httptest.NewRecorder()
			if server.App.Handler.ServeHTTP(w, r); w.Code != http.StatusOK {
				b.Errorf("%d: %s", w.Code, w.Body)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric((usage()-before)/float64(b.N), "cpu-µs/op")
}
