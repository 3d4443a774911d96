-- migrate:up
CREATE FUNCTION quiet_moved(task queue) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN task.due_when_resumed IS NOT NULL AND task.quiet_from IS NOT NULL AND task.retry_count = 0 AND task.troubles = 0;
COMMENT ON FUNCTION quiet_moved(queue) IS
    'Returns whether a task without an attempt was moved behind quiet hours. due_when_resumed then contains its former due time, which it gets again if the quiet '
    'hours end earlier.';

-- migrate:down
DROP FUNCTION quiet_moved(queue);
