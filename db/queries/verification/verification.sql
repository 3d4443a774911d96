-- Statements on verifications: codes that are sent to people, and checked.

-- VerificationStart stores a pending verification without messages, and ends the pending verification for the same recipient and purpose, if there is one. It
-- returns the tasks of the ended verification. It runs before its transaction locks anything else: two requests for one recipient wait for each other here, and
-- the second one violates verifications_pending_key.
-- name: VerificationStart :one
WITH ended AS (
    UPDATE verifications v
    SET status = CASE WHEN v.expires_at <= clock_timestamp() THEN 'expired' ELSE 'cancelled' END, ended_at = least(v.expires_at, clock_timestamp()),
        digest = NULL, sealed = NULL
    WHERE v.company_id = @company_id AND v.channel = @channel AND v.recipient = @recipient AND v.purpose = @purpose AND v.status = 'pending'
    RETURNING v.task_ids
),
added AS (
    INSERT INTO verifications (verification_id, company_id, submitted_by, channel, recipient, purpose, digest, sealed, max_checks, expires_at, task_ids)
    SELECT @verification_id, @company_id, @submitted_by, @channel, @recipient, @purpose, @digest::text, @sealed::text, @max_checks,
        now() + @ttl::interval, '{}'
    FROM (SELECT count(*) FROM ended) e -- depends on ended, so the former verification has ended before
    RETURNING created_at, expires_at
)
SELECT a.created_at, a.expires_at, coalesce((SELECT e.task_ids FROM ended e), '{}')::text[] AS former_task_ids FROM added a;

-- VerificationGet returns a verification. is_expired: it is pending, but its time has passed.
-- name: VerificationGet :one
SELECT v.*, (v.status = 'pending' AND v.expires_at <= clock_timestamp())::boolean AS is_expired FROM verifications v WHERE v.verification_id = @verification_id;

-- VerificationNewest returns the newest verification of a recipient and a purpose. Only the newest one can be pending.
-- name: VerificationNewest :one
SELECT v.verification_id FROM verifications v
WHERE v.company_id = @company_id AND v.channel = @channel AND v.recipient = @recipient AND v.purpose = @purpose
ORDER BY v.created_at DESC, v.verification_id DESC
LIMIT 1;

-- VerificationCheck compares a code with the code of a pending verification, and counts the check. digests contains the code as a keyed hash, with each key of the
-- server. The right code approves the verification. The last wrong code ends it. The statement changes nothing and returns no row if the verification is not
-- pending, has expired, or belongs to another company. Concurrent checks run one after the other: each sees the checks before it.
-- name: VerificationCheck :one
UPDATE verifications v
SET checks = v.checks + 1,
    status = CASE WHEN v.digest = ANY (@digests::text[]) THEN 'approved' WHEN v.checks + 1 >= v.max_checks THEN 'exhausted' ELSE 'pending' END,
    ended_at = CASE WHEN v.digest = ANY (@digests::text[]) OR v.checks + 1 >= v.max_checks THEN clock_timestamp() END,
    digest = CASE WHEN v.digest <> ALL (@digests::text[]) AND v.checks + 1 < v.max_checks THEN v.digest END,
    sealed = CASE WHEN v.digest <> ALL (@digests::text[]) AND v.checks + 1 < v.max_checks THEN v.sealed END
WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.status = 'pending' AND v.expires_at > clock_timestamp()
RETURNING v.status, (v.max_checks - v.checks)::integer AS checks_left, v.task_ids;

-- VerificationCancel cancels a pending verification, and returns its tasks.
-- name: VerificationCancel :one
UPDATE verifications v
SET status = 'cancelled', ended_at = clock_timestamp(), digest = NULL, sealed = NULL
WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.status = 'pending' AND v.expires_at > clock_timestamp()
RETURNING v.task_ids;

-- VerificationHold locks a pending verification until the end of the transaction, so that its code is not checked or replaced meanwhile. It also returns the time.
-- name: VerificationHold :one
SELECT v.channel, v.recipient, v.purpose, v.sealed::text AS sealed, v.expires_at, now()::timestamptz AS at FROM verifications v
WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.status = 'pending' AND v.expires_at > clock_timestamp()
FOR UPDATE;

-- VerificationSent adds a task to a verification.
-- name: VerificationSent :exec
UPDATE verifications v SET task_ids = v.task_ids || @task_id::text WHERE v.verification_id = @verification_id;

-- VerificationsExpire ends up to batch_size pending verifications that have expired.
-- name: VerificationsExpire :execrows
UPDATE verifications v
SET status = 'expired', ended_at = v.expires_at, digest = NULL, sealed = NULL
WHERE v.verification_id = ANY (ARRAY(
    SELECT o.verification_id FROM verifications o
    WHERE o.status = 'pending' AND o.expires_at <= now()
    ORDER BY o.expires_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
));

-- VerificationsDeleteExpired deletes up to batch_size verifications that are older than `keep`.
-- name: VerificationsDeleteExpired :execrows
DELETE FROM verifications v
USING (
    SELECT o.verification_id FROM verifications o WHERE o.created_at < now() - @keep::interval ORDER BY o.created_at LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED
) old
WHERE v.verification_id = old.verification_id;

-- VerificationSealedList returns the encrypted codes of all pending verifications.
-- name: VerificationSealedList :many
SELECT v.verification_id, v.sealed::text AS sealed FROM verifications v WHERE v.status = 'pending' ORDER BY v.verification_id;

-- VerificationSealedStore replaces the secrets of a pending verification, unless they were changed.
-- name: VerificationSealedStore :execrows
UPDATE verifications SET sealed = @sealed::text, digest = @digest::text WHERE verification_id = @verification_id AND sealed = @before::text;
