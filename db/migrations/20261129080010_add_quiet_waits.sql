-- migrate:up
-- PostgreSQL does not put a function with a subquery into the statement that calls it: each claim called quiet_tasks_wait twice, which took a quarter of
-- TaskOffer. Servers of the former version still call the function.
CREATE VIEW quiet_waits AS
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

-- migrate:down
DROP VIEW quiet_waits;
