-- IdempotencyLock locks an idempotency key until the end of the transaction. It returns false if another transaction holds the lock. The lock is released when
-- the changes of its transaction are visible. Any database role could take this advisory lock, and would reject the request. But the number of the lock depends
-- on a secret, so that a role that cannot read the tables learns the number only from pg_locks, during the first request with the key.
-- name: IdempotencyLock :one
SELECT pg_try_advisory_xact_lock(hashtextextended(encode(sha256(
    coalesce((SELECT s.secret FROM idempotency_secret s), ''::bytea) || convert_to(@username::text || E'\n' || @operation::text || E'\n' || @key::text, 'UTF8')
), 'hex'), 0));

-- name: IdempotencyGet :one
SELECT request_hash, response FROM idempotency_keys
WHERE username = @username AND operation = @operation AND key = @key;

-- name: IdempotencyStore :exec
INSERT INTO idempotency_keys (username, operation, key, request_hash, response)
VALUES (@username, @operation, @key, @request_hash, @response);

-- IdempotencySweep deletes up to batch_size keys that are older than a day.
-- name: IdempotencySweep :execrows
DELETE FROM idempotency_keys k
USING (
    SELECT o.username, o.operation, o.key
    FROM idempotency_keys o
    WHERE o.created_at < now() - interval '24 hours'
    ORDER BY o.created_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
) old
WHERE k.username = old.username AND k.operation = old.operation AND k.key = old.key;
