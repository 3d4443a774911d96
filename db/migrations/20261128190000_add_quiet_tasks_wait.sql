-- migrate:up
-- An SQL function, so that PostgreSQL puts the query into the statement that calls it.
CREATE FUNCTION quiet_tasks_wait() RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM queue t WHERE t.lease_until IS NULL AND t.quiet_from <= now() + interval '30 seconds' AND t.due_at < held_due_at() -- by queue_quiet_idx
);
COMMENT ON FUNCTION quiet_tasks_wait() IS
    'Returns whether tasks wait that no claim returns because of quiet hours (task_fits), and that the sweep move-quiet-tasks has not moved behind the quiet hours yet.';

-- migrate:down
DROP FUNCTION quiet_tasks_wait();
