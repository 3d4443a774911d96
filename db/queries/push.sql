-- What drivers need: which senders they drive, what a message holds, and what providers said of it.

-- SendersDriven are the senders to which this service pushes, those that are on, and how their circuit breakers stand.
-- name: SendersDriven :many
SELECT s.id, s.sender_no, s.kind, s.config, s.version, s.interval_ms, c.retry_minutes, st.openings,
    greatest(0, coalesce(extract(epoch FROM st.rest_until - clock_timestamp()), 0))::double precision AS rest_seconds
FROM senders s
JOIN channels c ON c.id = s.channel_id
JOIN sender_states st ON st.sender_id = s.id
WHERE s.kind <> 'app' AND s.status = 'on'
ORDER BY s.id;

-- SenderConfigs are the configurations that may hold secrets.
-- name: SenderConfigs :many
SELECT s.sender_no, s.kind, s.config, s.version FROM senders s WHERE s.kind <> 'app' ORDER BY s.id;

-- SenderReseal writes a configuration that was sealed anew, unless it was changed meanwhile.
-- name: SenderReseal :execrows
UPDATE senders SET config = @config WHERE sender_no = @sender_no AND version = @version;

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

-- SendersCalled gives what callbacks of providers are checked against and read with.
-- name: SendersCalled :many
SELECT s.sender_no,
    jsonb_build_object('callback', s.config -> 'callback', 'callbackSecret', coalesce(s.config -> 'callbackSecret', '""')) AS config
FROM senders s
WHERE s.kind <> 'app' AND s.status <> 'retired' AND s.config ? 'callback'
ORDER BY s.id;

-- CallbackKeep keeps a callback as it came, before it is read. A body that came before is counted, and not kept again.
-- name: CallbackKeep :one
INSERT INTO callbacks AS c (sender_no, source_ip, body, body_hash) VALUES (@sender_no, @source_ip, @body, @body_hash::bytea)
ON CONFLICT (sender_no, body_hash) WHERE body_hash IS NOT NULL DO UPDATE SET repeats = c.repeats + 1
RETURNING c.id;

-- CallbackRefused says why a callback was refused.
-- name: CallbackRefused :exec
UPDATE callbacks SET refused = @refused::text WHERE id = @id AND refused IS DISTINCT FROM @refused::text;

-- CallbacksForget forgets those of the batch_size oldest callbacks that are older than keep.
-- name: CallbacksForget :execrows
DELETE FROM callbacks c
USING (SELECT o.id FROM callbacks o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE c.id = old.id AND c.created_at < now() - @keep::interval;

-- ReceiptsForget forgets those of the batch_size oldest receipts that are older than keep. One that comes again after that changes
-- nothing, because its task knows what became of the message.
-- name: ReceiptsForget :execrows
DELETE FROM receipts r
USING (SELECT o.id FROM receipts o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE r.id = old.id AND r.created_at < now() - @keep::interval;

-- ReceiptPut keeps what a callback says of messages, how many of its items could not be read, and gives the ids of the receipts that
-- are new: what was said before is not kept twice.
-- name: ReceiptPut :many
WITH read AS (
    UPDATE callbacks SET left_out = @left_out::bigint WHERE id = @callback_id::bigint AND left_out <> @left_out::bigint
)
INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state, code)
SELECT @callback_id::bigint, @sender_no::text, i.provider_no, i.recipient, i.state, i.code
FROM (
    SELECT unnest(@provider_nos::text[]) AS provider_no, unnest(@recipients::text[]) AS recipient, unnest(@states::smallint[]) AS state,
        unnest(@codes::text[]) AS code
) i
ORDER BY i.provider_no, i.recipient, i.state, i.code
ON CONFLICT ON CONSTRAINT receipts_once_key DO NOTHING
RETURNING id;

-- ReceiptsDue names up to batch_size receipts whose messages are to be looked for, those that have waited longest first.
-- name: ReceiptsDue :many
SELECT r.id FROM receipts r WHERE r.look_at <= now() ORDER BY r.look_at LIMIT @batch_size::integer;

-- ReceiptsWaiting names the receipts that came before the answers to the sending of their messages.
-- name: ReceiptsWaiting :many
SELECT r.id FROM receipts r
WHERE r.sender_no = @sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.matched_at IS NULL
ORDER BY r.id;

-- ReceiptCandidates holds receipts whose messages are looked for, and gives with each the messages with its provider's number, those
-- left out whose recipients end differently. One without messages stands alone. The messages of a number are looked up by its index,
-- once.
-- name: ReceiptCandidates :many
WITH held AS MATERIALIZED (
    SELECT r.id, r.sender_no, r.provider_no, r.recipient, r.state, r.code
    FROM receipts r
    WHERE r.id = ANY (@ids::bigint[]) AND r.matched_at IS NULL
    ORDER BY r.id
    FOR UPDATE SKIP LOCKED
),
numbers AS MATERIALIZED (
    SELECT DISTINCT h.sender_no, h.provider_no FROM held h
),
sent AS MATERIALIZED (
    SELECT n.sender_no, n.provider_no, d.task_id, d.recipient, right(regexp_replace(d.recipient, '[^0-9]', '', 'g'), 4) AS ending
    FROM numbers n
    CROSS JOIN LATERAL (
        SELECT d.task_id, d.recipient FROM deliveries d WHERE d.sender_no = n.sender_no AND d.provider_no = n.provider_no OFFSET 0
    ) d
)
SELECT h.id, h.sender_no, h.recipient, h.state, h.code, coalesce(s.task_id, '')::text AS task_id, coalesce(s.recipient, '')::text AS sent_to
FROM held h
LEFT JOIN sent s ON s.sender_no = h.sender_no AND s.provider_no = h.provider_no
    AND (h.recipient = '' OR s.ending = right(regexp_replace(h.recipient, '[^0-9]', '', 'g'), 4))
ORDER BY h.id, s.task_id;

-- ReceiptSettle tells tasks what became of their messages. What comes twice, or in another order, comes to the same: that a message was
-- delivered stands above that it was not.
-- name: ReceiptSettle :exec
WITH told AS MATERIALIZED (
    SELECT i.task_id, min(i.state) AS state, (array_agg(i.code ORDER BY i.state, i.place))[1] AS code, min(i.sender_no) AS sender_no
    FROM (
        SELECT unnest(@task_ids::text[]) AS task_id, unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code,
            unnest(@sender_nos::text[]) AS sender_no, generate_series(1, cardinality(@task_ids::text[])) AS place
    ) i
    GROUP BY i.task_id
),
held AS MATERIALIZED (
    SELECT o.*
    FROM told o
    JOIN tasks t ON t.task_id = o.task_id
    WHERE t.delivery IS NULL OR t.delivery > o.state
    ORDER BY o.task_id
    FOR UPDATE OF t
),
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM (SELECT count(*) FROM held) h
),
put AS (
    UPDATE tasks t
    SET delivery = h.state, delivery_code = nullif(h.code, ''),
        delivered_at = CASE h.state WHEN 1 THEN (SELECT moment.at FROM moment) END
    FROM held h
    WHERE t.task_id = h.task_id
)
INSERT INTO report_logs (task_id, app_id, event, created_at, effect, error_message)
SELECT h.task_id, h.sender_no, 'receipt', (SELECT moment.at FROM moment), CASE h.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
    CASE h.state WHEN 2 THEN nullif(h.code, '') END
FROM held h;

-- ReceiptLooked says of which receipts the messages were found. The others are looked for again after as long as they have waited, but
-- at least two seconds and at most six hours, until they have waited for parked_for.
-- name: ReceiptLooked :exec
UPDATE receipts r
SET matched_at = CASE WHEN r.id = ANY (@found::bigint[]) THEN clock_timestamp() END,
    look_at = CASE WHEN r.id <> ALL (@found::bigint[]) AND r.created_at > now() - @parked_for::interval
        THEN now() + least(greatest(now() - r.created_at, interval '2 seconds'), interval '6 hours') END
WHERE r.id = ANY (@ids::bigint[]);
