-- migrate:up
-- What was used is of the windows in which the sender last took something. So one time tells of which minute, hour, day and
-- month it is, in any time zone, and a sender that is given another one does not get its limits once more.
-- squawk-ignore-file ban-drop-column
CREATE FUNCTION used_in_window(unit text, at timestamptz, time_zone text, used bigint, used_at timestamptz) RETURNS bigint
LANGUAGE sql STABLE
RETURN CASE WHEN date_trunc(unit, used_at, time_zone) >= date_trunc(unit, at, time_zone) THEN used ELSE 0 END;

-- A sender that was not paced for a while took something that was not counted.
UPDATE sender_states st
SET minute_used = CASE WHEN st.minute_from < date_trunc('minute', st.last_taken_at, s.time_zone) THEN 0 ELSE st.minute_used END,
    hour_used = CASE WHEN st.hour_from < date_trunc('hour', st.last_taken_at, s.time_zone) THEN 0 ELSE st.hour_used END,
    day_used = CASE WHEN st.day_from < date_trunc('day', st.last_taken_at, s.time_zone) THEN 0 ELSE st.day_used END,
    month_used = CASE WHEN st.month_from < date_trunc('month', st.last_taken_at, s.time_zone) THEN 0 ELSE st.month_used END
FROM senders s
WHERE st.sender_id = s.id;

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

ALTER TABLE sender_states DROP COLUMN minute_from, DROP COLUMN hour_from, DROP COLUMN day_from, DROP COLUMN month_from;
COMMENT ON COLUMN sender_states.minute_used IS 'segments in the minute in which last_taken_at lies; another minute has none used';

-- migrate:down
ALTER TABLE sender_states
    ADD COLUMN minute_from timestamptz NOT NULL DEFAULT '-infinity', ADD COLUMN hour_from timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN day_from timestamptz NOT NULL DEFAULT '-infinity', ADD COLUMN month_from timestamptz NOT NULL DEFAULT '-infinity';
COMMENT ON COLUMN sender_states.minute_used IS NULL;
COMMENT ON COLUMN sender_states.minute_from IS 'the window that minute_used counts; another window has none used';
UPDATE sender_states st
SET minute_from = date_trunc('minute', st.last_taken_at, s.time_zone), hour_from = date_trunc('hour', st.last_taken_at, s.time_zone),
    day_from = date_trunc('day', st.last_taken_at, s.time_zone), month_from = date_trunc('month', st.last_taken_at, s.time_zone)
FROM senders s
WHERE st.sender_id = s.id AND st.last_taken_at IS NOT NULL;
DROP VIEW sender_standings;
CREATE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    coalesce(s.per_minute > CASE WHEN st.minute_from >= date_trunc('minute', now(), s.time_zone) THEN st.minute_used ELSE 0 END, true)
        AND coalesce(s.per_hour > CASE WHEN st.hour_from >= date_trunc('hour', now(), s.time_zone) THEN st.hour_used ELSE 0 END, true)
        AND coalesce(s.per_day > CASE WHEN st.day_from >= date_trunc('day', now(), s.time_zone) THEN st.day_used ELSE 0 END, true)
        AND coalesce(s.per_month > CASE WHEN st.month_from >= date_trunc('month', now(), s.time_zone) THEN st.month_used ELSE 0 END, true) AS has_quota,
    NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds,
    CASE WHEN s.per_day > 0 AND st.day_from >= date_trunc('day', now(), s.time_zone)
        THEN st.day_used::double precision / s.per_day ELSE 0 END AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms
FROM senders s
JOIN sender_states st ON st.sender_id = s.id;
DROP FUNCTION used_in_window;
