-- migrate:up
CREATE FUNCTION in_hours(hours text, zone text, at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN hours IS NULL THEN true
        WHEN left(hours, 5) < right(hours, 5) COLLATE "C" THEN to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" >= left(hours, 5)
            AND to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" < right(hours, 5)
        ELSE to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" >= left(hours, 5) -- the hours contain midnight
            OR to_char(at AT TIME ZONE zone, 'HH24:MI') COLLATE "C" < right(hours, 5)
    END
$$;
COMMENT ON FUNCTION in_hours(text, text, timestamptz) IS
    'Whether hours of each day, such as 08:00-22:00, contain a time in a time zone. The end is excluded. hours null: true. One expression, so that PostgreSQL inlines it';

-- Adding a column without a default changes only the catalog, under an ACCESS EXCLUSIVE lock on senders, which is a small table.
ALTER TABLE senders ADD hours text
    CONSTRAINT senders_hours_check CHECK (hours ~ '^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$' AND left(hours, 5) <> right(hours, 5));
COMMENT ON COLUMN senders.hours IS 'the hours of each day, in time_zone, in which the sender gets tasks, such as 08:00-22:00; null: all hours';

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

-- migrate:down
CREATE OR REPLACE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance, u.minute_used, u.hour_used, u.day_used, u.month_used,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    q.has_quota, f.has_funds,
    coalesce(u.day_used::double precision / nullif(s.per_day, 0), 0) AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms,
    s.status = 'on' AND q.has_quota AND f.has_funds AND st.rest_until IS NULL AS is_available,
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
    'true: the sender is on, has quota and funds, and its circuit breaker is closed. Only available senders count for sort and for shares';
ALTER TABLE senders DROP hours;
DROP FUNCTION in_hours(text, text, timestamptz);
