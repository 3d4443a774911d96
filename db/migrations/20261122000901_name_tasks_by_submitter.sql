-- migrate:up transaction:false
-- A dedup key is its submitter's own: a colleague's guess must neither show nor replace the message of another. Every row of the
-- index before is unique by this one too. The index is built while others submit, report and claim; the build waits for
-- transactions that began before it. An interrupted build leaves an invalid index, which is dropped before migrations begin.
-- squawk-ignore ban-concurrent-index-creation-in-transaction
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS tasks_submitter_dedup_key_idx ON tasks (company_id, submitted_by, dedup_key)
WHERE dedup_key IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS tasks_submitter_dedup_key_idx;
