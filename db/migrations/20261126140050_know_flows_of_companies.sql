-- migrate:up
-- Submissions know whether another flow of their company waits. Adding columns without a default rewrites no row.
SET LOCAL lock_timeout = '5s';
ALTER TABLE fair_ranks ADD COLUMN flow text, ADD COLUMN flow_finish double precision;
COMMENT ON COLUMN fair_ranks.flow IS
    'the only flow (task_flow) of the tasks that got ranks since the company had nothing waiting; null: several at once, or not known';
COMMENT ON COLUMN fair_ranks.flow_finish IS
    'where the tasks of flow without a flow_rank end: since then another flow of the company waits too, and each task gets a flow_rank; null: only flow waits';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE fair_ranks DROP COLUMN flow, DROP COLUMN flow_finish;
