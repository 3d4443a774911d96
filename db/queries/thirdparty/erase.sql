-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureSmsgateIDs replaces ids of messages with random ids. It replaces the ids that client programs assigned to the messages of the given tasks. It skips
-- ids that no longer refer to these tasks.
-- name: ErasureSmsgateIDs :execrows
UPDATE smsgate_messages s
SET message_id = gen_random_uuid()::text
FROM messages m
WHERE m.task_id = ANY (@task_ids::text[]) AND s.company_id = m.company_id AND s.submitted_by = m.submitted_by
    AND s.message_id = m.request_data ->> 'smsgate_id' AND m.task_id = ANY (s.task_ids);
