-- migrate:up
CREATE FUNCTION former_due_at(task queue) RETURNS timestamptz LANGUAGE sql IMMUTABLE
RETURN CASE WHEN task.retry_count = 0 AND task.troubles = 0 OR task.due_when_resumed >= task.updated_at THEN task.due_when_resumed END;
COMMENT ON FUNCTION former_due_at(queue) IS
    'Returns due_when_resumed of a waiting task. If the column is from before the last attempt, it is null: a retry has another due time.';
CREATE OR REPLACE FUNCTION quiet_moved(task queue) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN former_due_at(task) IS NOT NULL AND task.quiet_from IS NOT NULL;
COMMENT ON FUNCTION quiet_moved(queue) IS
    'Returns whether a waiting task was moved behind quiet hours. due_when_resumed then contains its former due time, which it gets again if the quiet hours end '
    'earlier.';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, moved behind quiet hours, or delayed by a cap. A held task gets it again when it is released; if the time has passed by '
    'then, or is null, the task is due at once. After an attempt, the column can still contain the value from before it';

-- migrate:down
CREATE OR REPLACE FUNCTION quiet_moved(task queue) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN task.due_when_resumed IS NOT NULL AND task.quiet_from IS NOT NULL AND task.retry_count = 0 AND task.troubles = 0;
COMMENT ON FUNCTION quiet_moved(queue) IS
    'Returns whether a task without an attempt was moved behind quiet hours. due_when_resumed then contains its former due time, which it gets again if the quiet '
    'hours end earlier.';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, moved behind quiet hours, or delayed by a cap. A held task gets it again when it is released; if the time has passed by '
    'then, or is null, the task is due at once. A server that does not know this column leaves old values in it';

DROP FUNCTION former_due_at(queue);
