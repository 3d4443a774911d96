package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lksms/test/bench/measure"
)

// StoredBytes measures how much WAL a message writes from its submission to its report, and how much disk space it uses afterwards.
func StoredBytes(ctx context.Context, b *measure.Bench) error {
	batches, singles := 300, 4_000 // numbers per caller
	if b.Short {
		batches, singles = 3, 20
	}
	c := b.Client(measure.LifeCallers)
	inBatches := func(caller int) (int, error) {
		for range batches {
			if err := measure.Live(c, fmt.Sprint("app-", caller)); err != nil {
				return 0, err
			}
		}
		return batches * measure.LifeSize, nil
	}
	alone := func(caller int) (int, error) {
		for range singles {
			if err := c.Call("POST", measure.SendPath, measure.SendBody(), nil); err != nil {
				return 0, err
			}
			if err := pullOne(c, fmt.Sprint("app-", caller)); err != nil {
				return 0, err
			}
		}
		return singles, nil
	}
	if err := bytesOf(ctx, b, "life of a message, batches of 100", inBatches); err != nil {
		return err
	}
	return bytesOf(ctx, b, "life of a message, one in each request", alone)
}

// bytesOf measures how much the messages of several concurrent callers write. Each caller calls live once. live returns the number of its messages.
func bytesOf(ctx context.Context, b *measure.Bench, name string, live func(caller int) (messages int, err error)) error {
	if err := errors.Join(b.Empty(ctx), b.AsAdmin(ctx, "CHECKPOINT")); err != nil {
		return err
	}
	before, err := bytesWritten(ctx, b)
	if err != nil {
		return err
	}
	began, counts, failed := time.Now(), make([]int, measure.LifeCallers), make([]error, measure.LifeCallers)
	var callers sync.WaitGroup
	for i := range measure.LifeCallers {
		callers.Go(func() { counts[i], failed[i] = live(i) })
	}
	callers.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	took, messages := time.Since(began).Seconds(), 0
	for _, n := range counts {
		messages += n
	}
	if err := counted(ctx, b); err != nil {
		return err
	}
	after, err := bytesWritten(ctx, b)
	if err != nil {
		return err
	}
	each := func(now, then int64) float64 { return float64(now-then) / float64(messages) }
	record := func(name string, value float64, compared string) {
		b.Add(measure.Figure{Name: name, Value: measure.Show(value, "bytes"), Compared: compared, Target: "no target", Met: true})
	}
	record(name+": WAL", each(after.wal, before.wal), fmt.Sprintf("%d messages after a checkpoint, %.0f /s", messages, float64(messages)/took))
	record("the same: records of the WAL", each(after.records, before.records), fmt.Sprintf("a count, not bytes; %.2f full-page images per message", each(after.wholePages, before.wholePages)))
	record("the same: on disk, in tables partitioned by day", each(after.kept, before.kept), "messages and report_logs, with indexes")
	record("the same: on disk, in tables whose space is reused", each(after.passing, before.passing), "queue, counts, statistics")
	return b.Empty(ctx)
}

// pullOne claims one message and reports it in a separate request.
func pullOne(c *measure.Client, appID string) error {
	var tasks []measure.Leased
	claim := fmt.Sprintf(`{"app_id":%q,"limit":1}`, appID)
	if err := c.Call("POST", "/api/v1/sms/tasks/claim", claim, &tasks); err != nil || len(tasks) == 0 {
		return err
	}
	report := fmt.Sprintf(`{"task_id":%q,"lease_id":%d,"app_id":%q,"status":2}`, tasks[0].TaskID, tasks[0].LeaseID, appID)
	return c.Call("POST", "/api/v1/sms/report", report, nil)
}

// counted waits until all facts are counted, because counting also writes.
func counted(ctx context.Context, b *measure.Bench) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var left int
		if err := b.DB.QueryRow(ctx, "SELECT count(*) FROM facts").Scan(&left); err != nil || left == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the facts are not counted within a minute")
		}
	}
}

// written contains the amounts that a PostgreSQL server has written so far.
type written struct {
	wal, records, wholePages int64 // bytes of WAL, WAL records, and full-page images in the WAL
	kept, passing            int64 // bytes of the tables that are partitioned by day (kept), and of the tables whose rows are soon deleted (passing)
}

func bytesWritten(ctx context.Context, b *measure.Bench) (w written, err error) {
	const sizes = "(SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c WHERE c.relkind = 'r' AND c.relname ~ "
	// The sessions report the counters of pg_stat_wal with a delay. The WAL position has no delay.
	err = b.DB.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, wal_records, wal_fpi, "+
		sizes+"'^(messages|report_logs)'), "+sizes+"'^(queue|facts|task_counts|fair_ranks|statistics.*|sender_states|daily_totals)$') FROM pg_stat_wal",
	).Scan(&w.wal, &w.records, &w.wholePages, &w.kept, &w.passing)
	return w, err
}
