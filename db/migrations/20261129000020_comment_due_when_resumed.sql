-- migrate:up
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, moved behind quiet hours, or delayed by a cap. A held task gets it again when it is released; if the time has passed by '
    'then, or is null, the task is due at once. A server that does not know this column leaves old values in it';

-- migrate:down
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at from before the task was held, or moved behind quiet hours. A held task gets it again when it is released; if the time has passed by then, or is null, '
    'the task is due at once. A server that does not know this column leaves old values in it';
