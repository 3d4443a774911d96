-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureReceipts locks and returns the receipts with a recipient that refer to the deliveries of tasks. recipient is returned, because a provider can use the
-- same number for messages to many recipients.
-- name: ErasureReceipts :many
SELECT r.id, r.callback_id, r.recipient FROM receipts r
WHERE r.recipient <> '' AND EXISTS (
    SELECT FROM deliveries d WHERE d.task_id = ANY (@task_ids::text[]) AND d.sender_no = r.sender_no AND d.provider_no = r.provider_no
)
ORDER BY r.id
FOR UPDATE;

-- name: ErasureReceiptsDelete :execrows
DELETE FROM receipts r WHERE r.id = ANY (@ids::bigint[]);

-- ErasureMessageCallbacks masks the bodies of up to `most` callbacks with messages that a company received from any of the given numbers, and returns how many. A
-- message contains what the person wrote, so the whole body is masked: the messages and receipts of other people in it are stored elsewhere.
-- name: ErasureMessageCallbacks :execrows
UPDATE callbacks c SET body = '********'
WHERE c.id = ANY (ARRAY(
    SELECT o.id FROM callbacks o -- by callbacks_received_idx
    WHERE o.received_ids && ARRAY(
            SELECT r.id FROM received_messages r WHERE r.phone_number = ANY (@phone_numbers::text[]) AND r.company_id = @company_id
        ) AND o.body <> '********'
    ORDER BY o.id
    LIMIT @most::integer
    FOR UPDATE
));

-- ErasureCallbacks replaces each match of a regular expression in callbacks with asterisks.
-- name: ErasureCallbacks :execrows
UPDATE callbacks c SET body = regexp_replace(c.body, @pattern::text, '********', 'g') WHERE c.id = ANY (@ids::bigint[]) AND c.body ~ @pattern::text;
