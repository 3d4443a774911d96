-- migrate:up
-- When a task first could be claimed, for the measures of the migrations that follow. Rows that exist have no entered_at: they are in no histogram.
-- Each of these migrations locks one table, in a transaction of its own: statements of running servers lock queue and report_logs in both
-- orders. The lock lasts a moment, and nothing is rewritten. Others must not wait behind a migration that waits, as for a backup that
-- reads the table: it gives up then, and can be started again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN entered_at timestamptz;
ALTER TABLE queue ALTER COLUMN entered_at SET DEFAULT now();
ALTER TABLE queue ADD COLUMN was_claimed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; null: it was submitted before '
    'this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'the task had a lease before, although its retry_count may be 0: a lease was released, or a settled task was requeued';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN was_claimed, DROP COLUMN entered_at;
