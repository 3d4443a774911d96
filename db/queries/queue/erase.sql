-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureTasks returns up to `portion` tasks of a company to a person after after_id, in the order of their ids. asked_recipients: addresses that the request
-- names. Tasks to another address of the person are not returned if they were created for another user.
-- name: ErasureTasks :many
SELECT DISTINCT f.task_id::text AS task_id, (f.created_at > now() - interval '25 hours')::boolean AS is_recent
FROM (
    SELECT m.task_id, m.created_at
    FROM unnest(@recipients::text[]) AS r (address)
    CROSS JOIN LATERAL (
        SELECT x.task_id, x.created_at FROM messages x
        WHERE x.recipient = r.address AND x.company_id = @company_id AND x.task_id > @after_id::text
            AND (r.address = ANY (@asked_recipients::text[]) OR x.user_id IS NULL OR x.user_id = ANY (@user_ids::text[]))
        ORDER BY x.task_id
        LIMIT @portion::integer
    ) m
    UNION ALL
    SELECT m.task_id, m.created_at
    FROM unnest(@user_ids::text[]) AS u (user_id)
    CROSS JOIN LATERAL (
        SELECT x.task_id, x.created_at FROM messages x
        WHERE x.company_id = @company_id AND x.user_id = u.user_id AND x.task_id > @after_id::text
        ORDER BY x.task_id
        LIMIT @portion::integer
    ) m
) f
ORDER BY task_id
LIMIT @portion::integer;

-- ErasureOpen returns the tasks of task_ids that are PENDING or PROCESSING.
-- name: ErasureOpen :many
SELECT q.task_id FROM queue q WHERE q.task_id = ANY (@task_ids::text[]) ORDER BY q.task_id;

-- ErasureKeys deletes the dedup keys of tasks.
-- name: ErasureKeys :execrows
DELETE FROM dedup_keys d
USING messages m
WHERE m.task_id = ANY (@task_ids::text[]) AND d.company_id = m.company_id AND d.submitted_by = m.submitted_by AND d.dedup_key = m.dedup_key
    AND d.task_id = m.task_id;

-- ErasureRepeats returns the rejected submissions that repeated one of task_ids.
-- name: ErasureRepeats :many
SELECT f.id FROM fruitless_submissions f WHERE f.task_id = ANY (@task_ids::text[]) ORDER BY f.id;

-- ErasureCandidates returns submissions of a company that created no task and whose phone numbers end with one of `digits`.
-- name: ErasureCandidates :many
SELECT f.id, f.phone_number::text AS phone_number FROM fruitless_submissions f
WHERE f.company_id = @company_id AND f.phone_number IS NOT NULL
    AND right(number_digits(f.phone_number), 8) = ANY (@digits::text[]) AND f.id > @after_id
ORDER BY f.id
LIMIT @portion::integer;

-- ErasureSubmissions removes the phone number and the texts from submissions.
-- name: ErasureSubmissions :execrows
UPDATE fruitless_submissions f
SET phone_number = NULL, content = CASE WHEN f.content IS NOT NULL THEN @erased::text END, request_data = '{}', response_data = '{}'
WHERE f.id = ANY (@ids::bigint[]);

-- ErasureReports removes the texts from the log rows of tasks. It does not remove texts that LKSMS wrote itself, or the user of a cancellation or requeue.
-- name: ErasureReports :execrows
UPDATE report_logs r
SET error_message = CASE WHEN r.error_message IS NOT NULL THEN @erased::text END,
    result = CASE WHEN r.result IS NULL OR r.result = ANY (@own::text[]) THEN r.result ELSE @erased::text END,
    request_data = CASE
        WHEN r.request_data IS NULL OR r.event IN ('cancelled', 'requeued') THEN r.request_data -- contains only the user of the action
        ELSE '{}'::jsonb
    END
WHERE r.task_id = ANY (@task_ids::text[]);

-- ErasureDeliveries removes the recipient and the provider's answer from the deliveries of tasks.
-- name: ErasureDeliveries :execrows
UPDATE deliveries d SET recipient = '', error = CASE WHEN d.error IS NOT NULL THEN @erased::text END, answer = NULL
WHERE d.task_id = ANY (@task_ids::text[]);

-- ErasureMessages removes the recipient and the texts from tasks that have ended. It replaces the user id of a notification by a pseudonym, so that the number
-- of distinct users does not change.
-- name: ErasureMessages :execrows
UPDATE messages m
SET phone_number = '', recipient = '', content = @erased::text, submitted_content = CASE WHEN m.submitted_content IS NOT NULL THEN @erased::text END,
    request_data = CASE WHEN m.request_data IS NOT NULL THEN '{}'::jsonb END, dedup_key = NULL, contact_values = NULL,
    user_id = CASE WHEN m.user_id IS NOT NULL THEN @pseudonym::text || coalesce(array_position(@user_ids::text[], m.user_id), 0) END
WHERE m.task_id = ANY (@task_ids::text[]) AND NOT EXISTS (SELECT FROM queue q WHERE q.task_id = m.task_id);

-- ErasureSimRecipients deletes the recipients with these phone numbers from the SIMs of senders. The counts of their recipients remain. A number to which
-- another company has sent tasks since from_id is not deleted, because companies can share a sender. The rows are locked in the order of SimCharge.
-- name: ErasureSimRecipients :exec
WITH gone AS MATERIALIZED (
    SELECT k.sender_id, k.recipient_hash, k.slot
    FROM sim_recipients k
    WHERE k.recipient_hash IN (
        SELECT sha256(convert_to(r.address, 'UTF8')) FROM unnest(@recipients::text[]) AS r (address)
        WHERE NOT EXISTS (SELECT FROM messages m WHERE m.recipient = r.address AND m.company_id <> @company_id AND m.task_id >= @from_id::text)
    )
    ORDER BY k.sender_id, k.recipient_hash, k.slot
    FOR UPDATE
)
DELETE FROM sim_recipients k
USING gone g
WHERE k.sender_id = g.sender_id AND k.recipient_hash = g.recipient_hash AND k.slot = g.slot;
