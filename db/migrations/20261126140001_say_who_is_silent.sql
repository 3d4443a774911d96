-- migrate:up
-- Adds functions only, and locks no table.

-- pool_waits reads the first task that is not queued and the first 100 that are: nobody takes a task of a pool in which these wait too long. The
-- settings keep the planner to queue_due_idx and queue_order_idx, whatever statistics say.
CREATE FUNCTION pool_waits(of_pool bigint, since timestamptz) RETURNS boolean LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NULL ORDER BY t.due_at LIMIT 1
        ) d
        WHERE d.due_at <= since
    ) OR EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t
            WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NOT NULL
            ORDER BY t.lane, t.rank
            LIMIT 100
        ) q
        WHERE q.due_at <= since
    )
$$;
COMMENT ON FUNCTION pool_waits(bigint, timestamptz) IS 'Whether a task of the pool has been due since then, among those that senders take first.';

-- The next two have one SELECT and no volatile function: the planner puts them in the place of their call.
CREATE FUNCTION channels_waiting(since timestamptz) RETURNS TABLE (channel_id bigint) LANGUAGE sql STABLE AS $$
    SELECT p.channel_id FROM pools p WHERE p.company_id IS NULL AND p.retired_at IS NULL AND pool_waits(p.id, since)
$$;
COMMENT ON FUNCTION channels_waiting(timestamptz) IS 'The channels in whose shared pool a task has been due since then.';

CREATE FUNCTION sender_silences(silent_after interval, noted_apart interval)
RETURNS TABLE (sender_id bigint, is_silent boolean, slack interval) LANGUAGE sql STABLE AS $$
    SELECT s.id, s.kind = 'app' AND coalesce(st.seen_at <= now() - silent_after - l.slack, true), l.slack
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN EXISTS (SELECT FROM routes r WHERE r.sender_id = s.id AND r.status = 'on') THEN interval '0'
            -- The sweep stores polls every five seconds.
            WHEN s.is_shared AND st.next_available_at <= now() - silent_after AND s.channel_id IN (
                SELECT w.channel_id FROM channels_waiting(now() - greatest(silent_after, interval '20 seconds')) w
            ) THEN greatest(interval '0', interval '20 seconds' - silent_after)
            ELSE noted_apart
        END AS slack
    ) l
$$;
COMMENT ON FUNCTION sender_silences(interval, interval) IS
    'The rule by which an app is silent: it has not polled for silent_after and slack. slack is how much later its polls are stored: not at all if a route names it, and hardly if work waits in its shared pool for longer than silent_after; else every noted_apart. The sweep of internal/sender stores them so.';

-- migrate:down
DROP FUNCTION sender_silences(interval, interval);
DROP FUNCTION channels_waiting(timestamptz);
DROP FUNCTION pool_waits(bigint, timestamptz);
