-- Statements that count verifications. A verification counts at the time of its start, and not of its end. A pending verification whose time has passed counts
-- as expired.

-- VerificationStatistics counts the verifications that started in a time range, by the hour of their start (in UTC), by the country of the number, or by
-- company. The key is empty for verifications without country. The first row has no key and counts all of them. company_id null: of all companies. p50 and p95
-- are seconds from the start to the approval.
-- name: VerificationStatistics :many
SELECT (grouping(k.key) = 0)::boolean AS is_group, coalesce(k.key, '')::text AS key, count(*) AS started, count(*) FILTER (WHERE v.status = 'approved') AS approved,
    count(*) FILTER (WHERE v.status = 'expired' OR v.status = 'pending' AND v.expires_at <= now()) AS expired,
    count(*) FILTER (WHERE v.status = 'exhausted') AS exhausted, count(*) FILTER (WHERE v.status = 'cancelled') AS cancelled,
    (percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM v.ended_at - v.created_at)) FILTER (WHERE v.status = 'approved'))::float8 AS p50,
    (percentile_disc(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM v.ended_at - v.created_at)) FILTER (WHERE v.status = 'approved'))::float8 AS p95
FROM verifications v
LEFT JOIN companies c ON c.id = v.company_id
CROSS JOIN LATERAL (SELECT CASE
    WHEN @by_hour::boolean THEN to_char(v.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:00:00"Z"')
    WHEN @by_country::boolean THEN coalesce(v.country, '')
    ELSE coalesce(c.company_no, '#' || v.company_id)
END AS key) k
WHERE v.created_at >= @from_at::timestamptz AND v.created_at < @to_at::timestamptz
    AND (sqlc.narg(company_id)::bigint IS NULL OR v.company_id = sqlc.narg(company_id)::bigint)
GROUP BY GROUPING SETS ((k.key), ())
ORDER BY is_group, CASE WHEN @by_hour::boolean THEN k.key END, started DESC, k.key;

-- VerificationStatisticsBySender works like VerificationStatistics, but by the last sender that leased the code before the verification ended and sent it. The
-- key is empty for verifications without such a sender. All tasks of the verifications have ids from from_id up to before_id, so that few partitions are read.
-- name: VerificationStatisticsBySender :many
SELECT (grouping(sent.sender_no) = 0)::boolean AS is_group, coalesce(sent.sender_no, '')::text AS key, count(*) AS started, count(*) FILTER (WHERE v.status = 'approved') AS approved,
    count(*) FILTER (WHERE v.status = 'expired' OR v.status = 'pending' AND v.expires_at <= now()) AS expired,
    count(*) FILTER (WHERE v.status = 'exhausted') AS exhausted, count(*) FILTER (WHERE v.status = 'cancelled') AS cancelled,
    (percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM v.ended_at - v.created_at)) FILTER (WHERE v.status = 'approved'))::float8 AS p50,
    (percentile_disc(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM v.ended_at - v.created_at)) FILTER (WHERE v.status = 'approved'))::float8 AS p95
FROM verifications v
LEFT JOIN LATERAL (
    SELECT r.app_id AS sender_no
    FROM unnest(v.task_ids) AS t (id)
    JOIN report_logs r ON r.task_id = t.id
    WHERE r.task_id >= @from_id::text AND r.task_id < @before_id::text AND r.outcome = 2 -- SUCCESS
        AND r.leased_at <= coalesce(v.ended_at, now()) -- its report can follow the end
    ORDER BY r.leased_at DESC
    LIMIT 1
) sent ON true
WHERE v.created_at >= @from_at::timestamptz AND v.created_at < @to_at::timestamptz
    AND (sqlc.narg(company_id)::bigint IS NULL OR v.company_id = sqlc.narg(company_id)::bigint)
GROUP BY GROUPING SETS ((sent.sender_no), ())
ORDER BY is_group, started DESC, sent.sender_no;
