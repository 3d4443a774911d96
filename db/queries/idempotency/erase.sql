-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureAnswers returns up to `most` stored responses to idempotent requests that contain one of `texts`, in the order of their keys after after_username,
-- after_operation and after_key. It reads responses to users of the company (is_own), and responses to administrators.
-- name: ErasureAnswers :many
SELECT k.username, k.operation, k.key, k.response, c.company_no,
    EXISTS (SELECT FROM users u WHERE u.username = k.username AND u.company_id = c.id AND u.role <> 'admin') AS is_own
FROM idempotency_keys k
CROSS JOIN companies c
WHERE c.id = @company_id AND (k.username, k.operation, k.key) > (@after_username::text, @after_operation::text, @after_key::text)
    AND NOT EXISTS (SELECT FROM users u WHERE u.username = k.username AND u.company_id <> c.id AND u.role <> 'admin')
    AND EXISTS (SELECT FROM unnest(@texts::text[]) AS t (part) WHERE position(convert_to(t.part, 'UTF8') IN k.response) > 0)
ORDER BY k.username, k.operation, k.key
LIMIT sqlc.arg(max_rows)::integer;

-- name: ErasureAnswer :exec
UPDATE idempotency_keys k SET response = @response WHERE k.username = @username AND k.operation = @operation AND k.key = @key;
