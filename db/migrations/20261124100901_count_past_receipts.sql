-- migrate:up
-- Statistics count receipts. One of an attempt from before a requeue is a receipt as well, whether it came before the requeue or after it.
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

-- migrate:down
CREATE OR REPLACE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (
        company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed, cancelled, delivered, undelivered, submitted,
        reported_success, reported_failed, response_ms, segments, durations
    )
    SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, max(created_at),
        count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3), count(*) FILTER (WHERE outcome = 4), -- SUCCESS, FAILED, CANCELLED
        count(*) FILTER (WHERE event = 'receipt' AND effect = 'delivered'), count(*) FILTER (WHERE event = 'receipt' AND effect = 'undelivered'),
        count(*) FILTER (WHERE event IN ('unreachable', 'simulated')), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(greatest(0, extract(epoch FROM created_at - coalesce(leased_at, due_at)) * 1000)) FILTER (WHERE status IS NOT NULL), 0),
        coalesce(sum(coalesce(lease_segments, segments)) FILTER (WHERE status = 2), 0),
        string_agg(wait_bucket(created_at - entered_at), '') FILTER (WHERE outcome IN (2, 3))
    FROM added
    WHERE outcome IS NOT NULL OR (status IS NOT NULL AND effect = 'retry') OR event = 'receipt'
    GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome;
    RETURN NULL;
END
$$;
