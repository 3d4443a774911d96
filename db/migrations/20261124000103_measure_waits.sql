-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- facts also say in which pool and of which type the tasks are, what was submitted, cancelled, requeued, delivered and sent, how long tasks waited
-- for their first claim, and how long they took. The triggers compute this from the rows that a statement changed anyway: claims and reports
-- read and write nothing else. Adding the columns locks facts for a moment, and rewrites nothing. See measure_waits_of_queue.
SET LOCAL lock_timeout = '5s';
ALTER TABLE facts
    ADD COLUMN pool_id bigint,
    ADD COLUMN message_type smallint,
    ADD COLUMN submitted integer NOT NULL DEFAULT 0,
    ADD COLUMN requeued integer NOT NULL DEFAULT 0,
    ADD COLUMN cancelled integer NOT NULL DEFAULT 0,
    ADD COLUMN delivered integer NOT NULL DEFAULT 0,
    ADD COLUMN undelivered integer NOT NULL DEFAULT 0,
    ADD COLUMN segments integer NOT NULL DEFAULT 0,
    ADD COLUMN waits bytea,
    ADD COLUMN durations bytea;
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company, pool and type that one sender holds, held or reported; or of tasks that no sender '
    'holds. Written by triggers of queue and report_logs only. internal/history deletes the rows within seconds, and adds them to the figures of '
    'all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is deleted is '
    'consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.pool_id IS 'as in queue and report_logs; pool_channels has its channel; null: report_logs did not say';
COMMENT ON COLUMN facts.message_type IS 'as messages.message_type; null: report_logs did not say';
COMMENT ON COLUMN facts.success IS 'number of tasks that became SUCCESS';
COMMENT ON COLUMN facts.failed IS 'number of tasks that became FAILED; a row has only one outcome, of success, failed and cancelled';
COMMENT ON COLUMN facts.submitted IS 'number of tasks that were stored; also those of people without an address, which failed at once';
COMMENT ON COLUMN facts.requeued IS 'number of settled tasks that were put into the queue again';
COMMENT ON COLUMN facts.cancelled IS 'number of tasks that became CANCELLED';
COMMENT ON COLUMN facts.delivered IS 'number of receipts that said so';
COMMENT ON COLUMN facts.undelivered IS 'number of receipts that said so';
COMMENT ON COLUMN facts.segments IS 'short messages of the leases that were reported SUCCESS';
COMMENT ON COLUMN facts.waits IS
    'one byte for each task that was claimed for the first time: wait_bucket of the time since entered_at, in any order; null: none';
COMMENT ON COLUMN facts.durations IS
    'one byte for each task that became SUCCESS or FAILED: wait_bucket of the time since entered_at, in any order; null: none';

-- A bucket is one byte, so that string_agg collects the buckets of many tasks. ln(1.1) = 0.0953101798043249. The clock may be set back.
CREATE FUNCTION wait_bucket(wait interval) RETURNS bytea LANGUAGE sql IMMUTABLE
RETURN CASE WHEN wait IS NOT NULL THEN -- greatest would take a null for 1 ms
    set_byte('\x00', 0, least(255, ceil(ln(greatest(1, date_part('epoch', wait) * 1000)) / 0.0953101798043249))::integer)
END;
COMMENT ON FUNCTION wait_bucket(interval) IS
    'The bucket of a time in a histogram, as one byte: 0 up to 1 ms; n above 1.1^(n-1) ms and up to 1.1^n ms; 255 also all above (416 days); null of null. '
    'internal/statistics has the same bounds.';

-- Rows of queue are PENDING or PROCESSING. A row counts for the sender that holds it, before the statement and after it, so that a
-- statement that changes something else of a lease adds nothing. A statement takes leases of a sender or ends them, never both. A task
-- without a retry that never was claimed waited until the lease that it gets.
CREATE OR REPLACE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing, submitted, requeued)
        SELECT company_id, pool_id, message_type, processing_app_id, max(updated_at),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            count(lease_until), count(*) FILTER (WHERE NOT was_claimed), count(*) FILTER (WHERE was_claimed)
        FROM added
        GROUP BY company_id, pool_id, message_type, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing, leases, waits)
        SELECT c.company_id, c.pool_id, c.message_type, c.processing_app_id, coalesce(c.at, clock_timestamp()), c.pending_new,
            c.pending_retry, c.processing, greatest(0, c.processing), CASE WHEN c.processing > 0 THEN c.waits END
        FROM (
            SELECT company_id, pool_id, message_type, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing,
                string_agg(wait_bucket(updated_at - entered_at), '')
                    FILTER (WHERE n = 1 AND lease_until IS NOT NULL AND retry_count = 0 AND NOT was_claimed) AS waits
            FROM (
                SELECT company_id, pool_id, message_type, processing_app_id, lease_until, retry_count, updated_at, entered_at, was_claimed,
                    1 AS n
                FROM added
                UNION ALL
                SELECT company_id, pool_id, message_type, processing_app_id, lease_until, retry_count, updated_at, entered_at, was_claimed,
                    -1
                FROM removed
            ) x
            GROUP BY company_id, pool_id, message_type, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (company_id, pool_id, message_type, sender_no, at, pending_new, pending_retry, processing)
        SELECT company_id, pool_id, message_type, processing_app_id, clock_timestamp(),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            -count(lease_until)
        FROM removed
        GROUP BY company_id, pool_id, message_type, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;

-- A row of report_logs with an outcome makes a task SUCCESS, FAILED or CANCELLED. A row with a status is a report; one that ended a lease has
-- an outcome, or its effect is retry. leased_at is null if the lease had expired and was taken back: the task has been due since then. The
-- task of a row 'unreachable' never was in the queue.
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (
        company_id, pool_id, message_type, sender_no, at, success, failed, cancelled, delivered, undelivered, submitted, reported_success,
        reported_failed, response_ms, segments, durations
    )
    SELECT company_id, pool_id, message_type, app_id, max(created_at),
        count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), count(*) FILTER (WHERE outcome = 4), -- SUCCESS, FAILED, CANCELLED
        count(*) FILTER (WHERE event = 'receipt' AND effect = 'delivered'), count(*) FILTER (WHERE event = 'receipt' AND effect = 'undelivered'),
        count(*) FILTER (WHERE event = 'unreachable'), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0),
        coalesce(sum(coalesce(lease_segments, segments)) FILTER (WHERE status = 2), 0),
        string_agg(wait_bucket(created_at - entered_at), '') FILTER (WHERE outcome IN (2, 3))
    FROM added
    WHERE outcome IS NOT NULL OR (status IS NOT NULL AND effect = 'retry') OR event = 'receipt'
    GROUP BY company_id, pool_id, message_type, app_id, outcome;
    RETURN NULL;
END
$$;

-- migrate:down
SET LOCAL lock_timeout = '5s';
CREATE OR REPLACE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (company_id, sender_no, at, pending_new, pending_retry, processing)
        SELECT company_id, processing_app_id, max(updated_at), count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0), count(lease_until)
        FROM added
        GROUP BY company_id, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (company_id, sender_no, at, pending_new, pending_retry, processing, leases)
        SELECT c.company_id, c.processing_app_id, coalesce(c.at, clock_timestamp()), c.pending_new, c.pending_retry, c.processing,
            greatest(0, c.processing)
        FROM (
            SELECT company_id, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing
            FROM (
                SELECT company_id, processing_app_id, lease_until, retry_count, updated_at, 1 AS n FROM added
                UNION ALL
                SELECT company_id, processing_app_id, lease_until, retry_count, updated_at, -1 FROM removed
            ) x
            GROUP BY company_id, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (company_id, sender_no, at, pending_new, pending_retry, processing)
        SELECT company_id, processing_app_id, clock_timestamp(), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0), -count(lease_until)
        FROM removed
        GROUP BY company_id, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (company_id, sender_no, at, success, failed, reported_success, reported_failed, response_ms)
    SELECT company_id, app_id, max(created_at), count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), -- SUCCESS, FAILED
        count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0)
    FROM added
    WHERE outcome IN (2, 3) OR (status IS NOT NULL AND effect = 'retry')
    GROUP BY company_id, app_id;
    RETURN NULL;
END
$$;
DROP FUNCTION wait_bucket(interval);
ALTER TABLE facts
    DROP COLUMN pool_id,
    DROP COLUMN message_type,
    DROP COLUMN submitted,
    DROP COLUMN requeued,
    DROP COLUMN cancelled,
    DROP COLUMN delivered,
    DROP COLUMN undelivered,
    DROP COLUMN segments,
    DROP COLUMN waits,
    DROP COLUMN durations;
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company that one sender holds, held or reported; or of tasks that no sender holds. Written '
    'by triggers of queue and report_logs only. internal/history deletes the rows within seconds, and adds them to the figures of all '
    'consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is deleted is consumed '
    'exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.failed IS 'number of tasks that became FAILED';
