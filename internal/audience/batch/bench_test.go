package batch_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"lksms/internal/audience/batch"
	"lksms/internal/audience/batch/progress"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/access"
	"lksms/internal/testkit/apptest"
)

// BenchmarkCheck checks a list of a million rows until the batch is ready. One of a thousand rows is invalid, and one is a duplicate. MiB is the maximum memory
// of the program during the check.
func BenchmarkCheck(b *testing.B) {
	s := apptest.Open(b, apptest.DefaultRules, nil)
	for range b.N {
		b.StopTimer()
		list, to := io.Pipe()
		go func() {
			w := bufio.NewWriter(to)
			fmt.Fprintln(w, "手机号,姓名,尾号")
			for i := range 1_000_000 {
				phone := 13_800_000_000 + i
				switch i % 1000 {
				case 1:
					phone = i
				case 2:
					phone -= 2
				}
				fmt.Fprintf(w, "%d,客户%d,%04d\n", phone, i, i%10_000)
			}
			to.CloseWithError(w.Flush())
		}()
		u, err := s.App.Uploads.Receive(b.Context(), list, upload.Meta{CompanyID: access.DefaultCompany, SubmittedBy: "admin", Name: "list.csv"})
		if err != nil {
			b.Fatal(err)
		}
		row, err := s.App.Batches.Create(b.Context(), batch.Request{
			Name: "million", Upload: &u, MessageType: submit.Marketing, Content: "{姓名}，您尾号{尾号}的优惠券今日到期", Sign: "示例公司", Dedup: batch.DedupPhone,
			Origin: submit.Origin{User: "admin", CompanyID: access.DefaultCompany},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		most := memoryOf(b, func() {
			if n, err := s.App.Batches.Check(b.Context()); n != 1_000_000 || err != nil {
				b.Fatal(n, err)
			}
		})
		b.StopTimer()
		st, err := s.App.Batches.Get(b.Context(), batch.Viewer{}, row.ID)
		if c := st.Counts; err != nil || st.Status != progress.Ready || c.Valid != 998_000 || c.Invalid != 1000 || c.Duplicate != 1000 {
			b.Fatalf("%s %+v %v", st.Status, c, err)
		}
		b.ReportMetric(most, "MiB")
	}
}

// memoryOf returns the maximum memory in MiB that the program uses while do runs.
func memoryOf(b *testing.B, do func()) (most float64) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, float64(m.Sys-m.HeapReleased)/(1<<20))
			time.Sleep(50 * time.Millisecond)
		}
	}()
	do()
	cancel()
	<-done
	return most
}
