-- migrate:up
-- What a claim asks of other senders, in one place. is_available is what sort and shares go by: a sender with an open or half-open
-- circuit breaker gives way to the senders of a smaller sort. segments_left is what its limits and its balance leave; null is without
-- end. room is how many segments of a task, as they are counted at the submission, that is at least: a provider that counts segments of
-- its own size, or a signature of the sender, may leave more.
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
    SELECT coalesce(s.per_minute > u.minute_used, true) AND coalesce(s.per_hour > u.hour_used, true)
        AND coalesce(s.per_day > u.day_used, true) AND coalesce(s.per_month > u.month_used, true) AS has_quota
) q
CROSS JOIN LATERAL (
    SELECT NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds
) f
CROSS JOIN LATERAL (
    SELECT least(
        s.per_minute - u.minute_used, s.per_hour - u.hour_used, s.per_day - u.day_used, s.per_month - u.month_used,
        CASE WHEN s.has_balance THEN coalesce(st.balance, 0) END
    ) AS segments_left
) l;

-- migrate:down
DROP VIEW sender_standings;
CREATE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance, u.minute_used, u.hour_used, u.day_used, u.month_used,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    coalesce(s.per_minute > u.minute_used, true) AND coalesce(s.per_hour > u.hour_used, true)
        AND coalesce(s.per_day > u.day_used, true) AND coalesce(s.per_month > u.month_used, true) AS has_quota,
    NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds,
    coalesce(u.day_used::double precision / nullif(s.per_day, 0), 0) AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
CROSS JOIN LATERAL (
    SELECT
        used_in_window('minute', now(), s.time_zone, st.minute_used, st.last_taken_at) AS minute_used,
        used_in_window('hour', now(), s.time_zone, st.hour_used, st.last_taken_at) AS hour_used,
        used_in_window('day', now(), s.time_zone, st.day_used, st.last_taken_at) AS day_used,
        used_in_window('month', now(), s.time_zone, st.month_used, st.last_taken_at) AS month_used
) u;
