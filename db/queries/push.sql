-- What drivers need: which senders they drive, what a message holds, and what providers said of it.

-- SendersDriven are the senders to which this service pushes, those that are on, with what decides which of them comes first.
-- name: SendersDriven :many
SELECT s.id, s.sender_no, s.kind, s.config, s.version, s.interval_ms, c.retry_minutes, x.sort::double precision AS sort,
    x.day_share::double precision AS day_share, x.response_ms::bigint AS response_ms
FROM senders s
JOIN channels c ON c.id = s.channel_id
JOIN sender_standings x ON x.sender_id = s.id
WHERE s.kind <> 'app' AND s.status = 'on'
ORDER BY s.id;

-- SenderConfigs are the configurations that may hold secrets.
-- name: SenderConfigs :many
SELECT s.sender_no, s.kind, s.config, s.version FROM senders s WHERE s.kind <> 'app' ORDER BY s.id;

-- SenderReseal writes a configuration that was sealed anew, unless it was changed meanwhile.
-- name: SenderReseal :execrows
UPDATE senders SET config = @config WHERE sender_no = @sender_no AND version = @version;

-- SenderRest keeps a sender from being counted on for a while: the others of its routes have its share.
-- name: SenderRest :exec
UPDATE sender_states st
SET next_available_at = greatest(st.next_available_at, clock_timestamp() + make_interval(secs => @seconds::double precision))
FROM senders s
WHERE s.id = st.sender_id AND s.sender_no = @sender_no;

-- TaskOutgoing gives what a driver sends for tasks, the part of it that stands in the tasks, and which version of the sender it is to send them for.
-- name: TaskOutgoing :many
SELECT t.task_id, t.recipient, coalesce(t.user_id, '')::text AS user_id, t.content AS task_content, coalesce(r.id, 0)::bigint AS rendering_id,
    coalesce(r.title, '')::text AS title, coalesce(r.content, '')::text AS content, coalesce(r.template_id, '')::text AS template_id,
    r.params, coalesce(r.page, '')::text AS page, s.version
FROM tasks t
JOIN senders s ON s.sender_no = @sender_no
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

-- TokenLock holds the token of a sender until the end of the transaction.
-- name: TokenLock :one
SELECT k.sender_id FROM sender_tokens k JOIN senders s ON s.id = k.sender_id WHERE s.sender_no = @sender_no FOR UPDATE OF k;

-- name: TokenSet :exec
UPDATE sender_tokens k
SET token = @token, expires_at = clock_timestamp() + make_interval(secs => @seconds::double precision)
FROM senders s
WHERE s.id = k.sender_id AND s.sender_no = @sender_no;

-- SenderCallback gives what a callback of a provider is checked against and read with.
-- name: SenderCallback :one
SELECT s.kind, s.config FROM senders s WHERE s.sender_no = @sender_no AND s.kind <> 'app' AND s.status <> 'retired';

-- ReceiptPut keeps a callback and what it says of messages; what was said before is not kept twice.
-- name: ReceiptPut :execrows
WITH callback AS (
    INSERT INTO callbacks (sender_no, source_ip, body) VALUES (@sender_no::text, @source_ip::text, @body::text) RETURNING id
)
INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state, code)
SELECT callback.id, @sender_no::text, i.provider_no, i.recipient, i.state, i.code
FROM callback
CROSS JOIN (
    SELECT unnest(@provider_nos::text[]) AS provider_no, unnest(@recipients::text[]) AS recipient, unnest(@states::smallint[]) AS state,
        unnest(@codes::text[]) AS code
) i
ORDER BY i.provider_no, i.recipient, i.state, i.code
ON CONFLICT ON CONSTRAINT receipts_once_key DO NOTHING;

-- ReceiptMatch joins up to batch_size receipts that wait to the tasks of their messages, and tells how many it has joined: by
-- the provider's number and, where one number is of several messages, by the recipient. What comes twice, or in another order,
-- comes to the same: that a message was delivered stands above that it was not.
-- name: ReceiptMatch :one
WITH parked AS MATERIALIZED (
    SELECT r.*
    FROM receipts r
    WHERE r.matched_at IS NULL AND r.created_at > now() - interval '3 days'
        AND EXISTS (
            SELECT FROM deliveries d
            WHERE d.sender_no = r.sender_no AND d.provider_no = r.provider_no
                AND (r.recipient = '' OR right(d.recipient, 11) = right(r.recipient, 11))
        )
    ORDER BY r.id
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
),
told AS MATERIALIZED (
    SELECT d.task_id, min(p.state) AS state, (array_agg(p.code ORDER BY p.state, p.id))[1] AS code, min(p.sender_no) AS sender_no
    FROM parked p
    JOIN deliveries d ON d.sender_no = p.sender_no AND d.provider_no = p.provider_no
        AND (p.recipient = '' OR right(d.recipient, 11) = right(p.recipient, 11)) -- numbers with and without their prefix
    WHERE p.state IN (1, 2)
    GROUP BY d.task_id
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
),
logged AS (
    INSERT INTO report_logs (task_id, app_id, event, created_at, effect, error_message)
    SELECT h.task_id, h.sender_no, 'receipt', (SELECT moment.at FROM moment), CASE h.state WHEN 1 THEN 'delivered' ELSE 'undelivered' END,
        CASE h.state WHEN 2 THEN nullif(h.code, '') END
    FROM held h
),
matched AS (
    UPDATE receipts r SET matched_at = (SELECT moment.at FROM moment) FROM parked p WHERE r.id = p.id
)
SELECT count(*) FROM parked;
