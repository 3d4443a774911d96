-- migrate:up
-- The table is not rewritten, because the column has no default. It is locked for a moment.
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, or moved behind quiet hours. A held task gets it again when it is released; if the time has passed by then, or is null, '
    'the task is due at once. A server that does not know this column leaves old values in it';
ALTER TABLE queue ADD COLUMN quiet_from timestamptz;
COMMENT ON COLUMN queue.quiet_from IS
    'the beginning of the next quiet hours of the recipient. No claim returns the task after this time. The sweep move-quiet-tasks then sets due_at to a time after '
    'the quiet hours, and quiet_from to the beginning of the next ones. epoch: the sweep has not computed the time yet; null: the task has no quiet hours';

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

-- migrate:down
CREATE OR REPLACE FUNCTION task_fits(
    task queue, sender_no text, min_lease interval, from_segments bigint, rival_room bigint, retry_max_wait interval
) RETURNS boolean LANGUAGE sql STABLE
RETURN (task.expires_at IS NULL OR task.expires_at > now() + min_lease)
    AND task.segments >= from_segments
    AND NOT (
        task.segments <= rival_room AND NOT task.failed_app_id IS DISTINCT FROM sender_no
        AND coalesce(task.due_at > now() - retry_max_wait, true)
    );
COMMENT ON FUNCTION task_fits(queue, text, interval, bigint, bigint, interval) IS
    'Returns whether a task can be offered to a sender. The task must not expire within min_lease, and must have at least from_segments segments. If the last attempt of the task failed with this sender, and the task has at most rival_room segments, the task is reserved for other senders. It is then offered to this sender only after it has been due for retry_max_wait (null: never).';
ALTER TABLE queue DROP COLUMN quiet_from;
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when it is released. If this time has passed by then, or is null, the task is due at once. A server that does not know this column leaves old values in it';
