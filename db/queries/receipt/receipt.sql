-- Statements on receipts. In a receipt, a provider reports whether an accepted message was delivered.

-- SendersCalled returns the configuration with which callbacks of senders are verified and parsed. It returns the senders that are on or off. It also returns
-- senders whose retirement is more recent than `late`, because receipts can still arrive for their messages.
-- name: SendersCalled :many
SELECT s.sender_no,
    jsonb_build_object('callback', s.config -> 'callback', 'callbackSecret', coalesce(s.config -> 'callbackSecret', to_jsonb(''::text))) AS config
FROM senders s
WHERE s.kind <> 'app' AND (s.config -> 'callback') IS NOT NULL AND (s.status <> 'retired' OR s.updated_at > now() - sqlc.arg(late)::interval)
ORDER BY s.id;

-- CallbacksKeep stores callbacks unchanged, and returns the ids of the new receipts. A callback has either receipts or a reason why it is rejected (refusals).
-- A repeated body only increases repeats, and a repeated receipt is not stored again. The pairs of sender_nos and body_hashes are distinct. receipt_calls
-- contains, for each receipt, the index of its callback, from 1. has_messages: the callback contains messages from people, which CallbackDue returns. If the
-- messages of the stored callback were never stored, a repeated body with messages makes the callback due and replaces its body, because an erasure possibly
-- masked people in the stored body.
-- name: CallbacksKeep :many
WITH input AS MATERIALIZED (
    SELECT unnest(@sender_nos::text[]) AS sender_no, unnest(@source_ips::text[]) AS source_ip, unnest(@bodies::text[]) AS body,
        unnest(@body_hashes::bytea[]) AS body_hash, nullif(unnest(@refusals::text[]), '') AS refused, unnest(@left_outs::bigint[]) AS left_out,
        unnest(@has_messages::boolean[]) AS has_messages,
        generate_series(1, cardinality(@sender_nos::text[])) AS nth
),
kept AS (
    INSERT INTO callbacks AS c (sender_no, source_ip, body, body_hash, refused, left_out, take_at)
    SELECT i.sender_no, i.source_ip, i.body, i.body_hash, i.refused, i.left_out, CASE WHEN i.has_messages THEN now() END FROM input i
    ORDER BY i.sender_no, i.body_hash
    ON CONFLICT (sender_no, body_hash) WHERE body_hash IS NOT NULL
    DO UPDATE SET repeats = c.repeats + 1, refused = excluded.refused, left_out = excluded.left_out,
        body = CASE WHEN c.received_ids IS NULL AND excluded.take_at IS NOT NULL THEN excluded.body ELSE c.body END,
        take_at = CASE WHEN c.received_ids IS NULL THEN coalesce(c.take_at, excluded.take_at) END
    RETURNING c.id, c.sender_no, c.body_hash
)
INSERT INTO receipts (callback_id, sender_no, provider_no, other_nos, recipient, state, code)
SELECT k.id, k.sender_no, r.provider_no, string_to_array(nullif(r.other_nos, ''), E'\n'), r.recipient, r.state, r.code
FROM (
    SELECT unnest(@receipt_calls::integer[]) AS nth, unnest(@provider_nos::text[]) AS provider_no, unnest(@other_nos::text[]) AS other_nos,
        unnest(@recipients::text[]) AS recipient,
        unnest(@states::smallint[]) AS state, unnest(@codes::text[]) AS code
) r
JOIN input i ON i.nth = r.nth
JOIN kept k ON k.sender_no = i.sender_no AND k.body_hash = i.body_hash
ORDER BY k.sender_no, r.provider_no, r.recipient, r.state, r.code
ON CONFLICT ON CONSTRAINT receipts_once_key DO NOTHING
RETURNING id;

-- Of the callbacks whose messages are not stored yet, CallbackDue locks and returns the callback that has been due longest. Concurrent transactions return
-- different callbacks.
-- name: CallbackDue :one
SELECT c.id, c.sender_no, c.body FROM callbacks c WHERE c.take_at <= now() ORDER BY c.take_at, c.id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- CallbackMessagesHold locks stored messages, so that no erasure removes their texts before the end of the transaction. It returns whether all these messages
-- still exist with their texts.
-- name: CallbackMessagesHold :one
SELECT (count(*) = cardinality(@ids::bigint[]))::boolean
FROM (
    SELECT r.phone_number FROM received_messages r WHERE r.id = ANY (@ids::bigint[]) ORDER BY r.id FOR SHARE
) h
WHERE h.phone_number <> '';

-- CallbackTaken records that the messages of a callback are stored. It masks the body if the body contains an erased person. This is the case if the body
-- repeats an erased message (is_erased), or if an erasure has marked the callback (mask_when_taken).
-- name: CallbackTaken :exec
UPDATE callbacks
SET take_at = NULL, received_ids = @received_ids::bigint[], mask_when_taken = false,
    body = CASE WHEN @is_erased::boolean OR mask_when_taken THEN '********' ELSE body END
WHERE id = @id;

-- CallbacksMask masks the bodies of callbacks with messages that were deleted.
-- name: CallbacksMask :exec
UPDATE callbacks c SET body = '********' WHERE c.received_ids && @received_ids::bigint[] AND c.body <> '********';

-- CallbackPostpone delays the next attempt to store the messages of a callback by the time that the callback has already waited, but by at least two seconds and
-- at most an hour.
-- name: CallbackPostpone :exec
UPDATE callbacks
SET take_at = clock_timestamp() + least(greatest(clock_timestamp() - created_at, interval '2 seconds'), interval '1 hour')
WHERE id = @id AND take_at IS NOT NULL;

-- CallbacksDeleteExpired deletes callbacks that are older than `keep`. It checks only the batch_size oldest callbacks.
-- name: CallbacksDeleteExpired :execrows
DELETE FROM callbacks c
USING (SELECT o.id FROM callbacks o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE c.id = old.id AND c.created_at < now() - @keep::interval;

-- ReceiptsDeleteExpired deletes receipts that are older than `keep`. It checks only the batch_size oldest receipts. If a deleted receipt arrives again, it
-- changes nothing, because the result is already stored with the task.
-- name: ReceiptsDeleteExpired :execrows
DELETE FROM receipts r
USING (SELECT o.id FROM receipts o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE r.id = old.id AND r.created_at < now() - @keep::interval;

-- ReceiptsDue returns up to batch_size receipts that must be matched with their messages now, the longest overdue receipt first.
-- name: ReceiptsDue :many
SELECT r.id FROM receipts r WHERE r.look_at <= now() ORDER BY r.look_at LIMIT @batch_size::integer;

-- ReceiptsWaiting returns the unmatched receipts of a sender with one of provider_nos. These receipts arrived before the numbers of their messages were stored.
-- name: ReceiptsWaiting :many
SELECT r.id FROM receipts r
WHERE r.sender_no = @sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.matched_at IS NULL
UNION
SELECT o.id
FROM (
    -- OFFSET 0 forces receipts_other_nos_idx.
    SELECT i.id, i.sender_no FROM receipts i WHERE i.other_nos && @provider_nos::text[] AND i.matched_at IS NULL OFFSET 0
) o
WHERE o.sender_no = @sender_no
ORDER BY id;

-- ReceiptCandidates locks unmatched receipts, and returns them with the messages that they can belong to. Such a message has the provider's number of the
-- receipt, and its recipient ends in the same four digits. If no message has this number, the messages with one of other_nos are returned (is_other). A receipt
-- without such a message has one row with an empty task_id. is_part: the message is a part of a long one. in_part: the provider took only some parts.
-- name: ReceiptCandidates :many
WITH held AS MATERIALIZED (
    SELECT r.id, r.sender_no, r.provider_no, r.other_nos, r.recipient, r.state, r.code
    FROM receipts r
    WHERE r.id = ANY (@ids::bigint[]) AND r.matched_at IS NULL
    ORDER BY r.id
    FOR UPDATE SKIP LOCKED
),
forms AS MATERIALIZED (
    SELECT h.id, h.sender_no, h.provider_no AS number, false AS is_other FROM held h
    UNION ALL
    SELECT h.id, h.sender_no, o.number, true
    FROM held h
    CROSS JOIN LATERAL unnest(h.other_nos) AS o (number)
    WHERE h.recipient <> '' AND NOT EXISTS (SELECT FROM deliveries d WHERE d.sender_no = h.sender_no AND d.provider_no = h.provider_no)
),
numbers AS MATERIALIZED (
    SELECT DISTINCT f.sender_no, f.number FROM forms f
),
sent AS MATERIALIZED (
    SELECT n.sender_no, n.number, d.task_id, d.recipient, d.lease_id, d.in_part, right(number_digits(d.recipient), 4) AS ending,
        EXISTS (
            SELECT FROM deliveries p WHERE p.task_id = d.task_id AND p.lease_id = d.lease_id AND p.provider_no <> n.number
        ) AS is_part
    FROM numbers n
    CROSS JOIN LATERAL (
        -- OFFSET 0 forces one lookup by deliveries_provider_no_idx for each number.
        SELECT o.task_id, o.recipient, o.lease_id, o.in_part FROM deliveries o WHERE o.sender_no = n.sender_no AND o.provider_no = n.number OFFSET 0
    ) d
),
found AS MATERIALIZED (
    SELECT f.id, f.is_other, s.number, s.task_id, s.recipient, s.lease_id, s.ending, s.is_part, s.in_part
    FROM forms f
    JOIN sent s ON s.sender_no = f.sender_no AND s.number = f.number
)
SELECT h.id, h.sender_no, h.recipient, h.state, h.code, coalesce(f.task_id, '')::text AS task_id, coalesce(f.recipient, '')::text AS sent_to,
    f.lease_id, coalesce(f.is_part, false)::boolean AS is_part, coalesce(f.number, '')::text AS number, coalesce(f.is_other, false)::boolean AS is_other,
    coalesce(f.in_part, false)::boolean AS in_part
FROM held h
LEFT JOIN found f ON f.id = h.id AND (h.recipient = '' OR f.ending = right(number_digits(h.recipient), 4))
ORDER BY h.id, f.task_id;

-- ReceiptsName replaces the numbers of receipts by those of their messages. It deletes a receipt that is the same as another one then.
-- name: ReceiptsName :exec
WITH named AS MATERIALIZED (
    SELECT r.id, n.number,
        row_number() OVER (PARTITION BY r.sender_no, n.number, r.recipient, r.state, r.code ORDER BY r.id) > 1 OR EXISTS (
            SELECT FROM receipts o
            WHERE o.sender_no = r.sender_no AND o.provider_no = n.number AND o.recipient = r.recipient AND o.state = r.state AND o.code = r.code
        ) AS is_repeat
    FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@numbers::text[]) AS number) n
    JOIN receipts r ON r.id = n.id
),
repeats AS (
    DELETE FROM receipts r USING named n WHERE r.id = n.id AND n.is_repeat
)
UPDATE receipts r SET provider_no = n.number FROM named n WHERE r.id = n.id AND NOT n.is_repeat;

-- DeliveriesOfLeasesHold locks the attempts with some leases.
-- name: DeliveriesOfLeasesHold :exec
SELECT d.id FROM deliveries d WHERE d.task_id = ANY (@task_ids::text[]) AND d.lease_id = ANY (@lease_ids::bigint[]) ORDER BY d.id FOR UPDATE;

-- DeliveriesOfLeases returns those of the leases with a part that is not delivered.
-- name: DeliveriesOfLeases :many
SELECT DISTINCT d.lease_id FROM deliveries d
WHERE d.task_id = ANY (@task_ids::text[]) AND d.lease_id = ANY (@lease_ids::bigint[]) AND d.provider_no IS NOT NULL AND NOT EXISTS (
    SELECT FROM receipts r
    WHERE r.sender_no = d.sender_no AND r.provider_no = d.provider_no AND r.state = 1 AND r.matched_at IS NOT NULL -- DELIVERED
)
ORDER BY d.lease_id;

-- ReceiptTried records the receipts that were matched (found). The receipts of left_over are tried again after half a minute, because their tasks could not be
-- read. The delay of each other receipt is the time that it has already waited, but at least two seconds and at most six hours. A receipt that has waited for
-- parked_for is not tried again.
-- name: ReceiptTried :exec
UPDATE receipts r
SET matched_at = CASE WHEN r.id = ANY (@found::bigint[]) THEN clock_timestamp() END,
    look_at = CASE
        WHEN r.id = ANY (@left_over::bigint[]) THEN now() + interval '30 seconds'
        WHEN r.id <> ALL (@found::bigint[]) AND r.created_at > now() - @parked_for::interval
            THEN now() + least(greatest(now() - r.created_at, interval '2 seconds'), interval '6 hours')
    END
WHERE r.id = ANY (@ids::bigint[]);

-- A list reads ids of receipts or callbacks in portions, by an index. ReceiptListOf or CallbackListOf then applies all filters to these ids. Each of the
-- following statements returns up to max_rows ids from from_id up to, but without, before_id, newest first.

-- CallbackSenders returns the senders with stored callbacks. It moves through callbacks_sender_idx from each sender to the next.
-- name: CallbackSenders :many
WITH RECURSIVE steps AS (
    (SELECT c.sender_no FROM callbacks c ORDER BY c.sender_no LIMIT 1)
    UNION ALL
    SELECT n.sender_no
    FROM steps s
    CROSS JOIN LATERAL (SELECT c.sender_no FROM callbacks c WHERE c.sender_no > s.sender_no ORDER BY c.sender_no LIMIT 1) n
)
SELECT s.sender_no::text AS sender_no FROM steps s ORDER BY s.sender_no;

-- name: ReceiptIDs :many
SELECT r.id FROM receipts r WHERE r.id < @before_id::bigint AND r.id >= @from_id::bigint ORDER BY r.id DESC LIMIT @max_rows::integer;

-- name: ReceiptIDsOfSender :many
SELECT r.id FROM receipts r
WHERE r.sender_no = @sender_no AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
ORDER BY r.id DESC
LIMIT @max_rows::integer;

-- ReceiptIDsUnmatched returns unmatched receipts of the given senders.
-- name: ReceiptIDsUnmatched :many
SELECT i.id
FROM unnest(@sender_nos::text[]) AS s (sender_no)
CROSS JOIN LATERAL (
    SELECT r.id FROM receipts r -- by receipts_unmatched_idx
    WHERE r.sender_no = s.sender_no AND r.matched_at IS NULL AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
    ORDER BY r.id DESC
    LIMIT @max_rows::integer
) i
ORDER BY i.id DESC
LIMIT @max_rows::integer;

-- ReceiptIDsOfNumber returns the receipts of the given senders with one of provider_nos.
-- name: ReceiptIDsOfNumber :many
SELECT i.id
FROM unnest(@sender_nos::text[]) AS s (sender_no)
CROSS JOIN LATERAL (
    SELECT r.id FROM receipts r -- by receipts_once_key
    WHERE r.sender_no = s.sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.id < @before_id::bigint AND r.id >= @from_id::bigint
    OFFSET 0
) i
ORDER BY i.id DESC
LIMIT @max_rows::integer;

-- ReceiptListOf returns the receipts of `ids` that match all filters, newest first.
-- name: ReceiptListOf :many
SELECT r.* FROM receipts r
WHERE r.id = ANY (@ids::bigint[])
    AND (sqlc.narg(sender_no)::text IS NULL OR r.sender_no = sqlc.narg(sender_no)::text)
    AND (@provider_nos::text[] IS NULL OR r.provider_no = ANY (@provider_nos::text[]))
    AND (sqlc.narg(is_matched)::boolean IS NULL OR (r.matched_at IS NOT NULL) = sqlc.narg(is_matched)::boolean)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR r.created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR r.created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY r.id DESC;

-- ReceiptsFind returns which of the given receipts of a sender are stored. nth is the index of the receipt in the arrays, from 1.
-- name: ReceiptsFind :many
SELECT i.nth::integer AS nth, r.id, r.matched_at
FROM (
    SELECT unnest(@provider_nos::text[]) AS provider_no, unnest(@recipients::text[]) AS recipient, unnest(@states::smallint[]) AS state,
        unnest(@codes::text[]) AS code, generate_series(1, cardinality(@provider_nos::text[])) AS nth
) i
JOIN receipts r ON r.sender_no = @sender_no AND r.provider_no = i.provider_no AND r.recipient = i.recipient AND r.state = i.state AND r.code = i.code
ORDER BY i.nth;

-- ReceiptsOfCallback returns the receipts with one of provider_nos that a callback was the first to contain.
-- name: ReceiptsOfCallback :many
SELECT r.id, r.provider_no, r.recipient, r.state, r.code, r.matched_at FROM receipts r -- by receipts_once_key
WHERE r.sender_no = @sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.callback_id = @callback_id
ORDER BY r.id;

-- ReceiptsUnmatched returns the number of unmatched receipts of each sender. It counts the receipts that arrived within came_within but at least grace ago, up
-- to max_counted for each sender. grace is necessary because a receipt can arrive before the response to the send request of its message.
-- name: ReceiptsUnmatched :many
SELECT n.sender_no, h.channel, u.receipts
FROM senders n
JOIN channels h ON h.id = n.channel_id
CROSS JOIN LATERAL (
    SELECT count(*) AS receipts
    FROM (
        SELECT r.id FROM receipts r -- by receipts_unmatched_idx
        WHERE r.sender_no = n.sender_no AND r.matched_at IS NULL
            AND r.id >= (SELECT first_id_since('receipts'::regclass, now() - sqlc.arg(came_within)::interval - interval '1 minute')) -- evaluated once, not for each sender
            AND r.created_at > now() - @came_within::interval AND r.created_at <= now() - @grace::interval
        LIMIT @max_counted::integer
    ) c
) u
WHERE u.receipts > 0
ORDER BY u.receipts DESC, n.sender_no
LIMIT @max_senders::integer;

-- name: CallbackIDs :many
SELECT c.id FROM callbacks c WHERE c.id < @before_id::bigint AND c.id >= @from_id::bigint ORDER BY c.id DESC LIMIT @max_rows::integer;

-- name: CallbackIDsOfSender :many
SELECT c.id FROM callbacks c
WHERE c.sender_no = @sender_no AND c.id < @before_id::bigint AND c.id >= @from_id::bigint
ORDER BY c.id DESC
LIMIT @max_rows::integer;

-- CallbackIDsUnreadable returns the callbacks of the given senders that could not be parsed completely.
-- name: CallbackIDsUnreadable :many
SELECT i.id
FROM unnest(@sender_nos::text[]) AS s (sender_no)
CROSS JOIN LATERAL (
    SELECT c.id FROM callbacks c -- by callbacks_unreadable_idx
    WHERE c.sender_no = s.sender_no AND (c.refused IS NOT NULL OR c.left_out > 0) AND c.id < @before_id::bigint AND c.id >= @from_id::bigint
    ORDER BY c.id DESC
    LIMIT @max_rows::integer
) i
ORDER BY i.id DESC
LIMIT @max_rows::integer;

-- CallbackListOf returns the callbacks of `ids` that match all filters, newest first. body contains the first max_body characters.
-- name: CallbackListOf :many
SELECT c.id, c.sender_no, c.source_ip, left(c.body, @max_body::integer)::text AS body, char_length(c.body)::integer AS length, c.created_at, c.refused,
    c.left_out, c.repeats
FROM callbacks c
WHERE c.id = ANY (@ids::bigint[])
    AND (sqlc.narg(sender_no)::text IS NULL OR c.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(is_unreadable)::boolean IS NULL OR (c.refused IS NOT NULL OR c.left_out > 0) = sqlc.narg(is_unreadable)::boolean)
    AND (sqlc.narg(created_from)::timestamptz IS NULL OR c.created_at >= sqlc.narg(created_from)::timestamptz)
    AND (sqlc.narg(created_to)::timestamptz IS NULL OR c.created_at < sqlc.narg(created_to)::timestamptz)
ORDER BY c.id DESC;

-- CallbackIDsOfNumber returns the callbacks that contained receipts of the given senders with one of provider_nos. For a repeated receipt, it returns only
-- the first callback.
-- name: CallbackIDsOfNumber :many
SELECT DISTINCT i.callback_id
FROM unnest(@sender_nos::text[]) AS s (sender_no)
CROSS JOIN LATERAL (
    SELECT r.callback_id FROM receipts r -- by receipts_once_key
    WHERE r.sender_no = s.sender_no AND r.provider_no = ANY (@provider_nos::text[]) AND r.callback_id < @before_id::bigint AND r.callback_id >= @from_id::bigint
    OFFSET 0
) i
ORDER BY i.callback_id DESC
LIMIT @max_rows::integer;

-- name: CallbackGet :one
SELECT * FROM callbacks c WHERE c.id = @id;

-- FirstReceiptSince returns approximately the smallest id of the receipts that arrived at or after `since`. FirstCallbackSince returns the same for callbacks.
-- name: FirstReceiptSince :one
SELECT first_id_since('receipts'::regclass, @since::timestamptz);

-- name: FirstCallbackSince :one
SELECT first_id_since('callbacks'::regclass, @since::timestamptz);
