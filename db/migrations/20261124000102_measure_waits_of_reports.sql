-- migrate:up
-- Reports say what facts need of the tasks. This locks report_logs and its partitions for a moment, and rewrites nothing. See measure_waits_of_queue.
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs
    ADD COLUMN pool_id bigint,
    ADD COLUMN message_type smallint,
    ADD COLUMN segments smallint,
    ADD COLUMN entered_at timestamptz;
COMMENT ON COLUMN report_logs.pool_id IS
    'the pool that the task was in; of a receipt that of the submission; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.message_type IS 'as messages.message_type; null as pool_id';
COMMENT ON COLUMN report_logs.segments IS 'as messages.segments; null as pool_id';
COMMENT ON COLUMN report_logs.entered_at IS 'as queue.entered_at; null: as there, or the task never was in the queue, or a receipt';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE report_logs DROP COLUMN pool_id, DROP COLUMN message_type, DROP COLUMN segments, DROP COLUMN entered_at;
