-- migrate:up
-- The sums of the batches that have not ended. It reads their rows, and locks no other batch. Their feeding waits for it.
UPDATE batches b
SET by_country = (
    SELECT coalesce(jsonb_agg(jsonb_build_object('country_no', c.country_no, 'rows', c.rows, 'segments', c.segments) ORDER BY c.country_no), '[]')
    FROM (
        SELECT coalesce(r.country_no, '') AS country_no, count(*) AS rows, sum(r.segments) AS segments
        FROM batch_rows r
        WHERE r.batch_id = b.id AND r.code IS NULL
        GROUP BY 1
    ) c
)
WHERE b.status IN ('ready', 'running', 'paused');

-- migrate:down
UPDATE batches SET by_country = NULL WHERE status IN ('ready', 'running', 'paused');
