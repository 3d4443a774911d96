-- Statements of a claim. In a claim, a sender leases tasks. The following rules also apply to hold.sql, order.sql, settle.sql, watch.sql and queue/update.sql.
-- Only package queue/claim runs the generated methods of this folder (gen/dispatchq). It runs them in transactions of postgres.DB.Dispatch, so that their plans
-- do not depend on statistics.
--
-- Guards: each transition locks the row of the task. It then checks the old state of the task, and the lease holder that the caller expects. PostgreSQL
-- therefore orders concurrent callers.
--
-- Locks: a MATERIALIZED CTE finds and locks the rows, and the UPDATE selects these rows by key. Inside a join, the planner could run LIMIT with FOR UPDATE
-- again and return more rows than the limit. The UPDATE does not repeat the conditions of the CTE, because it would check them in the snapshot of the
-- statement. The locked row can be newer. Statements that can wait for the same tasks lock these tasks in the order of task_id, so that the statements cannot
-- deadlock.
--
-- Times: now() is the start of the transaction. now() decides which tasks are due or expired, so a task is never treated as due too early. Stored times are a
-- clock_timestamp() that is read while the rows are locked. A connection can stall after BEGIN, and a statement can wait for a lock, so now() can be too old.
-- The log rows of a task are therefore in the order of the changes.
--
-- Tables: queue contains the tasks that are PENDING (lease_until is null) or PROCESSING, with all columns of a message that these statements need. When a task
-- ends, its row in queue is deleted, and a row with the outcome is added to report_logs. These statements only insert into messages and report_logs, because
-- both tables have many partitions. An insert opens one partition. A query whose plan does not depend on parameters opens all partitions.
--
-- Codes: outcomes are 2 SUCCESS, 3 FAILED, 4 CANCELLED. queue.lane orders the tasks of a pool:
--   32 * priority                a new task
--   32 * priority + retry_count  a retry
--   null                         a task that is not queued yet
-- Therefore lane / 32 is the priority, and lane % 32 is the retry count (at most 20). lane < 32 means priority 0. A retry, or a task that has waited too long,
-- can be queued in a smaller lane. queue.rank orders the tasks of one lane. queue.flow_rank orders the tasks of one company in a lane, if several flows of the
-- company wait in this lane. A flow is the tasks of one batch, or the tasks of one submitter that belong to no batch.
--
-- Plans: Dispatch switches off sequential scans, bitmap scans, sorts, hash joins and merge joins, so that plans do not depend on statistics. Conditions on
-- queue repeat the predicates of the partial indexes (lease_until IS NULL AND lane IS [NOT] NULL). The ORDER BY names the columns of the index. UPDATE and
-- DELETE compare task_id with an array, and do not join a list. If the statistics show queue as almost empty, for example after a quiet hour, the planner could
-- reverse such a join and read all of queue. To check whether a row exists, the statements count a subquery with LIMIT 1. PostgreSQL drops the ORDER BY of an
-- EXISTS, and could then choose another index. OFFSET 0 stops the planner from merging a subquery into the outer query.
--
-- A claim is one transaction of the following statements. Every claim runs SenderAdmit and TaskOffer. A claim that leases a task also runs TaskLease. The other
-- statements run only if the claim needs them:
--
--    SenderAdmit    reads the sender, and returns which of the next three statements are needed
--    SenderBudget   locks the counters of the sender, and returns how many tasks and segments the sender can take
--    RouteAdmit     locks the routes of the sender, and returns the sender's share of each pool that it serves through a route
--    PoolRooms      returns which tasks of the shared pool are reserved for other shared senders
--    TaskOffer      locks the tasks that the sender could take next
--    TaskFlows      locks the tasks of companies with several waiting flows, in the order within the company
--    TaskExchange   swaps the ranks of tasks of the same company if the claim takes them in another order
--    TaskLease      leases the chosen tasks; sims.sql has the statements that choose and charge the SIM of each task
--    PoolsPassed    returns pools with tasks that the sender does not take
--    SenderCharge   writes the cost of the claim

-- SenderAdmit returns the data of a sender that a claim needs before the claim reads counters. It locks nothing. It returns no row if the sender does not exist
-- or is off.
--   is_paced        whether the claim runs SenderBudget: the sender has counters or hours, or its circuit breaker is open
--   shared_pool_id  null if the sender is not shared
--   has_primaries   whether another shared sender of the channel has a larger sort
--   gives_way       whether the circuit breaker is open or half-open
--   has_routes      whether the sender has active routes, and so can share pools with other senders
--   has_dependents  whether claims of other shared senders depend on the availability of this sender
-- Dependent senders are shared senders of the channel with a smaller sort, and driven shared senders of the channel.
--
-- is_unseen is true if the last recorded poll of the sender is older than recorded_within, or older than the time at which the sender became ready. The claim
-- must then record the poll if has_routes or has_dependents is true.
-- name: SenderAdmit :one
SELECT s.id AS sender_id, (s.is_paced OR s.has_sims OR s.hours IS NOT NULL OR coalesce(st.rest_until > clock_timestamp(), false))::boolean AS is_paced,
    s.has_sims, s.sign, s.sign_mode, s.segment_size, c.channel = 'sms' AS counts_segments,
    coalesce(s.lease_seconds::double precision, extract(epoch FROM @lease::interval))::double precision AS lease_seconds,
    (st.rest_until IS NOT NULL)::boolean AS gives_way, p.id AS shared_pool_id, st.shared_last_turn, st.shared_next_turn,
    coalesce(
        st.seen_at < clock_timestamp() - @recorded_within::interval
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
WHERE s.sender_no = @sender_no::text AND s.status = 'on';

-- SenderBudget returns how many tasks and segments a sender can take now. It returns no row if the sender is off, and 0 tasks outside its hours. segments is valid only if has_limit
-- is true.
-- interval_seconds is the time between two tasks. It is 0 if the sender has no interval, or sends all tasks in one call.
--
-- The statement locks the row of the sender in sender_states, so that concurrent polls of the sender are counted one after the other. It checks readiness
-- before the lock, because a row lock writes WAL, so that even an empty claim would wait for fsync. The statement also locks the row of a sender whose SIMs are
-- used up, because they can still send to recipients that they already count.
-- name: SenderBudget :one
WITH me AS MATERIALIZED (
    SELECT s.*, st.next_available_at, st.balance, st.last_taken_at, st.minute_used, st.hour_used, st.day_used, st.month_used
    FROM senders s
    JOIN sender_standings x ON x.sender_id = s.id
    LEFT JOIN LATERAL (
        SELECT * FROM sender_states
        WHERE sender_id = s.id AND in_hours(s.hours, s.time_zone, now()) AND x.is_rested AND (x.has_quota OR s.has_sims) AND x.has_funds FOR UPDATE
    ) st ON true
    WHERE s.id = @sender_id AND s.status = 'on'
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM me) m -- depends on me, so the time is read after the row is locked
)
SELECT
    CASE
        WHEN me.next_available_at IS NULL OR me.next_available_at > moment.at THEN 0
        WHEN me.has_balance AND coalesce(me.balance, 0) <= coalesce(me.low_switch, 0) THEN 0
        -- Do not lease more tasks than the sender can send before the leases expire. The other leases would expire, and their tasks could be sent twice. One
        -- call for all tasks takes only one interval.
        WHEN me.interval_ms > 0 AND NOT @in_one_call::boolean
            THEN least(@claim_limit::bigint, greatest(1, floor(1000 * sqlc.arg(lease_seconds)::double precision / me.interval_ms)::bigint))
        ELSE @claim_limit::bigint
    END::bigint AS tasks,
    (l.segments IS NOT NULL)::boolean AS has_limit, coalesce(l.segments, 0)::bigint AS segments,
    CASE WHEN @in_one_call::boolean THEN 0 ELSE coalesce(me.interval_ms, 0) / 1000.0 END::double precision AS interval_seconds
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

-- RouteAdmit locks the routes of a sender whose pools have waiting tasks. It returns the numbers that limit how many tasks the sender can take from each pool.
-- Empty pools are excluded before the lock.
--
-- The statement compares each route with the other routes of the pool whose senders are available. A sender is available if it is on, in its
-- hours, has quota and funds, its circuit breaker is closed, and it polled within silent_after.
--
-- is_outranked: another of these routes has a larger sort. The sender can then take only tasks that need more than primary_room segments. primary_room is the
-- largest number of segments that a sender of such a route has left.
--
-- Rivals are routes of the same sort whose senders are ready and have polled since they became ready. The shares are calculated from served: the number of
-- tasks that were taken through a route, divided by its weight.
--
-- gives_way: the circuit breaker of the sender is open or half-open. The routes of the sender are then also compared with routes that have a smaller sort.
-- rival_room is the largest number of segments that a ready sender of a compared route has left. A task that failed with this sender and needs at most
-- rival_room segments is reserved for the other senders.
--
-- last_turn is the largest last_turn of all routes of the sender.
-- name: RouteAdmit :many
WITH routed AS MATERIALIZED (
    SELECT r.id, r.pool_id, r.weight, r.sort, r.served, r.next_turn
    FROM routes r
    WHERE r.sender_id = @sender_id AND r.status = 'on'
        -- A task for one sender waits until the sender is allowed to serve the company of the task.
        AND EXISTS (SELECT FROM pools p WHERE p.id = r.pool_id AND (p.sender_id IS NULL OR sender_serves(p.sender_id, p.company_id)))
        AND (
            (SELECT count(*) FROM (
                -- PENDING and queued. A count with LIMIT 1 keeps the ORDER BY, which forces queue_order_idx; an EXISTS would drop the ORDER BY.
                SELECT FROM queue t WHERE t.pool_id = r.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
                ORDER BY t.lane, t.rank LIMIT 1
            ) q) > 0
            OR (SELECT count(*) FROM (
                -- PENDING and not queued yet, by queue_unqueued_idx
                SELECT FROM queue t WHERE t.pool_id = r.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
                ORDER BY t.due_at LIMIT 1
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
        -- r is the locked route with its current values. w is the same route, and o is another route, both with the values of the snapshot of the statement.
        -- Therefore w.served and o.served can be compared.
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

-- PoolRooms returns which tasks of its shared pool a shared sender cannot take. The rules are those of RouteAdmit. is_outranked: a shared sender with a larger
-- sort is available. The sender can then take only tasks that need more than primary_room segments. gives_way: the circuit breaker of the sender is open or
-- half-open. A task that failed with the sender and needs at most rival_room segments is then reserved for other available and ready senders.
--
-- The statement has two subqueries. With thousands of shared senders, each subquery reads only the rows that the claim needs, by the index on sort.
-- name: PoolRooms :one
SELECT (v.primary_room IS NOT NULL)::boolean AS is_outranked,
    coalesce(v.primary_room, 0)::bigint AS primary_room, coalesce(w.rival_room, 0)::bigint AS rival_room
FROM senders s
CROSS JOIN LATERAL (
    SELECT max(x.room) AS primary_room
    FROM senders o
    -- OFFSET 0 forces a lookup by sender. Without it, the planner would compute the view for all senders.
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

-- TaskOffer locks the tasks that a sender can take next. max_tasks has one entry for each pool: the largest number of tasks from this pool. The order of the tasks
-- is:
--   1. priority
--   2. new tasks before retries, and retries by retry_count (S0.10)
--   3. rank, which divides a pool fairly between companies
-- The caller merges the tasks of all pools, and leases its choice with TaskLease in the same transaction. If pool_ids has several pools, each pool returns up
-- to 8 more tasks. The caller uses these tasks to calculate next_turn of the pool. gap is the share of its company that one task uses; 0 for a single pool.
--
-- Due tasks that are not queued yet are also offered. Each pool returns the tasks with the earliest due times, at most 500 from all pools together. The caller
-- selects among these tasks by lane, and a sweep queues the rest. A retry that has been due for retry_max_wait counts as a new task. retry_max_wait null: a
-- retry never counts as a new task.
--
-- has_flows is true for a queued task if a company has several waiting flows in the pool of the task. TaskFlows then returns which tasks of the company are
-- taken at the ranks of the returned tasks.
--
-- is_tight: the sender possibly has fewer segments left than a task needs, or no SIM for its recipient. Only tasks with at most segments_left segments are then
-- offered. sims_at: if the sender has SIMs, only tasks for which a SIM has room at this time are then offered; null: the sender has no SIMs. from_segments: a
-- backup sender is offered only tasks with at least this number of segments, because its primary senders cannot send these tasks; 0 for all tasks. With
-- is_tight or from_segments, the search ends after the first 1000 tasks of a pool. The same is true while any tasks wait in quiet hours (quiet_waits): until
-- the sweep has moved them, many of the first tasks could be unfit. last_lane, last_rank and last_due_at are the position of the 1000th task. They end the scan
-- because they are index conditions. As filters, they would not end the scan, and the scan would read the whole pool if other claims have locked the first tasks.
-- 32767 and infinity are greater than every lane and rank.
--
-- rival_rooms: a task that failed with the sender and needs at most this number of segments is not offered, because a rival can send the task; 0 without
-- rivals. The task is offered again when it has been due for retry_max_wait.
--
-- A task that expires within min_lease, or before whose sending quiet hours could begin, is not offered (task_fits): the sender could not send it in time. seconds_left is the time
-- that is left to send a task.
--
-- A task of a paused or cancelled batch is not offered: a sender can have returned it after the tasks of the batch were held or cancelled, and before the sweep
-- feed-batches holds or cancels it.
--
-- A task is not offered while a switch (task_switches) holds it. TaskHoldSwitched later removes such tasks from the searched indexes. A change of a switch waits
-- for the claims that began before the change.
-- name: TaskOffer :many
WITH stopped AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE NOT b.is_settled AND b.status IN ('paused', 'cancelled')
),
asked AS MATERIALIZED (
    SELECT u.*, coalesce(e.lane, 32767::smallint) AS last_lane, coalesce(e.rank, 'infinity') AS last_rank,
        coalesce(d.due_at, now()) AS last_due_at, w.pool_id IS NOT NULL AS has_flows, s.may_hold, s.has_disabled_users
    FROM (
        SELECT unnest(@pool_ids::bigint[]) AS pool_id, unnest(@max_tasks::bigint[]) AS max_tasks, unnest(@rival_rooms::bigint[]) AS rival_room,
            unnest(@from_segments::bigint[]) AS from_segments, cardinality(@pool_ids::bigint[]) > 1 AS is_several
    ) u
    CROSS JOIN switches s
    CROSS JOIN quiet_waits n
    LEFT JOIN LATERAL (
        SELECT t.lane, t.rank FROM queue t -- PENDING
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL AND (@is_tight::boolean OR u.from_segments > 0 OR n.has_quiet)
        ORDER BY t.lane, t.rank OFFSET 999 LIMIT 1
    ) e ON true
    LEFT JOIN LATERAL (
        SELECT t.due_at FROM queue t
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= now()
            AND (@is_tight::boolean OR u.from_segments > 0 OR n.has_quiet)
        ORDER BY t.due_at OFFSET 999 LIMIT 1
    ) d ON true
    LEFT JOIN LATERAL (
        SELECT t.pool_id FROM queue t
        WHERE t.pool_id = u.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.flow_rank IS NOT NULL -- by queue_flow_ranks_idx
        ORDER BY t.pool_id, t.lane, t.company_id, t.flow_rank
        LIMIT 1
    ) w ON true
),
queued AS MATERIALIZED (
    SELECT q.*, m.is_several, m.has_flows
    FROM asked m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id, t.lane::integer AS lane, t.rank, t.flow_rank, t.created_at, t.rendering_id, send_before(t) AS send_before, z.segments
        FROM queue t
        CROSS JOIN LATERAL (SELECT sent_segments(
            t.content, t.sign, t.segments, sqlc.narg(sign), @sign_mode::text, sqlc.narg(segment_size), @counts_segments::boolean
        ) AS segments) z
        WHERE t.pool_id = m.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL AND (t.lane, t.rank) <= (m.last_lane, m.last_rank)
            AND task_fits(t, @sender_no::text, @min_lease::interval, m.from_segments, m.rival_room, sqlc.narg(retry_max_wait)::interval)
            AND (t.batch_id IS NULL OR t.batch_id NOT IN (SELECT b.id FROM stopped b))
            AND NOT (m.may_hold AND EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, '')))
            AND NOT (m.has_disabled_users AND EXISTS (SELECT FROM users u WHERE u.username = coalesce(t.submitted_by, task_submitter(t.task_id)) AND u.is_disabled))
            AND (NOT @is_tight::boolean OR coalesce(z.segments <= sqlc.narg(segments_left)::bigint, true)
                AND (sqlc.narg(sims_at)::timestamptz IS NULL OR sims_fit(@sender_id, t.recipient, z.segments, sqlc.narg(sims_at))))
        ORDER BY t.lane, t.rank
        LIMIT m.max_tasks + CASE WHEN m.is_several THEN 8 ELSE 0 END -- 8 more tasks, from which the caller calculates next_turn of the pool
        FOR UPDATE OF t SKIP LOCKED
    ) q
),
due AS MATERIALIZED (
    SELECT q.*, m.is_several, false AS has_flows
    FROM asked m
    CROSS JOIN LATERAL (
        SELECT t.task_id, t.pool_id, t.company_id,
            -- the lane that TaskQueue would set; a retry that has waited too long has the lane of a new task
            32 * t.priority + CASE WHEN t.due_at <= now() - sqlc.narg(retry_max_wait)::interval THEN 0 ELSE t.retry_count END AS lane,
            t.rank, t.flow_rank, t.created_at, t.rendering_id, send_before(t) AS send_before, z.segments
        FROM queue t
        CROSS JOIN LATERAL (SELECT sent_segments(
            t.content, t.sign, t.segments, sqlc.narg(sign), @sign_mode::text, sqlc.narg(segment_size), @counts_segments::boolean
        ) AS segments) z
        WHERE t.pool_id = m.pool_id AND t.lease_until IS NULL AND t.lane IS NULL AND t.due_at <= m.last_due_at
            AND task_fits(t, @sender_no::text, @min_lease::interval, m.from_segments, m.rival_room, sqlc.narg(retry_max_wait)::interval)
            AND (t.batch_id IS NULL OR t.batch_id NOT IN (SELECT b.id FROM stopped b))
            AND NOT (m.may_hold AND EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, '')))
            AND NOT (m.has_disabled_users AND EXISTS (SELECT FROM users u WHERE u.username = coalesce(t.submitted_by, task_submitter(t.task_id)) AND u.is_disabled))
            AND (NOT @is_tight::boolean OR coalesce(z.segments <= sqlc.narg(segments_left)::bigint, true)
                AND (sqlc.narg(sims_at)::timestamptz IS NULL OR sims_fit(@sender_id, t.recipient, z.segments, sqlc.narg(sims_at))))
        ORDER BY t.due_at, t.priority
        LIMIT CASE WHEN m.max_tasks > 0 AND m.rival_room = 0 THEN greatest(500 / cardinality(@pool_ids::bigint[]), m.max_tasks) ELSE m.max_tasks END
        FOR UPDATE OF t SKIP LOCKED
    ) q
)
SELECT o.task_id, o.pool_id, o.company_id, o.lane::integer AS lane, o.rank, o.flow_rank, o.created_at, o.rendering_id, o.segments::bigint AS segments,
    o.has_flows::boolean AS has_flows, coalesce(extract(epoch FROM o.send_before - clock_timestamp()), 'infinity')::double precision AS seconds_left,
    coalesce(CASE WHEN o.is_several THEN (SELECT 1 / c.weight FROM companies c WHERE c.id = o.company_id) END, 0)::double precision AS gap
FROM (SELECT * FROM queued UNION ALL SELECT * FROM due) o
ORDER BY o.pool_id, o.lane, o.rank, o.created_at, o.task_id;

-- TaskFlows locks tasks of companies with several waiting flows, in their order within the company. max_tasks has one entry for each pool, lane and company: the
-- number of tasks that TaskOffer returned for these three. The conditions and the limit of the search are those of TaskOffer. Tasks without a flow_rank are not
-- returned: TaskOffer orders them by rank, and has already returned the first of them.
-- name: TaskFlows :many
WITH stopped AS MATERIALIZED (
    SELECT b.id FROM batches b WHERE NOT b.is_settled AND b.status IN ('paused', 'cancelled')
),
asked AS MATERIALIZED (
    SELECT u.*, coalesce(e.flow_rank, 'infinity') AS last_flow_rank, s.may_hold, s.has_disabled_users
    FROM (
        SELECT unnest(@pool_ids::bigint[]) AS pool_id, unnest(@lanes::integer[]) AS lane, unnest(@company_ids::bigint[]) AS company_id,
            unnest(@max_tasks::bigint[]) AS max_tasks, unnest(@rival_rooms::bigint[]) AS rival_room, unnest(@from_segments::bigint[]) AS from_segments
    ) u
    CROSS JOIN switches s
    CROSS JOIN quiet_waits n
    LEFT JOIN LATERAL (
        SELECT t.flow_rank FROM queue t
        WHERE t.pool_id = u.pool_id AND t.lane = u.lane AND t.company_id = u.company_id
            AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.flow_rank IS NOT NULL -- PENDING and queued, by queue_flow_ranks_idx
            AND (@is_tight::boolean OR u.from_segments > 0 OR n.has_quiet)
        ORDER BY t.flow_rank
        OFFSET 999 LIMIT 1
    ) e ON true
)
SELECT q.task_id, q.pool_id, q.company_id, q.lane::integer AS lane, q.rank, q.flow_rank, q.created_at, q.rendering_id, q.segments::bigint AS segments,
    coalesce(extract(epoch FROM q.send_before - clock_timestamp()), 'infinity')::double precision AS seconds_left
FROM asked m
CROSS JOIN LATERAL (
    SELECT t.task_id, t.pool_id, t.company_id, t.lane, t.rank, t.flow_rank, t.created_at, t.rendering_id, send_before(t) AS send_before, z.segments
    FROM queue t
    CROSS JOIN LATERAL (SELECT sent_segments(
        t.content, t.sign, t.segments, sqlc.narg(sign), @sign_mode::text, sqlc.narg(segment_size), @counts_segments::boolean
    ) AS segments) z
    WHERE t.pool_id = m.pool_id AND t.lane = m.lane AND t.company_id = m.company_id
        AND t.lease_until IS NULL AND t.lane IS NOT NULL AND t.flow_rank IS NOT NULL AND t.flow_rank <= m.last_flow_rank
        AND task_fits(t, @sender_no::text, @min_lease::interval, m.from_segments, m.rival_room, sqlc.narg(retry_max_wait)::interval)
        AND (t.batch_id IS NULL OR t.batch_id NOT IN (SELECT b.id FROM stopped b))
        AND NOT (m.may_hold AND EXISTS (SELECT FROM task_switches(t.pool_id, t.company_id, t.country_no, '')))
        AND NOT (m.has_disabled_users AND EXISTS (SELECT FROM users u WHERE u.username = coalesce(t.submitted_by, task_submitter(t.task_id)) AND u.is_disabled))
        AND (NOT @is_tight::boolean OR coalesce(z.segments <= sqlc.narg(segments_left)::bigint, true)
            AND (sqlc.narg(sims_at)::timestamptz IS NULL OR sims_fit(@sender_id, t.recipient, z.segments, sqlc.narg(sims_at))))
    ORDER BY t.flow_rank, t.task_id
    LIMIT m.max_tasks
    FOR UPDATE OF t SKIP LOCKED
) q
ORDER BY q.pool_id, q.lane, q.company_id, q.flow_rank, q.task_id;

-- TaskExchange swaps ranks within a company. If a claim takes a task at the rank of another task of the same company, the other task receives the rank of the
-- taken task. The order within the company does not change. The claim has locked both tasks.
-- name: TaskExchange :exec
UPDATE queue t
SET rank = (@ranks::double precision[])[array_position(@task_ids::text[], t.task_id)], flow_rank = coalesce(t.flow_rank, t.rank)
WHERE t.task_id = ANY (@task_ids::text[]) AND t.lease_until IS NULL;

-- TaskLease leases tasks that TaskOffer locked. It skips tasks that have expired since TaskOffer. The statement that ends a lease writes the lease to
-- report_logs.
--   at          the start of all leases of the claim; null means now
--   ranks       the new rank of a task that is taken at the rank of another task of its company; NULL for other tasks
--   has_flows   whether ranks contains a rank
--   sims        the slot of the SIM of each task, 0: the sender chooses; used if has_sims is true
--   must_start  whether the sender must call TaskStart before its leases expire; TaskStart extends the leases
-- A lease ends at the latest at send_before: when its task expires, or when quiet hours of the recipient begin. If the lease is released, the task waits at its
-- new rank. content is the text for the sender. sign is the signature at the beginning of content, or the signature that the provider adds. An empty sign means
-- no signature. sealed is the encrypted text of a sensitive message, whose content is masked.
-- name: TaskLease :many
WITH moment AS MATERIALIZED (
    SELECT coalesce(sqlc.narg(at)::timestamptz, clock_timestamp()) AS at
),
leased AS (
    UPDATE queue t
    SET processing_app_id = @sender_no::text,
        lease_id = nextval('lease_ids'),
        lease_until = least((SELECT moment.at FROM moment) + make_interval(secs => @lease_seconds::double precision), send_before(t)), -- PROCESSING
        start_until = CASE WHEN @must_start::boolean -- the same time as lease_until
            THEN least((SELECT moment.at FROM moment) + make_interval(secs => @lease_seconds::double precision), send_before(t)) END,
        lease_segments = nullif( -- stored if the sender has limits, or if its signature or segment size changes the number of segments
            (@segments::bigint[])[array_position(@task_ids::text[], t.task_id)], CASE WHEN NOT @is_paced::boolean THEN t.segments END
        ),
        lease_sign = CASE WHEN t.sign IS NULL THEN sqlc.narg(sign)::text END,
        lease_sign_mode = nullif(@sign_mode::text, 'in_text'),
        lease_limit = @asked::smallint,
        updated_at = (SELECT moment.at FROM moment),
        rank = CASE WHEN @has_flows::boolean THEN coalesce((@ranks::float8[])[array_position(@task_ids::text[], t.task_id)], t.rank) ELSE t.rank END,
        flow_rank = CASE WHEN @has_flows::boolean AND (@ranks::float8[])[array_position(@task_ids::text[], t.task_id)] IS NOT NULL
            THEN coalesce(t.flow_rank, t.rank) ELSE t.flow_rank END,
        lease_sim = CASE WHEN @has_sims::boolean THEN nullif((@sims::smallint[])[array_position(@task_ids::text[], t.task_id)], 0) END
    WHERE t.task_id = ANY (@task_ids::text[]) AND t.lease_until IS NULL -- PENDING
        AND coalesce(send_before(t), 'infinity') > (SELECT moment.at FROM moment)
    RETURNING t.task_id, t.company_id, t.phone_number, t.retry_count, t.lease_id, t.lease_until, send_before(t) AS send_before, t.updated_at,
        t.traceparent, t.batch_id, t.sealed, handed_text(t.content, coalesce(t.sign, t.lease_sign), t.lease_sign_mode) AS content,
        CASE WHEN @sign_mode::text = 'none' THEN '' ELSE coalesce(t.sign, t.lease_sign, '') END AS sign
)
SELECT
    h.task_id, h.company_id, h.phone_number, h.content::text AS content, h.sign::text AS sign,
    h.lease_id::bigint AS lease_id,
    (h.retry_count + 1)::smallint AS attempt,
    h.lease_until::timestamptz AS lease_until, h.send_before::timestamp with time zone AS send_before, -- null: no limit
    h.traceparent, h.batch_id, h.sealed,
    h.updated_at AS leased_at
FROM leased h
ORDER BY h.task_id;

-- TaskTest locks a task and the counters of a sender, and returns the cost of a test of this sender. The state of the sender is not checked. segments includes
-- the signature of the sender. The task expires with its lease, so that it is not sent again if the lease ends without a report. The statement returns no row if
-- the sender or the task was deleted.
-- name: TaskTest :one
WITH tested AS (
    UPDATE queue q
    SET expires_at = clock_timestamp() + make_interval(secs => @lease_seconds::double precision)
    WHERE q.task_id = @task_id AND q.lease_until IS NULL
    RETURNING q.content, q.sign, q.segments, q.company_id
)
SELECT s.id AS sender_id, s.is_paced, s.sign, s.sign_mode, t.company_id,
    sent_segments(t.content, t.sign, t.segments, s.sign, s.sign_mode, s.segment_size, true)::bigint AS segments,
    coalesce(s.has_balance AND st.balance < sent_segments(t.content, t.sign, t.segments, s.sign, s.sign_mode, s.segment_size, true), false)::boolean AS is_broke
FROM tested t
CROSS JOIN senders s
JOIN sender_states st ON st.sender_id = s.id
WHERE s.sender_no = @sender_no
FOR UPDATE OF st;

-- PoolsPassed returns the pools of pool_ids in which tasks remain for other senders. last_lane null: a pool is returned if this sender cannot take one of its
-- first 1000 tasks, because the task failed with this sender, because the task needs more segments than the sender has left, or because no SIM of the sender
-- has room for it (sims_at, see TaskOffer). last_lane not null: the claim is full, and last_lane is the lane of the last task that the sender took. A pool is
-- returned if its first task is in a later lane.
-- name: PoolsPassed :many
SELECT p.pool_id::bigint AS pool_id
FROM (SELECT unnest(@pool_ids::bigint[]) AS pool_id) p
WHERE sqlc.narg(last_lane)::integer IS NULL AND (
    SELECT count(*)
    FROM (
        SELECT t.failed_app_id, t.due_at, t.recipient,
            sent_segments(t.content, t.sign, t.segments, sqlc.narg(sign), @sign_mode::text, sqlc.narg(segment_size), @counts_segments::boolean) AS segments
        FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL -- PENDING
            AND coalesce(t.expires_at, 'infinity') > now() + @min_lease::interval AND quiet_begins(t) IS NOT TRUE
        ORDER BY t.lane, t.rank
        LIMIT 1000
    ) w
    WHERE (w.failed_app_id = @sender_no::text AND coalesce(w.due_at > now() - sqlc.narg(retry_max_wait)::interval, true))
        OR w.segments > sqlc.narg(segments_left)::bigint
        OR CASE WHEN sqlc.narg(sims_at)::timestamptz IS NOT NULL THEN NOT sims_fit(@sender_id, w.recipient, w.segments, sqlc.narg(sims_at)) END
) > 0
    OR (
        SELECT t.lane FROM queue t
        WHERE t.pool_id = p.pool_id AND t.lease_until IS NULL AND t.lane IS NOT NULL
        ORDER BY t.lane, t.rank
        LIMIT 1
    ) > sqlc.narg(last_lane)::integer
ORDER BY p.pool_id;

-- SenderCharge writes the cost of a claim, in the transaction of the claim. It writes a ledger row for each lease, the interval of each call, the used segments
-- of the limits, the shares and fairness positions (last_turn, next_turn) of the pools, and the time of the poll. route_ids: the routes whose share or position
-- the claim changes.
-- name: SenderCharge :exec
WITH me AS MATERIALIZED (
    SELECT s.id, s.sender_no, s.time_zone, s.interval_ms, s.is_paced OR s.has_sims AS is_paced, s.has_balance, s.low_warning, s.low_switch, st.balance,
        st.last_taken_at, st.minute_used, st.hour_used, st.day_used, st.month_used
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    WHERE s.id = @sender_id
),
leases AS MATERIALIZED (
    SELECT l.lease_id, l.company_id, l.segments, sum(l.segments) OVER (ORDER BY l.nth)::bigint AS total, l.nth
    FROM (
        SELECT unnest(@lease_ids::bigint[]) AS lease_id, unnest(@company_ids::bigint[]) AS company_id,
            unnest(@segments::bigint[]) AS segments, generate_series(1, cardinality(@lease_ids::bigint[])) AS nth
    ) l
),
taken AS MATERIALIZED (
    SELECT count(*) AS tasks, coalesce(sum(l.segments), 0)::bigint AS segments,
        coalesce(sqlc.narg(at)::timestamptz, clock_timestamp()) AS at
    FROM leases l
),
charged AS (
    INSERT INTO sender_ledger (sender_id, change, balance, lease_id, company_id, created_at)
    SELECT me.id, -l.segments, me.balance - l.total, l.lease_id, l.company_id, taken.at
    FROM leases l
    CROSS JOIN me
    CROSS JOIN taken
    WHERE me.has_balance
    ORDER BY l.nth
),
ran_low AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'sender.' || mark.name, me.sender_no, jsonb_build_object('balance', me.balance - taken.segments, mark.name, mark.level)
    FROM me
    CROSS JOIN taken
    CROSS JOIN LATERAL (VALUES ('low_warning', me.low_warning), ('low_switch', me.low_switch)) AS mark (name, level)
    WHERE me.has_balance AND me.balance > mark.level AND me.balance - taken.segments <= mark.level
),
advanced AS (
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
