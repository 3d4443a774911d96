-- migrate:up
-- Fills the column from the days of statistics: one row for each sender, of which there are 100,000 at most. Locks these rows only.
UPDATE sender_states st
SET failed_tasks = f.failed
FROM (
    SELECT x.key, sum(x.failed) AS failed
    FROM statistics x
    WHERE x.step = 'day' AND x.company_id = 0 AND x.dimension = 'sender'
    GROUP BY x.key
) f
JOIN senders s ON s.sender_no = f.key
WHERE st.sender_id = s.id AND f.failed > 0;

CREATE OR REPLACE VIEW sender_totals AS
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
COMMENT ON COLUMN sender_totals.failed_tasks IS 'tasks that became FAILED with the sender';

-- migrate:down
DROP VIEW sender_totals;
CREATE VIEW sender_totals AS
SELECT st.sender_id, (st.attempts + coalesce(f.leases, 0))::bigint AS attempts,
    (st.succeeded + coalesce(f.reported_success, 0))::bigint AS succeeded, (st.failed + coalesce(f.reported_failed, 0))::bigint AS failed,
    (st.response_ms + coalesce(f.response_ms, 0))::bigint AS response_ms,
    greatest(st.seen_at, f.at)::timestamptz AS seen_at, greatest(st.sent_at, f.sent_at)::timestamptz AS sent_at
FROM sender_states st
JOIN senders s ON s.id = st.sender_id
LEFT JOIN (
    SELECT f.sender_no, sum(f.leases) AS leases, sum(f.reported_success) AS reported_success, sum(f.reported_failed) AS reported_failed,
        sum(f.response_ms) AS response_ms, max(f.at) AS at, max(f.at) FILTER (WHERE f.reported_success > 0) AS sent_at
    FROM facts f
    WHERE f.leases > 0 OR f.reported_success > 0 OR f.reported_failed > 0
    GROUP BY f.sender_no
) f ON f.sender_no = s.sender_no;
COMMENT ON VIEW sender_totals IS
    'What each sender did so far: the totals of sender_states, and what facts still holds. Both are read at one moment.';
COMMENT ON COLUMN sender_totals.attempts IS 'number of leases';
COMMENT ON COLUMN sender_totals.seen_at IS 'the last poll, claim or report; null: none';
COMMENT ON COLUMN sender_totals.sent_at IS 'the last reported SUCCESS; null: none';
