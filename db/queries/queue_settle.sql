-- How a lease or a wait ends: reports, releases, leases that ran out, cancellation, expiry, receipts. See the head of queue_claim.sql.

-- TaskReport ends leases (S0.4, S0.11), each of another task, in the order of task_ids. A report changes its task when its
-- app holds it now, or, for a SUCCESS, when its app was the last to hold it, its lease ran out and nobody was given it since.
-- lease_until decides whether a FAILED is in time, also where no sweep has taken the lease back yet.
-- Anything else only writes the log: ignored where the app once held the task (a repeat, or too late), refused where it
-- never did. The log names the lease that was ended, also where the report did not. A lease_id of 0 is none.
-- A task that is not there gives no row. What a provider calls the message is kept also where the report came too late: it
-- may tell of it.
-- name: TaskReport :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id,
        unnest(@app_ids::text[]) AS app_id,
        nullif(unnest(@lease_ids::bigint[]), 0) AS lease_id,
        unnest(@statuses::smallint[]) AS status,
        unnest(@wants_retries::boolean[]) AS wants_retry,
        make_interval(secs => unnest(@retry_delay_seconds::float8[])) AS retry_delay,
        nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message,
        unnest(@request_data::jsonb[]) AS request_data,
        unnest(@max_retry_counts::smallint[]) AS max_retry_count,
        nullif(left(unnest(@provider_nos::text[]), 200), '') AS provider_no
),
held AS MATERIALIZED (
    SELECT i.*, t.recipient, t.rendering_id, t.retry_count, t.status AS task_status, t.processing_app_id, t.lease_id AS held_lease_id, t.lease_until,
        t.updated_at AS held_since, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE task_id = i.task_id FOR UPDATE) t
),
judged AS (
    SELECT h.*,
        (h.lease_id IS NULL OR h.lease_id = h.held_lease_id) AND (
            (h.task_status = 1 AND h.processing_app_id = h.app_id AND (h.status = 2 OR h.lease_until > h.at))
            OR (h.task_status = 0 AND h.status = 2 AND (SELECT s.app_id FROM send_logs s WHERE s.id = h.held_lease_id) = h.app_id)
        ) AS settles
    FROM held h
),
verdict AS MATERIALIZED (
    SELECT h.*,
        CASE
            WHEN h.settles THEN CASE
                WHEN h.status = 2 THEN 'success'
                WHEN NOT h.wants_retry THEN 'failed'
                WHEN h.retry_count < h.max_retry_count THEN 'retry'
                ELSE 'exhausted'
            END
            WHEN (
                SELECT true FROM send_logs s
                WHERE s.task_id = h.task_id AND s.app_id = h.app_id AND (h.lease_id IS NULL OR s.id = h.lease_id)
                LIMIT 1
            ) THEN 'ignored'
            ELSE 'refused'
        END AS effect
    FROM judged h
),
settled AS (
    UPDATE tasks t
    SET status = CASE v.effect WHEN 'success' THEN 2 WHEN 'retry' THEN 0 ELSE 3 END,
        retry_count = CASE v.effect WHEN 'retry' THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE v.effect WHEN 'retry' THEN v.at + v.retry_delay ELSE t.due_at END,
        lane = CASE v.effect WHEN 'retry' THEN NULL ELSE t.lane END,
        (pool_id, rank) = (
            SELECT p.id, CASE WHEN v.effect = 'retry' AND (t.lane / 32 <> t.priority OR p.id <> t.pool_id) THEN NULL ELSE t.rank END
            FROM (SELECT CASE v.effect WHEN 'retry' THEN pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) ELSE t.pool_id END AS id) p
        ),
        failed_app_id = CASE v.effect WHEN 'success' THEN t.failed_app_id ELSE v.app_id END,
        lease_id = CASE v.effect WHEN 'retry' THEN NULL ELSE t.lease_id END,
        reported_at = CASE v.effect WHEN 'retry' THEN t.reported_at ELSE v.at END,
        sent_at = CASE v.effect WHEN 'success' THEN v.at ELSE t.sent_at END,
        processing_app_id = CASE WHEN v.wants_retry THEN NULL ELSE v.app_id END,
        lease_until = NULL,
        result = left(
            CASE v.effect WHEN 'exhausted' THEN '超过最大重试次数: ' ELSE '' END
            || coalesce(v.error_message, CASE v.effect WHEN 'success' THEN '发送成功' ELSE '发送失败' END),
            500
        ),
        updated_at = v.at
    FROM verdict v
    WHERE t.task_id = v.task_id AND v.settles
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, status, effect, error_message, request_data)
    SELECT
        v.task_id, v.app_id, coalesce(v.lease_id, CASE WHEN v.settles THEN v.held_lease_id END),
        'reported', v.at, v.status, v.effect, v.error_message, v.request_data
    FROM verdict v
),
counted AS (
    INSERT INTO sender_changes (sender_no, succeeded, failed, response_ms, at)
    SELECT v.app_id, count(*) FILTER (WHERE v.status = 2), count(*) FILTER (WHERE v.status = 3),
        sum(greatest(0, extract(epoch FROM v.at - v.held_since) * 1000))::bigint, max(v.at)
    FROM verdict v
    WHERE v.settles
    GROUP BY v.app_id
),
accepted AS (
    INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no)
    SELECT v.task_id, coalesce(v.lease_id, v.held_lease_id), v.app_id, v.recipient, v.provider_no
    FROM verdict v
    WHERE v.provider_no IS NOT NULL AND v.effect <> 'refused'
)
SELECT v.task_id::text AS task_id, v.effect::text AS effect, (v.rendering_id IS NOT NULL)::boolean AS is_told
FROM verdict v
ORDER BY v.task_id;

-- TaskRelease gives leases of app_id back whose messages the provider cannot have got: each task is PENDING again with the attempts that
-- it had, and names them. Either it was not tried (is_tried is false), and keeps its place in the queue, or the sender was in trouble when
-- it was tried. Such a task keeps its place for once, for the other senders of its route; after that it waits for longer and longer, so
-- that one message which brings its sender into trouble does not stand before all others. It keeps its rank in any case.
-- A lease that ran out is the sweep's. task_ids are in ascending order. A task whose routes have changed waits where they are now, and
-- is queued anew: here and below, a rank means nothing in another pool.
-- name: TaskRelease :many
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id, unnest(@are_tried::boolean[]) AS is_tried,
        unnest(@reasons::text[]) AS reason, @delay::interval AS delay, @delay_most::interval AS delay_most
),
held AS MATERIALIZED (
    SELECT i.*, t.status, t.processing_app_id, t.lease_id AS held_lease_id, t.lease_until, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE task_id = i.task_id FOR UPDATE) t
),
given AS MATERIALIZED (
    SELECT h.*, CASE WHEN h.is_tried AND n.troubles > 0
        THEN h.at + least(h.delay_most, h.delay * power(2, n.troubles - 1)) END AS again_at
    FROM held h
    CROSS JOIN LATERAL (
        SELECT count(*) AS troubles
        FROM (SELECT FROM report_logs r WHERE r.task_id = h.task_id AND r.effect = 'troubled' LIMIT 20) r
    ) n
    WHERE h.status = 1 AND h.processing_app_id = @app_id::text AND h.held_lease_id = h.lease_id AND h.lease_until > h.at
),
put AS (
    UPDATE tasks t
    SET status = 0, processing_app_id = NULL, lease_until = NULL, lease_id = NULL,
        failed_app_id = CASE WHEN g.is_tried THEN @app_id::text ELSE t.failed_app_id END,
        -- A rank means nothing in another pool, or, if the task waits anew, in another priority.
        (pool_id, lane, rank) = (
            SELECT p.id, CASE WHEN g.again_at IS NULL AND p.id = t.pool_id THEN t.lane END,
                CASE WHEN p.id = t.pool_id
                    AND (g.again_at IS NULL OR coalesce(t.lane, 32 * t.priority) / 32 = t.priority) THEN t.rank END
            FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) p
        ),
        due_at = coalesce(g.again_at, CASE WHEN g.is_tried THEN g.at END, t.due_at), -- since when others may have it
        updated_at = g.at
    FROM given g
    WHERE t.task_id = g.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, effect, error_message)
    SELECT g.task_id, @app_id::text, g.lease_id, 'released', g.at, CASE WHEN g.is_tried THEN 'troubled' ELSE 'untried' END,
        nullif(left(g.reason, 500), '')
    FROM given g
)
SELECT g.lease_id::bigint AS lease_id FROM given g ORDER BY g.task_id;

-- SenderLedgerList shows the changes of a balance; those that the attempts of another company made are left out for company_id.
-- SenderRefund gives the segments of leases back that reached nobody: to the balance, with a row of the ledger for each that was
-- charged, and to the limits of the windows in which they were taken, while those are counted. Who calls it has just ended these
-- leases in the same transaction, which nobody can do twice; the index of the ledger holds in any case. The state of a sender is
-- locked after tasks, and several in one order, as everywhere.
-- name: SenderRefund :execrows
WITH leases AS MATERIALIZED (
    SELECT l.id AS lease_id, l.segments, l.created_at, s.id AS sender_id, s.time_zone
    FROM send_logs l
    JOIN senders s ON s.sender_no = l.app_id
    WHERE l.id = ANY (@lease_ids::bigint[]) AND s.is_paced
),
states AS MATERIALIZED (
    SELECT st.*
    FROM sender_states st
    WHERE st.sender_id IN (SELECT leases.sender_id FROM leases)
    ORDER BY st.sender_id
    FOR UPDATE
),
booked AS (
    INSERT INTO sender_ledger (sender_id, change, balance, lease_id, remark, created_at)
    SELECT c.sender_id, -c.change, st.balance - sum(c.change) OVER (PARTITION BY c.sender_id ORDER BY c.lease_id), c.lease_id, @remark::text,
        clock_timestamp()
    FROM leases l
    JOIN sender_ledger c ON c.lease_id = l.lease_id AND c.change < 0
    JOIN states st ON st.sender_id = c.sender_id
    ORDER BY c.sender_id, c.lease_id
    RETURNING sender_id, change
),
given AS MATERIALIZED (
    SELECT st.sender_id, (SELECT coalesce(sum(b.change), 0) FROM booked b WHERE b.sender_id = st.sender_id)::bigint AS balance,
        w.of_minute, w.of_hour, w.of_day, w.of_month
    FROM states st
    CROSS JOIN LATERAL (
        SELECT
            sum(l.segments) FILTER (WHERE date_trunc('minute', l.created_at, l.time_zone) = date_trunc('minute', st.last_taken_at, l.time_zone)) AS of_minute,
            sum(l.segments) FILTER (WHERE date_trunc('hour', l.created_at, l.time_zone) = date_trunc('hour', st.last_taken_at, l.time_zone)) AS of_hour,
            sum(l.segments) FILTER (WHERE date_trunc('day', l.created_at, l.time_zone) = date_trunc('day', st.last_taken_at, l.time_zone)) AS of_day,
            sum(l.segments) FILTER (WHERE date_trunc('month', l.created_at, l.time_zone) = date_trunc('month', st.last_taken_at, l.time_zone)) AS of_month
        FROM leases l
        WHERE l.sender_id = st.sender_id
    ) w
)
UPDATE sender_states st
SET balance = st.balance + g.balance,
    minute_used = greatest(0, st.minute_used - coalesce(g.of_minute, 0)), hour_used = greatest(0, st.hour_used - coalesce(g.of_hour, 0)),
    day_used = greatest(0, st.day_used - coalesce(g.of_day, 0)), month_used = greatest(0, st.month_used - coalesce(g.of_month, 0))
FROM given g
WHERE st.sender_id = g.sender_id;

-- TaskExpired looks for up to batch_size leases that ran out, the oldest first, and passes over those that failed.
-- name: TaskExpired :many
SELECT t.task_id
FROM tasks t
WHERE t.status = 1 AND t.lease_until <= now() AND t.task_id <> ALL (@failed::text[])
ORDER BY t.lease_until
LIMIT @batch_size::integer;

-- TaskRecover takes back those of task_ids whose leases have run out (S0.12). What TaskExpired saw may be old: a report
-- that committed since has changed the row, and the row is passed over; a report that comes second finds no lease.
-- Nobody knows whether the message of such a lease went out: on_unclear of the task, else of its sender, says whether it is tried again.
-- SKIP LOCKED: a sweep never waits for a report. lease_id stays, so that a late SUCCESS of this very lease can still settle
-- the task.
-- name: TaskRecover :one
WITH expired AS MATERIALIZED (
    SELECT t.task_id, t.processing_app_id, t.lease_id, t.rendering_id,
        t.retry_count < coalesce((
            SELECT cardinality(c.retry_minutes)
            FROM senders s
            JOIN channels c ON c.id = s.channel_id
            WHERE s.sender_no = t.processing_app_id AND s.kind <> 'app'
        ), @max_retry_count::smallint) AND NOT u.is_last AS again,
        u.is_last
    FROM tasks t
    CROSS JOIN LATERAL (
        SELECT coalesce(t.on_unclear, (SELECT s.on_unclear FROM senders s WHERE s.sender_no = t.processing_app_id), 'retry') = 'fail' AS is_last
    ) u
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.status = 1 AND t.lease_until <= now()
    FOR UPDATE OF t SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM expired) e
),
recovered AS (
    UPDATE tasks t
    SET status = CASE WHEN e.again THEN 0 ELSE 3 END,
        retry_count = CASE WHEN e.again THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE WHEN e.again THEN (SELECT moment.at FROM moment) ELSE t.due_at END,
        lane = CASE WHEN e.again THEN NULL ELSE t.lane END,
        (pool_id, rank) = (
            SELECT p.id, CASE WHEN e.again AND (t.lane / 32 <> t.priority OR p.id <> t.pool_id) THEN NULL ELSE t.rank END
            FROM (SELECT CASE WHEN e.again THEN pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) ELSE t.pool_id END AS id) p
        ),
        failed_app_id = t.processing_app_id,
        reported_at = CASE WHEN e.again THEN t.reported_at ELSE (SELECT moment.at FROM moment) END,
        result = CASE WHEN e.again THEN '处理超时，自动重试' WHEN e.is_last THEN '处理超时，结果不明，不再重发' ELSE '处理超时，超过最大重试次数' END,
        processing_app_id = NULL,
        lease_until = NULL,
        updated_at = (SELECT moment.at FROM moment)
    FROM expired e
    WHERE t.task_id = e.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, effect)
    SELECT
        e.task_id, e.processing_app_id, e.lease_id, 'recovered', (SELECT moment.at FROM moment),
        CASE WHEN e.again THEN 'retry' WHEN e.is_last THEN 'unclear' ELSE 'exhausted' END
    FROM expired e
)
SELECT
    count(*) FILTER (WHERE e.again) AS retried,
    count(*) FILTER (WHERE NOT e.again AND NOT e.is_last) AS exhausted,
    count(*) FILTER (WHERE e.is_last) AS unclear,
    count(e.rendering_id) FILTER (WHERE NOT e.again) AS unreached
FROM expired e;

-- TaskCancel ends a PENDING task. No row: it does not exist or is not PENDING.
-- name: TaskCancel :one
WITH cancelled AS (
    UPDATE tasks t
    SET status = 4, updated_at = clock_timestamp()
    WHERE t.task_id = @task_id AND t.status = 0
        AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
        AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
    RETURNING t.*
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect, request_data)
    SELECT c.task_id, 'cancelled', c.updated_at, 'cancelled', @request_data FROM cancelled c
)
SELECT c.* FROM cancelled c;

-- TaskWithdraw ends what waits of notifications and tells how much that was. What a sender holds it may still send, but it is not
-- tried again: its time is over.
-- name: TaskWithdraw :one
WITH open AS MATERIALIZED (
    SELECT t.task_id, t.status
    FROM renderings r
    JOIN tasks t ON t.rendering_id = r.id
    WHERE r.notification_id = ANY (@notification_ids::bigint[]) AND t.status IN (0, 1)
    ORDER BY t.task_id
    FOR UPDATE OF t
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM open) o
),
ended AS (
    UPDATE tasks t
    SET status = CASE o.status WHEN 0 THEN 4 ELSE t.status END,
        expires_at = CASE o.status WHEN 0 THEN t.expires_at ELSE (SELECT moment.at FROM moment) END,
        updated_at = (SELECT moment.at FROM moment)
    FROM open o
    WHERE t.task_id = o.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect, request_data)
    SELECT o.task_id, 'cancelled', (SELECT moment.at FROM moment), 'cancelled', @request_data FROM open o WHERE o.status = 0
)
SELECT count(*) FROM open WHERE open.status = 0;

-- TaskExpire ends up to batch_size PENDING tasks that should no longer go out, and tells how many, and how many of notifications.
-- name: TaskExpire :one
WITH stale AS MATERIALIZED (
    SELECT t.task_id, t.rendering_id
    FROM tasks t
    WHERE t.status = 0 AND t.expires_at IS NOT NULL AND t.expires_at <= now()
    ORDER BY t.expires_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM stale) s
),
ended AS (
    UPDATE tasks t
    SET status = 3, result = '已过期', reported_at = (SELECT moment.at FROM moment), updated_at = (SELECT moment.at FROM moment)
    FROM stale s
    WHERE t.task_id = s.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect)
    SELECT s.task_id, 'expired', (SELECT moment.at FROM moment), 'expired' FROM stale s
)
SELECT count(*) AS expired, count(s.rendering_id) AS unreached FROM stale s;

-- TaskReceipt tells tasks what became of their messages. What comes twice, or in another order, comes to the same: that a message was
-- delivered stands above that it was not.
-- name: TaskReceipt :exec
WITH told AS MATERIALIZED (
    SELECT i.task_id, min(i.state) AS state, (array_agg(i.code ORDER BY i.state, i.place))[1] AS code, min(i.sender_no) AS sender_no
    FROM (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code,
            unnest(@sender_nos::text[]) AS sender_no, generate_series(1, cardinality(@task_ids::text[])) AS place
    ) i
    GROUP BY i.task_id
),
held AS MATERIALIZED (
    SELECT o.*
    FROM told o
    JOIN tasks t ON t.task_id = o.task_id
    WHERE t.delivery IS NULL OR t.delivery > o.state
    ORDER BY o.task_id
    FOR UPDATE OF t
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM held) h
),
put AS (
    UPDATE tasks t
    SET delivery = h.state, delivery_code = nullif(h.code, ''),
        delivered_at = CASE h.state WHEN 1 THEN (SELECT moment.at FROM moment) END
    FROM held h
    WHERE t.task_id = h.task_id
)
INSERT INTO report_logs (task_id, app_id, event, created_at, effect, error_message)
SELECT h.task_id, h.sender_no, 'receipt', (SELECT moment.at FROM moment), CASE h.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
    CASE h.state WHEN 2 THEN nullif(h.code, '') END
FROM held h;
