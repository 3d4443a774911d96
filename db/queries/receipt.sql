-- Receipts: what providers report later about messages that they accepted.

-- SendersCalled returns the parts of senders' configurations that verify and parse callbacks.
-- name: SendersCalled :many
SELECT s.sender_no,
    jsonb_build_object('callback', s.config -> 'callback', 'callbackSecret', coalesce(s.config -> 'callbackSecret', '""')) AS config
FROM senders s
WHERE s.kind <> 'app' AND s.status <> 'retired' AND s.config ? 'callback'
ORDER BY s.id;

-- CallbackKeep stores a callback unchanged, before it is parsed. A body that came before is only counted.
-- name: CallbackKeep :one
INSERT INTO callbacks AS c (sender_no, source_ip, body, body_hash) VALUES (@sender_no, @source_ip, @body, @body_hash::bytea)
ON CONFLICT (sender_no, body_hash) WHERE body_hash IS NOT NULL DO UPDATE SET repeats = c.repeats + 1
RETURNING c.id;

-- CallbackRefused records why a callback was refused.
-- name: CallbackRefused :exec
UPDATE callbacks SET refused = @refused::text WHERE id = @id AND refused IS DISTINCT FROM @refused::text;

-- CallbacksForget deletes those of the batch_size oldest callbacks that are older than keep.
-- name: CallbacksForget :execrows
DELETE FROM callbacks c
USING (SELECT o.id FROM callbacks o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE c.id = old.id AND c.created_at < now() - @keep::interval;

-- ReceiptsForget deletes those of the batch_size oldest receipts that are older than keep. A receipt that comes again later changes
-- nothing: its task has the result.
-- name: ReceiptsForget :execrows
DELETE FROM receipts r
USING (SELECT o.id FROM receipts o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE r.id = old.id AND r.created_at < now() - @keep::interval;

-- ReceiptPut stores the receipts of a callback and how many of its items were unreadable, and returns the ids of new receipts. A repeated
-- receipt is not stored again.
-- name: ReceiptPut :many
WITH unreadable AS (
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

-- ReceiptsDue returns up to batch_size receipts that should be matched with their messages now, the longest overdue first.
-- name: ReceiptsDue :many
SELECT r.id FROM receipts r WHERE r.look_at <= now() ORDER BY r.look_at LIMIT @batch_size::integer;

-- ReceiptsWaiting returns the receipts that arrived before the provider's numbers of their messages were stored.
-- name: ReceiptsWaiting :many
SELECT r.id FROM receipts r
WHERE r.sender_no = @sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.matched_at IS NULL
ORDER BY r.id;

-- ReceiptCandidates locks unmatched receipts, and returns each with the messages that have its provider's number and whose recipients end
-- in the same four digits. A receipt without such messages gives one row with an empty task_id.
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
    SELECT n.sender_no, n.provider_no, d.task_id, d.recipient, d.lease_id, right(regexp_replace(d.recipient, '[^0-9]', '', 'g'), 4) AS ending -- digits
    FROM numbers n
    CROSS JOIN LATERAL (
        -- OFFSET 0 forces one lookup by deliveries_provider_no_idx for each number.
        SELECT o.task_id, o.recipient, o.lease_id FROM deliveries o WHERE o.sender_no = n.sender_no AND o.provider_no = n.provider_no OFFSET 0
    ) d
)
SELECT h.id, h.sender_no, h.recipient, h.state, h.code, coalesce(s.task_id, '')::text AS task_id, coalesce(s.recipient, '')::text AS sent_to,
    s.lease_id
FROM held h
LEFT JOIN sent s ON s.sender_no = h.sender_no AND s.provider_no = h.provider_no
    AND (h.recipient = '' OR s.ending = right(regexp_replace(h.recipient, '[^0-9]', '', 'g'), 4))
ORDER BY h.id, s.task_id;

-- ReceiptLooked records which receipts were matched. Those of left, whose task could not be read, are tried again after half a minute. Each of the
-- others is tried again after as long as it has waited, at least two seconds and at most six hours later, until it has waited for parked_for.
-- name: ReceiptLooked :exec
UPDATE receipts r
SET matched_at = CASE WHEN r.id = ANY (@found::bigint[]) THEN clock_timestamp() END,
    look_at = CASE
        WHEN r.id = ANY (@left_over::bigint[]) THEN now() + interval '30 seconds'
        WHEN r.id <> ALL (@found::bigint[]) AND r.created_at > now() - @parked_for::interval
            THEN now() + least(greatest(now() - r.created_at, interval '2 seconds'), interval '6 hours')
    END
WHERE r.id = ANY (@ids::bigint[]);
