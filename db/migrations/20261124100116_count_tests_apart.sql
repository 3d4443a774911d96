-- migrate:up
-- Tests are no traffic: figures leave them out, and have them only as a message type of their own. This locks the view for a moment.
SET LOCAL lock_timeout = '5s';
CREATE OR REPLACE VIEW recent_statistics AS
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
COMMENT ON COLUMN statistics_staged.message_type IS 'as messages.message_type; test: tests of any type; empty: not known';
COMMENT ON COLUMN statistics.key IS
    'of the dimension company its id, of the others the column of statistics_staged that is named like the dimension (sender: sender_no); empty: as '
    'there, or the dimension is total. Tests are in no other row than that of the message type test';
COMMENT ON COLUMN messages.is_test IS 'marked as a test by its submitter; statistics count it apart, and a setting may keep it from being sent';

-- migrate:down
-- Figures of tests stay: their message type is one that no other task has.
SET LOCAL lock_timeout = '5s';
CREATE OR REPLACE VIEW recent_statistics AS
SELECT at, company_id, channel, sender_no, message_type, outcome, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled,
    delivered, undelivered, segments, waits, durations
FROM statistics_staged
UNION ALL
SELECT date_trunc('minute', f.at, 'UTC'), f.company_id, coalesce(p.channel, ''), coalesce(f.sender_no, ''), coalesce(f.message_type::text, ''),
    fact_outcome(f.success, f.failed, f.cancelled), f.submitted, f.requeued, f.leases, greatest(0, f.success), greatest(0, f.failed),
    f.reported_failed, f.cancelled, f.delivered, f.undelivered, f.segments, coalesce(f.waits, ''), coalesce(f.durations, '')
FROM facts f
LEFT JOIN pool_channels p ON p.pool_id = f.pool_id
WHERE f.submitted > 0 OR f.requeued > 0 OR f.leases > 0 OR f.success > 0 OR f.failed > 0 OR f.reported_failed > 0 OR f.cancelled > 0
    OR f.delivered > 0 OR f.undelivered > 0;
COMMENT ON COLUMN statistics_staged.message_type IS 'as messages.message_type; empty: not known';
COMMENT ON COLUMN statistics.key IS
    'of the dimension company its id, of the others the column of statistics_staged that is named like the dimension (sender: sender_no); empty: as '
    'there, or the dimension is total';
COMMENT ON COLUMN messages.is_test IS 'marked as a test by its submitter; sent like any other task';
