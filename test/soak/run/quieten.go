package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/load"
)

// leftOver is the work that has not ended, at a time when no client submits, cancels or requeues any more.
type leftOver struct {
	tasks, batches, jobs, notifications int
	done                                string        // a text that changes each time a task or job ends or makes progress
	doable                              string        // work that could make progress now; empty: all remaining work waits as intended
	latest                              time.Duration // time until the end of the longest intended wait
	reason                              string        // reason of this wait
}

func (l leftOver) String() string {
	return fmt.Sprintf("%d tasks, %d batches, %d jobs, %d notifications", l.tasks, l.batches, l.jobs, l.notifications)
}

// countLeftOver counts the remaining work and its reasons. A task waits as intended until it is due, while a sender has leased it, and while all senders of
// its pool are paused.
const countLeftOver = `
WITH resting AS MATERIALIZED (
	SELECT r.pool_id, min(coalesce(st.rest_until, '-infinity')) AS until FROM routes r JOIN sender_states st ON st.sender_id = r.sender_id
	WHERE r.status = 'on' GROUP BY r.pool_id HAVING min(coalesce(st.rest_until, '-infinity')) > now()
),
waits AS MATERIALIZED (
	SELECT q.task_id, greatest(q.due_at, q.lease_until, r.until) AS until,
		CASE WHEN q.lease_until IS NOT NULL THEN 'held by ' || q.processing_app_id WHEN q.due_at > now() THEN 'due later'
			WHEN r.until IS NOT NULL THEN 'its senders are paused' ELSE 'free' END
			|| ', after ' || q.retry_count || ' retries and ' || q.troubles || ' troubles' AS reason
	FROM queue q LEFT JOIN resting r ON r.pool_id = q.pool_id
)
SELECT (SELECT count(*) FROM waits), b.n, j.n, n.n,
	concat_ws('/', (SELECT count(*) FROM waits), b.n, b.done, b.states, j.n, j.done, n.n),
	coalesce(
		(SELECT 'task ' || task_id || ' could progress since ' || until || ': ' || reason FROM waits WHERE until <= now() LIMIT 1),
		CASE WHEN b.n > 0 AND NOT EXISTS (SELECT FROM waits) THEN 'batches' WHEN j.n > 0 THEN 'jobs' WHEN n.due > 0 THEN 'notifications' END, ''
	),
	coalesce(w.seconds, 0)::double precision, coalesce(w.reason, '')
FROM (
		SELECT count(*) FILTER (WHERE NOT is_settled OR status = 'ready') AS n, sum(last_row + fed_row) AS done, count(*) FILTER (WHERE is_settled) AS states
		FROM batches
	) b,
	(SELECT count(*) AS n, sum(done + skipped + failed) AS done FROM task_jobs WHERE status = 'running') j,
	(SELECT count(*) AS n, count(*) FILTER (WHERE next_run_at <= now()) AS due FROM notifications WHERE next_run_at IS NOT NULL AND ended_as IS NULL) n
	LEFT JOIN (
		SELECT extract(epoch FROM until - now()) AS seconds, reason FROM waits WHERE until > now() ORDER BY until DESC, task_id LIMIT 1
	) w ON true`

// left returns the work that has not ended.
func left(ctx context.Context, conn *pgx.Conn) (l leftOver, err error) {
	var seconds float64
	err = conn.QueryRow(ctx, countLeftOver).Scan(&l.tasks, &l.batches, &l.jobs, &l.notifications, &l.done, &l.doable, &seconds, &l.reason)
	l.latest = time.Duration(seconds * float64(time.Second))
	return l, err
}

// quietenLimit is the maximum time until all work has ended. It ends a livelock: if a task is claimed and released again and again, it seems to progress.
const quietenLimit = 5 * time.Minute

// quieten confirms batches, and lets well-behaved senders report all remaining tasks. It returns a description of the wait, and an error if nothing progressed
// for load.StillLimit, or if work remains after quietenLimit.
func (sc *Scene) quieten(ctx context.Context) (string, error) {
	began := time.Now()
	var still load.Standstill
	var last, longest leftOver
	var stuck error
	sc.Load.Drain(ctx, func() bool {
		var found leftOver
		err := sc.stack.Query(ctx, func(conn *pgx.Conn) (err error) {
			found, err = left(ctx, conn)
			return err
		})
		if err == nil && found.batches > 0 {
			sc.lists.GoOn(ctx, sc.stack)
		}
		isOver := err == nil && found.tasks+found.batches+found.jobs+found.notifications == 0
		if err == nil {
			last = found
		}
		if found.latest > longest.latest {
			longest = found
		}
		if since := still.See(last.done, err != nil || found.doable != ""); !isOver && since > load.StillLimit {
			stuck = errors.Join(fmt.Errorf("no progress for %s; remaining are %s: %s", since.Round(time.Second), last, last.doable), err)
		}
		if !isOver && time.Since(began) > quietenLimit {
			stuck = errors.Join(fmt.Errorf("not empty after %s; remaining are %s: %s", quietenLimit, last, last.doable), err)
		}
		return isOver || stuck != nil
	})
	return fmt.Sprintf("empty after %.1f s, at most %.1f s without progress; the longest legitimate wait was %.1f s (%s)", time.Since(began).Seconds(),
		still.Longest.Seconds(), longest.latest.Seconds(), longest.reason), stuck
}
