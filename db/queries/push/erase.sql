-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureSenderAnswers deletes the rows of sender_answers about the given tasks.
-- name: ErasureSenderAnswers :exec
DELETE FROM sender_answers a WHERE a.task_id = ANY (@task_ids::text[]);
