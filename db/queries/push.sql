-- What the workers of driven senders need: which senders they drive, what a message holds, circuit breakers and tokens.

-- SendersDriven are the senders to which this service pushes, those that are on, and how their circuit breakers stand.
-- name: SendersDriven :many
SELECT s.id, s.sender_no, s.kind, s.config, s.version, s.interval_ms, c.retry_minutes, st.openings,
    greatest(0, coalesce(extract(epoch FROM st.rest_until - clock_timestamp()), 0))::double precision AS rest_seconds
FROM senders s
JOIN channels c ON c.id = s.channel_id
JOIN sender_states st ON st.sender_id = s.id
WHERE s.kind <> 'app' AND s.status = 'on'
ORDER BY s.id;

-- BreakerOpen opens the circuit breaker of a sender, or opens it again after a probe that failed: it rests until the time that the provider
-- named (for_seconds, or the next day of day_of), else twice as long each time. The caller names the version and the openings
-- that it saw, so that of several that fail at once one opens it. Only the first opening since it was closed is an event. No row:
-- somebody else did.
-- name: BreakerOpen :many
WITH asked AS MATERIALIZED (
    SELECT clock_timestamp() AS at, nullif(@day_of::text, '') AS day_of,
        nullif(@for_seconds::double precision, 0) AS for_seconds, @rest::interval AS shortest, @rest_most::interval AS longest,
        @openings::bigint AS openings
),
rest AS MATERIALIZED (
    SELECT a.at, coalesce(
        (date_trunc('day', a.at AT TIME ZONE a.day_of) + interval '1 day') AT TIME ZONE a.day_of,
        a.at + make_interval(secs => a.for_seconds),
        a.at + least(a.longest, a.shortest * power(2, least(a.openings, 30)))
    ) AS until
    FROM asked a
),
opened AS (
    UPDATE sender_states st
    SET openings = st.openings + 1, rest_until = rest.until, rest_reason = left(@reason::text, 500), probe_until = NULL,
        next_available_at = greatest(st.next_available_at, rest.until)
    FROM senders s
    CROSS JOIN rest
    WHERE s.id = st.sender_id AND s.sender_no = @sender_no::text AND s.version = @version::bigint AND st.openings = @openings::bigint
    RETURNING st.openings, st.rest_until, st.rest_reason, rest.at
),
told AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'sender.resting', @sender_no::text, jsonb_build_object('reason', o.rest_reason, 'until', o.rest_until)
    FROM opened o
    WHERE o.openings = 1
)
SELECT o.openings, extract(epoch FROM o.rest_until - o.at)::double precision AS rest_seconds
FROM opened o
ORDER BY o.openings;

-- BreakerProbe gives one worker the right to try one message of a sender whose rest is over. No row: another tries.
-- name: BreakerProbe :execrows
UPDATE sender_states st
SET probe_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
FROM senders s
WHERE s.id = st.sender_id AND s.sender_no = @sender_no AND st.openings = @openings AND st.openings > 0
    AND st.rest_until <= clock_timestamp() AND (st.probe_until IS NULL OR st.probe_until <= clock_timestamp());

-- BreakerProbed ends a probe that told nothing of its sender, so that another message is tried.
-- name: BreakerProbed :exec
UPDATE sender_states st
SET probe_until = NULL
FROM senders s
WHERE s.id = st.sender_id AND s.sender_no = @sender_no AND st.openings = @openings;

-- BreakerClose closes the circuit breaker of a sender: something got through.
-- name: BreakerClose :execrows
WITH closed AS (
    UPDATE sender_states st
    SET openings = 0, rest_until = NULL, rest_reason = NULL, probe_until = NULL
    FROM senders s
    WHERE s.id = st.sender_id AND s.sender_no = @sender_no::text AND st.openings = @openings::bigint AND st.openings > 0
    RETURNING st.sender_id
)
INSERT INTO events (event, subject) SELECT 'sender.recovered', @sender_no::text FROM closed;

-- TaskOutgoing gives what a driver sends for tasks, the part of it that stands in the tasks, for how long it holds them, and which version of the sender it is to send them
-- for, with its circuit breaker: what was claimed before another server opened it is not sent.
-- name: TaskOutgoing :many
SELECT t.task_id, t.recipient, coalesce(t.user_id, '')::text AS user_id, t.content AS task_content, coalesce(r.id, 0)::bigint AS rendering_id,
    coalesce(r.title, '')::text AS title, coalesce(r.content, '')::text AS content, coalesce(r.template_id, '')::text AS template_id,
    r.params, coalesce(r.page, '')::text AS page, s.version, st.openings,
    greatest(0, coalesce(extract(epoch FROM st.rest_until - clock_timestamp()), 0))::double precision AS rest_seconds,
    coalesce(extract(epoch FROM t.lease_until - clock_timestamp()), 0)::double precision AS lease_seconds,
    coalesce(t.on_unclear, s.on_unclear) = 'fail' AS fails_unclear
FROM tasks t
JOIN senders s ON s.sender_no = @sender_no
JOIN sender_states st ON st.sender_id = s.id
LEFT JOIN renderings r ON r.id = t.rendering_id
WHERE t.task_id = ANY (@task_ids::text[])
ORDER BY t.task_id;

-- DeliveryUnclear keeps why it is not known of leases whether the messages went out: they are left to run out.
-- name: DeliveryUnclear :exec
INSERT INTO deliveries (task_id, lease_id, sender_no, recipient, error)
SELECT unnest(@task_ids::text[]), unnest(@lease_ids::bigint[]), @sender_no::text, unnest(@recipients::text[]), left(unnest(@errors::text[]), 500);

-- TokenOpen makes sure that a sender has a row for its token.
-- name: TokenOpen :exec
INSERT INTO sender_tokens (sender_id) SELECT s.id FROM senders s WHERE s.sender_no = @sender_no ON CONFLICT DO NOTHING;

-- TokenGet gives the token of a sender and how long it is good for, in seconds.
-- name: TokenGet :one
SELECT k.token, greatest(0, coalesce(extract(epoch FROM k.expires_at - clock_timestamp()), 0))::double precision AS seconds
FROM sender_tokens k
JOIN senders s ON s.id = k.sender_id
WHERE s.sender_no = @sender_no AND isfinite(k.expires_at);

-- TokenLease gives one caller the right to fetch the token of a sender for a while. No row: another fetches it.
-- name: TokenLease :one
UPDATE sender_tokens k
SET fetches = k.fetches + 1, fetch_until = clock_timestamp() + make_interval(secs => @seconds::double precision)
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND (k.fetch_until IS NULL OR k.fetch_until <= clock_timestamp())
RETURNING k.fetches;

-- TokenRelease gives that right back without a token.
-- name: TokenRelease :exec
UPDATE sender_tokens k
SET fetch_until = NULL
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND k.fetches = @fetches;

-- TokenSet keeps the token that the last to lease the row fetched.
-- name: TokenSet :exec
UPDATE sender_tokens k
SET token = @token, expires_at = clock_timestamp() + make_interval(secs => @seconds::double precision), fetch_until = NULL
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no AND k.fetches = @fetches;
