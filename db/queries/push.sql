-- What drivers need: which senders they drive, what a message holds, and what providers said of it.

-- SendersDriven are the senders to which this service pushes, those that are on.
-- name: SendersDriven :many
SELECT s.id, s.sender_no, s.kind, s.config, s.version, s.interval_ms, c.retry_minutes
FROM senders s
JOIN channels c ON c.id = s.channel_id
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

-- TaskOutgoing gives what a driver sends for tasks.
-- name: TaskOutgoing :many
SELECT t.task_id, t.recipient, coalesce(t.user_id, '')::text AS user_id, coalesce(r.id, 0)::bigint AS rendering_id,
    coalesce(r.title, '')::text AS title, coalesce(r.content, '')::text AS content, coalesce(r.template_id, '')::text AS template_id,
    r.params, coalesce(r.page, '')::text AS page
FROM tasks t
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
