-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureWebhooksHold locks all webhooks until the end of the transaction. A response that arrived before the erasure is then either stored before the locks,
-- so that the erasure removes it, or WebhookDeliveriesAdd runs after the erasure and does not store it.
-- name: ErasureWebhooksHold :exec
SELECT FROM webhooks w ORDER BY w.id FOR NO KEY UPDATE;

-- ErasureWebhooks removes the responses of receivers to webhook calls about tasks, because a response can repeat the call.
-- name: ErasureWebhooks :execrows
UPDATE webhook_deliveries d SET response = NULL WHERE d.task_id = ANY (@task_ids::text[]) AND d.response IS NOT NULL;

-- ErasureWebhooksVerifications removes the responses of receivers to webhook calls about verifications that are deleted, or whose event is deleted.
-- name: ErasureWebhooksVerifications :execrows
UPDATE webhook_deliveries d SET response = NULL
WHERE d.type IN ('verification.approved', 'verification.failed') AND d.response IS NOT NULL AND NOT EXISTS (
    SELECT FROM feed f JOIN verifications v ON v.verification_id = f.data ->> 'verification_id' WHERE f.id = d.feed_id
);

-- ErasureWebhooksReceived removes the responses of receivers to webhook calls about received messages that are erased, or whose event is deleted.
-- name: ErasureWebhooksReceived :execrows
UPDATE webhook_deliveries d SET response = NULL
WHERE d.type = 'message.received' AND d.response IS NOT NULL AND NOT EXISTS (
    SELECT FROM feed f JOIN received_messages m ON m.id = (f.data ->> 'received_id')::bigint WHERE f.id = d.feed_id AND m.phone_number <> ''
);
