package messages

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lksms/test/bench/measure"
)

// BatchUploads measures a batch of a million rows: how long the check of its list takes, how long verification codes wait while the batch is sent, and how fast
// the batch is sent.
func BatchUploads(ctx context.Context, b *measure.Bench) error {
	if err := b.Empty(ctx); err != nil {
		return err
	}
	rows := 1_000_000
	if b.Short {
		rows = 20_000
	}
	c := b.Client(measure.Connections)
	var path string
	for _, list := range []struct{ name, content string }{{"list.xlsx", workbookOf(rows)}, {"list.csv", listOf(rows)}} {
		began := time.Now()
		var err error
		if path, err = upload(c, list.name, list.content); err != nil {
			return err
		}
		if err := await(ctx, c, path, "ready"); err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		_, most := b.Memory()
		b.Add(measure.Figure{
			Name: fmt.Sprintf("upload and check of %s, %d rows", list.name, rows), Value: measure.Show(took, "s"), Target: "<= 60 s", Met: took <= 60,
		})
		b.Add(measure.Figure{Name: "peak memory of the server so far", Value: measure.Show(most, "MiB"), Target: "<= 150 MiB", Met: most <= 150})
	}

	var with, without []float64
	for range b.Rounds {
		wait, err := waitOfCodes(ctx, b)
		if err != nil {
			return err
		}
		without = append(without, wait)
		next := "/resume"
		if len(with) == 0 {
			next = "/confirm"
		}
		if err := c.Call("POST", path+next, "", nil); err != nil {
			return err
		}
		if wait, err = waitOfCodes(ctx, b); err != nil {
			return err
		}
		with = append(with, wait)
		if err := c.Call("POST", path+"/pause", "", nil); err != nil {
			return err
		}
	}
	b.AtMost(1.1, "p99 wait of verification codes while a batch is sent", measure.Median(with), measure.Median(without), "ms", "without it")

	calls, err := measure.ClosedLoop(ctx, measure.LifeCallers, b.Time, func(i int) error { return measure.Live(c, fmt.Sprint("life-", i)) })
	if err != nil {
		return err
	}
	left, err := waitingOf(c, path)
	if err != nil {
		return err
	}
	if err := c.Call("POST", path+"/resume", "", nil); err != nil {
		return err
	}
	began := time.Now()
	if err := drainBatch(ctx, b, c, path); err != nil {
		return err
	}
	rate := float64(left) / time.Since(began).Seconds()
	b.Ratio(fmt.Sprintf("the last %d rows of that batch, until all are reported", left), rate, calls*measure.LifeSize, "/s", "life of tasks in batches of 100", "no target", true)
	_, most := b.Memory()
	b.Add(measure.Figure{Name: "peak memory of the server so far", Value: measure.Show(most, "MiB"), Target: "<= 150 MiB", Met: most <= 150})
	return b.Empty(ctx)
}

// listOf returns a CSV list of n rows with three columns.
func listOf(n int) string {
	var list strings.Builder
	list.WriteString("手机号,姓名,券\n")
	for i := range n {
		fmt.Fprintf(&list, "138%08d,客户%d,C%08d\n", i, i, i)
	}
	return list.String()
}

// workbookOf returns the rows of listOf(n) as an XLSX file.
func workbookOf(n int) string {
	const start = `<?xml version="1.0" encoding="UTF-8"?>`
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	part := func(name, content string) {
		out, _ := w.Create(name) // a write to a buffer never fails
		io.WriteString(out, start)
		io.WriteString(out, content)
	}
	part("_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r" `+
		`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`)
	part("xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="s" `+
		`Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`)
	part("xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" `+
		`xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="list" sheetId="1" r:id="s"/></sheets></workbook>`)
	var rows strings.Builder
	rows.WriteString(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`)
	for line := range strings.Lines(listOf(n)) {
		rows.WriteString("<row>")
		for cell := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			rows.WriteString(`<c t="inlineStr"><is><t>` + cell + "</t></is></c>")
		}
		rows.WriteString("</row>")
	}
	part("xl/worksheets/sheet1.xml", rows.String()+"</sheetData></worksheet>")
	w.Close()
	return file.String()
}

// upload creates a batch from a list, and returns the path of the batch.
func upload(c *measure.Client, name, list string) (string, error) {
	const boundary = "boundary-of-the-list"
	var form strings.Builder
	for _, field := range [][2]string{{"name", "bench"}, {"message_type", "marketing"}, {"content", "{姓名}，您的优惠券{券}今日到期"}} {
		fmt.Fprintf(&form, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, field[0], field[1])
	}
	fmt.Fprintf(&form, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\n\r\n%s\r\n--%s--\r\n", boundary, name, list, boundary)
	var made struct {
		BatchID int64 `json:"batch_id"`
	}
	err := c.CallWith("multipart/form-data; boundary="+boundary, "POST", "/api/v1/batches", form.String(), &made)
	return fmt.Sprint("/api/v1/batches/", made.BatchID), err
}

type progress struct {
	Status string
	Counts struct{ Waiting int }
}

// await waits until the batch at path has the status.
func await(ctx context.Context, c *measure.Client, path, status string) error {
	for ctx.Err() == nil {
		var s progress
		if err := c.Call("GET", path, "", &s); err != nil || s.Status == status {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ctx.Err()
}

func waitingOf(c *measure.Client, path string) (int, error) {
	var s progress
	err := c.Call("GET", path, "", &s)
	return s.Counts.Waiting, err
}

// waitOfCodes returns the 99th percentile of the time from submission to claim of verification codes, in milliseconds. Twenty codes are submitted per second.
// Four senders each poll twice per second for fifty tasks and report them.
func waitOfCodes(ctx context.Context, b *measure.Bench) (float64, error) {
	var began time.Time
	if err := b.DB.QueryRow(ctx, "SELECT now()").Scan(&began); err != nil {
		return 0, err
	}
	polling, enough := context.WithCancel(ctx)
	defer enough()
	c := b.Client(measure.Connections)
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 125 * time.Millisecond)
			tick := time.NewTicker(500 * time.Millisecond)
			defer tick.Stop()
			for polling.Err() == nil {
				if _, err := measure.Pull(c, fmt.Sprint("poll-", i), 50); err != nil {
					failure.Store(&err)
				}
				<-tick.C
			}
		})
	}
	_, err := measure.OpenLoop(ctx, measure.Connections, 20, 2*b.Time, func() error {
		return c.Call("POST", measure.SendPath, strings.Replace(measure.SendBody(), `"source"`, `"message_type":"verification","source"`, 1), nil)
	})
	time.Sleep(time.Second) // time for the senders to claim and report the last tasks
	enough()
	all.Wait()
	if failed := failure.Load(); failed != nil {
		err = errors.Join(err, *failed)
	}
	if err != nil {
		return 0, err
	}
	var wait float64
	err = b.DB.QueryRow(ctx, `SELECT percentile_cont(0.99) WITHIN GROUP (
			ORDER BY extract(epoch FROM coalesce(r.leased_at, now()) - m.created_at) * 1000
		)
		FROM messages m LEFT JOIN report_logs r ON r.task_id = m.task_id
		WHERE m.message_type = 0 AND m.created_at > $1`, began).Scan(&wait)
	return wait, err
}

// drainBatch claims and reports the tasks of a batch until the batch has finished.
func drainBatch(ctx context.Context, b *measure.Bench, c *measure.Client, path string) error {
	sending, enough := context.WithCancel(ctx)
	defer enough()
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	for i := range measure.LifeCallers {
		all.Go(func() {
			for sending.Err() == nil {
				n, err := measure.Pull(c, fmt.Sprint("life-", i), measure.LifeSize)
				if err != nil {
					failure.Store(&err)
					enough()
				}
				if n == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	err := await(sending, c, path, "finished")
	enough()
	all.Wait()
	if failed := failure.Load(); failed != nil {
		return *failed
	}
	return err
}
