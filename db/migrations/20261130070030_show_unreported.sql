-- Locks the views recent_statistics and sender_totals (ACCESS EXCLUSIVE) for an instant.
-- migrate:up
CREATE OR REPLACE VIEW recent_statistics AS
SELECT at, company_id, channel, sender_no, message_type, outcome, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled,
    delivered, undelivered, segments, waits, durations, unreported
FROM statistics_staged
UNION ALL
SELECT date_trunc('minute', f.at, 'UTC'), f.company_id, coalesce(p.channel, ''), coalesce(f.sender_no, ''), CASE WHEN f.is_test THEN 'test' ELSE coalesce(f.message_type::text, '') END,
    fact_outcome(f.success, f.failed, f.cancelled), f.submitted, f.requeued, f.leases, greatest(0, f.success), greatest(0, f.failed),
    f.reported_failed, f.cancelled, f.delivered, f.undelivered, f.segments, coalesce(f.waits, ''), coalesce(f.durations, ''),
    f.unreported
FROM facts f
LEFT JOIN pool_channels p ON p.pool_id = f.pool_id
WHERE f.submitted > 0 OR f.requeued > 0 OR f.leases > 0 OR f.success > 0 OR f.failed > 0 OR f.reported_failed > 0 OR f.unreported > 0
    OR f.cancelled > 0 OR f.delivered > 0 OR f.undelivered > 0;

CREATE OR REPLACE VIEW sender_totals AS
SELECT st.sender_id, (st.attempts + coalesce(f.leases, 0))::bigint AS attempts,
    (st.succeeded + coalesce(f.reported_success, 0))::bigint AS succeeded, (st.failed + coalesce(f.reported_failed, 0))::bigint AS failed,
    (st.response_ms + coalesce(f.response_ms, 0))::bigint AS response_ms,
    greatest(st.seen_at, f.at)::timestamptz AS seen_at, greatest(st.sent_at, f.sent_at)::timestamptz AS sent_at,
    (st.failed_tasks + coalesce(f.failed_tasks, 0))::bigint AS failed_tasks,
    (st.unreported + coalesce(f.unreported, 0))::bigint AS unreported
FROM sender_states st
JOIN senders s ON s.id = st.sender_id
LEFT JOIN (
    SELECT f.sender_no, sum(f.leases) AS leases, sum(f.reported_success) AS reported_success, sum(f.reported_failed) AS reported_failed,
        sum(f.response_ms) AS response_ms, max(f.at) FILTER (WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0) AS at,
        max(f.at) FILTER (WHERE f.reported_success > 0) AS sent_at, sum(greatest(0, f.failed)) AS failed_tasks,
        sum(f.unreported) AS unreported
    FROM facts f
    WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0 OR f.unreported > 0 OR f.failed > 0
    GROUP BY f.sender_no
) f ON f.sender_no = s.sender_no;
COMMENT ON COLUMN sender_totals.unreported IS 'number of leases that ended without a report; see facts.unreported';

-- migrate:down
DROP VIEW recent_statistics;
CREATE VIEW recent_statistics AS
SELECT at, company_id, channel, sender_no, message_type, outcome, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled,
    delivered, undelivered, segments, waits, durations
FROM statistics_staged
UNION ALL
SELECT date_trunc('minute', f.at, 'UTC'), f.company_id, coalesce(p.channel, ''), coalesce(f.sender_no, ''), CASE WHEN f.is_test THEN 'test' ELSE coalesce(f.message_type::text, '') END,
    fact_outcome(f.success, f.failed, f.cancelled), f.submitted, f.requeued, f.leases, greatest(0, f.success), greatest(0, f.failed),
    f.reported_failed, f.cancelled, f.delivered, f.undelivered, f.segments, coalesce(f.waits, ''), coalesce(f.durations, '')
FROM facts f
LEFT JOIN pool_channels p ON p.pool_id = f.pool_id
WHERE f.submitted > 0 OR f.requeued > 0 OR f.leases > 0 OR f.success > 0 OR f.failed > 0 OR f.reported_failed > 0 OR f.cancelled > 0
    OR f.delivered > 0 OR f.undelivered > 0;
COMMENT ON VIEW recent_statistics IS 'Counts that are not in statistics yet: the rows of statistics_staged, and the facts that are not folded. A statement that reads this view and statistics counts everything once.';

DROP VIEW sender_totals;
CREATE VIEW sender_totals AS
SELECT st.sender_id, (st.attempts + coalesce(f.leases, 0))::bigint AS attempts,
    (st.succeeded + coalesce(f.reported_success, 0))::bigint AS succeeded, (st.failed + coalesce(f.reported_failed, 0))::bigint AS failed,
    (st.response_ms + coalesce(f.response_ms, 0))::bigint AS response_ms,
    greatest(st.seen_at, f.at)::timestamptz AS seen_at, greatest(st.sent_at, f.sent_at)::timestamptz AS sent_at,
    (st.failed_tasks + coalesce(f.failed_tasks, 0))::bigint AS failed_tasks
FROM sender_states st
JOIN senders s ON s.id = st.sender_id
LEFT JOIN (
    SELECT f.sender_no, sum(f.leases) AS leases, sum(f.reported_success) AS reported_success, sum(f.reported_failed) AS reported_failed,
        sum(f.response_ms) AS response_ms, max(f.at) FILTER (WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0) AS at,
        max(f.at) FILTER (WHERE f.reported_success > 0) AS sent_at, sum(greatest(0, f.failed)) AS failed_tasks
    FROM facts f
    WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0 OR f.failed > 0
    GROUP BY f.sender_no
) f ON f.sender_no = s.sender_no;
COMMENT ON VIEW sender_totals IS 'The totals of each sender: sender_states plus the facts that are not folded yet. Both are read in one snapshot.';
COMMENT ON COLUMN sender_totals.attempts IS 'number of leases';
COMMENT ON COLUMN sender_totals.seen_at IS 'the last poll, claim or report; null: never';
COMMENT ON COLUMN sender_totals.sent_at IS 'the time of the last reported SUCCESS; null: never';
COMMENT ON COLUMN sender_totals.failed_tasks IS 'tasks that became FAILED with the sender';
