-- migrate:up
-- The planner replaces a call of task_fits with its expression, because the function has no subquery.
CREATE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean
LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND task.failed_app_id IS NOT DISTINCT FROM sender_no AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Whether a task may be offered to a sender. The task must not expire within min_lease, and must have at least from_segments segments. If the last attempt of the task failed with this sender and the task has at most rival_room segments, another sender can send the task: it is offered only after it has been due for retry_max_wait (null: never).';

-- migrate:down
DROP FUNCTION task_fits(queue, text, interval, bigint, bigint, interval);
