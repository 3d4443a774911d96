-- Adds a column with a constant default: no row is rewritten. Locks facts (ACCESS EXCLUSIVE) for an instant. A server of the previous version cannot fold facts
-- after this migration (facts_guard).
-- migrate:up
ALTER TABLE facts ADD COLUMN unreported bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN facts.unreported IS
    'number of leases that ended without a report, after they were started or needed no start. It is unknown whether their messages were sent. A later report of the same lease does not change the number';
DROP TRIGGER facts_guard ON facts;
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('4');
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
DECLARE
    delivered_ids text[] := ARRAY(SELECT a.task_id FROM added a WHERE a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered');
    accepted_ids text[];
    accepted_by text[];
    accepted_ats timestamptz[];
    listening bigint[] := ARRAY( -- a null is every company
        SELECT l.company_id FROM feed_listeners l
        WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = ANY (ARRAY(SELECT a.company_id FROM added a)))
    );
BEGIN
    IF cardinality(delivered_ids) > 0 THEN
        -- EXECUTE plans it with the ids, so that it opens their partitions alone.
        EXECUTE 'SELECT array_agg(r.task_id), array_agg(r.app_id), array_agg(date_trunc(''minute'', r.created_at, ''UTC'')) FROM report_logs r '
            'WHERE r.task_id = ANY ($1) AND r.outcome = 2' -- SUCCESS, of which a task has one row
        INTO accepted_ids, accepted_by, accepted_ats USING delivered_ids;
    END IF;
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, accepted_at, success, failed, cancelled, delivered,
        undelivered, submitted, reported_success, reported_failed, unreported, response_ms, segments, durations
    )
    SELECT n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, max(n.created_at), n.accepted_at,
        count(*) FILTER (WHERE n.outcome = 2), count(*) FILTER (WHERE n.outcome = 3), -- SUCCESS, FAILED
        count(*) FILTER (WHERE n.outcome = 4), -- CANCELLED
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'delivered'),
        count(*) FILTER (WHERE n.event IN ('receipt', 'past_receipt') AND n.effect = 'undelivered'),
        count(*) FILTER (WHERE n.event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE n.status = 2), count(*) FILTER (WHERE n.status = 3),
        count(*) FILTER (WHERE n.event = 'recovered' AND n.effect <> 'untried'),
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
        WHERE a.outcome IS NOT NULL OR a.effect = 'retry' OR a.event IN ('receipt', 'past_receipt')
    ) n
    GROUP BY n.company_id, n.pool_id, n.message_type, n.country_no, n.batch_id, n.is_test, n.app_id, n.accepted_at, n.outcome;
    IF cardinality(listening) > 0 THEN
        -- A past_receipt says nothing about the life that the task has now. A report that asks for a retry ends nothing.
        INSERT INTO feed_staged (company_id, type, task_id, log_id, at)
        SELECT a.company_id, CASE a.outcome
                WHEN 2 THEN 'message.sent' -- SUCCESS
                WHEN 3 THEN CASE a.effect WHEN 'expired' THEN 'message.expired' ELSE 'message.failed' END -- FAILED
                WHEN 4 THEN 'message.cancelled' -- CANCELLED
                ELSE 'message.' || a.effect
            END, a.task_id, a.id, a.created_at
        FROM added a
        WHERE (a.outcome IS NOT NULL OR a.event = 'receipt' AND a.effect IN ('delivered', 'undelivered'))
            AND (array_position(listening, NULL) IS NOT NULL OR a.company_id = ANY (listening))
        ORDER BY a.id;
    END IF;
    RETURN NULL;
END
$_$;

-- migrate:down
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
DECLARE
    delivered_ids text[] := ARRAY(SELECT a.task_id FROM added a WHERE a.event IN ('receipt', 'past_receipt') AND a.effect = 'delivered');
    accepted_ids text[];
    accepted_by text[];
    accepted_ats timestamptz[];
    listening bigint[] := ARRAY( -- a null is every company
        SELECT l.company_id FROM feed_listeners l
        WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = ANY (ARRAY(SELECT a.company_id FROM added a)))
    );
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
    IF cardinality(listening) > 0 THEN
        -- A past_receipt says nothing about the life that the task has now. A report that asks for a retry ends nothing.
        INSERT INTO feed_staged (company_id, type, task_id, log_id, at)
        SELECT a.company_id, CASE a.outcome
                WHEN 2 THEN 'message.sent' -- SUCCESS
                WHEN 3 THEN CASE a.effect WHEN 'expired' THEN 'message.expired' ELSE 'message.failed' END -- FAILED
                WHEN 4 THEN 'message.cancelled' -- CANCELLED
                ELSE 'message.' || a.effect
            END, a.task_id, a.id, a.created_at
        FROM added a
        WHERE (a.outcome IS NOT NULL OR a.event = 'receipt' AND a.effect IN ('delivered', 'undelivered'))
            AND (array_position(listening, NULL) IS NOT NULL OR a.company_id = ANY (listening))
        ORDER BY a.id;
    END IF;
    RETURN NULL;
END
$_$;
DROP TRIGGER facts_guard ON facts;
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('3');
ALTER TABLE facts DROP COLUMN unreported;
