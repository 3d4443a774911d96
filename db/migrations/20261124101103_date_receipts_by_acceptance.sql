-- migrate:up
-- A provider counts a delivered message on the day on which it accepted it. So the fact of such a receipt says when the report of its sender settled the
-- task. deliveries is the wrong place to look: it has no row where the provider gave no number, and several of a task that was sent again.
-- The column has no default, and facts has rows of a few seconds only: each statement locks the table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE facts ADD COLUMN accepted_at timestamptz;
COMMENT ON COLUMN facts.accepted_at IS
    'of receipts that say delivered: the minute in which their sender reported SUCCESS; null: of anything else, or no report of this sender settled the task';
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    delivered_ids text[] := ARRAY(SELECT a.task_id FROM added a WHERE a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered');
    accepted_ids text[];
    accepted_by text[];
    accepted_ats timestamptz[];
BEGIN
    IF cardinality(delivered_ids) > 0 THEN
        -- EXECUTE plans it with the ids, so that it opens their partitions alone.
        EXECUTE 'SELECT array_agg(r.task_id), array_agg(r.app_id), array_agg(date_trunc(''minute'', r.created_at, ''UTC'')) FROM report_logs r '
            'WHERE r.task_id = ANY ($1) AND r.outcome = 2' -- SUCCESS, of which a task has one row
        INTO accepted_ids, accepted_by, accepted_ats USING delivered_ids;
    END IF;
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, accepted_at, success, failed, cancelled, delivered,
        undelivered, submitted, reported_success, reported_failed, response_ms, segments, durations
    )
    SELECT n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, max(n.created_at), n.accepted_at,
        count(*) FILTER (WHERE n.outcome = 2), count(*) FILTER (WHERE n.outcome = 3), -- SUCCESS, FAILED
        count(*) FILTER (WHERE n.outcome = 4), -- CANCELLED
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'delivered'),
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'undelivered'),
        count(*) FILTER (WHERE n.event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE n.status = 2), count(*) FILTER (WHERE n.status = 3),
        coalesce(
            sum(greatest(0, extract(epoch FROM n.created_at - coalesce(n.leased_at, n.due_at)) * 1000)) FILTER (WHERE n.status IS NOT NULL), 0
        ),
        coalesce(sum(coalesce(n.lease_segments, n.segments)) FILTER (WHERE n.status = 2), 0),
        string_agg(wait_bucket(n.created_at - n.entered_at), '') FILTER (WHERE n.outcome IN (2, 3))
    FROM (
        SELECT a.*, r.accepted_at
        FROM added a
        LEFT JOIN unnest(accepted_ids, accepted_by, accepted_ats) AS r (task_id, app_id, accepted_at)
            ON r.task_id = a.task_id AND r.app_id = a.app_id AND a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered'
        WHERE a.outcome IS NOT NULL OR (a.status IS NOT NULL AND a.effect = 'retry') OR a.event IN ('receipt', 'past_receipt')
    ) n
    GROUP BY n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, n.accepted_at, n.outcome;
    RETURN NULL;
END
$$;
DROP TRIGGER facts_guard ON facts;
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('3');

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER facts_guard ON facts;
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('2');
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed, cancelled, delivered, undelivered, submitted,
        reported_success, reported_failed, response_ms, segments, durations
    )
    SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, max(created_at),
        count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), count(*) FILTER (WHERE outcome = 4), -- SUCCESS, FAILED, CANCELLED
        count(*) FILTER (WHERE event IN ('receipt', 'past_receipt') AND effect = 'delivered'),
        count(*) FILTER (WHERE event IN ('receipt', 'past_receipt') AND effect = 'undelivered'),
        count(*) FILTER (WHERE event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0),
        coalesce(sum(coalesce(lease_segments, segments)) FILTER (WHERE status = 2), 0),
        string_agg(wait_bucket(created_at - entered_at), '') FILTER (WHERE outcome IN (2, 3))
    FROM added
    WHERE outcome IS NOT NULL OR (status IS NOT NULL AND effect = 'retry') OR event IN ('receipt', 'past_receipt')
    GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome;
    RETURN NULL;
END
$$;
ALTER TABLE facts DROP COLUMN accepted_at;
