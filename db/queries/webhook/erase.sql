-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureWebhooks removes the responses of receivers to webhook calls about tasks, because a response can repeat the call.
-- name: ErasureWebhooks :execrows
UPDATE webhook_deliveries d SET response = NULL WHERE d.task_id = ANY (@task_ids::text[]) AND d.response IS NOT NULL;
