-- Statements on the circuit breakers of senders. Each server reads the state from sender_states, so all servers pause and probe together.

-- BreakerOpen opens the circuit breaker of a sender, or opens it again after a failed probe. The breaker remains open until a time that the provider names: the
-- next day in the time zone day_of, or for_seconds from now. Without such a time, it remains open for `pause`. Each further opening doubles the pause, up to
-- max_pause. The caller passes the version and the openings that it read, so that only one of several concurrent failures opens the breaker. The statement
-- returns no row if another worker opened the breaker, or if the sender was changed. Only the opening of a closed breaker adds an event.
-- name: BreakerOpen :many
WITH asked AS MATERIALIZED (
    SELECT clock_timestamp() AS at, nullif(@day_of::text, '') AS day_of,
        nullif(@for_seconds::double precision, 0) AS for_seconds, @pause::interval AS shortest, @max_pause::interval AS longest,
        @openings::bigint AS openings
),
pause AS MATERIALIZED (
    SELECT a.at, coalesce(
        (date_trunc('day', a.at AT TIME ZONE a.day_of) + interval '1 day') AT TIME ZONE a.day_of,
        a.at + make_interval(secs => a.for_seconds),
        a.at + least(a.longest, a.shortest * power(2, least(a.openings, 30))) -- at most 30 doublings, so that the result is finite
    ) AS until
    FROM asked a
),
opened AS (
    UPDATE sender_states st
    SET openings = st.openings + 1, rest_until = pause.until, rest_reason = left(@reason::text, 500), probe_until = NULL,
        next_available_at = greatest(st.next_available_at, pause.until)
    FROM senders s
    CROSS JOIN pause
    WHERE s.id = st.sender_id AND s.sender_no = @sender_no::text AND s.version = @version::bigint AND st.openings = @openings::bigint
    RETURNING st.openings, st.rest_until, st.rest_reason, pause.at
),
event_added AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'sender.paused', @sender_no::text, jsonb_build_object('reason', o.rest_reason, 'until', o.rest_until)
    FROM opened o
    WHERE o.openings = 1
)
SELECT o.openings, extract(epoch FROM o.rest_until - o.at)::double precision AS pause_seconds
FROM opened o
ORDER BY o.openings;

-- BreakerProbe allows one worker to send a probe message when the pause of an open circuit breaker is over. It returns 0 if another worker sends a probe.
-- name: BreakerProbe :execrows
UPDATE sender_states st
SET probe_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
FROM senders s
WHERE s.id = st.sender_id AND s.sender_no = @sender_no AND st.openings = @openings AND st.openings > 0
    AND st.rest_until <= clock_timestamp() AND (st.probe_until IS NULL OR st.probe_until <= clock_timestamp());

-- BreakerProbeEnd ends a probe without a result, so that a worker can probe with another message.
-- name: BreakerProbeEnd :exec
UPDATE sender_states st
SET probe_until = NULL
FROM senders s
WHERE s.id = st.sender_id AND s.sender_no = @sender_no AND st.openings = @openings;

-- BreakerClose closes the circuit breaker of a sender that works again: it sent a message, or the provider accepted or refused a probe message. The sender then
-- waits only for the rest of its interval, as in SenderUpdate. With openings, a breaker that was opened again meanwhile stays open. With a code, a
-- breaker that was opened for another reason stays open.
-- name: BreakerClose :execrows
WITH closed AS (
    UPDATE sender_states st
    SET openings = 0, rest_until = NULL, rest_reason = NULL, probe_until = NULL,
        next_available_at = coalesce(st.last_taken_at + make_interval(secs => st.last_taken * s.interval_ms / 1000.0), '-infinity')
    FROM senders s
    WHERE s.id = st.sender_id AND s.sender_no = @sender_no::text AND st.openings = coalesce(sqlc.narg(openings)::bigint, st.openings) AND st.openings > 0
        AND (@code::text = '' OR starts_with(st.rest_reason, @code::text || ': '))
    RETURNING st.sender_id
)
INSERT INTO events (event, subject) SELECT 'sender.recovered', @sender_no::text FROM closed;
