-- migrate:up
-- Figures over time. Each fold of facts adds its sums to statistics_staged, by minute. A sweep moves staged minutes that are over to statistics,
-- in three steps at once. So each count is in facts, or staged, or in all three steps, and a reader that adds them up is exact at any time.
-- Statistics begin with this migration. The tables are new: nothing is locked.
CREATE TABLE statistics_staged (
    at timestamptz NOT NULL,
    company_id bigint NOT NULL,
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    channel text NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    outcome text NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL
);
COMMENT ON TABLE statistics_staged IS
    'What one fold found in a minute of one company, channel, sender, message type and outcome. Written by internal/statistics in the transaction '
    'of the fold; a sweep moves the rows to statistics when their minute is over.';
COMMENT ON COLUMN statistics_staged.at IS 'the minute';
COMMENT ON COLUMN statistics_staged.company_id IS 'no foreign key: figures outlive their company';
COMMENT ON COLUMN statistics_staged.claimed IS 'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics_staged.channel IS 'channels.channel; empty: not known';
COMMENT ON COLUMN statistics_staged.sender_no IS 'empty: no sender';
COMMENT ON COLUMN statistics_staged.message_type IS 'as messages.message_type; empty: not known';
COMMENT ON COLUMN statistics_staged.outcome IS 'SUCCESS, FAILED or CANCELLED; empty: what is no end of a task';
COMMENT ON COLUMN statistics_staged.waits IS 'as facts.waits; empty: none';
COMMENT ON COLUMN statistics_staged.durations IS 'as facts.durations; empty: none';
CREATE INDEX statistics_staged_at_idx ON statistics_staged (at);

-- Rows of an hour or a day change each minute: free space keeps these changes in their pages.
CREATE TABLE statistics (
    step text NOT NULL,
    company_id bigint NOT NULL,
    dimension text NOT NULL,
    at timestamptz NOT NULL,
    key text NOT NULL COLLATE "C",
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL,
    CONSTRAINT statistics_pkey PRIMARY KEY (step, company_id, dimension, at, key),
    CONSTRAINT statistics_step_known CHECK (step IN ('minute', 'hour', 'day')),
    CONSTRAINT statistics_dimension_known CHECK (dimension IN ('total', 'company', 'channel', 'sender', 'message_type', 'outcome'))
) WITH (fillfactor = 80);
COMMENT ON TABLE statistics IS
    'What happened in one minute, hour or day: to all tasks of a company, or to those of one key of a dimension. Written by internal/statistics '
    'only, from statistics_staged; minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.company_id IS '0: all companies. No foreign key: figures outlive their company';
COMMENT ON COLUMN statistics.dimension IS 'company: only of company_id 0';
COMMENT ON COLUMN statistics.at IS
    'when it begins: hours are those of UTC, days those of the setting monitoring.time_zone at the time of the sweep';
COMMENT ON COLUMN statistics.key IS
    'of the dimension company its id, of the others the column of statistics_staged that is named like the dimension (sender: sender_no); empty: as '
    'there, or the dimension is total';
COMMENT ON COLUMN statistics.claimed IS 'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics.waits IS
    'histogram of the times from entered_at to the first claim: for each bucket with tasks, ascending, its number (one byte, see wait_bucket), '
    'and how many tasks it has (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS 'histogram of the times from entered_at to SUCCESS or FAILED, written like waits';
CREATE INDEX statistics_short_idx ON statistics (step, at) WHERE step <> 'day';

CREATE FUNCTION fact_outcome(success integer, failed integer, cancelled integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN success > 0 THEN 'SUCCESS' WHEN failed > 0 THEN 'FAILED' WHEN cancelled > 0 THEN 'CANCELLED' ELSE '' END;
COMMENT ON FUNCTION fact_outcome(integer, integer, integer) IS 'The outcome of the tasks that a row of facts counts, as statistics_staged.outcome.';

-- A requeued task is FAILED no more: that is a negative count of the state, and no event of a minute.
CREATE VIEW recent_statistics AS
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
COMMENT ON VIEW recent_statistics IS
    'What is not in statistics yet: staged minutes, and the facts that are not folded. One statement that reads this view and statistics counts '
    'everything once.';

-- migrate:down
DROP VIEW recent_statistics;
DROP FUNCTION fact_outcome(integer, integer, integer);
DROP TABLE statistics;
DROP TABLE statistics_staged;
