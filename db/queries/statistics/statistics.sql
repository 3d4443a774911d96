-- Statements on statistics over time. Test messages have their own message type, and are not counted in other dimensions. FactsTake moves a count
-- from facts to statistics_staged. When the minute of the count is over, the count is added to three rows of statistics: of its minute, hour and day.

-- StatisticsStage adds the sums of FactsTake to statistics_staged, in the same transaction. All arrays have one element for each row.
-- name: StatisticsStage :exec
INSERT INTO statistics_staged (
    at, company_id, channel, sender_no, message_type, outcome, submitted, requeued, claimed, succeeded, failed, reported_failed, unreported, cancelled,
    delivered, undelivered, segments, waits, durations
)
SELECT unnest(@ats::timestamptz[]), unnest(@company_ids::bigint[]), unnest(@channels::text[]), unnest(@sender_nos::text[]),
    unnest(@message_types::text[]), unnest(@outcomes::text[]), unnest(@submitted::bigint[]), unnest(@requeued::bigint[]),
    unnest(@claimed::bigint[]), unnest(@succeeded::bigint[]), unnest(@failed::bigint[]), unnest(@reported_failed::bigint[]), unnest(@unreported::bigint[]),
    unnest(@cancelled::bigint[]), unnest(@delivered::bigint[]), unnest(@undelivered::bigint[]), unnest(@segments::bigint[]), unnest(@waits::bytea[]),
    unnest(@durations::bytea[]);

-- StatisticsLock lets only one transaction at a time move staged rows, because each move reads histograms and then replaces them.
-- name: StatisticsLock :exec
SELECT lock_table('lock_statistics');

-- StatisticsTake deletes up to `portion` staged rows of past minutes, the oldest first, and returns their sums. It returns one row for each minute, company,
-- channel, sender, message type and outcome, with the hour and the day of the minute. `taken` is the number of staged rows in the sum.
-- name: StatisticsTake :many
WITH taken AS (
    DELETE FROM statistics_staged WHERE ctid = ANY (ARRAY(
        SELECT s.ctid FROM statistics_staged s WHERE s.at < date_trunc('minute', now(), 'UTC') ORDER BY s.at LIMIT @portion::integer
    )) RETURNING *
)
SELECT t.at AS minute, date_trunc('hour', t.at, 'UTC')::timestamptz AS hour, date_trunc('day', t.at, @time_zone::text)::timestamptz AS day,
    t.company_id, t.channel, t.sender_no, t.message_type, t.outcome, count(*) AS taken,
    sum(t.submitted)::bigint AS submitted, sum(t.requeued)::bigint AS requeued, sum(t.claimed)::bigint AS claimed,
    sum(t.succeeded)::bigint AS succeeded, sum(t.failed)::bigint AS failed, sum(t.reported_failed)::bigint AS reported_failed,
    sum(t.unreported)::bigint AS unreported, sum(t.cancelled)::bigint AS cancelled,
    sum(t.delivered)::bigint AS delivered, sum(t.undelivered)::bigint AS undelivered, sum(t.segments)::bigint AS segments,
    string_agg(t.waits, '')::bytea AS waits, string_agg(t.durations, '')::bytea AS durations
FROM taken t
GROUP BY t.at, t.company_id, t.channel, t.sender_no, t.message_type, t.outcome
ORDER BY t.at, t.company_id, t.channel, t.sender_no, t.message_type, t.outcome;

-- StatisticsHistograms returns the histograms of the given rows that exist. place is the index of the row in the arrays, from 0.
-- name: StatisticsHistograms :many
SELECT a.place::integer AS place, s.waits, s.durations
FROM (
    SELECT unnest(@steps::text[]) AS step, unnest(@company_ids::bigint[]) AS company_id, unnest(@dimensions::text[]) AS dimension,
        unnest(@ats::timestamptz[]) AS at, unnest(@keys::text[]) AS key, generate_series(0, cardinality(@keys::text[]) - 1) AS place
) a
JOIN statistics s ON s.step = a.step AND s.company_id = a.company_id AND s.dimension = a.dimension AND s.at = a.at AND s.key = a.key
ORDER BY a.place;

-- StatisticsAdd adds counts to rows, and replaces the histograms of these rows. The caller has called StatisticsLock.
-- name: StatisticsAdd :exec
INSERT INTO statistics AS s (
    step, company_id, dimension, at, key, submitted, requeued, claimed, succeeded, failed, reported_failed, unreported, cancelled, delivered, undelivered,
    segments, waits, durations
)
SELECT unnest(@steps::text[]), unnest(@company_ids::bigint[]), unnest(@dimensions::text[]), unnest(@ats::timestamptz[]), unnest(@keys::text[]),
    unnest(@submitted::bigint[]), unnest(@requeued::bigint[]), unnest(@claimed::bigint[]), unnest(@succeeded::bigint[]),
    unnest(@failed::bigint[]), unnest(@reported_failed::bigint[]), unnest(@unreported::bigint[]), unnest(@cancelled::bigint[]), unnest(@delivered::bigint[]),
    unnest(@undelivered::bigint[]), unnest(@segments::bigint[]), unnest(@waits::bytea[]), unnest(@durations::bytea[])
ON CONFLICT (step, company_id, dimension, at, key) DO UPDATE
SET submitted = s.submitted + excluded.submitted, requeued = s.requeued + excluded.requeued, claimed = s.claimed + excluded.claimed,
    succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
    reported_failed = s.reported_failed + excluded.reported_failed, unreported = s.unreported + excluded.unreported, cancelled = s.cancelled + excluded.cancelled,
    delivered = s.delivered + excluded.delivered, undelivered = s.undelivered + excluded.undelivered,
    segments = s.segments + excluded.segments, waits = excluded.waits, durations = excluded.durations;

-- StatisticsDeleteExpired deletes up to batch_size rows of a step that are older than `keep`. It never deletes rows of the step day.
-- name: StatisticsDeleteExpired :execrows
DELETE FROM statistics s
USING (
    SELECT o.ctid FROM statistics o
    WHERE o.step = @step::text AND o.step <> 'day' AND o.at < now() - @keep::interval -- step <> 'day' repeats the predicate of statistics_short_idx
    ORDER BY o.at
    LIMIT @batch_size::integer
) old
WHERE s.ctid = old.ctid;

-- StatisticsRange returns the range of the full minutes, hours or days that overlap a time range. to_at null: the range ends now.
-- name: StatisticsRange :one
SELECT r.from_at::timestamptz AS from_at,
    CASE WHEN r.last_at = r.to_at THEN r.to_at
        ELSE (r.last_at AT TIME ZONE r.zone + ('1 ' || @step::text)::interval) AT TIME ZONE r.zone END::timestamptz AS to_at
FROM (
    SELECT z.zone, t.to_at, date_trunc(@step::text, @from_at::timestamptz, z.zone) AS from_at, date_trunc(@step::text, t.to_at, z.zone) AS last_at
    FROM (SELECT CASE @step::text WHEN 'day' THEN @time_zone::text ELSE 'UTC' END AS zone) z
    CROSS JOIN (SELECT coalesce(sqlc.narg(to_at)::timestamptz, now()) AS to_at) t
) r;

-- StatisticsSeries returns the keys of a dimension with the largest counts in a range, the largest first. keys is the total number of keys. company_id 0: all
-- companies.
-- name: StatisticsSeries :many
SELECT z.key::text AS key, count(*) OVER () AS keys
FROM (
    SELECT k.key, sum(k.size)::bigint AS size
    FROM (
        SELECT s.key, s.submitted + s.requeued + s.claimed + s.succeeded + s.failed + s.reported_failed + s.unreported + s.cancelled + s.delivered + s.undelivered AS size
        FROM statistics s
        WHERE s.step = @step::text AND s.company_id = @company_id AND s.dimension = @dimension::text AND s.at >= @from_at AND s.at < @to_at
        UNION ALL
        SELECT CASE @dimension::text WHEN 'company' THEN r.company_id::text WHEN 'channel' THEN r.channel WHEN 'sender' THEN r.sender_no
                WHEN 'message_type' THEN r.message_type WHEN 'outcome' THEN r.outcome ELSE '' END,
            r.submitted + r.requeued + r.claimed + r.succeeded + r.failed + r.reported_failed + r.unreported + r.cancelled + r.delivered + r.undelivered
        FROM recent_statistics r
        WHERE r.company_id = coalesce(nullif(@company_id, 0), r.company_id) AND r.at >= @from_at AND r.at < @to_at
            AND (r.message_type <> 'test' OR @dimension::text = 'message_type')
    ) k
    GROUP BY k.key
) z
ORDER BY z.size DESC, z.key
LIMIT @max_rows::integer;

-- StatisticsPoints returns the counts of the given keys of a dimension in a range, in one snapshot. If is_packed is true, the row comes from statistics, and
-- waits and durations are histograms. If is_packed is false, the row contains more recent counts, and waits and durations contain one byte for each task.
-- name: StatisticsPoints :many
SELECT s.at::timestamptz AS at, s.key::text AS key, true::boolean AS is_packed, s.submitted::bigint AS submitted, s.requeued::bigint AS requeued,
    s.claimed::bigint AS claimed, s.succeeded::bigint AS succeeded, s.failed::bigint AS failed, s.reported_failed::bigint AS reported_failed,
    s.unreported::bigint AS unreported, s.cancelled::bigint AS cancelled, s.delivered::bigint AS delivered, s.undelivered::bigint AS undelivered,
    s.segments::bigint AS segments, s.waits::bytea AS waits, s.durations::bytea AS durations
FROM statistics s
WHERE s.step = @step::text AND s.company_id = @company_id AND s.dimension = @dimension::text AND s.at >= @from_at AND s.at < @to_at
    AND s.key = ANY (@keys::text[])
UNION ALL
SELECT r.at, r.key, false, sum(r.submitted)::bigint, sum(r.requeued)::bigint, sum(r.claimed)::bigint, sum(r.succeeded)::bigint,
    sum(r.failed)::bigint, sum(r.reported_failed)::bigint, sum(r.unreported)::bigint, sum(r.cancelled)::bigint, sum(r.delivered)::bigint,
    sum(r.undelivered)::bigint, sum(r.segments)::bigint, string_agg(r.waits, ''), string_agg(r.durations, '')
FROM (
    SELECT c.*, date_trunc(@step::text, c.minute, CASE @step::text WHEN 'day' THEN @time_zone::text ELSE 'UTC' END) AS at,
        CASE @dimension::text WHEN 'company' THEN c.company_id::text WHEN 'channel' THEN c.channel WHEN 'sender' THEN c.sender_no
            WHEN 'message_type' THEN c.message_type WHEN 'outcome' THEN c.outcome ELSE '' END AS key
    FROM (
        SELECT n.at AS minute, n.company_id, n.channel, n.sender_no, n.message_type, n.outcome, n.submitted, n.requeued, n.claimed,
            n.succeeded, n.failed, n.reported_failed, n.unreported, n.cancelled, n.delivered, n.undelivered, n.segments, n.waits, n.durations
        FROM recent_statistics n
        WHERE n.company_id = coalesce(nullif(@company_id, 0), n.company_id) AND n.at >= @from_at AND n.at < @to_at
            AND (n.message_type <> 'test' OR @dimension::text = 'message_type')
    ) c
) r
WHERE r.key = ANY (@keys::text[])
GROUP BY r.at, r.key
ORDER BY key, at;

-- StatisticsEvents returns the numbers of submitted, succeeded and failed tasks, including tests. The counts begin about two days before `since`, so they have
-- no meaning alone: the caller subtracts two results with the same `since`. company_id 0: all companies.
-- name: StatisticsEvents :one
SELECT coalesce(sum(e.submitted), 0)::bigint AS submitted, coalesce(sum(e.succeeded), 0)::bigint AS succeeded, coalesce(sum(e.failed), 0)::bigint AS failed
FROM (
    SELECT s.submitted, s.succeeded, s.failed FROM statistics s
    WHERE s.step = 'day' AND s.company_id = @company_id AND s.dimension = 'message_type' AND s.at >= sqlc.arg(since)::timestamptz - interval '2 days'
    UNION ALL
    SELECT r.submitted, r.succeeded, r.failed FROM recent_statistics r WHERE r.company_id = coalesce(nullif(@company_id, 0), r.company_id)
) e;

-- StatisticsCompanies returns the company_no of the companies of `ids` that exist.
-- name: StatisticsCompanies :many
SELECT c.id, c.company_no FROM companies c WHERE c.id = ANY (@ids::bigint[]) ORDER BY c.id;
