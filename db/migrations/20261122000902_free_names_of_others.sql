-- migrate:up transaction:false
-- Without this index, two users of a company may use one dedup key. The statement waits for transactions that use the table, and holds
-- nobody up. A server of the version before, which names tasks by this index, cannot submit from here on: replace it.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
DROP INDEX CONCURRENTLY IF EXISTS tasks_company_dedup_key_idx;

-- migrate:down
-- A name that two users have used stays with the first task. Writes to tasks wait until the index is built.
UPDATE tasks t SET dedup_key = NULL
WHERE t.dedup_key IS NOT NULL AND EXISTS (
    SELECT FROM tasks f WHERE f.company_id = t.company_id AND f.dedup_key = t.dedup_key AND f.task_id < t.task_id
);
CREATE UNIQUE INDEX tasks_company_dedup_key_idx ON tasks (company_id, dedup_key) WHERE dedup_key IS NOT NULL;
