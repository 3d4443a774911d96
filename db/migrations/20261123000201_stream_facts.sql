-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- One stream of facts. Triggers of queue and report_logs add to facts what each statement changed; a sweep deletes the rows and adds them
-- to the figures of every consumer (task_counts, sender_states). facts replaces task_count_changes and sender_changes: a claim and a report
-- no longer write a row for each consumer, and a new consumer adds nothing to them. One statement changes fewer tasks than an integer counts.
--
-- There is no cursor. A fold deletes the rows that it sees, and adds them up in the same transaction. So each row is consumed exactly once,
-- in whatever order transactions commit, and no fold waits for the oldest transaction. A cursor by transaction id would also skip or repeat
-- rows after a dump is restored into another cluster, whose transaction ids start anew.
--
-- All figures are kept: the sums of task_count_changes become task_counts, and sender_changes is added to sender_states. No server may run
-- meanwhile: queue, report_logs, sender_states and the two old tables are locked for a moment, and the version before writes to the old tables.
DROP TRIGGER queue_count_inserted ON queue;
DROP TRIGGER queue_count_updated ON queue;
DROP TRIGGER queue_count_deleted ON queue;
DROP TRIGGER report_logs_count_inserted ON report_logs;
DROP FUNCTION queue_count();
DROP FUNCTION report_logs_count();

CREATE TABLE facts (
    company_id bigint NOT NULL,
    at timestamptz NOT NULL,
    response_ms bigint NOT NULL DEFAULT 0,
    pending_new integer NOT NULL DEFAULT 0,
    pending_retry integer NOT NULL DEFAULT 0,
    processing integer NOT NULL DEFAULT 0,
    success integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    leases integer NOT NULL DEFAULT 0,
    reported_success integer NOT NULL DEFAULT 0,
    reported_failed integer NOT NULL DEFAULT 0,
    sender_no text
);
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company that one sender holds, held or reported; or of tasks that no sender holds. Written '
    'by triggers of queue and report_logs only. internal/history deletes the rows within seconds, and adds them to the figures of all '
    'consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is deleted is consumed '
    'exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.company_id IS 'no foreign key: each change of a task would lock the company';
COMMENT ON COLUMN facts.at IS 'when it happened: of leases leased_at, of reports created_at, the latest of the row';
COMMENT ON COLUMN facts.response_ms IS 'sum over the reports of the milliseconds from claim to report; from recovery to report if the lease had expired';
COMMENT ON COLUMN facts.pending_new IS 'difference of the number of tasks PENDING with retry_count 0';
COMMENT ON COLUMN facts.pending_retry IS 'difference of the number of tasks PENDING with retry_count above 0';
COMMENT ON COLUMN facts.processing IS 'difference of the number of tasks PROCESSING, which the sender holds';
COMMENT ON COLUMN facts.success IS 'number of tasks that became SUCCESS';
COMMENT ON COLUMN facts.failed IS 'number of tasks that became FAILED';
COMMENT ON COLUMN facts.leases IS 'number of leases that the sender took';
COMMENT ON COLUMN facts.reported_success IS 'number of leases that the sender ended by reporting SUCCESS';
COMMENT ON COLUMN facts.reported_failed IS 'number of leases that the sender ended by reporting FAILED, also those that are retried';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. No foreign key: each claim would lock the sender, and any text is the app_id of tasks that were written by hand';

CREATE TABLE task_counts (
    company_id bigint NOT NULL,
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL,
    CONSTRAINT task_counts_pkey PRIMARY KEY (company_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE task_counts IS
    'The numbers of tasks of one company in each state, without what facts still holds. Written by internal/history, which folds facts.';
COMMENT ON COLUMN task_counts.company_id IS 'no foreign key: a fold would lock all companies';
COMMENT ON COLUMN task_counts.pending_new IS 'PENDING with retry_count 0';
COMMENT ON COLUMN task_counts.pending_retry IS 'PENDING with retry_count above 0';

INSERT INTO task_counts (company_id, pending_new, pending_retry, processing, success, failed)
SELECT company_id, sum(pending_new), sum(pending_retry), sum(processing), sum(success), sum(failed)
FROM task_count_changes
GROUP BY company_id;

UPDATE sender_states st
SET attempts = st.attempts + g.sent, succeeded = st.succeeded + g.succeeded, failed = st.failed + g.failed,
    attempts_on = greatest(st.attempts_on, g.claimed_on),
    attempts_today = g.sent + CASE WHEN g.claimed_on > st.attempts_on THEN 0 ELSE st.attempts_today END,
    response_ms = st.response_ms + g.response_ms, sent_at = greatest(st.sent_at, g.sent_at), seen_at = greatest(st.seen_at, g.at)
FROM (
    SELECT s.id AS sender_id, sum(c.sent)::bigint AS sent, sum(c.succeeded)::bigint AS succeeded, sum(c.failed)::bigint AS failed,
        sum(c.response_ms)::bigint AS response_ms, max(c.at) AS at, max(c.at) FILTER (WHERE c.succeeded > 0) AS sent_at,
        max((c.at AT TIME ZONE s.time_zone)::date) FILTER (WHERE c.sent > 0) AS claimed_on
    FROM sender_changes c
    JOIN senders s ON s.sender_no = c.sender_no
    GROUP BY s.id
) g
WHERE st.sender_id = g.sender_id;

CREATE VIEW task_totals AS
SELECT company_id, sum(pending_new)::bigint AS pending_new, sum(pending_retry)::bigint AS pending_retry,
    sum(processing)::bigint AS processing, sum(success)::bigint AS success, sum(failed)::bigint AS failed
FROM (
    SELECT company_id, pending_new, pending_retry, processing, success, failed FROM task_counts
    UNION ALL
    SELECT company_id, pending_new, pending_retry, processing, success, failed FROM facts
) c
GROUP BY company_id;
COMMENT ON VIEW task_totals IS
    'The exact numbers of tasks of each company in each state: task_counts, and what facts still holds. Both are read at one moment.';

CREATE VIEW sender_totals AS
SELECT st.sender_id, (st.attempts + coalesce(f.leases, 0))::bigint AS attempts,
    (st.succeeded + coalesce(f.reported_success, 0))::bigint AS succeeded, (st.failed + coalesce(f.reported_failed, 0))::bigint AS failed,
    (st.response_ms + coalesce(f.response_ms, 0))::bigint AS response_ms,
    greatest(st.seen_at, f.at)::timestamptz AS seen_at, greatest(st.sent_at, f.sent_at)::timestamptz AS sent_at
FROM sender_states st
JOIN senders s ON s.id = st.sender_id
LEFT JOIN (
    SELECT sender_no, sum(leases) AS leases, sum(reported_success) AS reported_success, sum(reported_failed) AS reported_failed,
        sum(response_ms) AS response_ms, max(at) AS at, max(at) FILTER (WHERE reported_success > 0) AS sent_at
    FROM facts
    WHERE leases > 0 OR reported_success > 0 OR reported_failed > 0
    GROUP BY sender_no
) f ON f.sender_no = s.sender_no;
COMMENT ON VIEW sender_totals IS
    'What each sender did so far: the totals of sender_states, and what facts still holds. Both are read at one moment.';
COMMENT ON COLUMN sender_totals.attempts IS 'number of leases';
COMMENT ON COLUMN sender_totals.seen_at IS 'the last poll, claim or report; null: none';
COMMENT ON COLUMN sender_totals.sent_at IS 'the last reported SUCCESS; null: none';

-- squawk-ignore ban-drop-table
DROP TABLE task_count_changes;
-- squawk-ignore ban-drop-table
DROP TABLE sender_changes;

-- Rows of queue are PENDING or PROCESSING. A row counts for the sender that holds it, before the statement and after it, so that a
-- statement that changes something else of a lease adds nothing. A statement takes leases of a sender or ends them, never both.
CREATE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER queue_facts_inserted AFTER INSERT ON queue
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();
CREATE TRIGGER queue_facts_updated AFTER UPDATE ON queue
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();
CREATE TRIGGER queue_facts_deleted AFTER DELETE ON queue
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();

-- A row of report_logs with an outcome makes a task SUCCESS or FAILED. A row with a status is a report; one that ended a lease has an
-- outcome, or its effect is retry. leased_at is null if the lease had expired and was taken back: the task has been due since then.
CREATE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER report_logs_facts_inserted AFTER INSERT ON report_logs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION report_logs_facts();

-- migrate:down
DROP TRIGGER queue_facts_inserted ON queue;
DROP TRIGGER queue_facts_updated ON queue;
DROP TRIGGER queue_facts_deleted ON queue;
DROP TRIGGER report_logs_facts_inserted ON report_logs;
DROP FUNCTION queue_facts();
DROP FUNCTION report_logs_facts();

CREATE TABLE task_count_changes (
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL,
    company_id bigint NOT NULL
);
COMMENT ON TABLE task_count_changes IS
    'A change of the numbers of tasks in each state, of one company; the sums are the current numbers. Written by triggers of queue and '
    'report_logs, and folded by internal/history.';
COMMENT ON COLUMN task_count_changes.pending_new IS 'PENDING with retry_count 0';
COMMENT ON COLUMN task_count_changes.pending_retry IS 'PENDING with retry_count above 0';
COMMENT ON COLUMN task_count_changes.company_id IS 'no foreign key: each change of a task would lock the company';
INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
SELECT company_id, pending_new, pending_retry, processing, success, failed FROM task_totals;

CREATE TABLE sender_changes (
    sender_no text NOT NULL,
    sent bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    response_ms bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL
);
COMMENT ON TABLE sender_changes IS
    'What a claim or a report adds to the counters of a sender. Written by internal/queue; internal/sender folds the rows into '
    'sender_states and deletes them, so that claims and reports do not wait for one row of each sender. sender_no has no foreign key: '
    'each claim and report would lock the sender.';
COMMENT ON COLUMN sender_changes.sent IS 'number of leases';
COMMENT ON COLUMN sender_changes.succeeded IS 'number of reported SUCCESS';
COMMENT ON COLUMN sender_changes.failed IS 'number of reported FAILED';
COMMENT ON COLUMN sender_changes.response_ms IS 'sum of the milliseconds from claim to report';
INSERT INTO sender_changes (sender_no, sent, succeeded, failed, response_ms, at)
SELECT sender_no, leases, reported_success, reported_failed, response_ms, at FROM facts
WHERE sender_no IS NOT NULL AND leases + reported_success + reported_failed > 0;

DROP VIEW sender_totals;
DROP VIEW task_totals;
DROP TABLE facts;
DROP TABLE task_counts;

CREATE FUNCTION queue_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT company_id, count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0), count(lease_until), 0, 0
        FROM added
        GROUP BY company_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT c.company_id, c.pending_new, c.pending_retry, c.processing, 0, 0
        FROM (
            SELECT company_id,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing
            FROM (
                SELECT company_id, lease_until, retry_count, 1 AS n FROM added
                UNION ALL
                SELECT company_id, lease_until, retry_count, -1 FROM removed
            ) x
            GROUP BY company_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT company_id, -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0), -count(lease_until), 0, 0
        FROM removed
        GROUP BY company_id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER queue_count_inserted AFTER INSERT ON queue
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_count();
CREATE TRIGGER queue_count_updated AFTER UPDATE ON queue
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_count();
CREATE TRIGGER queue_count_deleted AFTER DELETE ON queue
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_count();

CREATE FUNCTION report_logs_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
    SELECT company_id, 0, 0, 0, count(*) FILTER (WHERE outcome = 2), count(*) FILTER (WHERE outcome = 3)
    FROM added
    WHERE outcome IN (2, 3)
    GROUP BY company_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER report_logs_count_inserted AFTER INSERT ON report_logs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION report_logs_count();
