-- migrate:up
CREATE FUNCTION quiet_begins(task queue) RETURNS boolean LANGUAGE sql STABLE
RETURN task.quiet_from <= now() + interval '30 seconds';
COMMENT ON FUNCTION quiet_begins(queue) IS
    'Returns whether no claim returns a task because quiet hours of its recipient have begun, or begin within 30 seconds: the lease ends then, and a shorter lease '
    'would often end before the report. null: the task has no quiet hours.';

CREATE OR REPLACE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND quiet_begins(task) IS NOT TRUE
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND NOT task.failed_app_id IS DISTINCT FROM sender_no
        AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, quiet hours of its recipient must not begin soon (quiet_begins), and '
    'the task must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the '
    'task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';

CREATE OR REPLACE VIEW quiet_waits AS
SELECT (
    SELECT count(*) > 0 FROM (
        SELECT FROM queue t
        WHERE t.lease_until IS NULL AND quiet_begins(t) AND t.due_at < held_due_at() -- by queue_quiet_idx
        ORDER BY t.quiet_from, t.task_id
        LIMIT 1
    ) w
) AS has_quiet;
COMMENT ON VIEW quiet_waits IS
    'One row that tells whether tasks wait that no claim returns because of quiet hours (quiet_begins), and that the sweep move-quiet-tasks has not moved behind the quiet hours yet.';

-- migrate:down
CREATE OR REPLACE VIEW quiet_waits AS
SELECT (
    SELECT count(*) > 0 FROM (
        SELECT FROM queue t
        WHERE t.lease_until IS NULL AND t.quiet_from <= now() + interval '30 seconds' AND t.due_at < held_due_at() -- by queue_quiet_idx
        ORDER BY t.quiet_from, t.task_id
        LIMIT 1
    ) w
) AS has_quiet;
COMMENT ON VIEW quiet_waits IS
    'One row that tells whether tasks wait that no claim returns because of quiet hours (task_fits), and that the sweep move-quiet-tasks has not moved behind the quiet hours yet.';

CREATE OR REPLACE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND (task.quiet_from IS NULL OR task.quiet_from > now() + interval '30 seconds')
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND NOT task.failed_app_id IS DISTINCT FROM sender_no
        AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, quiet hours of its recipient must not begin within 30 seconds '
    '(the lease ends then, and a shorter lease would often end before the report), and the task must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the '
    'task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';
DROP FUNCTION quiet_begins(queue);
