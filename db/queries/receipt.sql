-- Receipts: what providers report later about messages that they accepted.

-- SendersCalled returns the parts of senders' configurations that verify and parse callbacks.
-- name: SendersCalled :many
SELECT s.sender_no,
    jsonb_build_object('callback', s.config -> 'callback', 'callbackSecret', coalesce(s.config -> 'callbackSecret', '""')) AS config
FROM senders s
WHERE s.kind <> 'app' AND s.status <> 'retired' AND s.config ? 'callback'
ORDER BY s.id;

-- CallbacksKeep stores callbacks unchanged, why some are refused, and the receipts of the others, and returns the ids of the new receipts. A body that
-- came before is only counted, and a repeated receipt is not stored again. The pairs of sender_nos and body_hashes are distinct. receipt_calls are the
-- places of the callbacks of the receipts, counted from 1.
-- name: CallbacksKeep :many
WITH input AS MATERIALIZED (
    SELECT unnest(@sender_nos::text[]) AS sender_no, unnest(@source_ips::text[]) AS source_ip, unnest(@bodies::text[]) AS body,
        unnest(@body_hashes::bytea[]) AS body_hash, nullif(unnest(@refusals::text[]), '') AS refused, unnest(@left_outs::bigint[]) AS left_out,
        generate_series(1, cardinality(@sender_nos::text[])) AS nth
),
kept AS (
    INSERT INTO callbacks AS c (sender_no, source_ip, body, body_hash, refused, left_out)
    SELECT i.sender_no, i.source_ip, i.body, i.body_hash, i.refused, i.left_out FROM input i
    ORDER BY i.sender_no, i.body_hash
    ON CONFLICT (sender_no, body_hash) WHERE body_hash IS NOT NULL
    DO UPDATE SET repeats = c.repeats + 1, refused = excluded.refused, left_out = excluded.left_out
    RETURNING c.id, c.sender_no, c.body_hash
)
INSERT INTO receipts (callback_id, sender_no, provider_no, recipient, state, code)
SELECT k.id, k.sender_no, r.provider_no, r.recipient, r.state, r.code
FROM (
    SELECT unnest(@receipt_calls::integer[]) AS nth, unnest(@provider_nos::text[]) AS provider_no, unnest(@recipients::text[]) AS recipient,
        unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code
) r
JOIN input i ON i.nth = r.nth
JOIN kept k ON k.sender_no = i.sender_no AND k.body_hash = i.body_hash
ORDER BY k.sender_no, r.provider_no, r.recipient, r.state, r.code
ON CONFLICT ON CONSTRAINT receipts_once_key DO NOTHING
RETURNING id;

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
