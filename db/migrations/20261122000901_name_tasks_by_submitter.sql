-- migrate:up transaction:false
-- A dedup key is its submitter's own: a colleague's guess must neither show nor replace the message of another. Every row of the
-- index before is unique by this one too. The index is built while others submit, report and claim; the build waits for
-- transactions that began before it. An interrupted build leaves an invalid index, which IF NOT EXISTS would take for a whole one: this
-- statement then fails until the index is removed by DROP INDEX CONCURRENTLY tasks_submitter_dedup_key_idx.
-- squawk-ignore ban-concurrent-index-creation-in-transaction, prefer-robust-stmts
CREATE UNIQUE INDEX CONCURRENTLY tasks_submitter_dedup_key_idx ON tasks (company_id, submitted_by, dedup_key)
WHERE dedup_key IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY tasks_submitter_dedup_key_idx;
