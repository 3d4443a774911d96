-- migrate:up
CREATE FUNCTION send_before(task queue) RETURNS timestamptz LANGUAGE sql IMMUTABLE
RETURN least(task.expires_at, task.quiet_from);
COMMENT ON FUNCTION send_before(queue) IS
    'Returns the time from which the message of a task must not be sent: when it expires, or when quiet hours of its recipient begin. Its lease ends at this time at '
    'the latest. After this time, no sender gets the task, and the holder of the lease can still report for a limited time. epoch: the quiet hours changed, and the '
    'sweep move-quiet-tasks has not computed the time yet; null: no limit.';

-- migrate:down
DROP FUNCTION send_before(queue);
