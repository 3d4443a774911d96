-- migrate:up
CREATE FUNCTION links_are_bound(of_sender bigint, kind text) RETURNS boolean LANGUAGE sql STABLE
RETURN CASE
    WHEN kind IN ('smpp', 'cmpp') THEN EXISTS (SELECT FROM sender_links l WHERE l.sender_id = of_sender AND l.bound_at IS NOT NULL AND l.held_until > now())
    ELSE true
END;
COMMENT ON FUNCTION links_are_bound(bigint, text) IS 'Whether a link of a sender to its carrier is open. It is true for kinds of senders without links.';

CREATE FUNCTION sender_obstacle(
    is_on boolean, has_sim boolean, has_funds boolean, is_silent boolean, is_bound boolean, has_quota boolean, is_working boolean, is_rested boolean
) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT is_on THEN 'off' WHEN NOT has_sim THEN 'sims_off' WHEN NOT has_funds THEN 'no_funds' WHEN is_silent THEN 'silent' WHEN NOT is_bound THEN 'not_bound'
    WHEN NOT has_quota THEN 'no_quota' WHEN NOT is_working THEN 'outside_hours' WHEN NOT is_rested THEN 'paused'
END;
COMMENT ON FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean, boolean) IS
    'Returns why a sender cannot claim tasks; null: it can. If several reasons apply, a reason that somebody must remove comes before those that end by themselves.';
COMMENT ON FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean) IS
    'The reasons without not_bound, for servers of the previous version. A later version drops this function.';

CREATE OR REPLACE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance, u.minute_used, u.hour_used, u.day_used, u.month_used,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    q.has_quota, f.has_funds,
    coalesce(u.day_used::double precision / nullif(s.per_day, 0), 0) AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms,
    s.status = 'on' AND q.has_quota AND f.has_funds AND st.rest_until IS NULL AND in_hours(s.hours, s.time_zone, now())
        AND links_are_bound(s.id, s.kind) AS is_available,
    l.segments_left,
    CASE WHEN l.segments_left IS NULL THEN 1000000000
        ELSE greatest(0, l.segments_left / ceil(160.0 / coalesce(s.segment_size, 160))::bigint - CASE WHEN s.sign IS NULL THEN 0 ELSE 1 END)
    END AS room
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
CROSS JOIN LATERAL (
    SELECT
        used_in_window('minute', now(), s.time_zone, st.minute_used, st.last_taken_at) AS minute_used,
        used_in_window('hour', now(), s.time_zone, st.hour_used, st.last_taken_at) AS hour_used,
        used_in_window('day', now(), s.time_zone, st.day_used, st.last_taken_at) AS day_used,
        used_in_window('month', now(), s.time_zone, st.month_used, st.last_taken_at) AS month_used
) u
CROSS JOIN LATERAL (
    -- CASE: the function is called only for senders with SIMs. OFFSET 0: it is called once, although several columns use it
    SELECT CASE WHEN s.has_sims THEN sims_room(s.id, now()) END AS room OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT coalesce(s.per_minute > u.minute_used, true) AND coalesce(s.per_hour > u.hour_used, true)
        AND coalesce(s.per_day > u.day_used, true) AND coalesce(s.per_month > u.month_used, true)
        AND coalesce(m.room > 0, true) AS has_quota
) q
CROSS JOIN LATERAL (
    SELECT NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds
) f
CROSS JOIN LATERAL (
    SELECT least(
        s.per_minute - u.minute_used, s.per_hour - u.hour_used, s.per_day - u.day_used, s.per_month - u.month_used,
        CASE WHEN s.has_balance THEN coalesce(st.balance, 0) END, m.room
    ) AS segments_left
) l;
COMMENT ON COLUMN sender_standings.is_available IS
    'true: the sender is on, in its hours, has quota and funds, its circuit breaker is closed, and one of its links is open if it has links. Only available senders count for sort and for shares';

-- migrate:down
CREATE OR REPLACE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance, u.minute_used, u.hour_used, u.day_used, u.month_used,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    q.has_quota, f.has_funds,
    coalesce(u.day_used::double precision / nullif(s.per_day, 0), 0) AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms,
    s.status = 'on' AND q.has_quota AND f.has_funds AND st.rest_until IS NULL AND in_hours(s.hours, s.time_zone, now()) AS is_available,
    l.segments_left,
    CASE WHEN l.segments_left IS NULL THEN 1000000000
        ELSE greatest(0, l.segments_left / ceil(160.0 / coalesce(s.segment_size, 160))::bigint - CASE WHEN s.sign IS NULL THEN 0 ELSE 1 END)
    END AS room
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
CROSS JOIN LATERAL (
    SELECT
        used_in_window('minute', now(), s.time_zone, st.minute_used, st.last_taken_at) AS minute_used,
        used_in_window('hour', now(), s.time_zone, st.hour_used, st.last_taken_at) AS hour_used,
        used_in_window('day', now(), s.time_zone, st.day_used, st.last_taken_at) AS day_used,
        used_in_window('month', now(), s.time_zone, st.month_used, st.last_taken_at) AS month_used
) u
CROSS JOIN LATERAL (
    -- CASE: the function is called only for senders with SIMs. OFFSET 0: it is called once, although several columns use it
    SELECT CASE WHEN s.has_sims THEN sims_room(s.id, now()) END AS room OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT coalesce(s.per_minute > u.minute_used, true) AND coalesce(s.per_hour > u.hour_used, true)
        AND coalesce(s.per_day > u.day_used, true) AND coalesce(s.per_month > u.month_used, true)
        AND coalesce(m.room > 0, true) AS has_quota
) q
CROSS JOIN LATERAL (
    SELECT NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds
) f
CROSS JOIN LATERAL (
    SELECT least(
        s.per_minute - u.minute_used, s.per_hour - u.hour_used, s.per_day - u.day_used, s.per_month - u.month_used,
        CASE WHEN s.has_balance THEN coalesce(st.balance, 0) END, m.room
    ) AS segments_left
) l;
COMMENT ON COLUMN sender_standings.is_available IS
    'true: the sender is on, in its hours, has quota and funds, and its circuit breaker is closed. Only available senders count for sort and for shares';
COMMENT ON FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean) IS
    'Returns why a sender cannot claim tasks; null: it can. If several reasons apply, a reason that somebody must remove comes before those that end by themselves.';
DROP FUNCTION sender_obstacle(boolean, boolean, boolean, boolean, boolean, boolean, boolean, boolean);
DROP FUNCTION links_are_bound(bigint, text);
