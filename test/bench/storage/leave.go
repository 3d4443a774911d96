package storage

import (
	"context"
	"fmt"
	"time"

	"lksms/gen/batchq"
	"lksms/gen/historyq"
	"lksms/gen/senderq"
	"lksms/internal/platform/postgres"
	"lksms/test/bench/measure"
)

const (
	partsMade = 32
	pageSize  = 50
	long      = 400 * 24 * time.Hour // longer than any retention period
)

// LeavingRows compares two ways to delete old charges and rows of batches. The first way drops their partition. The second way deletes the single rows, which
// the server does for rows from before the tables had partitions. LeavingRows also compares a page of a ledger in many partitions with a page of a ledger in
// few partitions.
func LeavingRows(ctx context.Context, b *measure.Bench) error {
	n, perPart, pages := 1_000_000, 40_000, 200
	if b.Short {
		n, perPart, pages = 200_000, 1_000, 20
	}
	q := senderq.New(b.DB)
	if err := q.SenderRegister(ctx, "leave"); err != nil {
		return err
	}
	if err := leaving(ctx, b, n); err != nil {
		return err
	}
	few, err := ledgerPage(ctx, b, q, pages)
	if err != nil {
		return err
	}
	for i := range partsMade {
		if err := nextParts(ctx, b, historyq.New(b.DB)); err != nil {
			return err
		}
		size := perPart
		if i == 0 { // the partition that is dropped
			size = n
		}
		if err := leaving(ctx, b, size); err != nil {
			return err
		}
	}
	if err := b.Exec(ctx, "VACUUM (ANALYZE) sender_ledger, batch_rows, batches"); err != nil {
		return err
	}
	many, err := ledgerPage(ctx, b, q, pages)
	if err != nil {
		return err
	}
	b.Ratio(fmt.Sprintf("first page of a ledger in %d partitions", partsMade+2), many, few, "ms", "in 2 partitions", "no target", true)

	single, err := timed(ctx, func() (int64, error) {
		return q.SenderLedgerFold(ctx, senderq.SenderLedgerFoldParams{BatchSize: 20_000, Keep: long / 2, Remark: "leave"})
	}, int64(n))
	if err != nil {
		return err
	}
	whole, err := timed(ctx, func() (int64, error) {
		return q.SenderLedgerDrop(ctx, senderq.SenderLedgerDropParams{Keep: long / 2, Remark: "leave"})
	}, 1)
	if err != nil {
		return err
	}
	b.AtMost(0.2, fmt.Sprintf("%d charges dropped with their partition, sums kept", n), measure.Millis(whole), measure.Millis(single), "ms", "deleted row by row")

	single, err = timed(ctx, func() (int64, error) {
		return batchq.New(b.DB).BatchesDeleteExpired(ctx, batchq.BatchesDeleteExpiredParams{BatchSize: 1, Keep: long / 2, KeepHeld: 2 * long})
	}, 1)
	if err != nil {
		return err
	}
	whole, err = timed(ctx, func() (int64, error) { return batchq.New(b.DB).BatchRowsDrop(ctx, long/2) }, 1)
	if err != nil {
		return err
	}
	b.AtMost(0.2, fmt.Sprintf("%d rows of a batch dropped with their partition", n), measure.Millis(whole), measure.Millis(single), "ms", "deleted row by row")
	return b.Empty(ctx)
}

// leaving adds n charges of fifty companies, and a batch with n rows that ended long ago.
func leaving(ctx context.Context, b *measure.Bench, n int) error {
	err := b.Exec(ctx, `INSERT INTO sender_ledger (sender_id, change, balance, lease_id, company_id, created_at)
		SELECT s.id, -1, 0, nextval('lease_ids'), 1 + i % 50, now() - $2::interval + i * interval '0.06 s'
		FROM generate_series(1, $1::integer) i, senders s WHERE s.sender_no = 'leave'`, n, long)
	if err != nil {
		return err
	}
	return b.Exec(ctx, `WITH made AS (
			INSERT INTO batches (company_id, submitted_by, name, message_type, phone_column, content, dedup, request_id, source_ip, user_agent, status,
				is_settled, checked_at, ended_at, rows, valid)
			SELECT c.id, 'bench', 'leave', 1, 'phone', 'x', 'none', 'x', 'x', 'x', 'finished', true, now() - $2::interval, now() - $2::interval, $1, $1
			FROM companies c ORDER BY c.id LIMIT 1
			RETURNING id
		)
		INSERT INTO batch_rows (batch_id, row_no, recipient, content, segments)
		SELECT m.id, i, '+8613800138000', repeat('短信', 12) || i, 1 FROM made m, generate_series(1, $1::integer) i`, n, long)
}

// nextParts starts the next partitions. The result equals the state of a system whose current partitions were started long ago.
func nextParts(ctx context.Context, b *measure.Bench, q *historyq.Queries) error {
	for range 2 { // the first call creates the partitions, the second starts to use them
		for _, parent := range []string{"sender_ledger", "batch_rows"} {
			_, err := postgres.Patiently(ctx, func() (int64, error) {
				return q.NumberPartitionsAhead(ctx, historyq.NumberPartitionsAheadParams{Parent: parent, Width: 24 * time.Hour})
			})
			if err != nil {
				return err
			}
		}
		if err := b.Exec(ctx, "UPDATE number_partitions SET entered_at = entered_at - $1::interval, left_at = left_at - $1::interval", long); err != nil {
			return err
		}
	}
	return nil
}

// ledgerPage returns the median duration of reading the first page, in milliseconds.
func ledgerPage(ctx context.Context, b *measure.Bench, q *senderq.Queries, pages int) (float64, error) {
	var took []time.Duration
	for range pages {
		began := time.Now()
		rows, err := q.SenderLedgerList(ctx, senderq.SenderLedgerListParams{SenderNo: "leave", BeforeID: 1 << 62, PageLimit: pageSize})
		if err != nil {
			return 0, err
		}
		if len(rows) != pageSize {
			return 0, fmt.Errorf("a page has %d entries", len(rows))
		}
		took = append(took, time.Since(began))
	}
	return measure.Millis(measure.Quantile(took, 0.5)), nil
}

// timed calls do until it has processed n rows, and returns the total duration.
func timed(ctx context.Context, do func() (int64, error), n int64) (time.Duration, error) {
	began := time.Now()
	for done := int64(0); done < n; {
		more, err := postgres.Patiently(ctx, do)
		if err != nil {
			return 0, err
		}
		if more == 0 {
			return 0, fmt.Errorf("only %d of %d rows were deleted", done, n)
		}
		done += more
	}
	return time.Since(began), nil
}
