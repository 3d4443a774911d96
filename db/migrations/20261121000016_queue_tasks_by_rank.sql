-- migrate:up
-- The queue changes its order. Its indexes are built before anybody dispatches by the new one, in this one transaction.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion, constraint-missing-not-valid
ALTER TABLE tasks ADD COLUMN company_id bigint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN pool_id bigint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN message_type smallint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN country_no text;
ALTER TABLE tasks ADD COLUMN priority smallint NOT NULL DEFAULT 5;
ALTER TABLE tasks ADD COLUMN segments smallint NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN sign text;
ALTER TABLE tasks ADD COLUMN is_test boolean NOT NULL DEFAULT false;
ALTER TABLE tasks ADD COLUMN expect_send_time timestamptz;
ALTER TABLE tasks ADD COLUMN expires_at timestamptz;
ALTER TABLE tasks ADD COLUMN failed_app_id text;
ALTER TABLE tasks ADD COLUMN lane smallint;
ALTER TABLE tasks ADD COLUMN rank double precision;
COMMENT ON COLUMN tasks.pool_id IS 'whose routes may take it, as they were when it was submitted; any sender until it is claimed';
COMMENT ON COLUMN tasks.message_type IS '0 verification, 1 notification, 2 marketing';
COMMENT ON COLUMN tasks.country_no IS 'as it was when the task was submitted; null: of no country that is known';
COMMENT ON COLUMN tasks.priority IS '0 to 9, the smallest first';
COMMENT ON COLUMN tasks.segments IS 'how many short messages the text takes, signature included';
COMMENT ON COLUMN tasks.failed_app_id IS 'who failed last; another sender of a route is preferred';
COMMENT ON COLUMN tasks.lane IS
    '32 * priority + what comes behind what within it: 0, or the retry_count of a retry; null until the task is due and queued';
COMMENT ON COLUMN tasks.rank IS 'its turn within the lane, fixed when it is first queued, in the virtual time of fair_ranks';

ALTER TABLE tasks ADD CONSTRAINT tasks_message_type_known CHECK (message_type BETWEEN 0 AND 2);
ALTER TABLE tasks ADD CONSTRAINT tasks_priority_range CHECK (priority BETWEEN 0 AND 9);
ALTER TABLE tasks ADD CONSTRAINT tasks_segments_range CHECK (segments BETWEEN 1 AND 100);

-- The claim walks a pool's queue in this order. What is not due is not in it, and costs the claim nothing.
CREATE INDEX tasks_queue_idx ON tasks (pool_id, lane, rank) WHERE status = 0 AND lane IS NOT NULL;
-- What has yet to be queued: retries and scheduled tasks. A sweep queues what is due, and a claim takes it before that.
CREATE INDEX tasks_due_idx ON tasks (pool_id, due_at) WHERE status = 0 AND lane IS NULL;
-- For whom waiting has an end: retries that go out as if they were new, and low priorities.
CREATE INDEX tasks_queued_retry_idx ON tasks (due_at) WHERE status = 0 AND lane % 32 > 0;
CREATE INDEX tasks_queued_low_idx ON tasks (due_at) WHERE status = 0 AND lane >= 32;
CREATE INDEX tasks_expiry_idx ON tasks (expires_at) WHERE status = 0 AND expires_at IS NOT NULL;
DROP INDEX tasks_new_idx;
DROP INDEX tasks_retry_idx;

-- A name is a company's own.
CREATE UNIQUE INDEX tasks_company_dedup_key_idx ON tasks (company_id, dedup_key) WHERE dedup_key IS NOT NULL;
DROP INDEX tasks_dedup_key_idx;

-- task_queue_front is where a company begins that has nothing queued: at the front of the lane of new tasks, or, where nothing
-- waits, where the last has been queued. A function, because its plan must not depend on statistics and it is asked in the
-- transactions of submitters; and a cheap one, for which nobody plans a submission anew each time.
CREATE FUNCTION task_queue_front(of_pool bigint, of_priority smallint) RETURNS double precision
LANGUAGE plpgsql STABLE COST 1
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
BEGIN
    RETURN coalesce(
        (
            SELECT t.rank FROM tasks t
            WHERE t.pool_id = of_pool AND t.lane = 32 * of_priority AND t.status = 0 AND t.lane IS NOT NULL
            ORDER BY t.rank
            LIMIT 1
        ),
        (SELECT max(f.finish) FROM fair_ranks f WHERE f.pool_id = of_pool AND f.priority = of_priority),
        0
    );
END
$$;

-- migrate:down
DROP FUNCTION task_queue_front;
CREATE UNIQUE INDEX tasks_dedup_key_idx ON tasks (dedup_key) WHERE dedup_key IS NOT NULL;
CREATE INDEX tasks_retry_idx ON tasks (retry_count, due_at) WHERE status = 0 AND retry_count > 0;
CREATE INDEX tasks_new_idx ON tasks (created_at, task_id) WHERE status = 0 AND retry_count = 0;
ALTER TABLE tasks
    DROP COLUMN company_id, DROP COLUMN pool_id, DROP COLUMN message_type, DROP COLUMN country_no, DROP COLUMN priority,
    DROP COLUMN segments, DROP COLUMN sign, DROP COLUMN is_test, DROP COLUMN expect_send_time, DROP COLUMN expires_at,
    DROP COLUMN failed_app_id, DROP COLUMN lane, DROP COLUMN rank;
