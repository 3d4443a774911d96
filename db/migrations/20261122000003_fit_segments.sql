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

-- sender_room is how many segments of a task, as they are counted at the submission, a sender has room for: at least; a provider
-- that counts segments of its own size, or a signature of the sender, may leave more.
CREATE FUNCTION sender_room(of_sender bigint) RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN l.segments IS NULL THEN 1000000000
        ELSE greatest(0, l.segments / ceil(160.0 / coalesce(s.segment_size, 160))::bigint - CASE WHEN s.sign IS NULL THEN 0 ELSE 1 END) END
    FROM senders s
    JOIN sender_standings x ON x.sender_id = s.id
    CROSS JOIN LATERAL (
        SELECT least(
            s.per_minute - x.minute_used, s.per_hour - x.hour_used, s.per_day - x.day_used, s.per_month - x.month_used,
            CASE WHEN s.has_balance THEN coalesce(x.balance, 0) END
        ) AS segments
    ) l
    WHERE s.id = of_sender
$$;

-- migrate:down
DROP FUNCTION sender_room;
DROP FUNCTION task_segments;
