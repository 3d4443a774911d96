-- migrate:up
-- A notification is read from the partitions of its tasks only. notification_standings_between returns the rows of the view notification_standings,
-- as they follow from the tasks whose ids are in a range. Creating the function locks nothing.
CREATE FUNCTION notification_standings_between(from_id text, to_id text) RETURNS SETOF notification_standings
LANGUAGE sql STABLE AS $$
    SELECT n.id AS notification_id,
        CASE
            WHEN n.ended_as IS NOT NULL THEN n.ended_as::integer
            WHEN n.next_run_at IS NOT NULL OR told.waiting > 0 THEN 0
            WHEN told.succeeded = told.people THEN 1
            WHEN told.succeeded > 0 THEN 5
            WHEN told.cancelled = told.people THEN 3
            ELSE 2
        END::smallint AS status,
        least(n.next_run_at, told.next_try) AS next_run_time, told.people, told.succeeded, told.retries
    FROM notifications n
    CROSS JOIN LATERAL (
        SELECT count(*) AS people,
            count(*) FILTER (WHERE p.status = 2) AS succeeded, -- SUCCESS
            count(*) FILTER (WHERE p.status IN (0, 1)) AS waiting, -- PENDING, PROCESSING
            count(*) FILTER (WHERE p.status = 4) AS cancelled, -- CANCELLED
            coalesce(max(p.retry_count)::integer, 0)::smallint AS retries,
            min(p.due_at) FILTER (WHERE p.status = 0 AND (p.retry_count > 0 OR p.due_at > now())) AS next_try
        FROM (
            SELECT DISTINCT ON (t.user_id) t.status, t.retry_count, t.due_at
            FROM renderings r
            JOIN tasks_between(from_id, to_id) t ON t.rendering_id = r.id
            WHERE r.notification_id = n.id
            ORDER BY t.user_id, t.task_id DESC
        ) p
    ) told
$$;
COMMENT ON FUNCTION notification_standings_between(text, text) IS
    'The rows of the view notification_standings, by the tasks with ids from from_id to to_id, both included. It opens only the partitions of '
    'this range. It and the view say the same in two ways: change both together.';

-- migrate:down
DROP FUNCTION notification_standings_between(text, text);
