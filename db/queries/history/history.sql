-- Statements on the counts of tasks, and on the partitions of tasks.

-- TaskStatistics returns the exact number of tasks in each state (S0.13). company_id null: tasks of all companies. counted_at is the time of the numbers. Every
-- statement that changes tasks adds the differences to facts. task_totals includes the differences that FactsTake has not yet moved to the counts.
-- name: TaskStatistics :one
SELECT
    coalesce(sum(pending_new), 0)::bigint AS pending_new_tasks,
    coalesce(sum(pending_retry), 0)::bigint AS pending_retry_tasks,
    coalesce(sum(processing), 0)::bigint AS processing_tasks,
    coalesce(sum(success), 0)::bigint AS success_tasks,
    coalesce(sum(failed), 0)::bigint AS failed_tasks,
    statement_timestamp()::timestamptz AS counted_at
FROM task_totals
WHERE sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint;

-- FactsKnow declares, until the end of the transaction, which columns of facts this server reads. Without this declaration, the trigger facts_guard rejects the
-- deletion of facts.
-- name: FactsKnow :exec
SELECT set_config('lksms.facts_version', '4', true);

-- FactsTake deletes up to `portion` facts and returns their sums. The caller adds the sums to the counts of all consumers in the same transaction. If two
-- transactions run the statement concurrently, the second waits for the rows that both read, and then skips these rows.
--
-- A row contains the sums of one minute and one outcome. Facts with leases, with reported successes and with reported failures are in separate rows, so that
-- `at` is the time of the last lease, success or failure. Receipts of different accepted_at are also in separate rows. channel and message_type are empty if
-- they are unknown. outcome is empty if no task ended. country_no is empty for tasks without country. waits and durations contain one byte for each task.
-- name: FactsTake :many
WITH taken AS (
    DELETE FROM facts WHERE ctid = ANY (ARRAY(SELECT f.ctid FROM facts f LIMIT @portion::integer)) RETURNING *
)
SELECT t.company_id, t.sender_no, coalesce(p.channel, '')::text AS channel, coalesce(t.message_type::text, '')::text AS message_type,
    coalesce(t.country_no, '')::text AS country_no, t.batch_id, t.is_test, t.accepted_at,
    fact_outcome(t.success, t.failed, t.cancelled)::text AS outcome, date_trunc('minute', t.at, 'UTC')::timestamptz AS minute,
    max(t.at)::timestamptz AS at, count(*) AS facts,
    sum(t.pending_new)::bigint AS pending_new, sum(t.pending_retry)::bigint AS pending_retry, sum(t.processing)::bigint AS processing,
    sum(t.success)::bigint AS success, sum(t.failed)::bigint AS failed,
    sum(t.leases)::bigint AS leases, sum(t.reported_success)::bigint AS reported_success, sum(t.reported_failed)::bigint AS reported_failed,
    sum(t.unreported)::bigint AS unreported,
    sum(t.response_ms)::bigint AS response_ms, sum(t.submitted)::bigint AS submitted, sum(t.requeued)::bigint AS requeued,
    sum(t.cancelled)::bigint AS cancelled, sum(t.delivered)::bigint AS delivered, sum(t.undelivered)::bigint AS undelivered,
    sum(t.segments)::bigint AS segments, coalesce(string_agg(t.waits, ''), '')::bytea AS waits,
    coalesce(string_agg(t.durations, ''), '')::bytea AS durations
FROM taken t
LEFT JOIN pool_channels p ON p.pool_id = t.pool_id
GROUP BY t.company_id, t.sender_no, p.channel, t.message_type, t.country_no, t.batch_id, t.is_test, t.accepted_at,
    fact_outcome(t.success, t.failed, t.cancelled), date_trunc('minute', t.at, 'UTC'), t.leases > 0, t.reported_success > 0, t.reported_failed > 0
ORDER BY t.company_id, t.sender_no;

-- TaskCountsAdd adds differences to the numbers of tasks. It locks companies in the order of their ids, so that concurrent calls cannot deadlock.
-- name: TaskCountsAdd :exec
INSERT INTO task_counts AS c (company_id, pending_new, pending_retry, processing, success, failed)
SELECT f.company_id, sum(f.pending_new), sum(f.pending_retry), sum(f.processing), sum(f.success), sum(f.failed)
FROM (
    SELECT unnest(@company_ids::bigint[]) AS company_id, unnest(@pending_new::bigint[]) AS pending_new,
        unnest(@pending_retry::bigint[]) AS pending_retry, unnest(@processing::bigint[]) AS processing,
        unnest(@success::bigint[]) AS success, unnest(@failed::bigint[]) AS failed
) f
GROUP BY f.company_id
ORDER BY f.company_id
ON CONFLICT (company_id) DO UPDATE
SET pending_new = c.pending_new + excluded.pending_new, pending_retry = c.pending_retry + excluded.pending_retry,
    processing = c.processing + excluded.processing, success = c.success + excluded.success, failed = c.failed + excluded.failed;

-- TaskPartitionsMake creates the missing partitions for tasks from now until `ahead`, and returns the number of created partitions.
-- If tasks arrived before their partition existed, the statement creates the partition and moves the tasks to it. It does this for tasks of the last 30 days
-- and of later days. It stores an operator event about these tasks, unless the database had no partitions before. Some tasks are kept when their partition is
-- dropped. When all these tasks have ended, the statement creates their partition again.
-- name: TaskPartitionsMake :one
WITH strays AS MATERIALIZED (
    SELECT d.day
    FROM generate_series(
        date_trunc('day', now(), 'UTC') - interval '30 days', date_trunc('day', now() + @ahead::interval, 'UTC'), interval '1 day'
    ) AS d (day)
    CROSS JOIN LATERAL (SELECT (d.day AT TIME ZONE 'UTC')::date AS of_day) u
    WHERE EXISTS (
        SELECT FROM messages_default m WHERE m.task_id >= task_day_id(u.of_day) AND m.task_id < task_day_id(u.of_day + 1)
    )
    AND NOT EXISTS (SELECT FROM task_partitions p WHERE p.dropped_at IS NOT NULL AND p.first_day <= u.of_day AND p.last_day > u.of_day)
),
late AS MATERIALIZED (
    SELECT p.first_day
    FROM task_partitions p
    WHERE p.dropped_at IS NOT NULL
        AND EXISTS (SELECT FROM messages_default m WHERE m.task_id >= p.first_id AND m.task_id < p.before_id)
        AND NOT EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id)
),
event_added AS (
    INSERT INTO events (event, subject, detail)
    SELECT 'partition.missing', 'messages', jsonb_build_object('since', min(s.day))
    FROM strays s
    HAVING count(*) > 0 AND EXISTS (SELECT FROM task_partitions)
),
gathered AS MATERIALIZED (
    SELECT count(task_partition_gather(l.first_day)) AS made FROM late l
)
SELECT (g.made + (
    SELECT sum(task_partitions_ahead(@width::text, x.first_at, x.last_at))
    FROM (SELECT s.day AS first_at, s.day AS last_at FROM strays s UNION ALL SELECT now(), now() + @ahead::interval) x
))::integer AS made
FROM gathered g;

-- NumberPartitionsAhead creates the first or the next partition of the ledger or of the rows of batches, see number_partitions_ahead. The next partition begins
-- when the current one is `width` old. It returns the number of changes.
-- name: NumberPartitionsAhead :one
SELECT number_partitions_ahead(@parent::text, @width::interval)::bigint AS changed;

-- TaskPartitionList returns the partitions that begin before before_day, newest first, with their sizes in bytes.
-- name: TaskPartitionList :many
SELECT p.*,
    NOT EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id) AS is_settled,
    (
        coalesce(pg_total_relation_size(to_regclass('messages' || substr(p.first_id, 5))), 0)
        + coalesce(pg_total_relation_size(to_regclass('report_logs' || substr(p.first_id, 5))), 0)
    )::bigint AS bytes
FROM task_partitions p
WHERE p.first_day < @before_day::date
ORDER BY p.first_day DESC
LIMIT @page_limit::integer;

-- TaskPartitionNext returns the first partition after after_day that must become history or be dropped now. A partition becomes history when after_days full
-- days have passed since its last day. A partition is dropped when keep_days full days have passed since its last day or since its import. keep_days 0: never.
-- A partition that becomes history can move to a tablespace, and reports of its tasks would wait meanwhile. Therefore the statement skips such a partition if
-- one of its tasks is leased, or is due or expires within one day of now.
-- name: TaskPartitionNext :one
SELECT p.first_day, (p.history_at IS NULL)::boolean AS becomes_history, x.is_to_drop::boolean AS is_to_drop
FROM task_partitions p
CROSS JOIN LATERAL (
    SELECT @keep_days::integer > 0
        AND greatest(p.last_day, (p.imported_at AT TIME ZONE 'UTC')::date + 1) + @keep_days::integer <= (now() AT TIME ZONE 'UTC')::date AS is_to_drop
) x
WHERE p.dropped_at IS NULL AND p.first_day > @after_day::date AND p.last_day + @after_days::integer <= (now() AT TIME ZONE 'UTC')::date
    AND (x.is_to_drop OR NOT EXISTS (
        SELECT FROM queue q
        WHERE q.task_id >= p.first_id AND q.task_id < p.before_id AND (
            q.lease_until IS NOT NULL OR q.due_at BETWEEN now() - interval '1 day' AND now() + interval '1 day'
            OR q.expires_at BETWEEN now() - interval '1 day' AND now() + interval '1 day'
        )
    ))
ORDER BY p.first_day
LIMIT 1;

-- TaskPartitionHeld records why a partition could not become history or be dropped. An empty held_by means that nothing holds the partition any more.
-- name: TaskPartitionHeld :exec
UPDATE task_partitions p SET held_by = nullif(@held_by::text, '')
WHERE p.first_day = @first_day::date AND p.dropped_at IS NULL AND p.held_by IS DISTINCT FROM nullif(@held_by::text, '');

-- TaskPartitionLate returns up to max_tasks tasks of a partition that wait or are leased.
-- name: TaskPartitionLate :many
SELECT q.task_id FROM queue q
WHERE q.task_id >= @first_id::text AND q.task_id < @before_id::text
ORDER BY q.task_id
LIMIT @max_tasks::integer;

-- TaskPartitionGet returns the partition that begins on first_day, unless it was dropped. read_at is the time of its state. is_open is true if tasks can still
-- be added to the partition.
-- name: TaskPartitionGet :one
SELECT p.*, now()::timestamptz AS read_at, (p.last_day >= (now() AT TIME ZONE 'UTC')::date)::boolean AS is_open
FROM task_partitions p
WHERE p.first_day = @first_day::date AND p.dropped_at IS NULL;

-- TaskPartitionKeep marks a partition as history.
-- name: TaskPartitionKeep :exec
UPDATE task_partitions p SET history_at = now(), held_by = NULL WHERE p.first_day = @first_day AND p.dropped_at IS NULL AND p.history_at IS NULL;

-- TaskPartitionMove moves one table or index of a partition to a tablespace. It returns false if everything is already moved.
-- name: TaskPartitionMove :one
SELECT task_partition_move(@first_day::date, @tablespace::text)::boolean AS moved;

-- TaskPartitionCut returns the first id of messages after the next batch_size ids, which begin at from_id. It returns no row if no id before before_id is left.
-- name: TaskPartitionCut :one
SELECT m.task_id FROM messages m
WHERE m.task_id >= @from_id::text AND m.task_id < @before_id::text
ORDER BY m.task_id
OFFSET @batch_size::integer
LIMIT 1;

-- ErasuresHold blocks changes of erasures until the transaction ends.
-- name: ErasuresHold :exec
LOCK TABLE erasures IN SHARE ROW EXCLUSIVE MODE;

-- TaskPartitionExported records an export of a partition, with the number of exported rows. It records nothing if the partition created at created_at was
-- dropped meanwhile. began_at: the start of the export. Each erasure that ran after began_at adds the export to its list, because the export possibly contains
-- data that was then erased. The caller has locked the erasures, so that each later erasure sees the export.
-- name: TaskPartitionExported :exec
WITH exported AS (
    UPDATE task_partitions p
    SET exported_at = now(), exported_to = @folder::text, exported_messages = @messages::bigint, exported_reports = @reports::bigint,
        exported_late = nullif(@late::text[], '{}')
    WHERE p.first_day = @first_day::date AND p.created_at = @created_at::timestamptz AND p.dropped_at IS NULL
    RETURNING p.first_day
),
named AS (
    UPDATE erasures e SET exports = e.exports || @folder::text
    FROM exported x
    WHERE e.finished_at IS NULL OR e.finished_at >= @began_at::timestamptz
)
INSERT INTO events (event, subject, detail)
SELECT 'partition.exported', to_char(x.first_day, 'YYYY-MM-DD'), jsonb_build_object('messages', @messages::bigint, 'folder', @folder::text)
FROM exported x;

-- TaskPartitionDrop drops a partition, but keeps its tasks in `late`. It returns 'dropped', or the reason why the partition was not dropped; see
-- task_partition_drop.
-- name: TaskPartitionDrop :one
WITH done AS MATERIALIZED (
    SELECT task_partition_drop(@first_day::date, @only_exported::boolean, @late::text[]) AS outcome
),
event_added AS (
    INSERT INTO events (event, subject)
    SELECT 'partition.dropped', to_char(@first_day::date, 'YYYY-MM-DD') FROM done d WHERE d.outcome = 'dropped'
)
SELECT d.outcome::text AS outcome FROM done d;

-- TaskPartitionStage creates the tables that an import fills. It fails if partitions of these days exist.
-- name: TaskPartitionStage :exec
SELECT task_partition_stage(@first_day::date, @last_day::date);

-- TaskPartitionIndex builds the indexes of the tables that an import has filled.
-- name: TaskPartitionIndex :exec
SELECT task_partition_index(@first_day::date, @last_day::date);

-- TaskPartitionAttach attaches the tables that an import has filled as partitions.
-- name: TaskPartitionAttach :exec
WITH event_added AS (
    INSERT INTO events (event, subject, detail)
    VALUES ('partition.imported', to_char(@first_day::date, 'YYYY-MM-DD'), jsonb_build_object('messages', @messages::bigint))
)
SELECT task_partition_attach(@first_day::date, @last_day::date);
