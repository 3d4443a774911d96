-- How senders take tasks. What follows holds for queue_settle.sql and queue_order.sql too. Each transition is one statement that names the state it
-- leaves and the holder it expects, so two callers at once settle it here and nowhere else.
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

-- A claim is one transaction of these statements; a sender without limits and routes runs only the three in capitals:
--   SENDERADMIT    what the sender is, and which of the next three statements have something to say about it
--   SenderBudget   how many tasks and segments it may take; locks what it has to count
--   RouteAdmit     its share of each pool that it serves by a route
--   PoolRooms      what of the shared pool it leaves to other shared senders
--   TASKOFFER      locks the tasks that it may take next
--   TASKLEASE      leases those that were chosen of them, and logs it
--   PoolsPassed    pools in which only tasks wait that it may not take
--   SenderCharge   what the claim cost the sender

-- SenderAdmit gives what a claim must know of a sender before it counts anything; it locks nothing. No row: the sender is unknown or
-- off. shared_pool_id is null unless the sender is shared. has_primaries: a shared sender of its channel has a larger sort.
-- gives_way: its circuit breaker is not closed.
--
-- is_unseen: within noted_within, or since the sender became ready, it was not written down that it polls. That matters to the senders
-- with which it shares the pools of its routes (has_routes), and to the shared senders that ask whether it is available
-- (has_dependents): those of a smaller sort, and driven ones.
-- name: SenderAdmit :one
SELECT s.id AS sender_id, s.is_paced, s.sign, s.segment_size, c.channel = 'sms' AS counts_segments,
    coalesce(s.lease_seconds::double precision, extract(epoch FROM @lease::interval))::double precision AS lease_seconds,
    (st.rest_until IS NOT NULL)::boolean AS gives_way, p.id AS shared_pool_id, st.shared_last_turn, st.shared_next_turn,
    coalesce(
        st.seen_at < clock_timestamp() - @noted_within::interval
            OR (st.seen_at < st.next_available_at AND st.next_available_at <= clock_timestamp()),
        true
    )::boolean AS is_unseen,
    EXISTS (SELECT FROM routes r WHERE r.sender_id = s.id AND r.status = 'on') AS has_routes,
    (s.is_shared AND EXISTS (
        SELECT FROM senders o WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.sort > s.sort
    ))::boolean AS has_primaries,
    (s.is_shared AND (
        EXISTS (
            SELECT FROM senders o WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.sort < s.sort
        ) OR EXISTS (
            SELECT FROM senders o
            WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.kind <> 'app' AND o.id <> s.id
        )
    ))::boolean AS has_dependents
FROM senders s
JOIN channels c ON c.id = s.channel_id
JOIN sender_states st ON st.sender_id = s.id
LEFT JOIN pools p ON s.is_shared AND p.channel_id = s.channel_id AND p.company_id IS NULL AND p.retired_at IS NULL
WHERE s.sender_no = @app_id::text AND s.status = 'on';

-- SenderBudget says how many tasks and segments a sender may take now; segments only count if it has_limit. It locks the sender's state, so
-- that two polls at once count one after the other. Readiness is checked before the lock: a row lock writes WAL, and even an empty
-- claim would wait for fsync. No row: the sender is off.
-- name: SenderBudget :one
WITH me AS MATERIALIZED (
    SELECT s.*, st.next_available_at, st.balance, st.last_taken_at, st.minute_used, st.hour_used, st.day_used, st.month_used
    FROM senders s
    JOIN sender_standings x ON x.sender_id = s.id
    LEFT JOIN LATERAL (
        SELECT * FROM sender_states WHERE sender_id = s.id AND x.is_rested AND x.has_quota AND x.has_funds FOR UPDATE
    ) st ON true
    WHERE s.id = @sender_id AND s.status = 'on'
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM me) m -- read when the row is locked
)
SELECT
    CASE
        WHEN me.next_available_at IS NULL OR me.next_available_at > moment.at THEN 0
        WHEN me.has_balance AND coalesce(me.balance, 0) <= coalesce(me.low_switch, 0) THEN 0
        -- More than it can send before the lease runs out would be sent twice. One call takes one interval.
        WHEN me.interval_ms > 0 AND NOT @in_one_call::boolean
            THEN least(@claim_limit::bigint, greatest(1, floor(1000 * sqlc.arg(lease_seconds)::double precision / me.interval_ms)::bigint))
        ELSE @claim_limit::bigint
    END::bigint AS tasks,
    (l.segments IS NOT NULL)::boolean AS has_limit, coalesce(l.segments, 0)::bigint AS segments
FROM me
CROSS JOIN moment
CROSS JOIN LATERAL (
    SELECT least(
        me.per_minute - used_in_window('minute', moment.at, me.time_zone, me.minute_used, me.last_taken_at),
        me.per_hour - used_in_window('hour', moment.at, me.time_zone, me.hour_used, me.last_taken_at),
        me.per_day - used_in_window('day', moment.at, me.time_zone, me.day_used, me.last_taken_at),
        me.per_month - used_in_window('month', moment.at, me.time_zone, me.month_used, me.last_taken_at),
        CASE WHEN me.has_balance THEN coalesce(me.balance, 0) END
    ) AS segments
) l;

-- RouteAdmit locks the routes of a sender in whose pools something waits, and gives what decides how much it may take from each. Empty
-- pools are left out before the lock.
--
-- Of the routes of a pool, those whose senders are available are compared: on, with quota and funds, no open circuit breaker, and
-- seen within silent_after. If one of them has a larger sort, the sender is outranked: it may only take what is too large for all
-- of those (primary_room). Those of the same sort are its rivals while they are rested and were seen since. The shares follow from
-- what each was served: served is tasks over weight. A sender that is to try whether its trouble is over gives way: all others of the
-- pool, whatever their sort, are rivals in what failed with it (rival_room).
--
-- last_turn is the largest of all routes of the sender. Whether a pool is empty is asked by counting a LIMIT 1: PostgreSQL drops the
-- ORDER BY of an EXISTS, and could then walk another index than that of the queue.
-- name: RouteAdmit :many
WITH routed AS MATERIALIZED (
    SELECT r.id, r.pool_id, r.weight, r.sort, r.served, r.next_turn
    FROM routes r
    WHERE r.sender_id = @sender_id AND r.status = 'on' AND (
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
    SELECT a.route_id, min(a.was_served) AS was_served, max(a.room) FILTER (WHERE a.outranks) AS primary_room,
        max(a.room) FILTER (WHERE a.is_there) AS rival_room, array_agg(a.served ORDER BY a.id) FILTER (WHERE a.shares) AS served,
        array_agg(a.weight ORDER BY a.id) FILTER (WHERE a.shares) AS weights
    FROM (
        -- Under its lock r is as of now; its rivals, and w with them, are as of when this statement began.
        SELECT r.id AS route_id, w.served AS was_served, o.id, o.served, o.weight, o.sort > r.sort AS outranks, x.room, t.is_there,
            o.sort = r.sort AND t.is_there AS shares
        FROM routed r
        JOIN routes w ON w.id = r.id
        JOIN routes o ON o.pool_id = r.pool_id AND o.id <> r.id AND o.status = 'on' AND (o.sort >= r.sort OR @gives_way::boolean)
        JOIN sender_standings x ON x.sender_id = o.sender_id
        CROSS JOIN LATERAL (SELECT x.is_rested AND x.seen_at >= x.next_available_at AS is_there) t
        WHERE x.is_available AND x.seen_at > now() - @silent_after::interval
    ) a
    GROUP BY a.route_id
)
SELECT r.pool_id, r.id AS route_id, c.id AS company_id, r.weight, (1 / c.weight)::double precision AS gap,
    r.served, coalesce(v.was_served, r.served)::double precision AS was_served, r.next_turn,
    (SELECT max(o.last_turn) FROM routes o WHERE o.sender_id = @sender_id)::double precision AS last_turn,
    (v.primary_room IS NOT NULL)::boolean AS is_outranked,
    coalesce(v.primary_room, 0)::bigint AS primary_room, coalesce(v.rival_room, 0)::bigint AS rival_room,
    coalesce(v.served, '{}')::double precision[] AS rivals_served, coalesce(v.weights, '{}')::bigint[] AS rivals_weights
FROM routed r
JOIN pools p ON p.id = r.pool_id
JOIN companies c ON c.id = p.company_id
LEFT JOIN rivals v ON v.route_id = r.id
ORDER BY r.pool_id;

-- PoolRooms says what of its shared pool a shared sender leaves to other shared senders, as RouteAdmit does for pools of routes: to
-- those of a larger sort that are available; and, if it gives way, to all that are available and rested.
--
-- Two subqueries, so that a claim among thousands of shared senders reads only those that matter to it: by the index on sort, and hardly ever all.
-- OFFSET 0 keeps the standings behind the senders: the planner would read the standings of all, and then look for the senders.
-- name: PoolRooms :one
SELECT (v.primary_room IS NOT NULL)::boolean AS is_outranked,
    coalesce(v.primary_room, 0)::bigint AS primary_room, coalesce(w.rival_room, 0)::bigint AS rival_room
FROM senders s
CROSS JOIN LATERAL (
    SELECT max(x.room) AS primary_room
    FROM senders o
    CROSS JOIN LATERAL (SELECT * FROM sender_standings n WHERE n.sender_id = o.id OFFSET 0) x
    WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.sort > s.sort
        AND x.is_available AND x.seen_at > now() - @silent_after::interval
) v
CROSS JOIN LATERAL (
    SELECT max(x.room) AS rival_room
    FROM senders o
    CROSS JOIN LATERAL (SELECT * FROM sender_standings n WHERE n.sender_id = o.id OFFSET 0) x
    WHERE @gives_way::boolean AND o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on'
        AND x.is_available AND x.is_rested AND x.seen_at > now() - @silent_after::interval
) w
WHERE s.id = @sender_id;

-- TaskOffer locks the tasks that the sender app_id may take next: from each pool up to its entry in most, ordered by priority, then
-- new tasks before retries and retries by retry_count (S0.10), then by rank, which makes the tasks of a pool fair between companies.
-- The caller merges the pools and leases the tasks that it chooses with TaskLease, in the same transaction. With several pools, each
-- gives up to 8 tasks more, from which the caller learns the pool's next turn. gap is the share of its company that a task uses; 0
-- if there is one pool.
--
-- Due tasks that are not queued yet are read where they wait: up to 500 of all pools, those of a pool in the order in which they came
-- due. A sweep queues the others. A retry that has been due for retry_max_wait counts as new; null means never.
--
-- A sender that may have fewer segments left than a task needs (is_tight) gets only tasks that fit. That search ends after the first
-- 1000 tasks of a pool. So does the search for a backup, which gets only tasks of more segments than its primaries have left
-- (from_segments; 0 for all). A sender with rivals leaves them the tasks that failed with it, if they have room (rival_rooms; 0
-- without rivals), until such a task has waited for retry_max_wait.
-- name: TaskOffer :many
WITH mine AS MATERIALIZED (
    -- last_lane and last_rank end the scan as index conditions. As a filter they would let it read the whole pool when the first tasks
    -- are locked by others.
    SELECT u.*, coalesce(e.lane, 32767::smallint) AS last_lane, coalesce(e.rank, 'infinity') AS last_rank, coalesce(d.due_at, now()) AS last_due_at
    FROM (
        SELECT unnest(@pool_ids::bigint[]) AS pool_id, unnest(@most::bigint[]) AS most, unnest(@rival_rooms::bigint[]) AS rival_room,
            unnest(@from_segments::bigint[]) AS from_segments, cardinality(@pool_ids::bigint[]) > 1 AS is_several
    ) u
    LEFT JOIN LATERAL (
        SELECT t.lane, t.rank FROM tasks t
        WHERE t.pool_id = u.pool_id AND t.status = 0 AND t.lane IS NOT NULL AND (@is_tight::boolean OR u.from_segments > 0)
        ORDER BY t.lane, t.rank
        OFFSET 999 LIMIT 1
    ) e ON true
    LEFT JOIN LATERAL (
        SELECT t.due_at FROM tasks t
        WHERE t.pool_id = u.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= now() AND (@is_tight::boolean OR u.from_segments > 0)
        ORDER BY t.due_at
        OFFSET 999 LIMIT 1
    ) d ON true
),
queued AS MATERIALIZED (
    SELECT q.*, m.is_several
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.lane::integer AS lane, t.rank, t.created_at, t.rendering_id,
            task_segments(t.content, t.sign, t.segments, sqlc.narg(sign), sqlc.narg(segment_size), @counts_segments::boolean) AS segments
        FROM tasks t
        WHERE t.pool_id = m.pool_id AND t.status = 0 AND t.lane IS NOT NULL
            AND (t.expires_at IS NULL OR t.expires_at > now())
            AND NOT (
                t.segments <= m.rival_room AND t.failed_app_id IS NOT DISTINCT FROM @app_id::text
                AND coalesce(t.due_at > now() - sqlc.narg(retry_max_wait)::interval, true)
            )
            AND t.segments >= m.from_segments AND (t.lane, t.rank) <= (m.last_lane, m.last_rank)
            AND (
                NOT @is_tight::boolean
                OR task_segments(t.content, t.sign, t.segments, sqlc.narg(sign), sqlc.narg(segment_size), @counts_segments::boolean)
                    <= sqlc.narg(segments_left)::bigint
            )
        ORDER BY t.lane, t.rank
        LIMIT m.most + CASE WHEN m.is_several THEN 8 ELSE 0 END
        FOR UPDATE SKIP LOCKED
    ) q
),
due AS MATERIALIZED (
    SELECT q.*, m.is_several
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id,
            32 * t.priority + CASE WHEN t.due_at <= now() - sqlc.narg(retry_max_wait)::interval THEN 0 ELSE t.retry_count END AS lane,
            t.rank, t.created_at, t.rendering_id,
            task_segments(t.content, t.sign, t.segments, sqlc.narg(sign), sqlc.narg(segment_size), @counts_segments::boolean) AS segments
        FROM tasks t
        WHERE t.pool_id = m.pool_id AND t.status = 0 AND t.lane IS NULL AND t.due_at <= m.last_due_at
            AND (t.expires_at IS NULL OR t.expires_at > now())
            AND NOT (
                t.segments <= m.rival_room AND t.failed_app_id IS NOT DISTINCT FROM @app_id::text
                AND coalesce(t.due_at > now() - sqlc.narg(retry_max_wait)::interval, true)
            )
            AND t.segments >= m.from_segments
            AND (
                NOT @is_tight::boolean
                OR task_segments(t.content, t.sign, t.segments, sqlc.narg(sign), sqlc.narg(segment_size), @counts_segments::boolean)
                    <= sqlc.narg(segments_left)::bigint
            )
        ORDER BY t.due_at
        LIMIT CASE WHEN m.most > 0 AND m.rival_room = 0 THEN greatest(500 / cardinality(@pool_ids::bigint[]), m.most) ELSE m.most END
        FOR UPDATE SKIP LOCKED
    ) q
)
SELECT o.task_id, o.pool_id, o.lane::integer AS lane, o.rank, o.created_at, o.rendering_id, o.segments::bigint AS segments,
    coalesce(CASE WHEN o.is_several THEN (SELECT 1 / c.weight FROM companies c WHERE c.id = o.company_id) END, 0)::double precision AS gap
FROM (SELECT * FROM queued UNION ALL SELECT * FROM due) o
ORDER BY o.pool_id, o.lane, o.rank, o.created_at, o.task_id;

-- TaskLease leases tasks that TaskOffer locked to the sender app_id and writes their log rows. The time is read when the rows are
-- locked, because a connection may stall and a statement may wait for locks. The ids are compared with an array: the planner could
-- turn a join around and read the whole table, if it takes the table to be almost empty.
-- name: TaskLease :many
WITH moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
leased AS (
    UPDATE tasks t
    SET status = 1,
        processing_app_id = @app_id::text,
        lease_id = nextval('send_logs_id_seq'),
        lease_until = (SELECT moment.at FROM moment) + make_interval(secs => @lease_seconds::double precision),
        updated_at = (SELECT moment.at FROM moment)
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.status = 0
    RETURNING t.task_id, t.phone_number, t.retry_count, t.lease_id, t.lease_until, t.updated_at,
        CASE WHEN @is_paced::boolean THEN (@segments::bigint[])[array_position(@task_ids::text[], t.task_id)] END AS segments,
        coalesce('【' || coalesce(t.sign, sqlc.narg(sign)) || '】', '') || t.content AS content
),
logged AS (
    INSERT INTO send_logs (
        id, task_id, app_id, phone_number, content, attempt, lease_until, created_at, segments, request_data, response_data
    )
    SELECT
        h.lease_id, h.task_id, @app_id::text, h.phone_number, h.content, h.retry_count + 1, h.lease_until, h.updated_at, h.segments,
        jsonb_build_object('app_id', @app_id::text, 'limit', @asked::bigint),
        jsonb_build_object('lease_id', h.lease_id, 'attempt', h.retry_count + 1, 'lease_until', h.lease_until)
    FROM leased h
),
counted AS (
    INSERT INTO sender_changes (sender_no, sent, at)
    SELECT @app_id::text, cardinality(@task_ids::text[]), moment.at FROM moment
)
SELECT
    h.task_id, h.phone_number, h.content::text AS content,
    h.lease_id::bigint AS lease_id,
    (h.retry_count + 1)::smallint AS attempt,
    h.lease_until::timestamptz AS lease_until,
    h.updated_at AS leased_at
FROM leased h
ORDER BY h.task_id;

-- PoolsPassed gives those of pools in which a task waits that the sender app_id may not take, because it failed there or needs more
-- segments than are left; or, if the sender found enough in its other pools, where all tasks come behind last_lane, the lane of what
-- it found last.
-- The first 1000 tasks of a pool are looked at.
-- name: PoolsPassed :many
SELECT p.pool_id::bigint AS pool_id
FROM (SELECT unnest(@pool_ids::bigint[]) AS pool_id) p
WHERE sqlc.narg(last_lane)::integer IS NULL AND (
    SELECT count(*)
    FROM (
        SELECT t.failed_app_id, t.due_at,
            task_segments(t.content, t.sign, t.segments, sqlc.narg(sign), sqlc.narg(segment_size), @counts_segments::boolean) AS segments
        FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NOT NULL AND (t.expires_at IS NULL OR t.expires_at > now())
        ORDER BY t.lane, t.rank
        LIMIT 1000
    ) w
    WHERE (w.failed_app_id = @app_id::text AND coalesce(w.due_at > now() - sqlc.narg(retry_max_wait)::interval, true)) OR w.segments > sqlc.narg(segments_left)::bigint
) > 0
    OR (
        SELECT t.lane FROM tasks t
        WHERE t.pool_id = p.pool_id AND t.status = 0 AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) > sqlc.narg(last_lane)::integer
ORDER BY p.pool_id;

-- SenderCharge writes what a claim cost the sender, in the transaction in which SenderAdmit locked it: the ledger, a row for each
-- lease; the interval for each call; the windows; the shares and turns of its pools; and that it was seen. Routes are those from
-- which it took, or whose share it let go.
-- name: SenderCharge :exec
WITH me AS MATERIALIZED (
    SELECT s.id, s.sender_no, s.time_zone, s.interval_ms, s.is_paced, s.has_balance, s.low_warning, s.low_switch, st.balance,
        st.last_taken_at, st.minute_used, st.hour_used, st.day_used, st.month_used
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    WHERE s.id = @sender_id
),
leases AS MATERIALIZED (
    SELECT l.lease_id, l.segments, sum(l.segments) OVER (ORDER BY l.place)::bigint AS total, l.place
    FROM (
        SELECT unnest(@lease_ids::bigint[]) AS lease_id, unnest(@segments::bigint[]) AS segments,
            generate_series(1, cardinality(@lease_ids::bigint[])) AS place
    ) l
),
taken AS MATERIALIZED (
    SELECT count(*) AS tasks, coalesce(sum(l.segments), 0)::bigint AS segments, coalesce(sqlc.narg(at)::timestamptz, clock_timestamp()) AS at FROM leases l
),
charged AS (
    INSERT INTO sender_ledger (sender_id, change, balance, lease_id, created_at)
    SELECT me.id, -l.segments, me.balance - l.total, l.lease_id, taken.at
    FROM leases l
    CROSS JOIN me
    CROSS JOIN taken
    WHERE me.has_balance
    ORDER BY l.place
),
ran_low AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'sender.' || mark.name, me.sender_no, jsonb_build_object('balance', me.balance - taken.segments, mark.name, mark.level)
    FROM me
    CROSS JOIN taken
    CROSS JOIN LATERAL (VALUES ('low_warning', me.low_warning), ('low_switch', me.low_switch)) AS mark (name, level)
    WHERE me.has_balance AND me.balance > mark.level AND me.balance - taken.segments <= mark.level
),
served AS (
    UPDATE routes r
    SET served = u.served, last_turn = greatest(r.last_turn, u.last_turn), next_turn = greatest(r.next_turn, u.next_turn)
    FROM (
        SELECT unnest(@route_ids::bigint[]) AS route_id, unnest(@served::double precision[]) AS served,
            unnest(@last_turns::double precision[]) AS last_turn, unnest(@next_turns::double precision[]) AS next_turn
    ) u
    WHERE r.id = u.route_id
)
UPDATE sender_states st
SET seen_at = taken.at,
    next_available_at = CASE WHEN me.interval_ms > 0 AND taken.tasks > 0
        THEN taken.at + make_interval(secs => me.interval_ms * sqlc.arg(calls)::bigint / 1000.0) ELSE st.next_available_at END,
    last_taken = CASE WHEN u IS NULL THEN st.last_taken ELSE sqlc.arg(calls)::bigint END,
    last_taken_at = CASE WHEN u IS NULL THEN st.last_taken_at ELSE taken.at END,
    balance = st.balance - taken.segments,
    minute_used = coalesce(u.this_minute + taken.segments, st.minute_used),
    hour_used = coalesce(u.this_hour + taken.segments, st.hour_used),
    day_used = coalesce(u.this_day + taken.segments, st.day_used),
    month_used = coalesce(u.this_month + taken.segments, st.month_used),
    shared_last_turn = greatest(st.shared_last_turn, sqlc.narg(shared_last_turn)::double precision),
    shared_next_turn = greatest(st.shared_next_turn, sqlc.narg(shared_next_turn)::double precision)
FROM me
CROSS JOIN taken
LEFT JOIN LATERAL (
    SELECT
        used_in_window('minute', taken.at, me.time_zone, me.minute_used, me.last_taken_at) AS this_minute,
        used_in_window('hour', taken.at, me.time_zone, me.hour_used, me.last_taken_at) AS this_hour,
        used_in_window('day', taken.at, me.time_zone, me.day_used, me.last_taken_at) AS this_day,
        used_in_window('month', taken.at, me.time_zone, me.month_used, me.last_taken_at) AS this_month
    WHERE me.is_paced AND taken.tasks > 0
) u ON true
WHERE st.sender_id = me.id AND (
    (me.is_paced AND taken.tasks > 0) OR @is_to_be_seen::boolean OR sqlc.narg(shared_next_turn)::double precision IS NOT NULL
);
