-- Statements on senders: their configuration, limits, balance and statistics.

-- SenderConfigs returns the configurations of all senders except apps. These configurations can contain secrets.
-- name: SenderConfigs :many
SELECT s.sender_no, s.kind, s.config, s.version FROM senders s WHERE s.kind <> 'app' ORDER BY s.id;

-- SenderReencrypt stores a configuration that was encrypted again with the current key. It changes nothing if the sender was changed meanwhile.
-- name: SenderReencrypt :execrows
UPDATE senders SET config = @config WHERE sender_no = @sender_no AND version = @version;

-- SenderRegister creates the sender of an app that polls for the first time.
-- name: SenderRegister :exec
WITH made AS (
    INSERT INTO senders (sender_no, name, is_self_registered) VALUES (@sender_no, @sender_no, true)
    ON CONFLICT (sender_no) DO NOTHING
    RETURNING id
)
INSERT INTO sender_states (sender_id) SELECT made.id FROM made;

-- name: SenderFind :one
SELECT id, channel_id FROM senders WHERE sender_no = @sender_no;

-- name: SenderCreate :one
WITH made AS (
    INSERT INTO senders (
        sender_no, name, channel_id, kind, status, sort, is_shared, interval_ms, per_minute, per_hour, per_day, per_month, time_zone, hours,
        lease_seconds, sign, sign_mode, segment_size, low_warning, low_switch, config, on_unclear, has_balance, segment_price, inbox_company_id
    )
    VALUES (
        @sender_no, @name, (SELECT c.id FROM channels c WHERE c.channel = @channel), @kind, @status, @sort::double precision,
        @is_shared, @interval_ms, sqlc.narg(per_minute), sqlc.narg(per_hour), sqlc.narg(per_day), sqlc.narg(per_month), @time_zone, sqlc.narg(hours),
        sqlc.narg(lease_seconds), sqlc.narg(sign), @sign_mode, sqlc.narg(segment_size), sqlc.narg(low_warning), sqlc.narg(low_switch), @config,
        @on_unclear, sqlc.narg(balance)::bigint IS NOT NULL, sqlc.narg(segment_price),
        (SELECT o.id FROM companies o WHERE o.company_no = sqlc.narg(inbox_company_no)::text)
    )
    RETURNING id
),
state AS (
    INSERT INTO sender_states (sender_id, balance, granted)
    SELECT made.id, sqlc.narg(balance)::bigint, coalesce(sqlc.narg(balance)::bigint, 0) FROM made
),
ledger AS (
    INSERT INTO sender_ledger (sender_id, change, balance, low_warning, low_switch, remark, username)
    SELECT made.id, sqlc.narg(balance)::bigint, sqlc.narg(balance)::bigint, sqlc.narg(low_warning), sqlc.narg(low_switch),
        'opening balance', @username::text
    FROM made
    WHERE sqlc.narg(balance)::bigint IS NOT NULL
)
SELECT made.id FROM made;

-- SenderList returns senders with their remaining limits and their totals, newest first. part is a substring of the number or the name of the sender. The
-- comparison ignores case, in any locale of the database.
-- name: SenderList :many
SELECT
    s.id, s.sender_no, s.name, c.channel, s.kind, s.status, s.sort::double precision AS sort, s.is_shared, s.interval_ms,
    s.per_minute, s.per_hour, s.per_day, s.per_month, s.time_zone, s.hours, s.lease_seconds, s.sign, s.sign_mode, s.segment_size, s.low_warning,
    s.low_switch, s.segment_price, o.company_no AS inbox_company_no, s.config, s.on_unclear, s.version, s.created_at, s.updated_at,
    st.balance, st.granted, n.next_available_at,
    x.minute_used::bigint AS minute_used, x.hour_used::bigint AS hour_used, x.day_used::bigint AS day_used,
    x.month_used::bigint AS month_used,
    u.seen_at, u.sent_at, u.attempts, u.succeeded, u.failed, u.unreported, u.failed_tasks, u.response_ms,
    st.openings, st.rest_until, st.rest_reason, coalesce(st.rest_until > clock_timestamp(), false)::boolean AS is_open,
    (x.is_on AND x.is_rested AND x.has_quota AND x.has_funds AND in_hours(s.hours, s.time_zone, now()) AND links_are_bound(s.id, s.kind)
        AND NOT z.is_silent)::boolean AS is_ready, z.is_silent::boolean AS is_silent
FROM senders s
CROSS JOIN LATERAL (
    SELECT (
        SELECT o.is_silent FROM sender_silences(@silent_after::interval, @recorded_apart::interval) o WHERE o.sender_id = s.id
    )::boolean AS is_silent
    OFFSET 0 -- without OFFSET 0, the value is computed for each use
) z
JOIN sender_states st ON st.sender_id = s.id
JOIN sender_totals u ON u.sender_id = s.id
JOIN sender_standings x ON x.sender_id = s.id
JOIN channels c ON c.id = s.channel_id
LEFT JOIN companies o ON o.id = s.inbox_company_id AND (sqlc.narg(company_id)::bigint IS NULL OR o.id = sqlc.narg(company_id)::bigint) -- no number of another company
LEFT JOIN sender_states n ON n.sender_id = s.id AND isfinite(n.next_available_at) -- -infinity, if the sender never had to wait, is returned as null
WHERE s.id < @before_id AND (sqlc.narg(sender_no)::text IS NULL OR s.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(status)::text IS NULL OR s.status = sqlc.narg(status)::text)
    AND (
        sqlc.narg(part)::text IS NULL
        OR strpos(fold_case(s.sender_no), fold_case(sqlc.narg(part)::text)) > 0
        OR strpos(fold_case(s.name), fold_case(sqlc.narg(part)::text)) > 0
    )
    AND (sqlc.narg(company_id)::bigint IS NULL OR EXISTS (
        SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
        WHERE r.sender_id = s.id AND p.company_id = sqlc.narg(company_id)::bigint AND p.sender_id IS NULL
    ))
ORDER BY s.id DESC
LIMIT @page_limit::integer;

-- SenderUpdate writes all changeable columns of a sender, and writes changed thresholds to the ledger. config null: the current config is not changed, because
-- SenderReencrypt can change the config without a new version. If interval_ms changes, the new interval counts from the last claim. The sender is ready when the
-- new interval has passed for each task of the last claim (S4.4). is_mended: the statement also closes the circuit breaker.
-- name: SenderUpdate :execrows
WITH before AS MATERIALIZED (
    SELECT s.id, s.interval_ms, s.low_warning, s.low_switch FROM senders s WHERE s.sender_no = @sender_no FOR UPDATE
),
changed AS (
    UPDATE senders s
    SET name = @name, kind = @kind, status = @status, sort = sqlc.arg(sort)::double precision::numeric, is_shared = @is_shared,
        interval_ms = @interval_ms, per_minute = sqlc.narg(per_minute), per_hour = sqlc.narg(per_hour), per_day = sqlc.narg(per_day),
        per_month = sqlc.narg(per_month), time_zone = @time_zone, hours = sqlc.narg(hours), lease_seconds = sqlc.narg(lease_seconds),
        sign = sqlc.narg(sign), sign_mode = @sign_mode, segment_size = sqlc.narg(segment_size),
        low_warning = sqlc.narg(low_warning), low_switch = sqlc.narg(low_switch),
        segment_price = sqlc.narg(segment_price), inbox_company_id = (SELECT o.id FROM companies o WHERE o.company_no = sqlc.narg(inbox_company_no)::text),
        config = coalesce(sqlc.narg(config), s.config), on_unclear = @on_unclear, version = s.version + 1, updated_at = now(),
        has_sims = s.has_sims AND @kind = 'app'
    FROM before b
    WHERE s.id = b.id AND s.version = @version
    RETURNING s.id, s.interval_ms, s.low_warning, s.low_switch, b.interval_ms AS interval_before, b.low_warning AS low_warning_before,
        b.low_switch AS low_switch_before, @is_mended::boolean AS is_mended
),
sims_removed AS (
    DELETE FROM sender_sims m USING changed c WHERE m.sender_id = c.id AND @kind <> 'app' -- only apps choose a SIM
),
thresholds_logged AS (
    INSERT INTO sender_ledger (sender_id, change, balance, low_warning, low_switch, remark, username)
    SELECT c.id, 0, coalesce(st.balance, 0), c.low_warning, c.low_switch, 'thresholds', @username::text
    FROM changed c
    CROSS JOIN LATERAL (SELECT * FROM sender_states WHERE sender_id = c.id FOR UPDATE) st
    WHERE c.low_warning IS DISTINCT FROM c.low_warning_before OR c.low_switch IS DISTINCT FROM c.low_switch_before
),
interval_applied AS (
    UPDATE sender_states st
    SET next_available_at = greatest(
            CASE WHEN st.last_taken_at IS NOT NULL THEN st.last_taken_at + make_interval(secs => st.last_taken * c.interval_ms / 1000.0)
                ELSE '-infinity' END, -- ready at once, because the sender never claimed a task
            CASE WHEN NOT c.is_mended THEN st.rest_until END
        ),
        openings = CASE WHEN c.is_mended THEN 0 ELSE st.openings END,
        rest_until = CASE WHEN NOT c.is_mended THEN st.rest_until END,
        rest_reason = CASE WHEN NOT c.is_mended THEN st.rest_reason END,
        probe_until = CASE WHEN NOT c.is_mended THEN st.probe_until END
    FROM changed c
    WHERE st.sender_id = c.id AND (
        (c.interval_ms <> c.interval_before AND st.last_taken_at IS NOT NULL) OR (c.is_mended AND st.openings > 0)
    )
)
SELECT FROM changed;

-- SenderDelete deletes a sender that was never used, and returns the number of deleted senders. A foreign key prevents the deletion if a route names the
-- sender, or if tasks wait only for this sender.
-- name: SenderDelete :one
WITH deleted AS (
    DELETE FROM senders s
    WHERE s.sender_no = @sender_no
        AND (SELECT st.attempts FROM sender_states st WHERE st.sender_id = s.id) = 0
        AND (SELECT count(*) FROM (SELECT FROM sender_ledger l WHERE l.sender_id = s.id AND l.change <> 0 LIMIT 1) b) = 0 -- no change of the balance
        AND (SELECT count(*) FROM facts f WHERE f.sender_no = s.sender_no) = 0
    RETURNING s.id
),
thresholds AS (
    DELETE FROM sender_ledger l USING deleted WHERE l.sender_id = deleted.id
)
SELECT count(*) FROM deleted;

-- SenderBalanceChange adds `change`, which can be negative, to the balance of a sender, and writes the change to the ledger. It returns no row if the sender
-- does not exist, or if the balance would become negative.
-- name: SenderBalanceChange :one
WITH limited AS (
    UPDATE senders n SET has_balance = true WHERE n.sender_no = @sender_no AND NOT n.has_balance RETURNING n.id
),
changed AS (
    UPDATE sender_states st
    SET balance = coalesce(st.balance, 0) + @change::bigint, granted = st.granted + @change::bigint
    FROM senders s
    WHERE s.sender_no = @sender_no AND st.sender_id = s.id AND coalesce(st.balance, 0) + @change::bigint >= 0
    RETURNING st.sender_id, st.balance
)
INSERT INTO sender_ledger (sender_id, change, balance, remark, username)
SELECT c.sender_id, @change::bigint, c.balance, sqlc.narg(remark), @username::text FROM changed c
RETURNING *;

-- SenderLedgerFold replaces charges and refunds by daily sums, and returns the number of replaced rows. It reads the batch_size oldest charges and refunds of
-- the default partition, and replaces the rows that are older than `keep`. For each sender, company and day (UTC), it adds one row with the last balance of the
-- day. Rows of the last eight days are not replaced: a lease lasts at most a week, and a refund needs the row of its charge. The default partition contains the
-- charges from the time before the first other partition.
-- name: SenderLedgerFold :one
WITH removed AS (
    DELETE FROM sender_ledger_default l
    USING (
        -- in the order of the partial index for leases, because an index of all rows would also contain the many daily sums
        SELECT o.id FROM sender_ledger_default o WHERE o.lease_id IS NOT NULL ORDER BY o.lease_id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED
    ) old
    WHERE l.id = old.id AND l.created_at < date_trunc('day', now() - greatest(@keep::interval, interval '8 days'), 'UTC')
    RETURNING l.*
),
added AS (
    INSERT INTO sender_ledger_default (id, sender_id, change, balance, company_id, remark, created_at) -- the id determines the position in the list
    SELECT max(r.id), r.sender_id, sum(r.change), (array_agg(r.balance ORDER BY r.id DESC))[1], r.company_id, @remark::text, max(r.created_at)
    FROM removed r
    GROUP BY r.sender_id, r.company_id, date_trunc('day', r.created_at, 'UTC')
)
SELECT count(*) FROM removed;

-- SenderLedgerDrop drops the first partition of charges if the partition is older than `keep`. It returns the number of dropped partitions; see
-- ledger_partition_drop.
-- name: SenderLedgerDrop :one
SELECT ledger_partition_drop(@keep::interval, @remark::text)::bigint AS dropped;

-- SenderLedgerList returns the ledger of a sender, newest first. company_id: charges and refunds for tasks of other companies are not returned.
-- name: SenderLedgerList :many
SELECT l.* FROM sender_ledger l
WHERE l.sender_id = (SELECT s.id FROM senders s WHERE s.sender_no = @sender_no) AND l.id < @before_id
    AND (
        sqlc.narg(company_id)::bigint IS NULL OR (l.lease_id IS NULL AND l.company_id IS NULL)
        OR l.company_id = sqlc.narg(company_id)::bigint
    )
ORDER BY l.id DESC
LIMIT @page_limit::integer;

-- SenderTotalsAdd adds facts to the totals of their senders. An unknown sender_no is skipped. All leases of one call count for one day: the latest of their
-- days in the time zone of the sender. sender_states is locked in the order of sender_id, as in SendersSeen, so that the two statements cannot deadlock.
-- name: SenderTotalsAdd :exec
WITH sums AS MATERIALIZED (
    SELECT s.id AS sender_id, sum(f.leases)::bigint AS leases, sum(f.reported_success)::bigint AS reported_success,
        sum(f.reported_failed)::bigint AS reported_failed, sum(f.unreported)::bigint AS unreported,
        sum(f.failed_tasks)::bigint AS failed_tasks, sum(f.response_ms)::bigint AS response_ms,
        max(f.at) FILTER (WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0) AS at,
        max(f.at) FILTER (WHERE f.reported_success > 0) AS sent_at,
        max((f.at AT TIME ZONE s.time_zone)::date) FILTER (WHERE f.leases > 0) AS leased_on
    FROM (
        SELECT unnest(@sender_nos::text[]) AS sender_no, unnest(@leases::bigint[]) AS leases,
            unnest(@reported_success::bigint[]) AS reported_success, unnest(@reported_failed::bigint[]) AS reported_failed,
            unnest(@unreported::bigint[]) AS unreported, unnest(@failed_tasks::bigint[]) AS failed_tasks,
            unnest(@response_ms::bigint[]) AS response_ms, unnest(@ats::timestamptz[]) AS at
    ) f
    JOIN senders s ON s.sender_no = f.sender_no
    GROUP BY s.id
),
locked AS MATERIALIZED (
    SELECT st.sender_id FROM sender_states st
    WHERE st.sender_id IN (SELECT g.sender_id FROM sums g)
    ORDER BY st.sender_id
    FOR NO KEY UPDATE
)
UPDATE sender_states st
SET attempts = st.attempts + g.leases, succeeded = st.succeeded + g.reported_success, failed = st.failed + g.reported_failed,
    unreported = st.unreported + g.unreported, failed_tasks = st.failed_tasks + g.failed_tasks,
    attempts_on = greatest(st.attempts_on, g.leased_on),
    attempts_today = g.leases + CASE WHEN g.leased_on > st.attempts_on THEN 0 ELSE st.attempts_today END,
    response_ms = st.response_ms + g.response_ms,
    sent_at = greatest(st.sent_at, g.sent_at),
    seen_at = greatest(st.seen_at, g.at)
FROM locked l
JOIN sums g ON g.sender_id = l.sender_id
WHERE st.sender_id = l.sender_id;

-- SenderUsages returns the numbers that decide which of several waiting senders is woken first. The numbers include the facts that are not yet added to the
-- totals.
-- name: SenderUsages :many
SELECT s.sender_no, s.sort::double precision AS sort, coalesce(s.per_day, 0)::bigint AS day_limit,
    used_in_window('day', now(), s.time_zone, st.day_used, st.last_taken_at)::bigint AS day_used,
    (
        CASE WHEN st.attempts_on >= (now() AT TIME ZONE s.time_zone)::date THEN st.attempts_today ELSE 0 END
        + coalesce(u.leases, 0)
    )::bigint AS today,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0)::bigint AS response_ms
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
LEFT JOIN (
    SELECT f.sender_no, sum(f.leases) AS leases FROM facts f WHERE f.sender_no = ANY (@sender_nos::text[]) GROUP BY f.sender_no
) u ON u.sender_no = s.sender_no
WHERE s.sender_no = ANY (@sender_nos::text[])
ORDER BY s.sender_no;

-- SendersSeen records that senders polled. It skips a sender whose last recorded poll is less than apart_seconds old. The shorter dependents_apart_seconds
-- applies to a sender on which other senders depend (do_others_depend). It also applies to a shared sender if a task in its shared pool has waited for
-- waiting_seconds.
--
-- are_waiting: the sender waits for tasks now. If other senders depend on such a sender, its first poll after the end of its
-- interval is also recorded. Without it, the other senders could not know whether the sender is ready, busy or dead. See is_unseen of SenderAdmit, and sender_silences.
--
-- SKIP LOCKED prevents a deadlock. A claim locks the row of its sender, and can wait for a route. The transaction that has locked the route can wait for one of
-- the rows of this statement. A transaction that locks such a row almost always records the poll itself.
-- name: SendersSeen :execrows
WITH locked AS MATERIALIZED (
    SELECT st.sender_id
    FROM (
        SELECT unnest(@sender_nos::text[]) AS sender_no, unnest(@do_others_depend::boolean[]) AS others_depend, unnest(@are_waiting::boolean[]) AS is_waiting
    ) p
    JOIN senders s ON s.sender_no = p.sender_no
    JOIN sender_states st ON st.sender_id = s.id
    WHERE st.seen_at IS NULL
        OR st.seen_at < now() - make_interval(secs =>
            CASE
                WHEN p.others_depend OR s.is_shared AND s.channel_id IN (
                    SELECT w.channel_id FROM channels_waiting(now() - make_interval(secs => @waiting_seconds::double precision)) w
                ) THEN @dependents_apart_seconds::double precision
                ELSE @apart_seconds::double precision
            END)
        OR (p.others_depend AND p.is_waiting AND st.seen_at < st.next_available_at AND st.next_available_at <= now())
    FOR NO KEY UPDATE OF st SKIP LOCKED
)
UPDATE sender_states st
SET seen_at = now()
FROM locked l
WHERE st.sender_id = l.sender_id;

-- SenderGauges returns up to page_limit senders for monitoring. Senders that are on are first, then senders that an administrator added, then the senders that
-- polled last. Each row also contains the number of all senders by state. A sender is ready if it can claim tasks now or after its interval. A silent app is
-- not ready.
-- name: SenderGauges :many
SELECT g.sender_no, g.is_ready::boolean AS is_ready, g.balance, g.seen_seconds::double precision AS seen_seconds, g.was_seen::boolean AS was_seen,
    g.per_minute, g.per_hour, g.per_day, g.per_month, g.minute_used::bigint AS minute_used, g.hour_used::bigint AS hour_used,
    g.day_used::bigint AS day_used, g.month_used::bigint AS month_used,
    (count(*) FILTER (WHERE g.is_ready) OVER ())::bigint AS all_ready,
    (count(*) FILTER (WHERE g.is_on AND NOT g.is_ready) OVER ())::bigint AS all_not_ready,
    (count(*) FILTER (WHERE NOT g.is_on) OVER ())::bigint AS all_off
FROM (
    SELECT s.id, s.sender_no, s.is_self_registered, s.per_minute, s.per_hour, s.per_day, s.per_month, st.balance, st.seen_at,
        x.is_on, x.minute_used, x.hour_used, x.day_used, x.month_used, st.seen_at IS NOT NULL AS was_seen,
        coalesce(extract(epoch FROM now() - st.seen_at), 0) AS seen_seconds,
        sender_obstacle( -- as in SendersReady
            x.is_on, sims_are_on(s.id, s.has_sims), x.has_funds, z.is_silent, links_are_bound(s.id, s.kind), x.has_quota,
            in_hours(s.hours, s.time_zone, now()), coalesce(st.rest_until <= now(), true)
        ) IS NULL AS is_ready
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    JOIN sender_standings x ON x.sender_id = s.id
    JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = s.id
    WHERE s.status <> 'retired'
) g
ORDER BY g.is_on DESC, g.is_self_registered, g.seen_at DESC NULLS LAST, g.id
LIMIT @page_limit::integer;

-- SenderWaits returns the remaining seconds of the interval of a sender, the pools that it serves, and its sort in each pool. hindered_seconds is not 0 if the
-- sender cannot claim for another reason: the rest of its pause, at most recheck_seconds; otherwise recheck_seconds. others_depend is true if other senders depend
-- on the polls of this sender: has_routes or has_dependents of SenderAdmit is true.
-- name: SenderWaits :one
WITH served_pools AS MATERIALIZED (
    SELECT r.pool_id, r.sort, true AS is_routed
    FROM senders s
    JOIN routes r ON r.sender_id = s.id AND r.status = 'on'
    WHERE s.sender_no = @sender_no
    UNION ALL
    SELECT p.id, s.sort, false
    FROM senders s
    JOIN pools p ON p.channel_id = s.channel_id
    WHERE s.sender_no = @sender_no AND s.is_shared AND p.company_id IS NULL AND p.retired_at IS NULL
)
SELECT
    s.is_paced,
    (EXISTS (SELECT FROM served_pools p WHERE p.is_routed)
    OR (s.is_shared AND EXISTS (
        SELECT FROM senders o WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.sort < s.sort
    ))
    OR (s.is_shared AND EXISTS (
        SELECT FROM senders o
        WHERE o.channel_id = s.channel_id AND o.is_shared AND o.status = 'on' AND o.kind <> 'app' AND o.id <> s.id
    )))::boolean AS others_depend,
    (CASE
        WHEN NOT isfinite(st.next_available_at) OR p.is_paused THEN 0 -- -infinity means ready
        ELSE greatest(0, extract(epoch FROM st.next_available_at - clock_timestamp()))
    END)::double precision AS seconds,
    (CASE
        WHEN sender_obstacle(
            x.is_on, sims_are_on(s.id, s.has_sims), x.has_funds, false, true, x.has_quota OR s.has_sims, in_hours(s.hours, s.time_zone, now()), true
        ) IS NOT NULL THEN @recheck_seconds::double precision
        WHEN p.is_paused THEN least(extract(epoch FROM st.rest_until - clock_timestamp()), @recheck_seconds::double precision)
        ELSE 0
    END)::double precision AS hindered_seconds,
    ARRAY(SELECT p.pool_id FROM served_pools p ORDER BY p.pool_id)::bigint[] AS pools,
    ARRAY(SELECT p.sort FROM served_pools p ORDER BY p.pool_id)::double precision[] AS sorts
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
JOIN sender_standings x ON x.sender_id = s.id
CROSS JOIN LATERAL (SELECT coalesce(st.rest_until > clock_timestamp(), false) AS is_paused) p
WHERE s.sender_no = @sender_no;

-- PoolSenders returns up to 100 senders that serve a pool. Senders serve a pool through its routes; shared senders also serve the shared pool. Ready senders
-- are first. Senders with equal sort are ordered by the used part of their daily limit, then by their tasks today, then by their response time, the smallest
-- first (S4.3). has_quota and has_funds are true if the sender has enough segments and balance for this task. is_outranked is true if a sender with a larger
-- sort is available, as in RouteAdmit. The only sender of a pool that does not serve the company of the pool any more is not_serving.
-- name: PoolSenders :many
WITH candidates AS (
    SELECT x.sender_no, p.sender_id IS NULL OR sender_serves(s.id, p.company_id) AS serves,
        x.is_on, x.is_rested, sims_are_on(s.id, s.has_sims) AS has_sim, x.day_share, x.response_ms, r.weight, r.served, n.next_available_at,
        st.rest_until IS NOT NULL AS gives_way,
        coalesce(r.sort, s.sort) AS sort,
        (x.has_quota OR s.has_sims) AND coalesce(least(
            s.per_minute - x.minute_used, s.per_hour - x.hour_used, s.per_day - x.day_used, s.per_month - x.month_used
        ) >= k.segments, true) AND CASE WHEN s.has_sims THEN sims_fit(s.id, @recipient::text, k.segments, now()) ELSE true END AS has_quota,
        x.has_funds AND (NOT s.has_balance OR coalesce(x.balance, 0) >= k.segments) AS has_funds,
        in_hours(s.hours, s.time_zone, now()) AS is_working,
        links_are_bound(s.id, s.kind) AS is_bound,
        CASE WHEN st.attempts_on >= (now() AT TIME ZONE s.time_zone)::date THEN st.attempts_today ELSE 0 END AS today,
        z.is_silent::boolean AS is_silent,
        coalesce(x.is_available AND x.seen_at > now() - @silent_after::interval AND x.seen_at >= x.next_available_at, false) AS shares,
        coalesce(max(coalesce(r.sort, s.sort)) FILTER (
            WHERE x.is_available AND x.seen_at > now() - @silent_after::interval
                AND x.room >= @segments::smallint
        ) OVER () > coalesce(r.sort, s.sort), false) AS is_outranked, k.segments
    FROM pools p
    JOIN channels c ON c.id = p.channel_id
    JOIN senders s ON s.channel_id = p.channel_id
    JOIN sender_standings x ON x.sender_id = s.id
    JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = s.id
    CROSS JOIN LATERAL (
        SELECT
            sent_segments(
                @content::text, sqlc.narg(sign)::text, @segments::smallint, s.sign, s.sign_mode, s.segment_size, c.channel = 'sms'
            ) AS segments
    ) k
    JOIN sender_states st ON st.sender_id = s.id
    LEFT JOIN routes r ON r.pool_id = p.id AND r.sender_id = s.id AND r.status = 'on'
    LEFT JOIN sender_states n ON n.sender_id = s.id AND isfinite(n.next_available_at) -- -infinity, if the sender never had to wait, is returned as null
    WHERE p.id = @pool_id AND (s.status <> 'retired' OR p.sender_id IS NOT NULL)
        AND (r.id IS NOT NULL OR p.company_id IS NULL AND s.is_shared)
)
SELECT c.sender_no, coalesce(o.obstacle, CASE WHEN c.is_outranked THEN 'outranked' END, '')::text AS why, c.weight, coalesce(c.served, 0)::double precision AS served,
    c.next_available_at, c.shares::boolean AS shares, c.segments::bigint AS segments, c.gives_way::boolean AS gives_way, c.sort::double precision AS sort
FROM candidates c
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN c.serves THEN sender_obstacle(c.is_on, c.has_sim, c.has_funds, c.is_silent, c.is_bound, c.has_quota, c.is_working, c.is_rested)
        ELSE 'not_serving'
    END AS obstacle OFFSET 0
) o
ORDER BY o.obstacle IS NULL AND NOT c.is_outranked DESC, c.sort DESC, c.day_share, c.today, c.response_ms, c.sender_no
LIMIT 100;

-- SendersReady returns up to max_senders senders that are on but cannot claim tasks, with the reason, and one sender that can claim tasks. number is the number of
-- senders in the same group: senders that cannot claim, or senders that can claim. company_id: only the senders in routes of this company.
-- name: SendersReady :many
SELECT r.sender_no, r.name, r.reason, r.number
FROM (
    SELECT j.*, count(*) OVER w AS number, row_number() OVER (w ORDER BY j.sender_no) AS nth
    FROM (
        SELECT s.sender_no, s.name,
            coalesce(sender_obstacle(
                x.is_on, sims_are_on(s.id, s.has_sims), x.has_funds, z.is_silent, links_are_bound(s.id, s.kind), x.has_quota,
                in_hours(s.hours, s.time_zone, now()),
                coalesce(st.rest_until <= now(), true) -- a sender in its interval is ready
            ), '')::text AS reason
        FROM senders s
        JOIN sender_states st ON st.sender_id = s.id
        JOIN sender_standings x ON x.sender_id = s.id
        JOIN sender_silences(@silent_after::interval, @recorded_apart::interval) z ON z.sender_id = s.id
        WHERE x.is_on AND (sqlc.narg(company_id)::bigint IS NULL OR EXISTS (
            SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
        WHERE r.sender_id = s.id AND p.company_id = sqlc.narg(company_id)::bigint AND p.sender_id IS NULL
        ))
    ) j
    WINDOW w AS (PARTITION BY j.reason = '')
) r
WHERE r.nth <= CASE WHEN r.reason = '' THEN 1 ELSE @max_senders::integer END
ORDER BY r.reason = '', r.sender_no;

-- SenderAnswers returns the ten latest outcomes of calls of a sender, newest first.
-- name: SenderAnswers :many
SELECT a.* FROM sender_answers a
WHERE a.sender_id = (SELECT s.id FROM senders s WHERE s.sender_no = @sender_no::text)
ORDER BY a.id DESC
LIMIT 10;

-- SenderLinks returns the links of a sender. Links that no process holds are missing.
-- name: SenderLinks :many
SELECT l.nth, l.host, l.bound_at, l.in_flight, l.sent, l.received, l.error, l.failed_at
FROM sender_links l
JOIN senders s ON s.id = l.sender_id
WHERE s.sender_no = @sender_no AND l.held_until > clock_timestamp()
ORDER BY l.nth;

-- SenderTrace returns until when the PDUs of a sender's links are recorded, and the recorded PDUs of each link. traced_until is null if nobody asked for it.
-- name: SenderTrace :many
SELECT l.nth, l.traced_until, l.trace
FROM sender_links l
JOIN senders s ON s.id = l.sender_id
WHERE s.sender_no = @sender_no
ORDER BY l.nth;

-- SenderTraceBegin begins a recording of the PDUs of a sender's links, if a server holds one of them. It deletes the PDUs of the recording before.
-- name: SenderTraceBegin :execrows
UPDATE sender_links l
SET traced_from = clock_timestamp(), traced_until = clock_timestamp() + @lasts::interval, trace = '[]'
FROM senders s
WHERE s.id = l.sender_id AND s.sender_no = @sender_no
    AND EXISTS (SELECT FROM sender_links h WHERE h.sender_id = s.id AND h.held_until > clock_timestamp());

-- SenderTraceEnd ends the recording of the PDUs of a sender's links.
-- name: SenderTraceEnd :execrows
UPDATE sender_links l
SET traced_until = CASE WHEN l.traced_until > clock_timestamp() THEN clock_timestamp() ELSE l.traced_until END
FROM senders s
WHERE s.id = l.sender_id AND s.sender_no = @sender_no;
