-- Statements on conversion: how many of the codes for a prefix of numbers, or for a network of clients, are approved.

-- VerificationsCount moves up to batch_size rows of verification_hours_staged to verification_hours. It returns their number, and the subjects that changed: entry n
-- of both arrays is one subject.
-- name: VerificationsCount :one
WITH taken AS (
    DELETE FROM verification_hours_staged
    WHERE ctid = ANY (ARRAY(SELECT o.ctid FROM verification_hours_staged o LIMIT @batch_size::integer))
    RETURNING company_id, hour, subjects, started, approved
),
added AS (
    INSERT INTO verification_hours AS h (company_id, subject, hour, started, approved)
    SELECT t.company_id, u.subject, t.hour, sum(t.started), sum(t.approved)
    FROM taken t
    CROSS JOIN LATERAL unnest(t.subjects) AS u (subject)
    GROUP BY t.company_id, u.subject, t.hour
    ORDER BY t.company_id, u.subject, t.hour -- all transactions lock in this order
    ON CONFLICT (company_id, subject, hour) DO UPDATE SET started = h.started + excluded.started, approved = h.approved + excluded.approved
    RETURNING h.company_id, h.subject
)
SELECT (SELECT count(*) FROM taken)::bigint AS counted,
    coalesce((SELECT array_agg(a.company_id ORDER BY a.company_id, a.subject) FROM added a), '{}')::bigint[] AS company_ids,
    coalesce((SELECT array_agg(a.subject ORDER BY a.company_id, a.subject) FROM added a), '{}')::text[] AS subjects;

-- VerificationSubjectsDerive derives the rows of subjects that changed, and of rows that are older than `fresh`. Over 24 hours, at least two codes and a tenth of
-- all codes of a proven subject were approved. A subject has collapsed if this hour and the one before have 20 codes, more than twice the average of the 22 hours
-- before, and a tenth of them was not approved. Subjects that are not proven have a row only if suspected_from codes were started.
-- name: VerificationSubjectsDerive :exec
WITH due AS (
    SELECT unnest(@company_ids::bigint[]) AS company_id, unnest(@subjects::text[]) COLLATE "C" AS subject
    UNION
    SELECT s.company_id, s.subject FROM verification_subjects s WHERE s.derived_at < now() - @fresh::interval
),
counts AS (
    SELECT d.company_id, d.subject, c.started, c.approved,
        c.approved >= 2 AND c.approved * 10 >= c.started
            AND NOT (c.last_started >= 20 AND c.last_approved * 10 < c.last_started AND c.last_started * 22 > 2 * (c.started - c.last_started)) AS is_proven
    FROM due d
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(h.started), 0) AS started, coalesce(sum(h.approved), 0) AS approved,
            coalesce(sum(h.started) FILTER (WHERE h.hour >= date_trunc('hour', now(), 'UTC') - interval '1 hour'), 0) AS last_started,
            coalesce(sum(h.approved) FILTER (WHERE h.hour >= date_trunc('hour', now(), 'UTC') - interval '1 hour'), 0) AS last_approved
        FROM verification_hours h
        WHERE h.company_id = d.company_id AND h.subject = d.subject AND h.hour >= date_trunc('hour', now(), 'UTC') - interval '24 hours' -- the caps count 24 hours
    ) c
),
gone AS (
    DELETE FROM verification_subjects s USING counts c
    WHERE s.company_id = c.company_id AND s.subject = c.subject AND NOT c.is_proven AND c.started < @suspected_from::bigint
)
INSERT INTO verification_subjects AS s (company_id, subject, started, approved, is_proven)
SELECT c.company_id, c.subject, c.started, c.approved, c.is_proven
FROM counts c
WHERE c.is_proven OR c.started >= @suspected_from::bigint
ORDER BY c.company_id, c.subject -- all transactions lock in this order
ON CONFLICT (company_id, subject) DO UPDATE
SET started = excluded.started, approved = excluded.approved, is_proven = excluded.is_proven, derived_at = excluded.derived_at,
    since = CASE WHEN s.is_proven = excluded.is_proven THEN s.since ELSE excluded.since END;

-- VerificationSubjectsReached returns the subjects with at least suspected_from codes within 24 hours: entry n of both arrays is one subject.
-- name: VerificationSubjectsReached :one
SELECT coalesce(array_agg(r.company_id ORDER BY r.company_id, r.subject), '{}')::bigint[] AS company_ids,
    coalesce(array_agg(r.subject ORDER BY r.company_id, r.subject), '{}')::text[] AS subjects
FROM (
    SELECT h.company_id, h.subject
    FROM verification_hours h
    WHERE h.hour >= date_trunc('hour', now(), 'UTC') - interval '24 hours'
    GROUP BY h.company_id, h.subject
    HAVING sum(h.started) >= @suspected_from::bigint
) r;

-- VerificationsTrust returns which subjects of codes are proven, and which of them, and which other prefixes of their numbers, are safe. Entry n of each array belongs
-- to one code; its subjects are joined with spaces. is_iterated: the number is one of many in a row; within an hour, at least five other numbers from low to high got
-- codes, and none of these codes was approved.
-- name: VerificationsTrust :many
WITH codes AS MATERIALIZED (
    SELECT unnest(@indexes::integer[]) AS code_index, unnest(@company_ids::bigint[]) AS company_id, unnest(@recipients::text[]) AS recipient,
        unnest(@lows::text[]) AS low, unnest(@highs::text[]) AS high, string_to_array(unnest(@subjects::text[]), ' ') AS subjects
)
SELECT c.code_index::integer AS code_index,
    ARRAY(
        SELECT p.subject FROM verification_subjects p WHERE p.company_id = c.company_id AND p.subject = ANY (c.subjects) AND p.is_proven
    )::text[] AS proven,
    CASE WHEN EXISTS (SELECT FROM verification_safe) THEN ARRAY( -- mostly nothing is safe
        SELECT s.subject FROM verification_safe s
        WHERE s.subject = ANY (c.subjects || ARRAY(SELECT left(c.recipient, n) FROM generate_series(2, length(c.recipient)) AS n))
            AND (s.company_id IS NULL OR s.company_id = c.company_id) AND (s.expires_at IS NULL OR s.expires_at > now())
    ) ELSE '{}' END::text[] AS safe,
    coalesce((
        SELECT count(DISTINCT n.recipient) >= 5 AND NOT bool_or(n.status = 'approved')
        FROM verifications n
        WHERE n.company_id = c.company_id AND n.recipient BETWEEN c.low AND c.high AND length(n.recipient) = length(c.high) AND n.recipient <> c.recipient
            AND now() - n.created_at < interval '1 hour' -- not created_at > ..., with whose index all codes of the hour are read while the statistics are old
    ), false)::boolean AS is_iterated
FROM codes c
ORDER BY c.code_index;

-- VerificationsUncount takes the codes of ended verifications that no sender got out of the counts. task_ids contains all tasks of the verifications. A sender that
-- returned its lease (untried, troubled) did not get the code. A code that was sent again on another channel was not counted. Run it with plans for the
-- parameters, and once for each verification.
-- name: VerificationsUncount :exec
INSERT INTO verification_hours_staged (company_id, hour, subjects, started, approved)
SELECT v.company_id, date_trunc('hour', v.created_at, 'UTC'), v.subjects, -count(*), 0
FROM verifications v
CROSS JOIN LATERAL unnest(v.task_ids) AS t (id)
JOIN messages m ON m.task_id = t.id AND m.task_id = ANY (@task_ids::text[]) AND m.recipient = v.recipient
WHERE v.verification_id = ANY (@verification_ids::text[]) AND v.subjects <> '{}'
    AND NOT EXISTS (SELECT FROM queue q WHERE q.task_id = m.task_id AND q.lease_until IS NOT NULL)
    AND NOT EXISTS (
        SELECT FROM report_logs l
        WHERE l.task_id = m.task_id AND l.task_id = ANY (@task_ids::text[]) AND l.leased_at IS NOT NULL AND l.effect NOT IN ('untried', 'troubled')
    )
GROUP BY v.verification_id;

-- VerificationHoursDeleteExpired deletes up to batch_size rows that are older than two days.
-- name: VerificationHoursDeleteExpired :execrows
DELETE FROM verification_hours h
USING (
    SELECT o.company_id, o.subject, o.hour FROM verification_hours o
    WHERE o.hour < now() - interval '2 days'
    ORDER BY o.hour
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
) old
WHERE h.company_id = old.company_id AND h.subject = old.subject AND h.hour = old.hour;
