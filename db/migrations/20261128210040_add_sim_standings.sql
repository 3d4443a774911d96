-- migrate:up
CREATE FUNCTION sim_standings(of_sender bigint, at timestamptz) RETURNS TABLE (
    slot smallint, phone_number text, is_on boolean, per_day bigint, per_month bigint, recipients_per_month bigint, day_used bigint, month_used bigint,
    recipients_used bigint, segments_left bigint, recipients_left bigint, month date
) LANGUAGE sql STABLE AS $$
    SELECT m.slot, m.phone_number, m.is_on, m.per_day, m.per_month, m.recipients_per_month, u.day_used, u.month_used, u.recipients_used,
        least(m.per_day - u.day_used, m.per_month - u.month_used), m.recipients_per_month - u.recipients_used,
        date_trunc('month', at AT TIME ZONE s.time_zone)::date
    FROM senders s
    JOIN sender_sims m ON m.sender_id = s.id
    LEFT JOIN sim_usages g ON g.sender_id = m.sender_id AND g.slot = m.slot
    CROSS JOIN LATERAL (
        SELECT used_in_window('day', at, s.time_zone, g.day_used, g.last_taken_at) AS day_used,
            used_in_window('month', at, s.time_zone, g.month_used, g.last_taken_at) AS month_used,
            used_in_window('month', at, s.time_zone, g.recipients_used, g.last_taken_at) AS recipients_used
    ) u
    WHERE s.id = of_sender
    ORDER BY m.slot
$$;
COMMENT ON FUNCTION sim_standings(bigint, timestamptz) IS
    'The SIMs of a sender with their usage at a time. segments_left and recipients_left: what the limits still allow; null: no limit. month: the first day of the month.';

CREATE FUNCTION sims_room(of_sender bigint, at timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(coalesce(s.segments_left, 1000000000)), 0)
    FROM sim_standings(of_sender, at) s
    WHERE s.is_on AND coalesce(s.recipients_left > 0, true)
$$;
COMMENT ON FUNCTION sims_room(bigint, timestamptz) IS
    'The segments of the largest message that a sender can send to a new recipient through one of its SIMs; 1000000000: no limit; 0 or less: all its SIMs are used up.';

CREATE FUNCTION sims_fit(of_sender bigint, recipient text, segments bigint, at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM sim_standings(of_sender, at) s
        WHERE s.is_on AND coalesce(s.segments_left >= segments, true) AND (coalesce(s.recipients_left > 0, true) OR EXISTS (
            SELECT FROM sim_recipients r
            WHERE r.sender_id = of_sender AND r.recipient_hash = sha256(convert_to(recipient, 'UTF8')) AND r.slot = s.slot
                AND r.month >= s.month AND r.messages > 0
        ))
    )
$$;
COMMENT ON FUNCTION sims_fit(bigint, text, bigint, timestamptz) IS
    'Whether one of the SIMs of a sender can send a message with this number of segments to this recipient. A SIM without room for new recipients can send to the '
    'recipients that it already counts in this month.';

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
COMMENT ON COLUMN sender_standings.has_quota IS 'true: each limit has segments left, and a SIM can send to a new recipient. Senders without SIMs have no limits of SIMs';
COMMENT ON COLUMN sender_standings.segments_left IS
    'segments that its limits and balance still allow, and that the SIM with the largest rest still allows for a new recipient; null: no limit';

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
COMMENT ON COLUMN sender_standings.has_quota IS 'true: each limit has segments left';
COMMENT ON COLUMN sender_standings.segments_left IS 'segments that its limits and balance still allow; null: no limit';
DROP FUNCTION sims_fit(bigint, text, bigint, timestamptz);
DROP FUNCTION sims_room(bigint, timestamptz);
DROP FUNCTION sim_standings(bigint, timestamptz);
