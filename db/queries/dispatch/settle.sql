-- Statements that start a lease, end a lease, or expire a waiting task. A lease ends by a report, by a release or when it expires. The rules at the beginning
-- of dispatch/claim.sql also apply here.

-- TaskStart starts leases of a sender: the sender is about to send their messages. A start extends the lease once, to the time at which it would expire if the
-- sender had no start_seconds. A lease is never extended beyond the expiry of its task.
--
-- The statement returns the given leases that the sender holds now, with their expiry times. It also returns leases that are already started, and leases that
-- need no start. It does not return an expired lease, even before the sweep takes the lease back. It does not return a lease whose task has expired, for
-- example after a withdrawal. If a lease is returned, the sender can send its message, because no other sender has the task.
--
-- task_ids are in ascending order. A change of lease_seconds of the sender applies to later starts. A start never makes a lease shorter.
-- name: TaskStart :many
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id
),
held AS MATERIALIZED (
    SELECT i.task_id, i.lease_id, t.processing_app_id, t.lease_id AS held_lease_id, t.updated_at AS leased_at, t.lease_until, t.start_until,
        t.expires_at, least(t.expires_at, CASE WHEN t.quiet_from > clock_timestamp() THEN t.quiet_from END) AS send_before, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT * FROM queue WHERE task_id = i.task_id FOR UPDATE) t
),
live AS MATERIALIZED (
    SELECT h.task_id, h.lease_id, coalesce(h.start_until = h.lease_until, false) AS is_unstarted,
        CASE WHEN h.start_until = h.lease_until
            THEN least(h.send_before, greatest(h.lease_until, h.leased_at + make_interval(secs => coalesce(
                (SELECT s.lease_seconds FROM senders s WHERE s.sender_no = @sender_no::text)::double precision,
                extract(epoch FROM @lease::interval)
            )::double precision)))
            ELSE h.lease_until
        END AS lease_until
    FROM held h
    WHERE h.processing_app_id = @sender_no::text AND h.held_lease_id = h.lease_id AND h.lease_until > h.at
        AND (h.expires_at IS NULL OR h.expires_at > h.at)
),
started AS (
    UPDATE queue t
    SET start_until = NULL, lease_until = (SELECT max(l.lease_until) FROM live l WHERE l.task_id = t.task_id) -- the input can repeat a lease
    WHERE t.task_id = ANY (ARRAY(SELECT l.task_id FROM live l WHERE l.is_unstarted))
)
SELECT l.task_id::text AS task_id, l.lease_id::bigint AS lease_id, l.lease_until::timestamptz AS lease_until
FROM live l
ORDER BY l.task_id, l.lease_id;

-- TaskRenew extends leases of a sender that it holds now, to `lease` from now: the provider has parts of their messages, or the messages wait behind them. A lease is
-- extended even beyond the expiry of its task, because the other parts must follow. task_ids are in ascending order.
-- name: TaskRenew :exec
WITH held AS MATERIALIZED (
    SELECT t.task_id
    FROM (SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id) i
    CROSS JOIN LATERAL (SELECT q.*, send_before(q) AS send_before FROM queue q WHERE q.task_id = i.task_id FOR UPDATE) t
    WHERE t.processing_app_id = @sender_no::text AND t.lease_id = i.lease_id
        AND (t.lease_until > clock_timestamp() OR t.send_before <= clock_timestamp()) -- as in TaskReport: no other sender can have the task
)
UPDATE queue t
SET start_until = NULL, lease_until = greatest(t.lease_until, clock_timestamp() + @lease::interval)
WHERE t.task_id = ANY (ARRAY(SELECT h.task_id FROM held h)) AND t.lease_until IS NOT NULL;

-- TaskReport ends leases (S0.4, S0.11). It returns the reports that ended a lease; ReportsLate handles the other reports. task_ids are distinct and ascending,
-- so locks are taken in this order.
--
-- A report with status SUCCESS or FAILED ends the lease that its app holds now. A FAILED is accepted only until lease_until, even if the sweep takes the lease
-- back later. If the message must not be sent any more (send_before), a FAILED is accepted until the sweep takes the lease back, because no other sender can
-- receive the task. A SUCCESS is also accepted after the sweep took the lease back, if the app held the last lease and no sender has claimed the task since then.
--
-- lease_id NULL: the report ends the lease that its app holds, whatever its id. The log row contains the id of the ended lease. provider_no, the provider's
-- number of the message, is stored, because a receipt can refer to this number. It has a line for each part of a long message.
-- in_part: the provider took only these parts.
--
-- retry_delay_seconds: a retry that would be due only after the task has expired is due when half of the remaining time has passed.
--
-- is_recovery: the circuit breaker of the app is not closed, and the app sent this message. The caller then closes the breaker in the same transaction. For
-- driven senders, package push decides this, because a call that began before the breaker opened can succeed.
-- name: TaskReport :many
WITH input AS MATERIALIZED (
    SELECT
        unnest(@task_ids::text[]) AS task_id, unnest(@sender_nos::text[]) AS app_id, unnest(@in_parts::boolean[]) AS in_part,
        unnest(@lease_ids::int8[]) AS lease_id, -- can contain NULL, see sqlc.yaml
        unnest(@statuses::smallint[]) AS status, unnest(@wants_retries::boolean[]) AS wants_retry, unnest(@max_retry_counts::smallint[]) AS max_retry_count,
        make_interval(secs => unnest(@retry_delay_seconds::double precision[])) AS retry_delay, unnest(@request_data::jsonb[]) AS request_data,
        nullif(left(unnest(@error_messages::text[]), 500), '') AS error_message, nullif(unnest(@provider_nos::text[]), '') AS provider_no
),
held AS MATERIALIZED (
    SELECT i.task_id, i.app_id, i.lease_id AS named_lease_id, i.status, i.wants_retry, i.error_message, i.request_data, i.max_retry_count, i.provider_no, i.in_part,
        CASE WHEN t.expires_at > now() AND t.expires_at <= now() + i.retry_delay THEN (t.expires_at - now()) / 2 ELSE i.retry_delay END AS retry_delay,
        t.company_id, t.recipient, t.rendering_id, t.traceparent, t.retry_count, t.due_at, t.processing_app_id, t.failed_app_id, t.lease_id, t.updated_at,
        t.lease_until, t.send_before, t.lease_segments, t.lease_sign, t.lease_sign_mode, t.lease_sim, t.lease_limit,
        t.pool_id, t.message_type, t.segments, t.entered_at, t.batch_id, t.country_no, t.is_test, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT q.*, send_before(q) AS send_before FROM queue q WHERE q.task_id = i.task_id FOR UPDATE) t
),
verdict AS MATERIALIZED (
    SELECT h.*, e.effect, CASE WHEN h.lease_until IS NOT NULL THEN h.updated_at END AS leased_at, -- null if the sweep has taken the lease back
        left(CASE e.effect WHEN 'exhausted' THEN @gave_up::text ELSE '' END || coalesce(h.error_message, e.message), 500) AS result
    FROM held h
    CROSS JOIN LATERAL (
        SELECT CASE
                WHEN h.status = 2 THEN 'success' WHEN NOT h.wants_retry THEN 'failed' WHEN h.retry_count < h.max_retry_count THEN 'retry' ELSE 'exhausted'
            END AS effect,
            CASE WHEN h.status = 2 THEN @sent::text ELSE @not_sent::text END AS message
    ) e
    WHERE (h.named_lease_id IS NULL OR h.named_lease_id = h.lease_id) AND (
        (h.lease_until IS NOT NULL AND h.processing_app_id = h.app_id AND (h.status = 2 OR h.lease_until > h.at OR h.send_before <= h.at))
        OR (h.lease_until IS NULL AND h.lease_id IS NOT NULL AND h.failed_app_id = h.app_id AND h.status = 2) -- the sweep took the lease back
    )
),
retried AS (
    UPDATE queue t
    SET retry_count = t.retry_count + 1,
        lane = NULL,
        -- A retry waits in the pool that serves the task now. The rank is valid only in the pool and priority (lane / 32) in which the task was queued.
        (pool_id, rank, flow_rank) = (
            SELECT p.id, CASE WHEN p.is_new THEN NULL ELSE t.rank END, CASE WHEN p.is_new THEN NULL ELSE t.flow_rank END
            FROM (
                SELECT s.id, s.id <> t.pool_id OR t.lane / 32 <> t.priority AS is_new
                FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) s
            ) p
        ),
        (due_at, failed_app_id, result, updated_at) = (
            SELECT v.at + v.retry_delay, v.app_id, v.result, v.at FROM verdict v WHERE v.task_id = t.task_id
        ),
        processing_app_id = NULL, lease_id = NULL, lease_until = NULL,
        lease_segments = NULL, lease_sign = NULL, lease_sign_mode = NULL, lease_sim = NULL, lease_limit = NULL, start_until = NULL
    WHERE t.task_id = ANY (ARRAY(SELECT v.task_id FROM verdict v WHERE v.effect = 'retry'))
),
settled AS (
    DELETE FROM queue t WHERE t.task_id = ANY (ARRAY(SELECT v.task_id FROM verdict v WHERE v.effect <> 'retry'))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, status, effect, error_message, request_data, created_at, outcome, result,
        retry_count, due_at, leased_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_sim, lease_limit,
        pool_id, message_type, segments, entered_at, batch_id, country_no, is_test
    )
    SELECT
        v.task_id, v.company_id, v.app_id, v.lease_id, 'reported', v.status, v.effect, v.error_message, v.request_data, v.at,
        CASE v.effect WHEN 'success' THEN 2 WHEN 'retry' THEN NULL ELSE 3 END, -- SUCCESS, PENDING, FAILED
        CASE WHEN v.effect <> 'retry' THEN v.result END,
        v.retry_count, v.due_at, v.leased_at, v.lease_until, v.lease_segments, v.lease_sign, v.lease_sign_mode, v.lease_sim, v.lease_limit,
        v.pool_id, v.message_type, v.segments, v.entered_at, v.batch_id, v.country_no, v.is_test
    FROM verdict v
),
accepted AS (
    INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, provider_no, in_part)
    SELECT v.task_id, v.lease_id, v.app_id, v.recipient, left(n.number, 200), v.in_part
    FROM verdict v CROSS JOIN LATERAL unnest(string_to_array(v.provider_no, E'\n')) AS n (number)
    WHERE n.number <> ''
)
SELECT v.task_id::text AS task_id, v.effect::text AS effect, (v.rendering_id IS NOT NULL)::boolean AS has_rendering,
    v.lease_id::bigint AS lease_id, v.updated_at::timestamptz AS leased_at, v.lease_segments, v.traceparent,
    (v.effect = 'success' AND v.app_id = ANY (ARRAY( -- run once, for all reports
        SELECT s.sender_no FROM sender_states st JOIN senders s ON s.id = st.sender_id WHERE st.openings > 0 AND s.kind = 'app')))::boolean AS is_recovery
FROM verdict v
ORDER BY v.task_id;

-- TaskRelease gives back leases of a sender whose messages the provider cannot have received. It returns these leases. Each task becomes PENDING again, and the
-- lease does not count as an attempt. task_ids are in ascending order.
--
-- is_tried false: the task keeps its lane and rank. is_tried true: the sender tried to send the message but had a problem. After the first problem, the task
-- keeps its lane and rank, and other senders of the pool can claim it. After the second problem, the task waits for delay, and keeps its rank. Each further
-- problem doubles the wait, up to max_delay. Therefore a message that causes problems of its senders does not block all other messages.
--
-- The statement skips expired leases, which the sweep takes back. But if the message must not be sent any more (send_before), the statement releases its lease,
-- because no other sender can receive the task. If the routes have changed, the task moves to the pool that serves it now. It is then queued again, because a rank is valid only in its pool and
-- priority.
-- name: TaskRelease :many
WITH input AS MATERIALIZED (
    SELECT unnest(@task_ids::text[]) AS task_id, unnest(@lease_ids::bigint[]) AS lease_id, unnest(@are_tried::boolean[]) AS is_tried,
        unnest(@reasons::text[]) AS reason, nullif(left(unnest(@answers::text[]), 2000), '') AS answer, @delay::interval AS delay, @max_delay::interval AS max_delay
),
held AS MATERIALIZED (
    SELECT i.*, t.company_id, t.retry_count, t.troubles, t.due_at, t.processing_app_id, t.lease_id AS held_lease_id,
        t.updated_at AS leased_at, t.lease_until, t.send_before, t.lease_segments, t.lease_sign, t.lease_sign_mode, t.lease_sim, t.lease_limit,
        t.pool_id, t.message_type, t.segments, t.entered_at, t.batch_id, t.country_no, t.is_test, clock_timestamp() AS at
    FROM input i
    CROSS JOIN LATERAL (SELECT q.*, send_before(q) AS send_before FROM queue q WHERE q.task_id = i.task_id FOR UPDATE) t
),
returned AS MATERIALIZED (
    SELECT h.*, CASE WHEN h.is_tried AND h.troubles > 0
        THEN h.at + least(h.max_delay, h.delay * power(2, least(20, h.troubles) - 1)) END AS again_at -- null if the task keeps its lane
    FROM held h
    WHERE h.processing_app_id = @sender_no::text AND h.held_lease_id = h.lease_id AND (h.lease_until > h.at OR h.send_before <= h.at)
),
requeued AS (
    UPDATE queue t
    SET processing_app_id = NULL, lease_id = NULL, lease_until = NULL,
        lease_segments = NULL, lease_sign = NULL, lease_sign_mode = NULL, lease_sim = NULL, lease_limit = NULL, start_until = NULL, was_claimed = true,
        (troubles, failed_app_id, pool_id, lane, rank, flow_rank, due_at, updated_at) = (
            SELECT
                CASE WHEN g.is_tried THEN least(20, t.troubles + 1) ELSE t.troubles END, -- after 20 doublings, the wait exceeds max_delay
                CASE WHEN g.is_tried THEN g.processing_app_id ELSE t.failed_app_id END,
                p.id,
                CASE WHEN g.again_at IS NULL AND p.id = t.pool_id THEN t.lane END,
                CASE WHEN p.is_ranked THEN t.rank END,
                CASE WHEN p.is_ranked THEN t.flow_rank END,
                coalesce(g.again_at, CASE WHEN g.is_tried THEN g.at END, t.due_at), -- other senders can claim the task from this time on
                g.at
            FROM returned g
            CROSS JOIN LATERAL (
                -- A rank is valid only in its pool. If the task waits (again_at), its rank must also belong to its priority: an aged task has another lane.
                SELECT s.id, s.id = t.pool_id AND (g.again_at IS NULL OR coalesce(t.lane, 32 * t.priority) / 32 = t.priority) AS is_ranked
                FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) s
            ) p
            WHERE g.task_id = t.task_id
        )
    WHERE t.task_id = ANY (ARRAY(SELECT g.task_id FROM returned g))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, effect, error_message, request_data, created_at, retry_count, due_at, leased_at,
        lease_until, lease_segments, lease_sign, lease_sign_mode, lease_sim, lease_limit,
        pool_id, message_type, segments, entered_at, batch_id, country_no, is_test
    )
    SELECT g.task_id, g.company_id, @sender_no::text, g.lease_id, 'released', CASE WHEN g.is_tried THEN 'troubled' ELSE 'untried' END,
        nullif(left(g.reason, 500), ''), CASE WHEN g.answer IS NOT NULL THEN jsonb_build_object('answer', g.answer) END,
        g.at, g.retry_count, g.due_at, g.leased_at, g.lease_until, g.lease_segments, g.lease_sign, g.lease_sign_mode, g.lease_sim, g.lease_limit,
        g.pool_id, g.message_type, g.segments, g.entered_at, g.batch_id, g.country_no, g.is_test
    FROM returned g
)
SELECT g.task_id::text AS task_id, g.lease_id::bigint AS lease_id, g.leased_at::timestamptz AS leased_at, g.lease_segments, g.lease_sim FROM returned g ORDER BY g.task_id;

-- SenderRefund refunds the segments of leases whose messages reached nobody. It adds the segments to the balance, with a ledger row for each charged lease. It
-- subtracts them from the usage of the minute, hour, day and month of the lease, if this period is still the current one. The caller ended these leases in the
-- same transaction. A lease ends only once, so it is refunded only once. The unique index of the ledger also prevents a second refund. As in all statements,
-- rows of sender_states are locked after tasks, in the order of their ids.
-- name: SenderRefund :execrows
WITH leases AS MATERIALIZED (
    SELECT l.lease_id, l.segments, l.leased_at, s.id AS sender_id, s.time_zone
    FROM (
        SELECT unnest(@lease_ids::bigint[]) AS lease_id, unnest(@sender_nos::text[]) AS sender_no,
            unnest(@segments::smallint[]) AS segments, unnest(@leased_ats::timestamptz[]) AS leased_at
    ) l
    JOIN senders s ON s.sender_no = l.sender_no
    WHERE s.is_paced OR s.has_sims
),
states AS MATERIALIZED (
    SELECT st.*
    FROM sender_states st
    WHERE st.sender_id IN (SELECT leases.sender_id FROM leases)
    ORDER BY st.sender_id
    FOR UPDATE
),
booked AS (
    INSERT INTO sender_ledger (sender_id, change, balance, lease_id, company_id, remark, created_at)
    SELECT c.sender_id, -c.change, st.balance - sum(c.change) OVER (PARTITION BY c.sender_id ORDER BY c.lease_id), c.lease_id,
        c.company_id, @remark::text, clock_timestamp()
    FROM leases l
    CROSS JOIN LATERAL (SELECT * FROM sender_ledger WHERE lease_id = l.lease_id AND change < 0 OFFSET 0) c -- lookup by key
    JOIN states st ON st.sender_id = c.sender_id
    ORDER BY c.sender_id, c.lease_id
    RETURNING sender_id, change
),
refunds AS MATERIALIZED (
    SELECT st.sender_id, (SELECT coalesce(sum(b.change), 0) FROM booked b WHERE b.sender_id = st.sender_id)::bigint AS balance,
        w.of_minute, w.of_hour, w.of_day, w.of_month
    FROM states st
    CROSS JOIN LATERAL (
        SELECT -- the counters in sender_states count the minute, hour, day and month of last_taken_at
            sum(l.segments) FILTER (
                WHERE date_trunc('minute', l.leased_at, l.time_zone) = date_trunc('minute', st.last_taken_at, l.time_zone)
            ) AS of_minute,
            sum(l.segments) FILTER (
                WHERE date_trunc('hour', l.leased_at, l.time_zone) = date_trunc('hour', st.last_taken_at, l.time_zone)
            ) AS of_hour,
            sum(l.segments) FILTER (
                WHERE date_trunc('day', l.leased_at, l.time_zone) = date_trunc('day', st.last_taken_at, l.time_zone)
            ) AS of_day,
            sum(l.segments) FILTER (
                WHERE date_trunc('month', l.leased_at, l.time_zone) = date_trunc('month', st.last_taken_at, l.time_zone)
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

-- TaskExpired returns up to batch_size tasks whose leases have expired, the oldest first. It skips the tasks of `failed`. If a lease ended because its message
-- must not be sent any more (send_before), the task is returned only after grace, so that the sender can still report or release it. The sender possibly sent the
-- message at the last moment, and no other sender can receive the task. A driver that does not know the outcome will not report.
-- name: TaskExpired :many
SELECT t.task_id
FROM queue t
WHERE t.lease_until <= now() AND t.task_id <> ALL (@failed::text[])
    AND (
        send_before(t) IS NULL OR send_before(t) > now() OR t.start_until = t.lease_until OR t.lease_until <= now() - @grace::interval
        OR EXISTS (SELECT FROM deliveries d WHERE d.task_id = t.task_id AND d.lease_id = t.lease_id AND d.error IS NOT NULL) -- unclear
    )
ORDER BY t.lease_until
LIMIT @batch_size::integer;

-- TaskReturn takes back expired leases of task_ids that had to be started, but were never started (S4.6). It returns these leases. The messages of these leases
-- were not sent. Each task becomes PENDING again, and the lease does not count as an attempt. on_unclear is ignored. The first time, the task keeps its lane
-- and rank, and other senders of the pool can claim it. After that, the task waits for a delay, as after TaskRelease. Therefore a message that stops each of
-- its senders does not block all other messages.
--
-- SKIP LOCKED: a sweep never waits for a sender that starts or reports. lease_id does not change, so that a SUCCESS still ends the task if the sender sent the
-- message without a start.
-- name: TaskReturn :many
WITH expired AS MATERIALIZED (
    SELECT t.* FROM queue t
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.lease_until <= now() AND t.start_until = t.lease_until
    FOR UPDATE OF t SKIP LOCKED
),
moment AS MATERIALIZED (
    -- This query depends on expired, so the time is read after the rows are locked.
    SELECT clock_timestamp() AS at, @delay::interval AS delay, @max_delay::interval AS max_delay FROM (SELECT count(*) FROM expired) e
),
returned AS MATERIALIZED (
    SELECT e.*, m.at, CASE WHEN e.troubles > 0
        THEN m.at + least(m.max_delay, m.delay * power(2, least(20, e.troubles) - 1)) END AS again_at -- null if the task keeps its lane
    FROM expired e
    CROSS JOIN moment m
),
requeued AS (
    UPDATE queue t
    SET processing_app_id = NULL, lease_until = NULL,
        lease_segments = NULL, lease_sign = NULL, lease_sign_mode = NULL, lease_sim = NULL, lease_limit = NULL, start_until = NULL,
        was_claimed = true,
        (troubles, failed_app_id, pool_id, lane, rank, flow_rank, due_at, updated_at) = (
            SELECT
                least(20, t.troubles + 1), -- after 20 doublings, the wait exceeds max_delay
                g.processing_app_id,
                p.id,
                CASE WHEN g.again_at IS NULL AND p.id = t.pool_id THEN t.lane END,
                CASE WHEN p.is_ranked THEN t.rank END,
                CASE WHEN p.is_ranked THEN t.flow_rank END,
                coalesce(g.again_at, g.at),
                g.at
            FROM returned g
            CROSS JOIN LATERAL (
                -- A rank is valid only in its pool. If the task waits (again_at), its rank must also belong to its priority: an aged task has another lane.
                SELECT s.id, s.id = t.pool_id AND (g.again_at IS NULL OR coalesce(t.lane, 32 * t.priority) / 32 = t.priority) AS is_ranked
                FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) s
            ) p
            WHERE g.task_id = t.task_id
        )
    WHERE t.task_id = ANY (ARRAY(SELECT g.task_id FROM returned g))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, effect, created_at, retry_count, due_at, leased_at, lease_until,
        lease_segments, lease_sign, lease_sign_mode, lease_sim, lease_limit,
        pool_id, message_type, segments, entered_at, batch_id, country_no, is_test
    )
    SELECT g.task_id, g.company_id, g.processing_app_id, g.lease_id, 'recovered', 'untried', g.at, g.retry_count, g.due_at, g.updated_at,
        g.lease_until, g.lease_segments, g.lease_sign, g.lease_sign_mode, g.lease_sim, g.lease_limit,
        g.pool_id, g.message_type, g.segments, g.entered_at, g.batch_id, g.country_no, g.is_test
    FROM returned g
)
SELECT g.task_id::text AS task_id, g.lease_id::bigint AS lease_id, g.processing_app_id::text AS sender_no, g.updated_at::timestamptz AS leased_at, g.lease_segments, g.lease_sim
FROM returned g
ORDER BY g.task_id;

-- TaskRecover takes back the expired leases of task_ids that TaskReturn does not take back (S0.12). It is unknown whether the messages of these leases were
-- sent. on_unclear of the task, or else of its sender, decides whether the message is sent again. The message of an expired task is not sent again. A task that was
-- taken back becomes PENDING, and TaskExpire cancels it.
--
-- task_ids can be outdated: a task is skipped if a report has ended it meanwhile. SKIP LOCKED: a sweep never waits for a report. lease_id does not change, so
-- that a late SUCCESS of this lease can still end the task.
-- name: TaskRecover :one
WITH expired AS MATERIALIZED (
    SELECT t.*,
        (t.taken_back_by IS NOT NULL OR t.retry_count < coalesce((
            SELECT cardinality(c.retry_minutes)
            FROM senders s
            JOIN channels c ON c.id = s.channel_id
            WHERE s.sender_no = t.processing_app_id AND s.kind <> 'app'
        ), @max_retry_count::smallint)) AND NOT u.is_last AND NOT u.is_expired AS again,
        u.is_last, u.is_expired,
        -- the reason why the driver does not know the outcome; empty if no reason was recorded
        coalesce((
            SELECT ': ' || d.error FROM deliveries d
            WHERE d.task_id = t.task_id AND d.lease_id = t.lease_id AND d.error IS NOT NULL
            ORDER BY d.id DESC
            LIMIT 1
        ), '') AS why
    FROM queue t
    CROSS JOIN LATERAL (
        SELECT coalesce(
            t.on_unclear, (SELECT s.on_unclear FROM senders s WHERE s.sender_no = t.processing_app_id), 'retry'
        ) = 'fail' AS is_last, coalesce(t.expires_at <= now(), false) AND t.taken_back_by IS NULL AS is_expired
    ) u
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.lease_until <= now() AND t.start_until IS DISTINCT FROM t.lease_until
    FOR UPDATE OF t SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM expired) e -- depends on expired, so the time is read after the rows are locked
),
retried AS (
    UPDATE queue t
    SET retry_count = t.retry_count + 1,
        due_at = (SELECT moment.at FROM moment),
        lane = NULL,
        -- A retry waits in the pool that serves the task now. The rank is valid only in the pool and priority (lane / 32) in which the task was queued.
        (pool_id, rank, flow_rank) = (
            SELECT p.id, CASE WHEN p.is_new THEN NULL ELSE t.rank END, CASE WHEN p.is_new THEN NULL ELSE t.flow_rank END
            FROM (
                SELECT s.id, s.id <> t.pool_id OR t.lane / 32 <> t.priority AS is_new
                FROM (SELECT pool_serving(t.pool_id, t.company_id, t.message_type, t.country_no) AS id) s
            ) p
        ),
        failed_app_id = t.processing_app_id,
        result = (SELECT left(@timed_out::text || e.why, 500) FROM expired e WHERE e.task_id = t.task_id),
        processing_app_id = NULL, lease_until = NULL,
        lease_segments = NULL, lease_sign = NULL, lease_sign_mode = NULL, lease_sim = NULL, lease_limit = NULL, start_until = NULL,
        updated_at = (SELECT moment.at FROM moment)
    WHERE t.task_id = ANY (ARRAY(SELECT e.task_id FROM expired e WHERE e.again))
),
settled AS (
    DELETE FROM queue t WHERE t.task_id = ANY (ARRAY(SELECT e.task_id FROM expired e WHERE NOT e.again))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, app_id, lease_id, event, effect, created_at, outcome, result, retry_count, due_at, leased_at, lease_until,
        lease_segments, lease_sign, lease_sign_mode, lease_sim, lease_limit,
        pool_id, message_type, segments, entered_at, batch_id, country_no, is_test
    )
    SELECT
        e.task_id, e.company_id, e.processing_app_id, e.lease_id, 'recovered',
        CASE WHEN e.again THEN 'retry' WHEN e.is_last THEN 'unclear' WHEN e.is_expired THEN 'expired' ELSE 'exhausted' END,
        (SELECT moment.at FROM moment),
        CASE WHEN NOT e.again THEN 3 END, -- FAILED
        CASE WHEN NOT e.again THEN left(
            CASE WHEN e.is_last THEN @unclear::text || e.why WHEN e.is_expired THEN @expired::text ELSE @timed_out_last::text || e.why END, 500
        ) END,
        e.retry_count, e.due_at, e.updated_at, e.lease_until, e.lease_segments, e.lease_sign, e.lease_sign_mode, e.lease_sim, e.lease_limit,
        e.pool_id, e.message_type, e.segments, e.entered_at, e.batch_id, e.country_no, e.is_test
    FROM expired e
)
SELECT
    count(*) FILTER (WHERE e.again) AS retried,
    count(*) FILTER (WHERE NOT e.again AND NOT e.is_last AND NOT e.is_expired) AS exhausted,
    count(*) FILTER (WHERE e.is_expired AND NOT e.is_last) AS expired,
    count(*) FILTER (WHERE e.is_last) AS unclear,
    count(e.rendering_id) FILTER (WHERE NOT e.again) AS unreached
FROM expired e;

-- TaskExpire sets up to batch_size PENDING tasks that have expired to FAILED, or to CANCELLED if TaskTakeBack took them back while a sender held them. It returns
-- their number. unreached: the number of FAILED tasks that belong to a notification or a send-once message.
-- name: TaskExpire :one
WITH stale AS MATERIALIZED (
    SELECT t.task_id, t.company_id, t.retry_count, t.due_at, t.rendering_id, t.pool_id, t.message_type, t.segments, t.entered_at,
        t.batch_id, t.country_no, t.is_test, t.result, t.taken_back_by, t.taken_back_result, t.taken_back_by IS NOT NULL AS is_taken_back
    FROM queue t
    WHERE t.lease_until IS NULL AND t.expires_at IS NOT NULL AND t.expires_at <= now() -- IS NOT NULL repeats the predicate of queue_expiry_idx
    ORDER BY t.expires_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM stale) s -- depends on stale, so the time is read after the rows are locked
),
settled AS (
    DELETE FROM queue t WHERE t.task_id = ANY (ARRAY(SELECT s.task_id FROM stale s))
),
logged AS (
    INSERT INTO report_logs (
        task_id, company_id, event, effect, created_at, outcome, result, request_data, retry_count, due_at, pool_id, message_type, segments, entered_at,
        batch_id, country_no, is_test
    )
    SELECT s.task_id, s.company_id, e.event, e.event, (SELECT moment.at FROM moment), e.outcome, e.result, e.request_data, s.retry_count, s.due_at,
        s.pool_id, s.message_type, s.segments, s.entered_at, s.batch_id, s.country_no, s.is_test
    FROM stale s
    CROSS JOIN LATERAL (
        SELECT 'expired' AS event, 3 AS outcome, @result::text AS result, NULL::jsonb AS request_data WHERE NOT s.is_taken_back -- FAILED
        UNION ALL
        SELECT 'cancelled', 4, coalesce(s.taken_back_result, s.result), jsonb_build_object('by', s.taken_back_by) WHERE s.is_taken_back -- CANCELLED
    ) e
)
SELECT count(*) AS expired, count(s.rendering_id) FILTER (WHERE NOT s.is_taken_back) AS unreached FROM stale s;
