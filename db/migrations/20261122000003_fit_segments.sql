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

-- sender_has_room says whether the first task that is queued in a pool fits into what a sender has left; true where there is none.
CREATE FUNCTION sender_has_room(of_sender bigint, of_pool bigint) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((
        SELECT task_segments(t.content, t.sign, t.segments, s.sign, s.segment_size, c.channel = 'sms') <= least(
            s.per_minute - x.minute_used, s.per_hour - x.hour_used, s.per_day - x.day_used, s.per_month - x.month_used,
            CASE WHEN s.has_balance THEN coalesce(x.balance, 0) END
        )
        FROM senders s
        JOIN channels c ON c.id = s.channel_id
        JOIN sender_standings x ON x.sender_id = s.id
        CROSS JOIN LATERAL (
            SELECT t.content, t.sign, t.segments FROM tasks t
            WHERE t.pool_id = of_pool AND t.status = 0 AND t.lane IS NOT NULL
            ORDER BY t.lane, t.rank
            LIMIT 1
        ) t
        WHERE s.id = of_sender
    ), true)
$$;

-- migrate:down
DROP FUNCTION sender_has_room;
DROP FUNCTION task_segments;
