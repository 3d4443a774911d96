-- migrate:up
CREATE FUNCTION batch_segments_counted(of_batch bigint, sender_sign text, forbids_signs boolean, segment_size bigint, max_rows integer)
RETURNS TABLE (country_no text, submitted bigint, counted bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.country_no, sum(f.segments), sum(sent_segments(
        f.content, f.sign, f.segments, sender_sign, CASE WHEN forbids_signs THEN 'none' ELSE 'in_text' END, segment_size, true
    ))
    FROM (
        SELECT coalesce(r.country_no, '') AS country_no, unsigned_text(r.content, coalesce(r.sign, b.sign)) AS content,
            coalesce(r.sign, b.sign) AS sign, r.segments
        FROM batches b
        JOIN batch_rows r ON r.batch_id = b.id
        WHERE b.id = of_batch AND r.code IS NULL
        ORDER BY r.row_no
        LIMIT max_rows
    ) f
    GROUP BY GROUPING SETS ((f.country_no), ())
    HAVING sum(f.segments) > 0
$$;
COMMENT ON FUNCTION batch_segments_counted IS
    'The segments of the first valid rows of a batch by country, as they were submitted and as a sender counts them that has a signature, forbids signatures, or has a segment size. country_no is empty for numbers of no known country, and null in the row of all countries.';
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. by_sender has the segments as senders count them that do so in a way of their own: [{"sign", "forbids_signs", "segment_size", "segments"}]. They follow from the first 1,000 rows of the batch: from those to the country, or from all of them if none is. null: it is being checked';

-- migrate:down
DROP FUNCTION batch_segments_counted;
COMMENT ON COLUMN batches.by_country IS
    'the valid rows and their segments by country when the check ended: [{"country_no", "rows", "segments", "unsigned", "by_sender"}]. by_sender has the segments as senders count them that do so in a way of their own: [{"sign", "forbids_signs", "segment_size", "segments"}]. null: it is being checked';
