-- migrate:up
-- The age of the oldest waiting task needs the oldest of every lane. Those of the lanes from 32 on have an index by due_at; this
-- one is for priority 0 and for what was moved there, so that ordinary tasks pay for neither twice. Building it reads the table
-- and keeps writers out meanwhile.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX tasks_queued_top_idx ON tasks (due_at) WHERE status = 0 AND lane < 32;

-- migrate:down
DROP INDEX tasks_queued_top_idx;
