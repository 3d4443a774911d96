-- migrate:up
-- A column with a constant default changes no row: locks the table for a moment. Servers of the version before add nothing to it while they fold.
ALTER TABLE sender_states ADD COLUMN failed_tasks bigint DEFAULT 0 NOT NULL;
COMMENT ON COLUMN sender_states.failed_tasks IS 'tasks that became FAILED with the sender; failed counts its FAILED reports, also those that are retried';

-- migrate:down
ALTER TABLE sender_states DROP COLUMN failed_tasks;
