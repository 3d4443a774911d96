-- Statements on caps: the maximum numbers of messages that a person gets within a minute, an hour and a day.

-- CappedRecipientsLock locks the rows of phone numbers until the end of the transaction, and returns them. It adds the rows that do not exist. Entry n of each
-- array belongs to the same row; the rows are distinct. It counts the tasks of added_task_ids, joined with spaces, for the present time, so that mostly nothing is
-- left for CappedRecipientsSet. locked_at is a time after the rows were locked. Therefore a transaction that locks the same rows later gets a later locked_at.
-- name: CappedRecipientsLock :many
WITH locked AS (
    INSERT INTO capped_recipients AS c (recipient_hash, company_id, message_type, task_ids, times, last_on)
    SELECT k.recipient_hash, k.company_id, k.message_type, k.task_ids, array_fill(clock_timestamp(), ARRAY[cardinality(k.task_ids)]),
        (now() AT TIME ZONE 'UTC')::date
    FROM (
        SELECT unnest(@recipient_hashes::bytea[]) AS recipient_hash, unnest(@company_ids::bigint[]) AS company_id, unnest(@message_types::smallint[]) AS message_type,
            string_to_array(unnest(@added_task_ids::text[]), ' ') AS task_ids
    ) k
    ORDER BY k.recipient_hash, k.company_id, k.message_type -- all transactions lock in this order
    ON CONFLICT (recipient_hash, company_id, message_type) DO UPDATE
    SET task_ids = c.task_ids || excluded.task_ids, times = c.times || array_fill(clock_timestamp(), ARRAY[cardinality(excluded.task_ids)]),
        last_on = CASE WHEN excluded.task_ids = '{}' THEN c.last_on ELSE greatest(c.last_on, excluded.last_on) END
    RETURNING c.recipient_hash, c.company_id, c.message_type, c.task_ids, c.times
)
SELECT l.recipient_hash, l.company_id, l.message_type, l.task_ids::text[] AS task_ids, l.times::timestamptz[] AS times, clock_timestamp()::timestamptz AS locked_at
FROM locked l
ORDER BY l.recipient_hash, l.company_id, l.message_type;

-- CappedRecipients returns rows of phone numbers like CappedRecipientsLock, but neither locks nor adds rows.
-- name: CappedRecipients :many
SELECT c.recipient_hash, c.company_id, c.message_type, c.task_ids, c.times, clock_timestamp()::timestamptz AS locked_at
FROM capped_recipients c
JOIN (
    SELECT unnest(@recipient_hashes::bytea[]) AS recipient_hash, unnest(@company_ids::bigint[]) AS company_id, unnest(@message_types::smallint[]) AS message_type
) k ON k.recipient_hash = c.recipient_hash AND k.company_id = c.company_id AND k.message_type = c.message_type
ORDER BY c.recipient_hash, c.company_id, c.message_type;

-- CappedRecipientsSet replaces the messages of rows. Entry n of each array belongs to the same row. task_ids and times are joined with spaces, in the order of
-- the times.
-- name: CappedRecipientsSet :exec
UPDATE capped_recipients c
SET task_ids = n.task_ids, times = n.times, last_on = coalesce((n.times[cardinality(n.times)] AT TIME ZONE 'UTC')::date, c.last_on)
FROM (
    SELECT unnest(@recipient_hashes::bytea[]) AS recipient_hash, unnest(@company_ids::bigint[]) AS company_id, unnest(@message_types::smallint[]) AS message_type,
        string_to_array(unnest(@task_ids::text[]), ' ') AS task_ids, string_to_array(unnest(@times::text[]), ' ')::timestamptz[] AS times
) n
WHERE c.recipient_hash = n.recipient_hash AND c.company_id = n.company_id AND c.message_type = n.message_type;

-- TasksTakenBack returns the tasks of task_ids that were cancelled, or expired, before a sender got them.
-- name: TasksTakenBack :many
SELECT e.task_id
FROM report_logs e
WHERE e.task_id = ANY (@task_ids::text[]) AND e.effect IN ('cancelled', 'expired') AND e.outcome IS NOT NULL
    AND NOT EXISTS (SELECT FROM report_logs l WHERE l.task_id = e.task_id AND l.task_id = ANY (@task_ids::text[]) AND l.leased_at IS NOT NULL)
ORDER BY e.task_id;

-- CappedRecipientsDeleteExpired deletes up to batch_size rows whose messages no cap counts any more.
-- name: CappedRecipientsDeleteExpired :execrows
DELETE FROM capped_recipients c
USING (
    SELECT o.recipient_hash, o.company_id, o.message_type
    FROM capped_recipients o
    WHERE o.last_on < (now() AT TIME ZONE 'UTC')::date - 1
    ORDER BY o.last_on
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
) old
WHERE c.recipient_hash = old.recipient_hash AND c.company_id = old.company_id AND c.message_type = old.message_type;
