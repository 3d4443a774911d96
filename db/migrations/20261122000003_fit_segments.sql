-- migrate:up
-- A claim passes over tasks that need more segments than the sender has left, and takes those behind them.

-- task_segments is what an attempt of a task costs a sender, in segments. Off SMS a message is one, whatever its length.
CREATE FUNCTION task_segments(
    content text, sign text, counted smallint, sender_sign text, segment_size bigint, counts_segments boolean
) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT counts_segments THEN 1
    WHEN segment_size IS NULL AND (sender_sign IS NULL OR sign IS NOT NULL) THEN counted
    ELSE attempt_segments(
        coalesce('【' || coalesce(sign, sender_sign) || '】', '') || content, counted, segment_size,
        sender_sign IS NOT NULL AND sign IS NULL
    )
END;

-- migrate:down
DROP FUNCTION task_segments;
