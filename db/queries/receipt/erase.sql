-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureReceipts locks and returns the receipts with a recipient that refer to the deliveries of tasks. recipient is returned, because a provider can use the
-- same number for messages to many recipients.
-- name: ErasureReceipts :many
SELECT r.id, r.callback_id, r.recipient FROM receipts r
WHERE r.recipient <> '' AND r.id IN (
    SELECT i.id
    FROM deliveries d
    CROSS JOIN LATERAL (
        SELECT o.id, o.sender_no FROM receipts o WHERE o.sender_no = d.sender_no AND o.provider_no = d.provider_no -- by receipts_once_key
        UNION ALL
        SELECT o.id, o.sender_no FROM receipts o WHERE o.other_nos @> ARRAY[d.provider_no] AND o.matched_at IS NULL -- by receipts_other_nos_idx
        OFFSET 0
    ) i
    WHERE d.task_id = ANY (@task_ids::text[]) AND i.sender_no = d.sender_no
)
ORDER BY r.id
FOR UPDATE;

-- name: ErasureReceiptsDelete :execrows
DELETE FROM receipts r WHERE r.id = ANY (@ids::bigint[]);

-- ErasureCallbacks replaces each match of a regular expression in callbacks with asterisks. The messages of a callback that is due are read from its body, so
-- such a body is not changed yet: CallbackTaken masks it.
-- name: ErasureCallbacks :execrows
UPDATE callbacks c
SET body = CASE WHEN c.take_at IS NULL THEN regexp_replace(c.body, @pattern::text, '********', 'g') ELSE c.body END,
    mask_when_taken = c.take_at IS NOT NULL
WHERE c.id = ANY (@ids::bigint[]) AND c.body ~ @pattern::text AND NOT c.mask_when_taken;

-- ErasureCallbacksOfMessages masks the bodies of up to `most` callbacks with erased messages of a company, and returns how many. The whole body is masked,
-- because it contains the text that the person wrote. The messages and receipts of other people in the body are also stored elsewhere.
-- name: ErasureCallbacksOfMessages :execrows
UPDATE callbacks c SET body = '********'
WHERE c.id = ANY (ARRAY(
    SELECT o.id FROM callbacks o -- by callbacks_received_idx
    WHERE o.received_ids && ARRAY(
            SELECT r.id FROM received_messages r WHERE r.phone_number = '' AND r.company_id = @company_id -- by received_messages_phone_number_idx
        ) AND o.body <> '********'
    ORDER BY o.id
    LIMIT @most::integer
    FOR UPDATE
));

-- ErasureCallbacksDue returns callbacks that are older than an erasure and whose messages are not stored yet, with ids greater than after_id, in the order
-- of their ids.
-- name: ErasureCallbacksDue :many
SELECT c.id, c.body FROM callbacks c -- by callbacks_take_idx
WHERE c.take_at IS NOT NULL AND c.created_at <= @since AND c.id > @after_id
ORDER BY c.id
LIMIT @portion::integer;
