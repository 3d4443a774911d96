-- Statements on verifications: codes that are sent to people, and checked.

-- VerificationsStart stores pending verifications, each with its first task. Entry n of each array belongs to the same verification; no two have the same recipient
-- and purpose. An empty country is unknown. subjects are joined with spaces. A verification is neither stored nor returned if one for its recipient and purpose is
-- pending. VerificationsReplace starts it. Most recipients have none, and this statement needs no plan to find it, which could be a bad one while the statistics are
-- old.
-- name: VerificationsStart :many
WITH added AS (
    INSERT INTO verifications (
        verification_id, company_id, submitted_by, channel, recipient, purpose, options, digest, sealed, max_checks, expires_at, task_ids, country, subjects
    )
    SELECT s.verification_id, s.company_id, s.submitted_by, s.channel, s.recipient, s.purpose, s.options::jsonb, s.digest, s.sealed, s.max_checks,
        now() + s.ttl_seconds * interval '1 second', ARRAY[s.task_id], s.country, s.subjects
    FROM (
        SELECT unnest(@verification_ids::text[]) AS verification_id, unnest(@company_ids::bigint[]) AS company_id, unnest(@submitters::text[]) AS submitted_by,
            unnest(@channels::text[]) AS channel, unnest(@recipients::text[]) AS recipient, unnest(@purposes::text[]) AS purpose, unnest(@options::text[]) AS options,
            unnest(@digests::text[]) AS digest, unnest(@sealed::text[]) AS sealed, unnest(@max_checks::smallint[]) AS max_checks,
            unnest(@ttl_seconds::bigint[]) AS ttl_seconds, unnest(@task_ids::text[]) AS task_id, nullif(unnest(@countries::text[]), '') AS country,
            string_to_array(unnest(@subjects::text[]), ' ') AS subjects
    ) s
    ORDER BY s.company_id, s.channel, s.recipient, s.purpose -- all transactions lock in this order
    ON CONFLICT (company_id, channel, recipient, purpose) WHERE status = 'pending' DO NOTHING
    RETURNING verification_id, company_id, created_at, expires_at, subjects
),
staged AS (
    INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
    SELECT a.company_id, date_trunc('hour', a.created_at, 'UTC'), a.subjects, 1, 0 FROM added a WHERE a.subjects <> '{}'
)
SELECT a.verification_id, a.created_at, a.expires_at FROM added a ORDER BY a.verification_id;

-- VerificationsReplace works like VerificationsStart, but first ends the pending verifications for the same recipients and purposes. former_id is the ended
-- verification, former_task_ids contains its tasks, and former_status is its status; all are empty if none was ended. If another transaction starts a verification for the same recipient
-- and purpose, the second one violates verifications_pending_key.
-- name: VerificationsReplace :many
WITH started AS (
    SELECT unnest(@verification_ids::text[]) AS verification_id, unnest(@company_ids::bigint[]) AS company_id, unnest(@submitters::text[]) AS submitted_by,
        unnest(@channels::text[]) AS channel, unnest(@recipients::text[]) AS recipient, unnest(@purposes::text[]) AS purpose, unnest(@options::text[]) AS options,
        unnest(@digests::text[]) AS digest, unnest(@sealed::text[]) AS sealed, unnest(@max_checks::smallint[]) AS max_checks,
        unnest(@ttl_seconds::bigint[]) AS ttl_seconds, unnest(@task_ids::text[]) AS task_id, nullif(unnest(@countries::text[]), '') AS country,
        string_to_array(unnest(@subjects::text[]), ' ') AS subjects
),
former AS (
    SELECT f.verification_id
    FROM started s
    CROSS JOIN LATERAL (
        SELECT v.verification_id
        FROM verifications v
        WHERE v.company_id = s.company_id AND v.channel = s.channel AND v.recipient = s.recipient AND v.purpose = s.purpose AND v.status = 'pending'
        LIMIT 1 -- forces the look-up in an index, also while the statistics say that the table is empty
    ) f
    ORDER BY f.verification_id -- all transactions lock in this order
),
ended AS (
    UPDATE verifications v
    SET status = CASE WHEN v.expires_at <= clock_timestamp() THEN 'expired' ELSE 'cancelled' END, ended_at = least(v.expires_at, clock_timestamp()),
        digest = NULL, sealed = NULL
    FROM former f
    WHERE v.verification_id = f.verification_id AND v.status = 'pending'
    RETURNING v.verification_id, v.company_id, v.channel, v.recipient, v.purpose, v.task_ids, v.status
),
added AS (
    INSERT INTO verifications (
        verification_id, company_id, submitted_by, channel, recipient, purpose, options, digest, sealed, max_checks, expires_at, task_ids, country,
        subjects
    )
    SELECT s.verification_id, s.company_id, s.submitted_by, s.channel, s.recipient, s.purpose, s.options::jsonb, s.digest, s.sealed, s.max_checks,
        now() + s.ttl_seconds * interval '1 second', ARRAY[s.task_id], s.country, s.subjects
    FROM started s, (SELECT count(*) FROM ended) e -- depends on ended, so the former verifications have ended before
    RETURNING verification_id, company_id, channel, recipient, purpose, created_at, expires_at
),
staged AS (
    INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
    SELECT s.company_id, date_trunc('hour', now(), 'UTC'), s.subjects, 1, 0 FROM started s WHERE s.subjects <> '{}'
)
SELECT a.verification_id, a.created_at, a.expires_at, coalesce(e.verification_id, '')::text AS former_id,
    coalesce(e.task_ids, '{}')::text[] AS former_task_ids, coalesce(e.status, '')::text AS former_status
FROM added a
LEFT JOIN ended e ON e.company_id = a.company_id AND e.channel = a.channel AND e.recipient = a.recipient AND e.purpose = a.purpose
ORDER BY a.verification_id;

-- VerificationGet returns a verification. is_expired: it is pending, but its time has passed. replaced_by: the verification whose start cancelled it; empty: none.
-- A replaced verification ends in the transaction that starts the newer one, so it ends after the newer one was created. After a cancellation by a system, the
-- newer one is created later.
-- name: VerificationGet :one
SELECT v.*, c.company_no, (v.status = 'pending' AND v.expires_at <= clock_timestamp())::boolean AS is_expired,
    coalesce((
        SELECT n.verification_id FROM verifications n
        WHERE v.status = 'cancelled' AND n.company_id = v.company_id AND n.recipient = v.recipient AND n.created_at > v.created_at AND n.created_at <= v.ended_at
            AND n.channel = v.channel AND n.purpose = v.purpose
        ORDER BY n.created_at
        LIMIT 1
    ), '')::text AS replaced_by
FROM verifications v
JOIN companies c ON c.id = v.company_id
WHERE v.verification_id = @verification_id;

-- VerificationNewest returns the pending verification of a recipient and a purpose, or the newest one if none is pending.
-- name: VerificationNewest :one
SELECT v.verification_id FROM verifications v
WHERE v.company_id = @company_id AND v.channel = @channel AND v.recipient = @recipient AND v.purpose = @purpose
ORDER BY v.status = 'pending' DESC, v.created_at DESC, v.verification_id DESC
LIMIT 1;

-- The next statements use ended_at IS NULL for pending verifications, so that the planner never reads a partial index of all pending ones instead of the primary
-- key: while the statistics say that the table is empty, both seem to cost the same.

-- VerificationCheck compares a code with the code of a pending verification, and counts the check. digests contains the code as a keyed hash, with each key of the
-- server. The right code approves the verification. The last wrong code ends it. The statement changes nothing and returns no row if the verification is not
-- pending, has expired, belongs to another company, or was hashed with a key that the server does not have. Concurrent checks run one after the other: each sees the checks before it.
-- name: VerificationCheck :one
WITH checked AS (
    UPDATE verifications v
    SET checks = v.checks + 1,
        status = CASE WHEN v.digest = ANY (@digests::text[]) THEN 'approved' WHEN v.checks + 1 >= v.max_checks THEN 'exhausted' ELSE 'pending' END,
        ended_at = CASE WHEN v.digest = ANY (@digests::text[]) OR v.checks + 1 >= v.max_checks THEN clock_timestamp() END,
        digest = CASE WHEN v.digest <> ALL (@digests::text[]) AND v.checks + 1 < v.max_checks THEN v.digest END,
        sealed = CASE WHEN v.digest <> ALL (@digests::text[]) AND v.checks + 1 < v.max_checks THEN v.sealed END
    WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.ended_at IS NULL AND v.expires_at > clock_timestamp()
        AND split_part(v.digest, ':', 1) IN (SELECT split_part(d.digest, ':', 1) FROM unnest(@digests::text[]) AS d (digest)) -- the ids of the keys
    RETURNING v.status, v.checks, v.max_checks, v.task_ids, v.company_id, v.created_at, v.ended_at, v.subjects
),
staged AS (
    INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
    SELECT c.company_id, date_trunc('hour', c.created_at, 'UTC'), c.subjects, 0, 1 FROM checked c WHERE c.status = 'approved' AND c.subjects <> '{}'
)
SELECT c.status, (c.max_checks - c.checks)::integer AS checks_left, c.task_ids,
    coalesce(extract(epoch FROM c.ended_at - c.created_at), 0)::double precision AS seconds
FROM checked c;

-- VerificationCancel cancels a pending verification, and returns its tasks.
-- name: VerificationCancel :one
UPDATE verifications v
SET status = 'cancelled', ended_at = clock_timestamp(), digest = NULL, sealed = NULL
WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.ended_at IS NULL AND v.expires_at > clock_timestamp()
RETURNING v.task_ids;

-- VerificationCode returns the code of a pending verification, and what a resend repeats. It also returns the time.
-- name: VerificationCode :one
SELECT v.channel, v.recipient, v.purpose, v.options, v.task_ids, v.sealed::text AS sealed, v.expires_at, now()::timestamptz AS at FROM verifications v
WHERE v.verification_id = @verification_id AND v.company_id = @company_id AND v.ended_at IS NULL AND v.expires_at > clock_timestamp();

-- VerificationResent adds a task to a pending verification. It returns no row if the verification has ended. A task on another channel than that of the
-- verification is not counted: conversion is counted for the channel of the start. network is the network of the client that requested the resend; empty:
-- unknown. If it is new, it becomes a subject, for which all tasks of the verification count.
-- name: VerificationResent :one
WITH former AS (
    SELECT v.verification_id, v.task_ids, v.subjects, v.channel = @channel::text AND v.subjects <> '{}' AS is_counted,
        CASE WHEN @network::text = '' OR @network::text = ANY (v.subjects) THEN '{}' ELSE ARRAY[@network::text] END AS added
    FROM verifications v
    WHERE v.verification_id = @verification_id AND v.ended_at IS NULL AND v.expires_at > clock_timestamp()
    FOR UPDATE
),
resent AS (
    UPDATE verifications v SET task_ids = v.task_ids || @task_id::text, subjects = CASE WHEN f.is_counted THEN v.subjects || f.added ELSE v.subjects END
    FROM former f
    WHERE v.verification_id = f.verification_id
    RETURNING v.company_id, v.created_at, v.expires_at, f.is_counted, f.subjects, f.added, cardinality(v.task_ids) AS tasks
),
staged AS (
    INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
    SELECT r.company_id, date_trunc('hour', r.created_at, 'UTC'), c.subjects, c.started, 0
    FROM resent r
    CROSS JOIN LATERAL (VALUES (r.subjects, 1), (r.added, r.tasks)) AS c (subjects, started)
    WHERE r.is_counted AND c.subjects <> '{}'
)
SELECT r.expires_at, now()::timestamptz AS at FROM resent r;

-- VerificationsExpire ends up to batch_size pending verifications that have expired, and returns them with their tasks.
-- name: VerificationsExpire :many
WITH ended AS (
    UPDATE verifications v
    SET status = 'expired', ended_at = v.expires_at, digest = NULL, sealed = NULL
    WHERE v.verification_id = ANY (ARRAY(
        SELECT o.verification_id FROM verifications o
        WHERE o.status = 'pending' AND o.expires_at <= now()
        ORDER BY o.expires_at
        LIMIT @batch_size::integer
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING v.verification_id, v.task_ids
)
SELECT e.verification_id, e.task_ids FROM ended e ORDER BY e.verification_id;

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
