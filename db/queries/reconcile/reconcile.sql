-- Statements on daily totals and reconciliations. A reconciliation compares the messages of a sender on one day with the statement of its provider.

-- DailyTotalsAdd adds facts to the totals of their days, in the transaction that deletes the facts. Rows are locked in the order of their key, so that
-- concurrent calls cannot deadlock.
-- name: DailyTotalsAdd :exec
INSERT INTO daily_totals AS t (
    company_id, day, sender_no, message_type, country_no, is_test, attempted, accepted, delivered, segments, cost
)
SELECT d.company_id, d.day, d.sender_no, d.message_type, d.country_no, d.is_test, sum(d.attempted), sum(d.accepted), sum(d.delivered),
    sum(d.segments), sum(d.segments * coalesce(s.segment_price, 0))
FROM (
    SELECT f.*, date(timezone(z.zone, f.at)) AS day
    FROM (
        SELECT unnest(@ats::timestamptz[]) AS at, unnest(@company_ids::bigint[]) AS company_id, unnest(@sender_nos::text[]) AS sender_no,
            unnest(@message_types::text[]) AS message_type, unnest(@country_nos::text[]) AS country_no, unnest(@are_tests::boolean[]) AS is_test,
            unnest(@attempted::bigint[]) AS attempted, unnest(@accepted::bigint[]) AS accepted, unnest(@delivered::bigint[]) AS delivered,
            unnest(@segments::bigint[]) AS segments
    ) f
    CROSS JOIN (SELECT @time_zone::text AS zone) z
) d
LEFT JOIN senders s ON s.sender_no = d.sender_no
GROUP BY d.company_id, d.day, d.sender_no, d.message_type, d.country_no, d.is_test
ORDER BY d.company_id, d.day, d.sender_no, d.message_type, d.country_no, d.is_test
ON CONFLICT ON CONSTRAINT daily_totals_key DO UPDATE
SET attempted = t.attempted + excluded.attempted, accepted = t.accepted + excluded.accepted, delivered = t.delivered + excluded.delivered,
    segments = t.segments + excluded.segments, cost = t.cost + excluded.cost;

-- DailyTotalsList returns totals before a position (before_day, before_id), newest first. It does not return totals of tests.
-- name: DailyTotalsList :many
SELECT t.id, t.day, t.company_id, coalesce(c.company_no, '#' || t.company_id)::text AS company_no, t.sender_no, t.message_type, t.country_no,
    t.attempted, t.accepted, t.delivered, t.segments, t.cost
FROM daily_totals t
LEFT JOIN companies c ON c.id = t.company_id
WHERE NOT t.is_test AND (t.day, t.id) < (@before_day::date, @before_id::bigint)
    AND (sqlc.narg(company_id)::bigint IS NULL OR t.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(day_from)::date IS NULL OR t.day >= sqlc.narg(day_from)::date)
    AND (sqlc.narg(day_to)::date IS NULL OR t.day <= sqlc.narg(day_to)::date)
    AND (sqlc.narg(sender_no)::text IS NULL OR t.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(message_type)::text IS NULL OR t.message_type = sqlc.narg(message_type)::text)
    AND (sqlc.narg(country_no)::text IS NULL OR t.country_no = sqlc.narg(country_no)::text)
ORDER BY t.day DESC, t.id DESC
LIMIT @page_limit::integer;

-- DayOf returns the bounds of a day, and whether the day can be compared with a statement. The day cannot be compared if it is in the future (is_ahead), or
-- before the first daily total with attempts (is_before). A total without attempts contains only receipts. Its day was possibly never counted, because the
-- previous version accepted the messages.
-- name: DayOf :one
SELECT b.from_at::timestamptz AS from_at, b.to_at::timestamptz AS to_at, (b.from_at > now())::boolean AS is_ahead,
    (b.day < coalesce((SELECT min(t.day) FROM daily_totals t WHERE t.attempted > 0), date(timezone(b.zone, now()))))::boolean AS is_before
FROM (
    SELECT z.day, z.zone, timezone(z.zone, z.day::timestamp) AS from_at, timezone(z.zone, z.day + interval '1 day') AS to_at
    FROM (SELECT @day::date AS day, @time_zone::text AS zone) z
) b;

-- DayIsDropped returns whether a partition with messages of a day, or of the day before, was dropped.
-- name: DayIsDropped :one
SELECT EXISTS (
    SELECT FROM task_partitions p
    WHERE p.dropped_at IS NOT NULL AND timezone('UTC', p.first_day::timestamp) < sqlc.arg(to_at)::timestamptz
        AND timezone('UTC', p.last_day::timestamp) > sqlc.arg(from_at)::timestamptz - interval '1 day'
) AS is_dropped;

-- StatementDefaults returns the values that mean delivered and pending in the callbacks of a sender. It returns no row if the sender does not exist.
-- name: StatementDefaults :one
SELECT coalesce(s.config -> 'callback' -> 'delivered', '[]')::jsonb AS delivered, coalesce(s.config -> 'callback' -> 'pending', '[]')::jsonb AS pending
FROM senders s
WHERE s.sender_no = @sender_no;

-- TotalReconcile compares a total of a provider with the messages of a sender on a day, and stores the result. The messages of all companies count. They are
-- the sum of daily_totals and of the facts that are not yet added to daily_totals. Both are read in one snapshot.
-- name: TotalReconcile :one
INSERT INTO reconciliations (sender_no, day, from_at, to_at, unit, ours, tests, theirs, status, created_by, finished_at)
SELECT @sender_no, @day, @from_at, @to_at, @unit::text, coalesce(sum(x.n), 0), coalesce(sum(x.n) FILTER (WHERE x.is_test), 0), @theirs, 'finished',
    @created_by, clock_timestamp()
FROM (
    SELECT t.is_test, CASE @unit::text WHEN 'segments' THEN t.segments ELSE t.accepted END AS n
    FROM daily_totals t
    WHERE t.sender_no = @sender_no AND t.day = @day
    UNION ALL
    SELECT f.is_test, CASE @unit::text WHEN 'segments' THEN f.segments ELSE f.reported_success END
    FROM facts f
    WHERE f.sender_no = @sender_no AND f.at >= @from_at AND f.at < @to_at
) x
RETURNING id;

-- FileReconcile creates a reconciliation with a file. It returns no row if max_running files are already being compared.
-- name: FileReconcile :one
INSERT INTO reconciliations (
    sender_no, day, from_at, to_at, file_name, upload_id, sheet, number_column, status_column, segments_column, delivered_values, pending_values,
    status, phase, created_by
)
SELECT @sender_no, @day, @from_at, @to_at, @file_name::text, @upload_id::bigint, @sheet, @number_column, @status_column, @segments_column,
    @delivered_values::text[], @pending_values::text[], 'running', 'read', @created_by
WHERE (SELECT count(*) FROM reconciliations r WHERE r.status = 'running') < sqlc.arg(max_running)::bigint
RETURNING id;

-- ReconciliationList returns reconciliations with ids smaller than before_id, newest first.
-- name: ReconciliationList :many
SELECT * FROM reconciliations r
WHERE r.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR r.id = sqlc.narg(id)::bigint)
    AND (sqlc.narg(sender_no)::text IS NULL OR r.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(day)::date IS NULL OR r.day = sqlc.narg(day)::date)
ORDER BY r.id DESC
LIMIT @page_limit::integer;

-- DifferenceList returns the differences of a reconciliation after after_id, in the order in which they were found.
-- name: DifferenceList :many
SELECT * FROM reconciliation_differences d
WHERE d.reconciliation_id = @reconciliation_id AND d.id > @after_id AND (sqlc.narg(kind)::text IS NULL OR d.kind = sqlc.narg(kind)::text)
ORDER BY d.id
LIMIT @page_limit::integer;

-- ReconciliationIDsRunning returns the running reconciliations, the oldest first.
-- name: ReconciliationIDsRunning :many
SELECT r.id FROM reconciliations r WHERE r.status = 'running' ORDER BY r.id;

-- ReconciliationGet returns a running reconciliation. It returns no row if the reconciliation has ended.
-- name: ReconciliationGet :one
SELECT * FROM reconciliations r WHERE r.id = @id AND r.status = 'running';

-- ReconciliationHold locks a running reconciliation at the given position. It returns no row if the reconciliation has ended, or if another server has changed
-- its position.
-- name: ReconciliationHold :one
SELECT r.id FROM reconciliations r
WHERE r.id = @id AND r.phase = @phase::text AND r.row_no = @row_no AND r.after_no = @after_no AND r.after_id = @after_id
    AND r.after_at IS NOT DISTINCT FROM sqlc.narg(after_at)::timestamptz
FOR UPDATE;

-- ReconciliationMove stores the new position of a locked reconciliation, and adds a portion to its counts.
-- name: ReconciliationMove :exec
UPDATE reconciliations r
SET phase = @phase::text, row_no = @row_no, after_no = @after_no, after_at = sqlc.narg(after_at)::timestamptz, after_id = @after_id,
    upload_id = CASE WHEN @phase::text = 'read' THEN r.upload_id END, rows = r.rows + @rows, matched = r.matched + @matched,
    missing_here = r.missing_here + @missing_here, missing_there = r.missing_there + @missing_there,
    status_differs = r.status_differs + @status_differs, segments_differ = r.segments_differ + @segments_differ,
    repeated = r.repeated + @repeated, unreadable = r.unreadable + @unreadable, near_midnight = r.near_midnight + @near_midnight,
    theirs = r.theirs + @theirs, ours = r.ours + @ours
WHERE r.id = @id AND r.status = 'running';

-- ReconciliationEnd ends a reconciliation. The status becomes failed if a failure is stored, and otherwise finished.
-- name: ReconciliationEnd :exec
UPDATE reconciliations r
SET status = CASE WHEN r.failure IS NULL THEN 'finished' ELSE 'failed' END, phase = NULL, finished_at = clock_timestamp()
WHERE r.id = @id AND r.status = 'running';

-- ReconciliationFail records why a file cannot be compared. The next phase deletes the stored rows of the file.
-- name: ReconciliationFail :exec
UPDATE reconciliations r SET phase = 'clear', upload_id = NULL, failure = @failure::jsonb WHERE r.id = @id AND r.status = 'running';

-- StatementRowsStore stores rows of a file, one row for each provider's number, and returns the number of new rows. If rows with the same number have different
-- states, no state is stored. In this case the file does not show which message has which state.
-- name: StatementRowsStore :one
WITH stored AS (
    INSERT INTO reconciliation_rows AS r (reconciliation_id, provider_no, row_no, copies, status, segments)
    SELECT @id, i.provider_no, i.row_no, i.copies, i.status, i.segments
    FROM (
        SELECT unnest(@provider_nos::text[]) AS provider_no, unnest(@row_nos::bigint[]) AS row_no, unnest(@copies::bigint[]) AS copies,
            nullif(unnest(@statuses::text[]), '') AS status, unnest(@segments::int8[]) AS segments -- can contain NULL, see sqlc.yaml
    ) i
    ORDER BY i.provider_no
    ON CONFLICT (reconciliation_id, provider_no) DO UPDATE
    SET copies = r.copies + excluded.copies, status = CASE WHEN r.status = excluded.status THEN r.status END,
        segments = r.segments + excluded.segments
    RETURNING r.xmax = 0 AS is_new -- xmax is 0 in a row that this statement inserted
)
SELECT count(*) FILTER (WHERE s.is_new) AS added FROM stored s;

-- StatementRows returns up to `portion` rows of a file after after_no.
-- name: StatementRows :many
SELECT r.provider_no, r.row_no, r.copies, coalesce(r.status, '')::text AS status, r.segments
FROM reconciliation_rows r
WHERE r.reconciliation_id = @id AND r.provider_no > @after_no
ORDER BY r.provider_no
LIMIT @portion::integer;

-- StatementRowsDelete deletes up to batch_size rows of a file.
-- name: StatementRowsDelete :execrows
DELETE FROM reconciliation_rows r
WHERE r.reconciliation_id = @id AND r.provider_no = ANY (ARRAY(
    SELECT o.provider_no FROM reconciliation_rows o WHERE o.reconciliation_id = @id ORDER BY o.provider_no LIMIT @batch_size::integer
));

-- AttemptsOfNumbers returns the attempts of a sender with one of provider_nos, in the order of the numbers. It returns at most max_rows + 1 rows, so that the
-- result fits into memory. An attempt that the sender reported several times has a row for each report.
-- name: AttemptsOfNumbers :many
SELECT n.provider_no::text AS provider_no, d.task_id, d.lease_id, d.created_at
FROM unnest(@provider_nos::text[]) WITH ORDINALITY AS n (provider_no, place)
CROSS JOIN LATERAL (
    -- LIMIT forces one lookup by deliveries_provider_no_idx for each number. It also limits the rows of a number with too many attempts.
    SELECT o.id, o.task_id, o.lease_id, o.created_at FROM deliveries o
    WHERE o.sender_no = @sender_no AND o.provider_no = n.provider_no
    LIMIT sqlc.arg(max_rows)::bigint + 1
) d
ORDER BY n.place, d.id
LIMIT sqlc.arg(max_rows)::bigint + 1;

-- AttemptsUnlisted returns a page of the attempts that a sender reported in a time range, and whose provider_no is not in a file. The page begins after the
-- position (after_at, after_id). An attempt that the sender reported several times is returned once, at the time of the first report.
-- name: AttemptsUnlisted :many
SELECT d.id, d.provider_no::text AS provider_no, d.task_id, d.lease_id, d.created_at
FROM deliveries d
WHERE d.created_at >= @from_at AND d.created_at < @to_at AND (d.created_at, d.id) > (@after_at::timestamptz, @after_id::bigint)
    AND d.sender_no = @sender_no AND d.provider_no IS NOT NULL
    AND NOT EXISTS (SELECT FROM reconciliation_rows r WHERE r.reconciliation_id = @reconciliation_id AND r.provider_no = d.provider_no)
    AND NOT EXISTS (
        SELECT FROM deliveries e
        WHERE e.task_id = d.task_id AND e.lease_id = d.lease_id AND e.sender_no = d.sender_no AND e.provider_no = d.provider_no AND e.id < d.id
    )
ORDER BY d.created_at, d.id
LIMIT @portion::integer;

-- AttemptStates returns the reports and receipts of tasks, in the order of their events. sender_no of a receipt is the sender whose provider sent the receipt.
-- name: AttemptStates :many
SELECT r.task_id, coalesce(r.app_id, '')::text AS sender_no, coalesce(r.lease_id, 0)::bigint AS lease_id, r.event, r.effect, coalesce(r.status, 0)::smallint AS status,
    coalesce(r.lease_segments, r.segments, 0)::bigint AS segments -- 0 if unknown
FROM report_logs r
WHERE r.task_id = ANY (@task_ids::text[]) AND (
    r.event = 'reported' AND r.status IS NOT NULL AND r.effect <> 'refused' OR r.event IN ('receipt', 'past_receipt')
)
ORDER BY r.task_id, r.id;

-- DifferencesAdd stores differences of one kind in a reconciliation. counted: the number of differences of this kind that are already counted. Only the first
-- max_differences differences of the kind are stored.
-- name: DifferencesAdd :exec
INSERT INTO reconciliation_differences (reconciliation_id, kind, provider_no, row_no, task_id, accepted_at, ours, theirs)
SELECT @reconciliation_id, @kind, nullif(i.provider_no, ''), nullif(i.row_no, 0), nullif(i.task_id, ''), i.accepted_at, nullif(i.ours, ''),
    nullif(i.theirs, '')
FROM (
    SELECT unnest(@provider_nos::text[]) AS provider_no, unnest(@row_nos::bigint[]) AS row_no, unnest(@task_ids::text[]) AS task_id,
        unnest(@accepted_ats::timestamp with time zone[]) AS accepted_at, -- can contain NULL, see sqlc.yaml
        unnest(@ours::text[]) AS ours, unnest(@theirs::text[]) AS theirs, generate_series(1, cardinality(@provider_nos::text[])) AS place
) i
ORDER BY i.place
LIMIT greatest(0, sqlc.arg(max_differences)::bigint - sqlc.arg(counted)::bigint);

-- ReconciliationsDeleteExpired deletes reconciliations that ended longer ago than `keep`. It checks only the batch_size oldest reconciliations.
-- name: ReconciliationsDeleteExpired :execrows
DELETE FROM reconciliations r
USING (SELECT o.id FROM reconciliations o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE r.id = old.id AND r.finished_at < now() - @keep::interval;
