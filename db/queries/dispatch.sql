-- The way of a task through its senders: claim, report, recover, cancel. Each is one statement, and each transition names
-- the state it leaves and the holder it expects, so two callers at once settle it here and nowhere else.
--
-- Rows are found and locked first, in MATERIALIZED CTEs, and updated by key: a LIMIT beside FOR UPDATE inside a join may be
-- run again by the planner and then gives more rows than it says. What is decided under the lock is what is logged, and it is
-- carried out by key alone: a condition on the row would be asked of the version that the statement's snapshot shows, which
-- the lock may have passed by. Where two statements may want the same rows and wait for each other, both lock them in the
-- order of task_id.
--
-- What is due and what ran out is judged by now(), which errs to the late side. What is written, in the task and in its log,
-- is one clock_timestamp() that was read while the rows were locked: a connection may stall between BEGIN and the statement,
-- and the statement wait for a lock. So the log of a task stands in the order in which things happened.

-- TaskClaim leases up to claim_limit tasks to the sender app_id: as many as its interval, its limits and its balance allow,
-- from the pools of its routes and, if it is shared, from those that no route serves. By priority, then new ones before
-- retries by retry_count (S0.10), then by the rank that made them fair between companies, which is the order in which one
-- company submitted them. The lease, its log row, the ledger and what the sender has left are one act.
--
-- The row of a sender that has anything to count is locked first: two polls at once count one after the other. One that is not
-- ready is seen to be so without, and so is a pool in which there is nothing: a lock alone makes a commit wait for the disk.
--
-- Tasks that are due and not queued yet are taken from where they wait, up to 500 of each pool in the order in which they came
-- due; a sweep queues the others. A retry that has been due for retry_max_wait goes out as if it were new: new tasks without
-- end must not starve it. Null is never.
--
-- Rivals of a route are the senders of the same pool that are ready, and were seen since they became so and within
-- silent_after. Each may be ahead of the one that is furthest behind by the part of 60 tasks that its weight gives it, so
-- that shares hold over any hundred tasks. Who was away is not owed what it missed, and neither is who leaves what there is:
-- if nobody but a sender that cannot take it were allowed to, it would wait for ever. A sender with rivals leaves them the
-- retries of what failed with it, until they have waited for retry_max_wait.
-- name: TaskClaim :many
WITH me AS MATERIALIZED (
    SELECT s.*, st.next_available_at, st.balance, st.last_taken_at,
        st.minute_used, st.hour_used, st.day_used, st.month_used
    FROM senders s
    JOIN sender_standings x ON x.sender_id = s.id
    LEFT JOIN LATERAL (
        SELECT * FROM sender_states WHERE sender_id = s.id AND s.is_paced AND x.is_rested AND x.has_quota AND x.has_funds FOR UPDATE
    ) st ON true
    WHERE s.sender_no = @app_id::text AND s.status = 'on'
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at, @silent_after::interval AS silent_after FROM (SELECT count(*) FROM me) m
),
used AS MATERIALIZED (
    SELECT
        used_in_window('minute', moment.at, me.time_zone, me.minute_used, me.last_taken_at) AS this_minute,
        used_in_window('hour', moment.at, me.time_zone, me.hour_used, me.last_taken_at) AS this_hour,
        used_in_window('day', moment.at, me.time_zone, me.day_used, me.last_taken_at) AS this_day,
        used_in_window('month', moment.at, me.time_zone, me.month_used, me.last_taken_at) AS this_month
    FROM me
    CROSS JOIN moment
    WHERE me.is_paced
),
budget AS MATERIALIZED (
    SELECT me.id, me.channel_id, me.is_shared, me.is_paced, me.interval_ms, me.has_balance, me.balance, me.low_warning, me.low_switch,
        me.sign, me.segment_size, moment.at, moment.at - moment.silent_after / 4 AS seen_lately,
        coalesce(make_interval(secs => me.lease_seconds::double precision), @lease::interval) AS lease,
        CASE
            WHEN NOT me.is_paced THEN @claim_limit::bigint
            WHEN me.next_available_at IS NULL OR me.next_available_at > moment.at THEN 0
            WHEN me.has_balance AND coalesce(me.balance, 0) <= coalesce(me.low_switch, 0) THEN 0
            -- More than it can send before the lease runs out would be sent twice.
            WHEN me.interval_ms > 0 THEN least(@claim_limit::bigint, greatest(1, floor(
                extract(epoch FROM coalesce(make_interval(secs => me.lease_seconds::double precision), @lease::interval))
                * 1000 / me.interval_ms
            )::bigint))
            ELSE @claim_limit::bigint
        END AS tasks,
        -- Null is without end.
        least(
            me.per_minute - u.this_minute, me.per_hour - u.this_hour, me.per_day - u.this_day, me.per_month - u.this_month,
            CASE WHEN me.has_balance THEN coalesce(me.balance, 0) END
        ) AS segments
    FROM me
    CROSS JOIN moment
    LEFT JOIN used u ON true
),
routed AS MATERIALIZED (
    SELECT r.id, r.pool_id, r.weight, r.served
    FROM routes r
    WHERE r.sender_id = (SELECT budget.id FROM budget WHERE budget.tasks > 0) AND r.status = 'on' AND (
        (SELECT count(*) FROM (
            SELECT FROM tasks t WHERE t.pool_id = r.pool_id AND t.status = 0 AND t.lane IS NOT NULL ORDER BY t.lane, t.rank LIMIT 1
        ) q) > 0
        OR (SELECT count(*) FROM (
            SELECT FROM tasks t WHERE t.pool_id = r.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now() ORDER BY t.due_at LIMIT 1
        ) d) > 0
    )
    ORDER BY r.sender_id, r.id
    FOR UPDATE
),
rivals AS MATERIALIZED (
    SELECT r.id, min(o.served) AS behind, max(o.served) AS ahead, 60.0 / (sum(o.weight) + r.weight) AS lead
    FROM routed r
    JOIN routes o ON o.pool_id = r.pool_id AND o.id <> r.id AND o.status = 'on'
    JOIN sender_standings x ON x.sender_id = o.sender_id
    WHERE x.is_on AND x.is_rested AND x.has_quota AND x.has_funds
        AND x.seen_at > now() - @silent_after::interval AND x.seen_at >= x.next_available_at
    GROUP BY r.id, r.weight
),
mine AS MATERIALIZED (
    SELECT p.id AS pool_id, NULL::bigint AS route_id, 0::double precision AS served, 0::double precision AS ahead, 1::bigint AS weight,
        false AS is_rivalled, b.tasks AS most
    FROM budget b
    JOIN pools p ON p.channel_id = b.channel_id
    WHERE b.is_shared AND (
        p.company_id IS NULL
        OR (SELECT count(*) FROM (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on' LIMIT 1) r) = 0
    )
    UNION ALL
    SELECT r.pool_id, r.id, f.served, greatest(v.ahead, f.served), r.weight, v.id IS NOT NULL,
        CASE WHEN v.id IS NULL THEN b.tasks
            ELSE least(b.tasks, greatest(0, ceil((v.behind + v.lead - f.served) * r.weight)::bigint)) END
    FROM budget b
    CROSS JOIN routed r
    LEFT JOIN rivals v ON v.id = r.id
    CROSS JOIN LATERAL (SELECT greatest(r.served, v.behind - v.lead) AS served) f
),
queued AS MATERIALIZED (
    SELECT q.*
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.lane::integer AS lane, t.rank, t.created_at, t.content, t.sign, t.segments
        FROM tasks t
        WHERE t.pool_id = m.pool_id AND t.status = 0 AND t.lane IS NOT NULL
            AND (t.expires_at IS NULL OR t.expires_at > now())
            AND NOT (m.is_rivalled AND t.failed_app_id IS NOT DISTINCT FROM @app_id::text AND t.lane % 32 > 0)
        ORDER BY t.lane, t.rank
        LIMIT m.most
        FOR UPDATE SKIP LOCKED
    ) q
),
due AS MATERIALIZED (
    SELECT q.*
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id,
            32 * t.priority + CASE WHEN t.due_at <= now() - sqlc.narg(retry_max_wait)::interval THEN 0 ELSE t.retry_count END AS lane,
            coalesce(t.rank, 'Infinity') AS rank, t.created_at, t.content, t.sign, t.segments
        FROM tasks t
        WHERE t.pool_id = m.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now()
            AND (t.expires_at IS NULL OR t.expires_at > now())
            AND NOT (m.is_rivalled AND t.failed_app_id IS NOT DISTINCT FROM @app_id::text)
        ORDER BY t.due_at
        LIMIT CASE WHEN m.most > 0 AND NOT m.is_rivalled THEN greatest(500, m.most) ELSE m.most END
        FOR UPDATE SKIP LOCKED
    ) q
),
ranked AS MATERIALIZED (
    SELECT c.task_id, c.pool_id, c.lane, c.rank, c.created_at, b.tasks, b.segments AS budget,
        CASE WHEN b.segment_size IS NULL AND (b.sign IS NULL OR c.sign IS NOT NULL) THEN c.segments
            ELSE attempt_segments(
                coalesce('【' || coalesce(c.sign, b.sign) || '】', '') || c.content, c.segments, b.segment_size,
                b.sign IS NOT NULL AND c.sign IS NULL
            ) END AS segments
    FROM (SELECT * FROM queued UNION ALL SELECT * FROM due) c
    CROSS JOIN budget b
),
picked AS MATERIALIZED (
    SELECT p.task_id, p.pool_id, p.segments, p.total, p.place
    FROM (
        SELECT r.task_id, r.pool_id, r.segments, r.tasks, r.budget,
            row_number() OVER in_order AS place, sum(r.segments) OVER in_order AS total
        FROM ranked r
        -- What this sender could never send must not stand in the way of what it can.
        WHERE r.budget IS NULL OR r.segments <= r.budget
        WINDOW in_order AS (ORDER BY r.lane, r.rank, r.created_at, r.task_id)
    ) p
    WHERE p.place <= p.tasks AND (p.budget IS NULL OR p.total <= p.budget)
),
-- What is done is of now: since what it may take was decided, routes and tasks have been locked, for which it may have waited.
taken AS MATERIALIZED (
    SELECT count(*) AS tasks, coalesce(sum(picked.segments), 0)::bigint AS segments, clock_timestamp() AS at FROM picked
),
leased AS (
    UPDATE tasks t
    SET status = 1,
        processing_app_id = @app_id::text,
        lease_id = nextval('send_logs_id_seq'),
        lease_until = (SELECT taken.at FROM taken) + (SELECT budget.lease FROM budget),
        updated_at = (SELECT taken.at FROM taken)
    FROM picked p
    WHERE t.task_id = p.task_id AND t.status = 0
    RETURNING t.task_id, t.phone_number, t.retry_count, t.lease_id, t.lease_until, t.pool_id, p.place, p.segments, p.total,
        coalesce('【' || coalesce(t.sign, (SELECT budget.sign FROM budget)) || '】', '') || t.content AS content
),
logged AS (
    INSERT INTO send_logs (
        id, task_id, app_id, phone_number, content, attempt, lease_until, created_at, request_data, response_data
    )
    SELECT
        h.lease_id, h.task_id, @app_id::text, h.phone_number, h.content, h.retry_count + 1, h.lease_until, (SELECT taken.at FROM taken),
        jsonb_build_object('app_id', @app_id::text, 'limit', @claim_limit::bigint),
        jsonb_build_object('lease_id', h.lease_id, 'attempt', h.retry_count + 1, 'lease_until', h.lease_until)
    FROM leased h
),
charged AS (
    INSERT INTO sender_ledger (sender_id, change, balance, lease_id, created_at)
    SELECT b.id, -h.segments, b.balance - h.total, h.lease_id, taken.at
    FROM leased h
    CROSS JOIN budget b
    CROSS JOIN taken
    WHERE b.has_balance
    ORDER BY h.place
),
ran_low AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'sender.' || mark.name, @app_id::text, jsonb_build_object('balance', b.balance - taken.segments, mark.name, mark.level)
    FROM budget b
    CROSS JOIN taken
    CROSS JOIN LATERAL (VALUES ('low_warning', b.low_warning), ('low_switch', b.low_switch)) AS mark (name, level)
    WHERE b.has_balance AND b.balance > mark.level AND b.balance - taken.segments <= mark.level
),
counted AS (
    INSERT INTO sender_changes (sender_no, sent, at)
    SELECT @app_id::text, taken.tasks, taken.at FROM taken WHERE taken.tasks > 0
),
moved_on AS (
    UPDATE sender_states st
    SET seen_at = taken.at,
        next_available_at = CASE WHEN b.interval_ms > 0 AND taken.tasks > 0
            THEN taken.at + make_interval(secs => taken.tasks * b.interval_ms / 1000.0) ELSE st.next_available_at END,
        last_taken = CASE WHEN u IS NULL THEN st.last_taken ELSE taken.tasks END,
        last_taken_at = CASE WHEN u IS NULL THEN st.last_taken_at ELSE taken.at END,
        balance = st.balance - taken.segments,
        minute_used = coalesce(u.this_minute + taken.segments, st.minute_used),
        hour_used = coalesce(u.this_hour + taken.segments, st.hour_used),
        day_used = coalesce(u.this_day + taken.segments, st.day_used),
        month_used = coalesce(u.this_month + taken.segments, st.month_used)
    FROM budget b
    CROSS JOIN taken
    LEFT JOIN LATERAL (
        SELECT
            used_in_window('minute', taken.at, me.time_zone, me.minute_used, me.last_taken_at) AS this_minute,
            used_in_window('hour', taken.at, me.time_zone, me.hour_used, me.last_taken_at) AS this_hour,
            used_in_window('day', taken.at, me.time_zone, me.day_used, me.last_taken_at) AS this_day,
            used_in_window('month', taken.at, me.time_zone, me.month_used, me.last_taken_at) AS this_month
        FROM me
        WHERE me.is_paced AND taken.tasks > 0
    ) u ON true
    WHERE st.sender_id = (SELECT budget.id FROM budget) AND (
        (b.is_paced AND taken.tasks > 0)
        OR (st.sender_id IN (SELECT r.sender_id FROM routes r WHERE r.sender_id = b.id AND r.status = 'on') AND (
            st.seen_at IS NULL OR st.seen_at < b.seen_lately
            OR (st.seen_at < st.next_available_at AND st.next_available_at <= b.at)
        ))
    )
),
-- The pools of which it might take more than they offer, and in which it leaves something.
passed AS MATERIALIZED (
    SELECT m.route_id
    FROM mine m
    CROSS JOIN budget b
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE r.budget IS NULL OR r.segments <= r.budget) AS fitting, count(*) AS offered
        FROM ranked r
        WHERE r.pool_id = m.pool_id
    ) o
    WHERE m.is_rivalled AND m.ahead > m.served AND o.fitting < m.most AND (
        o.fitting < o.offered
        OR (SELECT count(*) FROM (
            SELECT FROM tasks t
            WHERE t.pool_id = m.pool_id AND t.status = 0 AND t.lane IS NOT NULL AND t.lane % 32 > 0
                AND t.failed_app_id = @app_id::text AND (t.expires_at IS NULL OR t.expires_at > now())
            ORDER BY t.lane, t.rank
            LIMIT 1
        ) f) > 0
    )
),
shared AS (
    UPDATE routes r
    SET served = greatest(m.served + p.tasks::double precision / m.weight, CASE WHEN p.has_passed THEN m.ahead END)
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT count(*) AS tasks, m.route_id IN (SELECT passed.route_id FROM passed) AS has_passed
        FROM picked
        WHERE picked.pool_id = m.pool_id
    ) p
    WHERE r.id = m.route_id AND (p.tasks > 0 OR p.has_passed OR m.served > r.served)
)
SELECT
    h.task_id, h.phone_number, h.content::text AS content,
    h.lease_id::bigint AS lease_id,
    (h.retry_count + 1)::smallint AS attempt,
    h.lease_until::timestamptz AS lease_until,
    h.pool_id
FROM leased h
ORDER BY h.place;

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
-- A lease that ran out is the sweep's. task_ids are in ascending order.
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
        lane = CASE WHEN g.again_at IS NULL THEN t.lane END,
        due_at = coalesce(g.again_at, t.due_at),
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

-- TaskExpired looks for up to batch_size leases that ran out, the oldest first, and passes over those that failed.
-- name: TaskExpired :many
SELECT t.task_id
FROM tasks t
WHERE t.status = 1 AND t.lease_until <= now() AND t.task_id <> ALL (@failed::text[])
ORDER BY t.lease_until
LIMIT @batch_size::integer;

-- TaskRecover takes back those of task_ids whose leases have run out (S0.12). What TaskExpired saw may be old: a report
-- that committed since has changed the row, and the row is passed over; a report that comes second finds no lease.
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
        ), @max_retry_count::smallint) AS again
    FROM tasks t
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
        failed_app_id = t.processing_app_id,
        reported_at = CASE WHEN e.again THEN t.reported_at ELSE (SELECT moment.at FROM moment) END,
        result = CASE WHEN e.again THEN '处理超时，自动重试' ELSE '处理超时，超过最大重试次数' END,
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
        CASE WHEN e.again THEN 'retry' ELSE 'exhausted' END
    FROM expired e
)
SELECT
    count(*) FILTER (WHERE e.again) AS retried,
    count(*) FILTER (WHERE NOT e.again) AS exhausted,
    count(e.rendering_id) FILTER (WHERE NOT e.again) AS unreached
FROM expired e;

-- TaskCancel ends a PENDING task. No row: it does not exist or is not PENDING.
-- name: TaskCancel :one
WITH cancelled AS (
    UPDATE tasks t
    SET status = 4, updated_at = clock_timestamp()
    WHERE t.task_id = @task_id AND t.status = 0
        AND (sqlc.narg(owner)::text IS NULL OR t.submitted_by = sqlc.narg(owner)::text)
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

-- TaskWaits gives those of pools in which there is anything to claim.
-- name: TaskWaits :many
SELECT p.pool_id::bigint AS pool_id
FROM unnest(@pool_ids::bigint[]) AS p (pool_id)
WHERE (SELECT count(*) FROM (
        SELECT FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) q) > 0
    OR (SELECT count(*) FROM (
        SELECT FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT 1
    ) d) > 0
ORDER BY p.pool_id;

-- TaskWaitsQueued gives the next pools after after_id in which anything is queued, as many as most. Each costs one look into the
-- index of the queue, and those in which nothing is queued cost nothing.
-- name: TaskWaitsQueued :many
WITH RECURSIVE found AS (
    (
        SELECT t.pool_id, 1 AS place
        FROM tasks t
        WHERE t.pool_id > @after_id::bigint AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, f.place + 1
    FROM found f
    CROSS JOIN LATERAL (
        SELECT t.pool_id
        FROM tasks t
        WHERE t.pool_id > f.pool_id AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.pool_id, t.lane, t.rank
        LIMIT 1
    ) n
    WHERE f.place < @most::integer
)
SELECT f.pool_id FROM found f ORDER BY f.place;

-- TaskQueue queues up to batch_size tasks that have come due, and tells how many. A task that was never queued gets its rank
-- now: its company's share begins to be used when it may go out. Pools in which nothing is yet to be queued cost nothing.
-- name: TaskQueue :one
WITH RECURSIVE unqueued AS (
    (
        SELECT t.pool_id, t.due_at
        FROM tasks t
        WHERE t.status = 0 AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.pool_id, n.due_at
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.pool_id, t.due_at
        FROM tasks t
        WHERE t.pool_id > u.pool_id AND t.status = 0 AND t.lane IS NULL
        ORDER BY t.pool_id, t.due_at
        LIMIT 1
    ) n
),
due AS MATERIALIZED (
    SELECT d.*
    FROM unqueued u
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.priority, t.retry_count, t.rank, t.created_at
        FROM tasks t
        WHERE t.pool_id = u.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now()
        ORDER BY t.due_at
        LIMIT @batch_size::integer
        FOR UPDATE SKIP LOCKED
    ) d
    WHERE u.due_at <= now()
    LIMIT @batch_size::integer
),
reserved AS (
    INSERT INTO fair_ranks AS f (pool_id, priority, company_id, start, finish)
    SELECT g.pool_id, g.priority, g.company_id, v.front, v.front + g.tasks / c.weight
    FROM (
        SELECT d.pool_id, d.priority, d.company_id, count(*) AS tasks FROM due d WHERE d.rank IS NULL
        GROUP BY d.pool_id, d.priority, d.company_id
    ) g
    JOIN companies c ON c.id = g.company_id
    CROSS JOIN LATERAL (SELECT task_queue_front(g.pool_id, g.priority) AS front OFFSET 0) v
    ORDER BY g.pool_id, g.priority, g.company_id
    ON CONFLICT (pool_id, priority, company_id) DO UPDATE
    SET start = greatest(f.finish, excluded.start),
        finish = greatest(f.finish, excluded.start) + (excluded.finish - excluded.start)
    RETURNING f.pool_id, f.priority, f.company_id, f.start
),
ranked AS MATERIALIZED (
    SELECT d.task_id, 32 * d.priority + d.retry_count AS lane,
        coalesce(d.rank, r.start + (row_number() OVER (
            PARTITION BY d.pool_id, d.priority, d.company_id, d.rank IS NULL ORDER BY d.created_at, d.task_id
        ) - 1) / c.weight) AS rank
    FROM due d
    JOIN companies c ON c.id = d.company_id
    LEFT JOIN reserved r ON r.pool_id = d.pool_id AND r.priority = d.priority AND r.company_id = d.company_id
),
put AS (
    UPDATE tasks t SET lane = r.lane, rank = r.rank FROM ranked r WHERE t.task_id = r.task_id
)
SELECT count(*) FROM due;

-- TaskAge lets up to batch_size tasks that have waited too long go before the others, and tells how many: retries as if they
-- were new, low priorities as if they were the highest. Null is never.
-- name: TaskAge :one
WITH aged AS MATERIALIZED (
    SELECT t.task_id, t.lane - t.lane % 32 AS lane FROM tasks t
    WHERE t.status = 0 AND t.lane % 32 > 0 AND t.due_at <= now() - sqlc.narg(retry_max_wait)::interval
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
urgent AS MATERIALIZED (
    SELECT t.task_id, t.lane % 32 AS lane FROM tasks t
    WHERE t.status = 0 AND t.lane >= 32 AND t.due_at <= now() - sqlc.narg(priority_max_wait)::interval
    ORDER BY t.due_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
moved AS MATERIALIZED (
    SELECT m.task_id, min(m.lane) AS lane
    FROM (SELECT * FROM aged UNION ALL SELECT * FROM urgent) m
    GROUP BY m.task_id
),
put AS (
    UPDATE tasks t SET lane = m.lane FROM moved m WHERE t.task_id = m.task_id
)
SELECT count(*) FROM moved;

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
