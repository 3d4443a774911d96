-- migrate:up
-- The facts of a task are stored once: what was submitted in messages, what waits or is leased in queue, what ended a lease or the task in
-- report_logs. tasks, receive_logs and send_logs become views of them. The next migration moves the rows of the tables that are renamed
-- here, and the one after it drops these. No server may run meanwhile, which `lksms migrate up` checks: the old tables are locked until the
-- ledger has its companies, which reads each row of it and of send_logs, and afterwards no version finds the names that it expects until all
-- migrations up to drop_moved_tables are applied.
DROP VIEW notification_standings;
DROP TRIGGER tasks_count_inserted ON tasks;
DROP TRIGGER tasks_count_updated ON tasks;
DROP TRIGGER tasks_count_deleted ON tasks;
DROP TRIGGER tasks_count_truncated ON tasks;
DROP FUNCTION task_count_changes_add();
-- squawk-ignore renaming-table
ALTER TABLE tasks RENAME TO old_tasks;
-- squawk-ignore renaming-table
ALTER TABLE receive_logs RENAME TO old_receive_logs;
-- squawk-ignore renaming-table
ALTER TABLE send_logs RENAME TO old_send_logs;
-- squawk-ignore renaming-table
ALTER TABLE report_logs RENAME TO old_report_logs;
ALTER INDEX report_logs_pkey RENAME TO old_report_logs_pkey;
ALTER INDEX report_logs_task_id_idx RENAME TO old_report_logs_task_id_idx;
DELETE FROM task_count_changes;

CREATE SEQUENCE submission_ids;
CREATE SEQUENCE lease_ids;
CREATE SEQUENCE report_ids;

CREATE TABLE messages (
    task_id text COLLATE "C" NOT NULL,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    source text,
    submitted_by text NOT NULL,
    dedup_key text,
    company_id bigint NOT NULL,
    pool_id bigint NOT NULL,
    message_type smallint NOT NULL,
    country_no text,
    priority smallint NOT NULL,
    segments smallint NOT NULL,
    sign text,
    is_test boolean NOT NULL DEFAULT false,
    expect_send_time timestamptz,
    expires_at timestamptz,
    rendering_id bigint,
    user_id text,
    on_unclear text,
    created_at timestamptz NOT NULL DEFAULT now(),
    submission_id bigint NOT NULL DEFAULT nextval('submission_ids'),
    request_id text,
    submitted_content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    CONSTRAINT messages_pkey PRIMARY KEY (task_id),
    CONSTRAINT messages_task_id_length CHECK (char_length(task_id) BETWEEN 1 AND 50),
    CONSTRAINT messages_content_length CHECK (char_length(content) BETWEEN 1 AND 200),
    CONSTRAINT messages_source_length CHECK (char_length(source) BETWEEN 1 AND 50),
    CONSTRAINT messages_message_type_known CHECK (message_type BETWEEN 0 AND 2),
    CONSTRAINT messages_priority_range CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT messages_segments_range CHECK (segments BETWEEN 1 AND 100),
    CONSTRAINT messages_on_unclear_known CHECK (on_unclear IN ('retry', 'fail')),
    CONSTRAINT messages_created_at_range CHECK (created_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00')
) PARTITION BY RANGE (task_id);
CREATE INDEX messages_recipient_idx ON messages (recipient, task_id);
CREATE INDEX messages_submitted_by_idx ON messages (company_id, submitted_by, task_id);
CREATE INDEX messages_rendering_idx ON messages (rendering_id) WHERE rendering_id IS NOT NULL;
CREATE TABLE messages_default PARTITION OF messages DEFAULT;

CREATE TABLE dedup_keys (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    dedup_key text NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    CONSTRAINT dedup_keys_pkey PRIMARY KEY (company_id, submitted_by, dedup_key),
    CONSTRAINT dedup_keys_dedup_key_length CHECK (char_length(dedup_key) BETWEEN 1 AND 100)
);

CREATE TABLE queue (
    task_id text COLLATE "C" NOT NULL,
    pool_id bigint NOT NULL,
    lane smallint,
    rank double precision,
    due_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    company_id bigint NOT NULL,
    message_type smallint NOT NULL,
    country_no text,
    priority smallint NOT NULL,
    segments smallint NOT NULL,
    retry_count smallint NOT NULL DEFAULT 0,
    troubles smallint NOT NULL DEFAULT 0,
    result text,
    failed_app_id text,
    processing_app_id text,
    lease_id bigint,
    lease_until timestamptz,
    lease_segments smallint,
    lease_sign text,
    lease_limit smallint,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    sign text,
    rendering_id bigint,
    user_id text,
    on_unclear text,
    CONSTRAINT queue_pkey PRIMARY KEY (task_id),
    CONSTRAINT queue_retry_count_range CHECK (retry_count BETWEEN 0 AND 20),
    CONSTRAINT queue_lease_complete CHECK (lease_until IS NULL OR (processing_app_id IS NOT NULL AND lease_id IS NOT NULL)),
    CONSTRAINT queue_times_range CHECK (
        due_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND lease_until BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND updated_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
    )
) WITH (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX queue_order_idx ON queue (pool_id, lane, rank) WHERE lease_until IS NULL AND lane IS NOT NULL;
CREATE INDEX queue_due_idx ON queue (pool_id, due_at) WHERE lease_until IS NULL AND lane IS NULL;
CREATE INDEX queue_top_idx ON queue (due_at) WHERE lease_until IS NULL AND lane < 32;
CREATE INDEX queue_low_idx ON queue (due_at) WHERE lease_until IS NULL AND lane >= 32;
CREATE INDEX queue_retry_idx ON queue (due_at) WHERE lease_until IS NULL AND lane::integer % 32 > 0;
CREATE INDEX queue_expiry_idx ON queue (expires_at) WHERE lease_until IS NULL AND expires_at IS NOT NULL;
CREATE INDEX queue_lease_idx ON queue (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX queue_rendering_idx ON queue (rendering_id) WHERE rendering_id IS NOT NULL;

CREATE TABLE report_logs (
    id bigint NOT NULL DEFAULT nextval('report_ids'),
    task_id text COLLATE "C" NOT NULL,
    company_id bigint NOT NULL,
    app_id text,
    lease_id bigint,
    event text NOT NULL,
    status smallint,
    effect text NOT NULL,
    error_message text,
    request_data jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    outcome smallint,
    result text,
    retry_count smallint,
    due_at timestamptz,
    leased_at timestamptz,
    lease_until timestamptz,
    lease_segments smallint,
    lease_sign text,
    lease_limit smallint,
    CONSTRAINT report_logs_pkey PRIMARY KEY (task_id, id),
    CONSTRAINT report_logs_outcome_known CHECK (outcome IN (2, 3, 4)),
    CONSTRAINT report_logs_lease_complete CHECK (
        leased_at IS NULL OR (app_id IS NOT NULL AND lease_id IS NOT NULL AND lease_until IS NOT NULL AND retry_count IS NOT NULL)
    ),
    CONSTRAINT report_logs_effect_known CHECK (effect IN (
        'success', 'failed', 'retry', 'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired',
        'delivered', 'undelivered'
    )),
    CONSTRAINT report_logs_event_known CHECK (
        event IN ('reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'unreachable')
    ),
    CONSTRAINT report_logs_times_range CHECK (
        created_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND due_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND leased_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND lease_until BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
    ),
    CONSTRAINT report_logs_error_message_length CHECK (char_length(error_message) <= 500),
    CONSTRAINT report_logs_result_length CHECK (char_length(result) <= 500)
) PARTITION BY RANGE (task_id);
CREATE UNIQUE INDEX report_logs_outcome_key ON report_logs (task_id) WHERE outcome IS NOT NULL; -- a task ends once
CREATE INDEX report_logs_failed_idx ON report_logs (outcome, task_id) WHERE outcome IN (3, 4); -- FAILED, CANCELLED
CREATE INDEX report_logs_company_failed_idx ON report_logs (company_id, outcome, task_id) WHERE outcome IN (3, 4);
CREATE INDEX report_logs_app_id_idx ON report_logs (app_id, task_id) WHERE outcome IS NOT NULL AND app_id IS NOT NULL;
CREATE UNIQUE INDEX report_logs_receipt_key ON report_logs (effect, task_id) WHERE event = 'receipt';
CREATE TABLE report_logs_default PARTITION OF report_logs DEFAULT;

CREATE TABLE fruitless_submissions (
    id bigint NOT NULL DEFAULT nextval('submission_ids'),
    request_id text,
    task_id text COLLATE "C",
    phone_number text,
    content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    response_data jsonb,
    status_code smallint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT fruitless_submissions_pkey PRIMARY KEY (id)
);
CREATE INDEX fruitless_submissions_task_id_idx ON fruitless_submissions (task_id) WHERE task_id IS NOT NULL;

CREATE VIEW tasks AS
SELECT m.task_id, m.phone_number, m.recipient, m.content,
    CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
    m.source, m.submitted_by, m.dedup_key,
    coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
    coalesce(q.due_at, e.due_at, m.created_at)::timestamptz AS due_at,
    coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
    coalesce(q.lease_id, e.lease_id) AS lease_id,
    q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
    coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
    CASE WHEN e.outcome = 2 THEN e.created_at END AS sent_at,
    CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
    m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
    m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
    m.rendering_id, m.user_id,
    CASE WHEN d.task_id IS NOT NULL THEN 1 WHEN u.task_id IS NOT NULL THEN 2 END::smallint AS delivery,
    CASE WHEN d.task_id IS NOT NULL THEN d.result ELSE u.result END AS delivery_code, d.created_at AS delivered_at, m.on_unclear
-- Joins by the key only: with a task_id that is known, the planner finds the partition of each table.
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.outcome IS NOT NULL
LEFT JOIN report_logs d ON d.task_id = m.task_id AND d.event = 'receipt' AND d.effect = 'delivered'
LEFT JOIN report_logs u ON u.task_id = m.task_id AND u.event = 'receipt' AND u.effect = 'undelivered';

CREATE VIEW send_logs AS
SELECT l.lease_id AS id, l.task_id, l.app_id, m.phone_number,
    coalesce('【' || coalesce(m.sign, l.lease_sign) || '】', '') || m.content AS content,
    (l.retry_count + 1)::smallint AS attempt, l.lease_until,
    jsonb_build_object('app_id', l.app_id, 'limit', l.lease_limit) AS request_data,
    jsonb_build_object('lease_id', l.lease_id, 'attempt', l.retry_count + 1, 'lease_until', l.lease_until) AS response_data,
    l.leased_at AS created_at, l.lease_segments AS segments
FROM (
    SELECT task_id, app_id, lease_id, retry_count, leased_at, lease_until, lease_segments, lease_sign, lease_limit
    FROM report_logs
    WHERE leased_at IS NOT NULL
    UNION ALL
    SELECT task_id, processing_app_id, lease_id, retry_count, updated_at, lease_until, lease_segments, lease_sign, lease_limit
    FROM queue
    WHERE lease_until IS NOT NULL
) l
JOIN messages m ON m.task_id = l.task_id;

CREATE VIEW receive_logs AS
SELECT m.submission_id AS id, m.request_id, m.task_id, m.phone_number, coalesce(m.submitted_content, m.content) AS content,
    m.use_template, m.source_ip, m.user_agent, m.request_data,
    jsonb_build_object(
        'code', 200, 'message', 'success', 'data', jsonb_build_object(
            'task_id', m.task_id, 'status', 0, 'final_content', coalesce('【' || m.sign || '】', '') || m.content
        )
    ) AS response_data,
    200::smallint AS status_code, m.created_at, nullif(m.recipient, '') AS recipient
FROM messages m
UNION ALL
SELECT id, request_id, task_id, phone_number, content, use_template, source_ip, user_agent, request_data, response_data, status_code,
    created_at, NULL
FROM fruitless_submissions;

CREATE VIEW notification_standings AS
SELECT n.id AS notification_id,
    CASE
        WHEN n.ended_as IS NOT NULL THEN n.ended_as::integer
        WHEN n.next_run_at IS NOT NULL OR told.waiting > 0 THEN 0
        WHEN told.succeeded = told.people THEN 1
        WHEN told.succeeded > 0 THEN 5
        WHEN told.cancelled = told.people THEN 3
        ELSE 2
    END::smallint AS status,
    least(n.next_run_at, told.next_try) AS next_run_time, told.people, told.succeeded, told.retries
FROM notifications n
CROSS JOIN LATERAL (
    SELECT count(*) AS people,
        count(*) FILTER (WHERE p.status = 2) AS succeeded, -- SUCCESS
        count(*) FILTER (WHERE p.status IN (0, 1)) AS waiting, -- PENDING, PROCESSING
        count(*) FILTER (WHERE p.status = 4) AS cancelled, -- CANCELLED
        coalesce(max(p.retry_count)::integer, 0)::smallint AS retries,
        min(p.due_at) FILTER (WHERE p.status = 0 AND (p.retry_count > 0 OR p.due_at > now())) AS next_try
    FROM (
        SELECT DISTINCT ON (t.user_id) t.status, t.retry_count, t.due_at
        FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = n.id
        ORDER BY t.user_id, t.task_id DESC
    ) p
) told;

-- Counts: rows of queue are PENDING or PROCESSING; a row of report_logs with an outcome makes a task SUCCESS or FAILED.
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

-- As before, for the new table.
CREATE OR REPLACE FUNCTION task_queue_front(of_pool bigint, of_priority smallint) RETURNS double precision
LANGUAGE plpgsql STABLE COST 1
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
BEGIN
    RETURN coalesce(
        (
            SELECT q.rank FROM queue q
            WHERE q.pool_id = of_pool AND q.lane = 32 * of_priority AND q.lease_until IS NULL AND q.lane IS NOT NULL
            ORDER BY q.rank
            LIMIT 1
        ),
        (SELECT max(f.finish) FROM fair_ranks f WHERE f.pool_id = of_pool AND f.priority = of_priority),
        0
    );
END
$$;

-- The company whose task was charged: the lease itself leaves with its task.
ALTER TABLE sender_ledger ADD COLUMN company_id bigint;
UPDATE sender_ledger l SET company_id = t.company_id
FROM old_send_logs s JOIN old_tasks t ON t.task_id = s.task_id
WHERE s.id = l.lease_id;

-- For the migration that moves the rows. Nobody writes meanwhile.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX old_receive_logs_task_id_idx ON old_receive_logs (task_id);
SELECT setval('submission_ids', (SELECT coalesce(max(id), 0) + 1 FROM old_receive_logs)),
    setval('lease_ids', (SELECT coalesce(max(id), 0) + 1 FROM old_send_logs)),
    setval('report_ids', (SELECT coalesce(max(id), 0) + 1 FROM old_report_logs));

COMMENT ON TABLE messages IS
    'A task as it was submitted, with its submission. Written once by internal/queue and never changed. Partitioned by task_id, which ascends with '
    'time. The state of the task is in queue until it is settled, then in report_logs; the view tasks shows both. No foreign keys: each '
    'submission would lock rows of other tables.';
COMMENT ON COLUMN messages.task_id IS 'contains the day and ascends with time';
COMMENT ON COLUMN messages.phone_number IS 'the recipient as the caller wrote it';
COMMENT ON COLUMN messages.recipient IS 'on the channel sms the same number in E.164; on others the address, empty if the person has none';
COMMENT ON COLUMN messages.content IS 'text without signature; of a rendering only the beginning';
COMMENT ON COLUMN messages.source IS 'the submitting system, as its caller names it; null: not given';
COMMENT ON COLUMN messages.submitted_by IS 'the username; with the role submit, the user sees only these tasks; empty: not known';
COMMENT ON COLUMN messages.dedup_key IS 'the submitter''s name for the message, as in dedup_keys; null: none';
COMMENT ON COLUMN messages.pool_id IS 'the pool in which the task was queued first';
COMMENT ON COLUMN messages.message_type IS '0 verification, 1 notification, 2 marketing';
COMMENT ON COLUMN messages.country_no IS 'at the time of the submission; null: the number belongs to no known country';
COMMENT ON COLUMN messages.priority IS '0 to 9, smaller is more urgent';
COMMENT ON COLUMN messages.segments IS 'short messages that the text with its signature takes, counted at the submission';
COMMENT ON COLUMN messages.sign IS 'signature without brackets; null: that of the sender';
COMMENT ON COLUMN messages.is_test IS 'marked as a test by its submitter; sent like any other task';
COMMENT ON COLUMN messages.expect_send_time IS
    'when the submitter wants it sent, or the next interval of a scheduled template; null: at once';
COMMENT ON COLUMN messages.expires_at IS 'not sent later; null: never. A withdrawal brings it forward in queue';
COMMENT ON COLUMN messages.rendering_id IS 'of a task of a notification or send-once message; null: a submitted message';
COMMENT ON COLUMN messages.user_id IS 'contacts.user_id of the recipient; null: a submitted message';
COMMENT ON COLUMN messages.on_unclear IS 'overrides senders.on_unclear; null: as the sender';
COMMENT ON COLUMN messages.submission_id IS 'receive_logs.id';
COMMENT ON COLUMN messages.submitted_content IS 'the content of the request; null: the same as content';
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/queue with the message, and kept when the message leaves.';
COMMENT ON TABLE queue IS
    'A task that waits for a sender or is held by one. Written by internal/queue: inserted with its message, updated when it is leased or waits '
    'again, deleted when the task is settled. It repeats what a claim and a report need of the message, so that neither reads messages. No '
    'foreign keys: each change would lock rows of other tables.';
COMMENT ON COLUMN queue.pool_id IS
    'where the task waits, or the pool from which it was leased; no foreign key, because each insert would lock the row of the pool';
COMMENT ON COLUMN queue.lane IS
    '32 * priority for a new task, 32 * priority + retry_count for a retry; null: not queued yet. A task that has waited too long is queued in '
    'a smaller lane';
COMMENT ON COLUMN queue.rank IS
    'order within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given; null: not given yet';
COMMENT ON COLUMN queue.due_at IS 'the task can be claimed from then on';
COMMENT ON COLUMN queue.updated_at IS 'the last change of state; of a leased task the time of the claim';
COMMENT ON COLUMN queue.retry_count IS 'number of retries so far';
COMMENT ON COLUMN queue.troubles IS 'number of leases that were given back because their sender was in trouble';
COMMENT ON COLUMN queue.result IS 'why the task is retried, for operators; null: not retried yet';
COMMENT ON COLUMN queue.failed_app_id IS 'sender_no of the last sender that failed; a claim prefers other senders; null: none failed';
COMMENT ON COLUMN queue.processing_app_id IS 'sender_no of the sender that holds the task; null: none';
COMMENT ON COLUMN queue.lease_id IS
    'the current lease, or the expired lease of a task that was taken back, which failed_app_id held; null: none, or it was ended by its sender';
COMMENT ON COLUMN queue.lease_until IS 'null: the task is PENDING; otherwise PROCESSING';
COMMENT ON COLUMN queue.lease_segments IS 'short messages that the lease costs; null: the sender has no limits';
COMMENT ON COLUMN queue.lease_sign IS 'signature of the sender, used if the message has none; null: none';
COMMENT ON COLUMN queue.lease_limit IS 'how many tasks the claim asked for';
COMMENT ON TABLE report_logs IS
    'What ended a lease or a task, reports that changed nothing, and receipts of providers. Written by internal/queue and never changed. '
    'Partitioned like messages, so that the facts of a task leave together.';
COMMENT ON COLUMN report_logs.company_id IS 'as messages.company_id';
COMMENT ON COLUMN report_logs.app_id IS 'sender_no; null: no sender did it';
COMMENT ON COLUMN report_logs.lease_id IS 'the lease that was ended, or that the report named; null: none';
COMMENT ON COLUMN report_logs.status IS '2 SUCCESS or 3 FAILED, as reported; null: not a report';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because '
    'nobody knows whether it was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; '
    'delivered, undelivered: a receipt';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this left the task for good: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the task was not settled by it';
COMMENT ON COLUMN report_logs.result IS 'the outcome for operators; of a receipt its status code; null: the task was not settled';
COMMENT ON COLUMN report_logs.retry_count IS 'number of retries before this; null: changed nothing';
COMMENT ON COLUMN report_logs.due_at IS 'when the task could be claimed; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.leased_at IS
    'when the lease began that this ended; null: no lease was ended, or an earlier row ended it. The columns that follow are of this lease';
COMMENT ON COLUMN report_logs.lease_segments IS 'short messages that the lease cost; null: the sender had no limits';
COMMENT ON COLUMN report_logs.lease_sign IS 'signature of the sender, used if the message has none; null: none';
COMMENT ON COLUMN report_logs.lease_limit IS 'how many tasks the claim asked for';
COMMENT ON TABLE fruitless_submissions IS
    'A submission that created no task: it was refused, or it repeated a dedup_key. Written by internal/queue.';
COMMENT ON COLUMN fruitless_submissions.task_id IS 'the task that was repeated; null: refused';
COMMENT ON COLUMN fruitless_submissions.phone_number IS 'as the caller wrote it; null: not given or unreadable';
COMMENT ON COLUMN fruitless_submissions.response_data IS 'the answer; data.deduplicated is true if the submission repeated a dedup_key';
COMMENT ON COLUMN fruitless_submissions.status_code IS 'HTTP status of the answer';
COMMENT ON VIEW tasks IS
    'The state of each task: what was submitted, from messages; what is waiting or leased, from queue; how it ended, from report_logs. Read it '
    'by task_id or rendering_id; nothing else is indexed. Of a settled task, pool_id and expires_at are those of its submission, and '
    'failed_app_id is null.';
COMMENT ON VIEW receive_logs IS 'Each submission, with the columns of the documented log: those that created a task, and the others.';
COMMENT ON VIEW send_logs IS 'Each lease, with the columns of the documented log: those that have ended, and those of queue.';
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by '
    'internal/queue (reports) and internal/push (unclear outcomes). No foreign keys: each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.lease_id IS 'the lease of the attempt';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction or thresholds';
COMMENT ON COLUMN pools.message_type IS 'as messages.message_type; null: see company_id';
COMMENT ON TABLE task_count_changes IS
    'A change of the numbers of tasks in each state, of one company; the sums are the current numbers. Written by triggers of queue and '
    'report_logs, and folded by internal/history.';
COMMENT ON COLUMN task_count_changes.company_id IS 'no foreign key: each change of a task would lock the company';
COMMENT ON COLUMN sender_ledger.company_id IS 'whose task was charged or refunded; null: top-up, correction or thresholds';

-- migrate:down
DROP VIEW notification_standings;
DROP VIEW receive_logs;
DROP VIEW send_logs;
DROP VIEW tasks;
DROP TABLE messages;
DROP TABLE dedup_keys;
DROP TABLE queue;
DROP TABLE report_logs;
DROP TABLE fruitless_submissions;
DROP FUNCTION queue_count();
DROP FUNCTION report_logs_count();
DROP SEQUENCE submission_ids;
DROP SEQUENCE lease_ids;
DROP SEQUENCE report_ids;
ALTER TABLE sender_ledger DROP COLUMN company_id;
ALTER TABLE old_tasks RENAME TO tasks;
ALTER TABLE old_receive_logs RENAME TO receive_logs;
DROP INDEX IF EXISTS old_receive_logs_task_id_idx;
ALTER TABLE old_send_logs RENAME TO send_logs;
ALTER TABLE old_report_logs RENAME TO report_logs;
ALTER INDEX old_report_logs_pkey RENAME TO report_logs_pkey;
ALTER INDEX old_report_logs_task_id_idx RENAME TO report_logs_task_id_idx;
CREATE OR REPLACE FUNCTION task_queue_front(of_pool bigint, of_priority smallint) RETURNS double precision
    LANGUAGE plpgsql STABLE COST 1
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
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
CREATE FUNCTION task_count_changes_add() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT
            company_id, count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
        FROM added
        GROUP BY company_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT c.* FROM (
            SELECT
                company_id,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE status = 0 AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE status = 1), 0) AS processing,
                coalesce(sum(n) FILTER (WHERE status = 2), 0) AS success,
                coalesce(sum(n) FILTER (WHERE status = 3), 0) AS failed
            FROM (
                SELECT company_id, status, retry_count, 1 AS n FROM added
                UNION ALL
                SELECT company_id, status, retry_count, -1 FROM removed
            ) x
            GROUP BY company_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing, c.success, c.failed) <> (0, 0, 0, 0, 0);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
        SELECT
            company_id, -count(*) FILTER (WHERE status = 0 AND retry_count = 0), -count(*) FILTER (WHERE status = 0 AND retry_count > 0),
            -count(*) FILTER (WHERE status = 1), -count(*) FILTER (WHERE status = 2), -count(*) FILTER (WHERE status = 3)
        FROM removed
        GROUP BY company_id;
    ELSE -- TRUNCATE, which nobody else is beside
        DELETE FROM task_count_changes;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER tasks_count_inserted AFTER INSERT ON tasks
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_updated AFTER UPDATE ON tasks
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_deleted AFTER DELETE ON tasks
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
CREATE TRIGGER tasks_count_truncated AFTER TRUNCATE ON tasks
    FOR EACH STATEMENT EXECUTE FUNCTION task_count_changes_add();
DELETE FROM task_count_changes;
INSERT INTO task_count_changes (company_id, pending_new, pending_retry, processing, success, failed)
SELECT
    company_id, count(*) FILTER (WHERE status = 0 AND retry_count = 0), count(*) FILTER (WHERE status = 0 AND retry_count > 0),
    count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3)
FROM tasks
GROUP BY company_id;
CREATE VIEW notification_standings AS
SELECT n.id AS notification_id,
    CASE
        WHEN n.ended_as IS NOT NULL THEN n.ended_as
        WHEN n.next_run_at IS NOT NULL OR told.waiting > 0 THEN 0
        WHEN told.succeeded = told.people THEN 1
        WHEN told.succeeded > 0 THEN 5
        WHEN told.cancelled = told.people THEN 3
        ELSE 2
    END::smallint AS status,
    least(n.next_run_at, told.next_try)::timestamptz AS next_run_time,
    told.people, told.succeeded, told.retries
FROM notifications n
CROSS JOIN LATERAL (
    SELECT count(*) AS people, count(*) FILTER (WHERE p.status = 2) AS succeeded, count(*) FILTER (WHERE p.status IN (0, 1)) AS waiting,
        count(*) FILTER (WHERE p.status = 4) AS cancelled, coalesce(max(p.retry_count), 0)::smallint AS retries,
        min(p.due_at) FILTER (WHERE p.status = 0 AND (p.retry_count > 0 OR p.due_at > now())) AS next_try
    FROM (
        SELECT DISTINCT ON (t.user_id) t.status, t.retry_count, t.due_at
        FROM renderings r
        JOIN tasks t ON t.rendering_id = r.id
        WHERE r.notification_id = n.id
        ORDER BY t.user_id, t.task_id DESC
    ) p
) told;
