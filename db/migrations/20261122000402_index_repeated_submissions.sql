-- migrate:up
-- The timeline of a task shows the submissions that repeated it by its dedup_key. Only their rows are in the index. Building it
-- reads the table and keeps writers out meanwhile.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX receive_logs_repeats_idx ON receive_logs (task_id)
WHERE task_id IS NOT NULL AND response_data #> '{data,deduplicated}' = 'true'::jsonb;

-- migrate:down
DROP INDEX receive_logs_repeats_idx;
