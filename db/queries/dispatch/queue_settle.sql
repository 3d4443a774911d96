-- How a lease ends: reports, releases, expired leases. And how a waiting task expires. The rules at the head of queue_claim.sql hold here
-- too.

-- TaskReport ends leases (S0.4, S0.11). task_ids are distinct and ascending, which is the order of the locks. A report settles its task if
-- its app holds the lease now; a SUCCESS also if its app held the last lease, that lease expired and nobody was given the task since. A
-- FAILED is in time until lease_until, whether or not the sweep has taken the lease back.
--
-- Every other report only writes its log row: effect ignored if the app once held the task (a repeat, or too late), refused if it never
-- did. A report whose lease_id is NULL is about whichever lease its app holds; the log row names the lease that was ended. An unknown task
-- gives no row. The provider's number of the message is stored even for a late report: a receipt may name it.
-- name: TaskReport :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id, unnest(@sender_nos::text[]) AS app_id,
        unnest(@lease_ids::int8[]) AS lease_id, -- with NULLs, see sqlc.yaml
        unnest(@statuses::smallint[]) AS status, unnest(@wants_retries::boolean[]) AS wants_retry,
        make_interval(secs => unnest(@retry_delay_seconds::double precision[])) AS retry_delay,
        nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message,
        unnest(@request_data::jsonb[]) AS request_data,
        unnest(@max_retry_counts::smallint[]) AS max_retry_count,
        nullif(left(unnest(@provider_nos::text[]), 200), '') AS provider_no
),
held AS MATERIALIZED (
    SELECT i.*, t.recipient, t.rendering_id, t.retry_count, t.status AS task_status, t.processing_app_id, t.lease_id AS held_lease_id,
        t.lease_until, t.updated_at AS held_since, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT * FROM tasks WHERE task_id = i.task_id FOR UPDATE) t
),
judged AS (
    SELECT h.*,
        (h.lease_id IS NULL OR h.lease_id = h.held_lease_id) AND (
            -- The task is PROCESSING and held by the app; a SUCCESS (2) counts even after lease_until.
            (h.task_status = 1 AND h.processing_app_id = h.app_id AND (h.status = 2 OR h.lease_until > h.at))
            -- The task is PENDING again after the lease of the app expired.
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
                WHERE s.task_id = h.task_id AND s.app_id = h.app_id AND (h.lease_id IS NULL OR s.id = h.lease_id) LIMIT 1
            ) THEN 'ignored'
            ELSE 'refused'
        END AS effect
    FROM judged h
),
settled AS (
    UPDATE tasks t
    SET status = CASE v.effect WHEN 'success' THEN 2 WHEN 'retry' THEN 0 ELSE 3 END, -- SUCCESS, PENDING, FAILED
        retry_count = CASE v.effect WHEN 'retry' THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE v.effect WHEN 'retry' THEN v.at + v.retry_delay ELSE t.due_at END,
        lane = CASE v.effect WHEN 'retry' THEN NULL ELSE t.lane END,
        -- A retry waits in the pool that serves it now. Its rank is valid only in the pool and priority (lane / 32) in which it was queued.
        (pool_id, rank) = (
            SELECT p.id, CASE WHEN v.effect = 'retry' AND (t.lane / 32 <> t.priority OR p.id <> t.pool_id) THEN NULL ELSE t.rank END
            FROM (
                SELECT CASE v.effect WHEN 'retry' THEN pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no)
                    ELSE t.pool_id END AS id
            ) p
        ),
        failed_app_id = CASE v.effect WHEN 'success' THEN t.failed_app_id ELSE v.app_id END,
        lease_id = CASE v.effect WHEN 'retry' THEN NULL ELSE t.lease_id END,
        reported_at = CASE v.effect WHEN 'retry' THEN t.reported_at ELSE v.at END,
        sent_at = CASE v.effect WHEN 'success' THEN v.at ELSE t.sent_at END,
        processing_app_id = CASE WHEN v.wants_retry THEN NULL ELSE v.app_id END,
        lease_until = NULL,
        result = left(
            CASE v.effect WHEN 'exhausted' THEN @gave_up::text ELSE '' END
            || coalesce(v.error_message, CASE v.effect WHEN 'success' THEN @sent::text ELSE @not_sent::text END),
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
    SELECT v.app_id, count(*) FILTER (WHERE v.status = 2), count(*) FILTER (WHERE v.status = 3), -- SUCCESS, FAILED
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
SELECT v.task_id::text AS task_id, v.effect::text AS effect, (v.rendering_id IS NOT NULL)::boolean AS has_rendering
FROM verdict v
ORDER BY v.task_id;

-- TaskRelease gives back leases of a sender whose messages the provider cannot have received, and returns those that were given back. Each
-- task is PENDING again with the attempts that it had. A lease that was not tried (is_tried is false) keeps its lane and rank. A lease
-- that was tried while the sender was in trouble keeps them the first time, for the other senders of the pool. After that the task waits
-- for delay, doubled with each further trouble up to delay_most, so that a message that brings its sender into trouble does not block all
-- others; it keeps its rank.
--
-- An expired lease is left to the sweep. task_ids are in ascending order. A task whose routes changed moves to the pool that serves it
-- now, and is queued anew: a rank is valid only in its pool and priority.
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
returned AS MATERIALIZED (
    SELECT h.*, CASE WHEN h.is_tried AND n.troubles > 0
        THEN h.at + least(h.delay_most, h.delay * power(2, n.troubles - 1)) END AS again_at -- null: it keeps its lane
    FROM held h
    CROSS JOIN LATERAL (
        SELECT count(*) AS troubles
        FROM (SELECT FROM report_logs r WHERE r.task_id = h.task_id AND r.effect = 'troubled' LIMIT 20) r -- 20 exceed delay_most
    ) n
    WHERE h.status = 1 AND h.processing_app_id = @sender_no::text AND h.held_lease_id = h.lease_id AND h.lease_until > h.at -- PROCESSING
),
requeued AS (
    UPDATE tasks t
    SET status = 0, processing_app_id = NULL, lease_until = NULL, lease_id = NULL, -- PENDING
        failed_app_id = CASE WHEN g.is_tried THEN @sender_no::text ELSE t.failed_app_id END,
        -- A rank is valid only in its pool and, if the task is queued anew, in its priority (lane / 32).
        (pool_id, lane, rank) = (
            SELECT p.id, CASE WHEN g.again_at IS NULL AND p.id = t.pool_id THEN t.lane END,
                CASE WHEN p.id = t.pool_id
                    AND (g.again_at IS NULL OR coalesce(t.lane, 32 * t.priority) / 32 = t.priority) THEN t.rank END
            FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) p
        ),
        due_at = coalesce(g.again_at, CASE WHEN g.is_tried THEN g.at END, t.due_at), -- from then on others may have it
        updated_at = g.at
    FROM returned g
    WHERE t.task_id = g.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, lease_id, event, created_at, effect, error_message)
    SELECT g.task_id, @sender_no::text, g.lease_id, 'released', g.at, CASE WHEN g.is_tried THEN 'troubled' ELSE 'untried' END,
        nullif(left(g.reason, 500), '')
    FROM returned g
)
SELECT g.lease_id::bigint AS lease_id FROM returned g ORDER BY g.task_id;

-- SenderRefund gives back the segments of leases that reached nobody: to the balance, with a ledger row for each charged lease, and to the
-- limits of the minute, hour, day and month in which they were taken, as long as these are still counted. The caller ended these leases in
-- the same transaction, which can happen only once; the unique index of the ledger enforces that too. Rows of sender_states are locked
-- after tasks and in the order of their ids, as everywhere.
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
    SELECT c.sender_id, -c.change, st.balance - sum(c.change) OVER (PARTITION BY c.sender_id ORDER BY c.lease_id), c.lease_id,
        @remark::text, clock_timestamp()
    FROM leases l
    JOIN sender_ledger c ON c.lease_id = l.lease_id AND c.change < 0
    JOIN states st ON st.sender_id = c.sender_id
    ORDER BY c.sender_id, c.lease_id
    RETURNING sender_id, change
),
refunds AS MATERIALIZED (
    SELECT st.sender_id, (SELECT coalesce(sum(b.change), 0) FROM booked b WHERE b.sender_id = st.sender_id)::bigint AS balance,
        w.of_minute, w.of_hour, w.of_day, w.of_month
    FROM states st
    CROSS JOIN LATERAL (
        SELECT -- the counters are those of the minute, hour, day and month of last_taken_at
            sum(l.segments) FILTER (
                WHERE date_trunc('minute', l.created_at, l.time_zone) = date_trunc('minute', st.last_taken_at, l.time_zone)
            ) AS of_minute,
            sum(l.segments) FILTER (
                WHERE date_trunc('hour', l.created_at, l.time_zone) = date_trunc('hour', st.last_taken_at, l.time_zone)
            ) AS of_hour,
            sum(l.segments) FILTER (
                WHERE date_trunc('day', l.created_at, l.time_zone) = date_trunc('day', st.last_taken_at, l.time_zone)
            ) AS of_day,
            sum(l.segments) FILTER (
                WHERE date_trunc('month', l.created_at, l.time_zone) = date_trunc('month', st.last_taken_at, l.time_zone)
            ) AS of_month
        FROM leases l
        WHERE l.sender_id = st.sender_id
    ) w
)
UPDATE sender_states st
SET balance = st.balance + g.balance,
    minute_used = greatest(0, st.minute_used - coalesce(g.of_minute, 0)), hour_used = greatest(0, st.hour_used - coalesce(g.of_hour, 0)),
    day_used = greatest(0, st.day_used - coalesce(g.of_day, 0)), month_used = greatest(0, st.month_used - coalesce(g.of_month, 0))
FROM refunds g
WHERE st.sender_id = g.sender_id;

-- TaskExpired returns up to batch_size tasks whose leases have expired, the oldest first, without those of failed.
-- name: TaskExpired :many
SELECT t.task_id
FROM tasks t
WHERE t.status = 1 AND t.lease_until <= now() AND t.task_id <> ALL (@failed::text[]) -- PROCESSING
ORDER BY t.lease_until
LIMIT @batch_size::integer;

-- TaskRecover takes back the expired leases of task_ids (S0.12). The ids may be old: a task that a report has settled since is left alone,
-- and a report that comes second finds no lease. It is unknown whether the message of such a lease was sent: on_unclear of the task, else
-- of its sender, decides whether it is sent again. SKIP LOCKED: a sweep never waits for a report. lease_id stays, so that a late SUCCESS
-- of this lease can still settle the task.
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
        SELECT coalesce(
            t.on_unclear, (SELECT s.on_unclear FROM senders s WHERE s.sender_no = t.processing_app_id), 'retry'
        ) = 'fail' AS is_last
    ) u
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.status = 1 AND t.lease_until <= now() -- PROCESSING
    FOR UPDATE OF t SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM expired) e -- depends on expired, so it is read after the rows are locked
),
recovered AS (
    UPDATE tasks t
    SET status = CASE WHEN e.again THEN 0 ELSE 3 END, -- PENDING, FAILED
        retry_count = CASE WHEN e.again THEN t.retry_count + 1 ELSE t.retry_count END,
        due_at = CASE WHEN e.again THEN (SELECT moment.at FROM moment) ELSE t.due_at END,
        lane = CASE WHEN e.again THEN NULL ELSE t.lane END,
        -- A retry waits in the pool that serves it now. Its rank is valid only in the pool and priority (lane / 32) in which it was queued.
        (pool_id, rank) = (
            SELECT p.id, CASE WHEN e.again AND (t.lane / 32 <> t.priority OR p.id <> t.pool_id) THEN NULL ELSE t.rank END
            FROM (
                SELECT CASE WHEN e.again THEN pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) ELSE t.pool_id END AS id
            ) p
        ),
        failed_app_id = t.processing_app_id,
        reported_at = CASE WHEN e.again THEN t.reported_at ELSE (SELECT moment.at FROM moment) END,
        result = CASE WHEN e.again THEN @timed_out::text WHEN e.is_last THEN @unclear::text
            ELSE @timed_out_last::text END,
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

-- TaskExpire fails up to batch_size PENDING tasks that have expired. It returns how many there were, and how many of them belong to a
-- notification or a send-once message (unreached).
-- name: TaskExpire :one
WITH stale AS MATERIALIZED (
    SELECT t.task_id, t.rendering_id
    FROM tasks t
    WHERE t.status = 0 AND t.expires_at IS NOT NULL AND t.expires_at <= now() -- PENDING; IS NOT NULL is the predicate of tasks_expiry_idx
    ORDER BY t.expires_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM stale) s -- depends on stale, so it is read after the rows are locked
),
ended AS (
    UPDATE tasks t
    SET status = 3, -- FAILED
        result = @result::text, reported_at = (SELECT moment.at FROM moment), updated_at = (SELECT moment.at FROM moment)
    FROM stale s
    WHERE t.task_id = s.task_id
),
logged AS (
    INSERT INTO report_logs (task_id, event, created_at, effect)
    SELECT s.task_id, 'expired', (SELECT moment.at FROM moment), 'expired' FROM stale s
)
SELECT count(*) AS expired, count(s.rendering_id) AS unreached FROM stale s;
