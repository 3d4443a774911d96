-- migrate:up
-- squawk-ignore-file prefer-bigint-over-int
-- Tasks: what was submitted (messages), what waits (queue), what became of each attempt (report_logs), and the facts from which all counts are made.
-- messages and report_logs are partitioned by day, the ledger by the number of the lease.

CREATE SEQUENCE submission_ids;

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
    submission_id bigint NOT NULL DEFAULT nextval('submission_ids'::regclass),
    request_id text,
    submitted_content text,
    use_template boolean,
    source_ip text,
    user_agent text,
    request_data jsonb,
    traceparent text,
    batch_id bigint,
    sender_no text,
    contact_values jsonb,
    CONSTRAINT messages_pkey PRIMARY KEY (task_id),
    CONSTRAINT messages_content_length CHECK (char_length(content) BETWEEN 1 AND 1024),
    CONSTRAINT messages_created_at_range CHECK (created_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'),
    CONSTRAINT messages_message_type_known CHECK (message_type BETWEEN 0 AND 2),
    CONSTRAINT messages_on_unclear_known CHECK (on_unclear IN ('retry', 'fail')),
    CONSTRAINT messages_priority_range CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT messages_segments_range CHECK (segments BETWEEN 1 AND 100),
    CONSTRAINT messages_source_length CHECK (char_length(source) BETWEEN 1 AND 50),
    CONSTRAINT messages_task_id_length CHECK (char_length(task_id) BETWEEN 1 AND 50)
) PARTITION BY RANGE (task_id);
COMMENT ON TABLE messages IS 'A task as it was submitted, with its submission. Written once by internal/dispatch/queue; only the erasure of a person changes it. Partitioned by task_id, which ascends with time. The state of the task is in queue until it is settled, then in report_logs; the view tasks shows both. No foreign keys: each submission would lock rows of other tables.';
COMMENT ON COLUMN messages.task_id IS 'contains the day and ascends with time';
COMMENT ON COLUMN messages.phone_number IS 'the recipient as the caller wrote it';
COMMENT ON COLUMN messages.recipient IS 'on the channel sms the same number in E.164; on others the address; empty if the person has none, or was erased';
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
COMMENT ON COLUMN messages.is_test IS 'marked as a test by its submitter; statistics count it apart, and a setting may keep it from being sent';
COMMENT ON COLUMN messages.expect_send_time IS
    'when the submitter wants it sent, or the next interval of a scheduled template; null: at once';
COMMENT ON COLUMN messages.expires_at IS 'not sent later; null: never. A withdrawal brings it forward in queue';
COMMENT ON COLUMN messages.rendering_id IS 'of a task of a notification or send-once message; null: a submitted message';
COMMENT ON COLUMN messages.user_id IS 'contacts.user_id of the recipient; null: a submitted message';
COMMENT ON COLUMN messages.on_unclear IS 'overrides senders.on_unclear; null: as the sender';
COMMENT ON COLUMN messages.submission_id IS 'receive_logs.id';
COMMENT ON COLUMN messages.submitted_content IS 'the content of the request, or the params for its template_no; null: the same as content';
COMMENT ON COLUMN messages.request_data IS
    'the request as it came; of a message from a template with the member template, which no request has: the number, version and language of the text';
COMMENT ON COLUMN messages.traceparent IS 'the header traceparent of the submission (W3C Trace Context); null: it had none';
COMMENT ON COLUMN messages.batch_id IS 'the uploaded list that the task is from; null: none. No foreign key: each submission would lock the batch';
COMMENT ON COLUMN messages.sender_no IS 'the only sender that may send the task; null: any that serves its pool';
COMMENT ON COLUMN messages.contact_values IS 'the values of the placeholders ${contact.…} for this person: the rendering is then a template, which is filled with its params and these; null: the rendering is filled';
CREATE INDEX messages_batch_idx ON messages (batch_id, task_id) WHERE batch_id IS NOT NULL;
CREATE INDEX messages_submitted_by_idx ON messages (company_id, submitted_by, task_id);
CREATE INDEX messages_user_idx ON messages (company_id, user_id, task_id) WHERE user_id IS NOT NULL;
CREATE INDEX messages_recipient_idx ON messages (recipient, task_id);
CREATE INDEX messages_rendering_idx ON messages (rendering_id) WHERE rendering_id IS NOT NULL;

CREATE TABLE messages_default PARTITION OF messages DEFAULT;

CREATE FUNCTION task_flow(batch_id bigint, submitted_by text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN coalesce('#' || batch_id::text, submitted_by, '');
COMMENT ON FUNCTION task_flow(bigint, text) IS
    'The flow of a task within its company: its batch, else its submitter. Package queue computes it too.';

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
    entered_at timestamptz DEFAULT now(),
    was_claimed boolean NOT NULL DEFAULT false,
    traceparent text,
    batch_id bigint,
    is_test boolean NOT NULL DEFAULT false,
    contact_values jsonb,
    start_until timestamptz,
    due_when_resumed timestamptz,
    submitted_by text,
    flow_rank double precision,
    lease_sign_mode text,
    CONSTRAINT queue_pkey PRIMARY KEY (task_id),
    CONSTRAINT queue_lease_complete CHECK (lease_until IS NULL OR (processing_app_id IS NOT NULL AND lease_id IS NOT NULL)),
    CONSTRAINT queue_retry_count_range CHECK (retry_count BETWEEN 0 AND 20),
    CONSTRAINT queue_times_range CHECK (
        due_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND lease_until BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND updated_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
    )
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=20000, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.05);
COMMENT ON TABLE queue IS
    'A task that waits for a sender or is held by one. Written by internal/dispatch/queue: inserted with its message, updated when it is leased or waits '
    'again, deleted when the task is settled. It repeats what a claim and a report need of the message, so that neither reads messages. No '
    'foreign keys: each change would lock rows of other tables.';
COMMENT ON COLUMN queue.pool_id IS
    'where the task waits, or the pool from which it was leased; no foreign key, because each insert would lock the row of the pool';
COMMENT ON COLUMN queue.lane IS
    '32 * priority for a new task, 32 * priority + retry_count for a retry; null: not queued yet. A task that has waited too long is queued in '
    'a smaller lane';
COMMENT ON COLUMN queue.rank IS
    'order between companies within a lane, by start-time fair queueing; valid only in the pool and priority in which it was given; a claim may exchange the ranks of two tasks of a company, see flow_rank; null: not given yet';
COMMENT ON COLUMN queue.due_at IS 'the task can be claimed from then on; held_due_at(): its batch is paused';
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
COMMENT ON COLUMN queue.entered_at IS
    'when the task first could be claimed: the due_at of its submission; of a requeued task when it was requeued; of one that was held before it was tried, the due_at of its release; null: it was submitted before this column existed';
COMMENT ON COLUMN queue.was_claimed IS
    'the task had a lease before, although its retry_count may be 0: a lease was released, or a settled task was requeued';
COMMENT ON COLUMN queue.traceparent IS 'as messages.traceparent';
COMMENT ON COLUMN queue.batch_id IS 'as messages.batch_id';
COMMENT ON COLUMN queue.is_test IS 'as messages.is_test; false: also a task that is older than this column';
COMMENT ON COLUMN queue.contact_values IS 'as messages.contact_values';
COMMENT ON COLUMN queue.start_until IS
    'equal to lease_until: the sender must start the lease until then, and has not; any other value, or null: the lease is started, or needs no start. A server that does not know this column leaves old values in it, which are never those of its leases';
COMMENT ON COLUMN queue.due_when_resumed IS
    'the due_at that a held task gets when its batch goes on, unless that is over by then; null: at once. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.submitted_by IS
    'the user whose task it is, as in messages; null: the task was stored by a server that did not know the column';
COMMENT ON COLUMN queue.flow_rank IS
    'order between the tasks of one company within its pool and lane, in the unit of rank and never larger: a claim that finds this task at its rank takes that task of the company with the smallest; null: equal to rank. A server that does not know this column leaves old values in it';
COMMENT ON COLUMN queue.lease_sign_mode IS 'sign_mode of the sender when it took the task; null: in_text';
CREATE INDEX queue_batch_idx ON queue (batch_id, task_id) WHERE batch_id IS NOT NULL AND lease_until IS NULL;
CREATE INDEX queue_due_idx ON queue (pool_id, due_at) WHERE lease_until IS NULL AND lane IS NULL;
CREATE INDEX queue_expiry_idx ON queue (expires_at) WHERE lease_until IS NULL AND expires_at IS NOT NULL;
CREATE INDEX queue_flow_ranks_idx ON queue (pool_id, lane, company_id, flow_rank, task_id)
    WHERE lease_until IS NULL AND lane IS NOT NULL AND flow_rank IS NOT NULL;
CREATE INDEX queue_flows_idx ON queue (pool_id, lane, company_id, task_flow(batch_id, submitted_by), flow_rank)
    WHERE lease_until IS NULL AND lane IS NOT NULL AND flow_rank IS NOT NULL;
CREATE INDEX queue_lease_idx ON queue (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX queue_order_idx ON queue (pool_id, lane, rank) WHERE lease_until IS NULL AND lane IS NOT NULL;
CREATE INDEX queue_rendering_idx ON queue (rendering_id) WHERE rendering_id IS NOT NULL;
CREATE INDEX queue_retry_idx ON queue (due_at) WHERE lease_until IS NULL AND lane::integer % 32 > 0;
CREATE INDEX queue_top_idx ON queue (due_at) WHERE lease_until IS NULL AND lane < 32;
CREATE INDEX queue_waits_idx ON queue (due_at, lane) WHERE lease_until IS NULL AND lane >= 32;

CREATE SEQUENCE report_ids;

CREATE TABLE report_logs (
    id bigint NOT NULL DEFAULT nextval('report_ids'::regclass),
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
    pool_id bigint,
    message_type smallint,
    segments smallint,
    entered_at timestamptz,
    batch_id bigint,
    country_no text,
    is_test boolean NOT NULL DEFAULT false,
    lease_sign_mode text,
    CONSTRAINT report_logs_pkey PRIMARY KEY (task_id, id),
    CONSTRAINT report_logs_effect_known CHECK (effect IN (
    'success', 'failed', 'retry', 'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 'cancelled', 'expired',
    'delivered', 'undelivered', 'requeued'
)),
    CONSTRAINT report_logs_error_message_length CHECK (char_length(error_message) <= 500),
    CONSTRAINT report_logs_event_known CHECK (event IN (
    'reported', 'recovered', 'released', 'cancelled', 'expired', 'receipt', 'past_receipt', 'unreachable', 'requeued', 'simulated'
)),
    CONSTRAINT report_logs_lease_complete CHECK (
        leased_at IS NULL OR (app_id IS NOT NULL AND lease_id IS NOT NULL AND lease_until IS NOT NULL AND retry_count IS NOT NULL)
    ),
    CONSTRAINT report_logs_outcome_known CHECK (outcome IN (2, 3, 4)),
    CONSTRAINT report_logs_result_length CHECK (char_length(result) <= 500),
    CONSTRAINT report_logs_times_range CHECK (
        created_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND due_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND leased_at BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
        AND lease_until BETWEEN '1970-01-01 00:00:00+00' AND '9999-01-01 00:00:00+00'
    )
) PARTITION BY RANGE (task_id);
COMMENT ON TABLE report_logs IS 'What ended a lease or a task, reports that changed nothing, receipts of providers, and who requeued a task. Written by internal/dispatch/queue. A requeue takes the outcome of a row, and the erasure of a person its texts; nothing else changes rows. Partitioned like messages, so that the facts of a task leave together.';
COMMENT ON COLUMN report_logs.company_id IS 'as messages.company_id';
COMMENT ON COLUMN report_logs.app_id IS 'sender_no; null: no sender did it';
COMMENT ON COLUMN report_logs.lease_id IS 'the lease that was ended, or that the report named; null: none';
COMMENT ON COLUMN report_logs.event IS
    'past_receipt: a receipt of an attempt from before the task was requeued; simulated: a test message that no sender got; the other names say it';
COMMENT ON COLUMN report_logs.status IS '2 SUCCESS or 3 FAILED, as reported; null: not a report';
COMMENT ON COLUMN report_logs.effect IS
    'success, failed: settled the task; retry: the task waits for a retry; exhausted: FAILED without another retry; unclear: FAILED because '
    'nobody knows whether it was sent; untried, troubled: the lease was given back; ignored, refused: changed nothing; cancelled, expired; '
    'delivered, undelivered: a receipt; requeued: the task waits again as if it were new';
COMMENT ON COLUMN report_logs.error_message IS 'the text of a report or of a release; of a requeue its remark; null: none';
COMMENT ON COLUMN report_logs.request_data IS 'the report as it came; of a cancellation or a requeue who did it (by); null: none';
COMMENT ON COLUMN report_logs.outcome IS
    'the state in which this left the task: 2 SUCCESS, 3 FAILED, 4 CANCELLED; null: the task was not settled by it, or was requeued since';
COMMENT ON COLUMN report_logs.result IS 'the outcome for operators; of a receipt its status code; null: the task was not settled';
COMMENT ON COLUMN report_logs.retry_count IS 'number of retries before this; null: changed nothing';
COMMENT ON COLUMN report_logs.due_at IS 'when the task could be claimed; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.leased_at IS
    'when the lease began that this ended; null: no lease was ended, or an earlier row ended it. The columns that follow are of this lease';
COMMENT ON COLUMN report_logs.lease_segments IS 'short messages that the lease cost; null: the sender had no limits';
COMMENT ON COLUMN report_logs.lease_sign IS 'signature of the sender, used if the message has none; null: none';
COMMENT ON COLUMN report_logs.lease_limit IS 'how many tasks the claim asked for';
COMMENT ON COLUMN report_logs.pool_id IS
    'the pool that the task was in; of a receipt that of the submission; null: changed nothing, or older than this column';
COMMENT ON COLUMN report_logs.message_type IS 'as messages.message_type; null as pool_id';
COMMENT ON COLUMN report_logs.segments IS 'as messages.segments; null as pool_id';
COMMENT ON COLUMN report_logs.entered_at IS 'as queue.entered_at; null: as there, or the task never was in the queue, or a receipt';
COMMENT ON COLUMN report_logs.batch_id IS 'as messages.batch_id; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.country_no IS 'as messages.country_no; null: none, or the row is older than this column';
COMMENT ON COLUMN report_logs.is_test IS 'as messages.is_test; false: also a row that is older than this column';
COMMENT ON COLUMN report_logs.lease_sign_mode IS 'sign_mode of the sender when it took the task; null: in_text';
CREATE INDEX report_logs_app_id_idx ON report_logs (app_id, task_id) WHERE outcome IS NOT NULL AND app_id IS NOT NULL;
CREATE INDEX report_logs_company_failed_idx ON report_logs (company_id, outcome, task_id) WHERE outcome IN (3, 4);
CREATE UNIQUE INDEX report_logs_receipt_key ON report_logs (effect, task_id) WHERE event = 'receipt';
CREATE INDEX report_logs_failed_idx ON report_logs (outcome, task_id) WHERE outcome IN (3, 4);
CREATE UNIQUE INDEX report_logs_outcome_key ON report_logs (task_id) WHERE outcome IS NOT NULL;

CREATE TABLE report_logs_default PARTITION OF report_logs DEFAULT;

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
    sender_no text,
    pool_id bigint,
    message_type smallint,
    submitted integer NOT NULL DEFAULT 0,
    requeued integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    delivered integer NOT NULL DEFAULT 0,
    undelivered integer NOT NULL DEFAULT 0,
    segments integer NOT NULL DEFAULT 0,
    waits bytea,
    durations bytea,
    batch_id bigint,
    country_no text,
    is_test boolean NOT NULL DEFAULT false,
    accepted_at timestamptz
);
COMMENT ON TABLE facts IS
    'What one statement changed of the tasks of one company, pool, type, country and batch that one sender holds, held or reported; or of tasks that '
    'no sender holds. Tests are apart. Written by triggers of queue and report_logs only. internal/insight/history deletes the rows within seconds, and adds '
    'them to the figures of all consumers in the same transaction; until then, readers add them to these figures. There is no cursor: a row that is '
    'deleted is consumed exactly once, in whatever order transactions commit, and also after a dump is restored into another cluster.';
COMMENT ON COLUMN facts.company_id IS 'no foreign key: each change of a task would lock the company';
COMMENT ON COLUMN facts.at IS 'when it happened: of leases leased_at, of reports created_at, the latest of the row';
COMMENT ON COLUMN facts.response_ms IS 'sum over the reports of the milliseconds from claim to report; from recovery to report if the lease had expired';
COMMENT ON COLUMN facts.pending_new IS 'difference of the number of tasks PENDING with retry_count 0';
COMMENT ON COLUMN facts.pending_retry IS 'difference of the number of tasks PENDING with retry_count above 0';
COMMENT ON COLUMN facts.processing IS 'difference of the number of tasks PROCESSING, which the sender holds';
COMMENT ON COLUMN facts.success IS 'difference of the number of tasks SUCCESS';
COMMENT ON COLUMN facts.failed IS 'difference of the number of tasks FAILED; negative if tasks were requeued';
COMMENT ON COLUMN facts.leases IS 'number of leases that the sender took';
COMMENT ON COLUMN facts.reported_success IS 'number of leases that the sender ended by reporting SUCCESS';
COMMENT ON COLUMN facts.reported_failed IS 'number of leases that the sender ended by reporting FAILED, also those that are retried';
COMMENT ON COLUMN facts.sender_no IS
    'null: no sender. No foreign key: each claim would lock the sender, and any text is the app_id of tasks that were written by hand';
COMMENT ON COLUMN facts.pool_id IS 'as in queue and report_logs; pool_channels has its channel; null: report_logs did not say';
COMMENT ON COLUMN facts.message_type IS 'as messages.message_type; null: report_logs did not say';
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
COMMENT ON COLUMN facts.batch_id IS 'as messages.batch_id; null: none';
COMMENT ON COLUMN facts.country_no IS 'as messages.country_no; null: none';
COMMENT ON COLUMN facts.is_test IS 'as messages.is_test';
COMMENT ON COLUMN facts.accepted_at IS
    'of receipts that say delivered: the minute in which their sender reported SUCCESS; null: of anything else, or no report of this sender settled the task';

CREATE TABLE dedup_keys (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    dedup_key text NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    made_on date NOT NULL DEFAULT ((now() AT TIME ZONE 'UTC'))::date,
    CONSTRAINT dedup_keys_pkey PRIMARY KEY (company_id, submitted_by, dedup_key),
    CONSTRAINT dedup_keys_dedup_key_length CHECK (char_length(dedup_key) BETWEEN 1 AND 100)
);
COMMENT ON TABLE dedup_keys IS
    'The task that a submitter named with a dedup_key. Written by internal/dispatch/queue with the message, and kept when the message leaves, for as long as the setting '
    'history.dedup_keep_days says.';
COMMENT ON COLUMN dedup_keys.made_on IS 'the day (UTC) of the submission; of a key that is older than the column the day of the upgrade';
CREATE INDEX dedup_keys_made_on_idx ON dedup_keys (made_on);

CREATE TABLE fair_ranks (
    pool_id bigint NOT NULL,
    priority smallint NOT NULL,
    company_id bigint NOT NULL,
    start double precision NOT NULL,
    finish double precision NOT NULL,
    flow text,
    flow_finish double precision,
    CONSTRAINT fair_ranks_pkey PRIMARY KEY (pool_id, priority, company_id),
    CONSTRAINT fair_ranks_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT fair_ranks_priority_range CHECK (priority BETWEEN 0 AND 9)
) WITH (fillfactor=50);
COMMENT ON TABLE fair_ranks IS
    'The last range of ranks that a company was given in a pool and priority (start-time fair queueing: a task uses 1 / weight of its '
    'company). Written by internal/dispatch/queue, and deleted with its pool by internal/dispatch/directory. pool_id has no foreign key: each submission '
    'would lock the pool.';
COMMENT ON COLUMN fair_ranks.start IS 'rank of the first task of the range';
COMMENT ON COLUMN fair_ranks.finish IS 'the smallest rank that the next range may begin with';
COMMENT ON COLUMN fair_ranks.flow IS
    'the only flow (task_flow) of the tasks that got ranks since the company had nothing waiting; null: several at once, or not known';
COMMENT ON COLUMN fair_ranks.flow_finish IS
    'where the tasks of flow without a flow_rank end: since then another flow of the company waits too, and each task gets a flow_rank; null: only flow waits';

CREATE SEQUENCE lease_ids;

CREATE TABLE number_partitions (
    parent text NOT NULL,
    first_number bigint NOT NULL,
    before_number bigint,
    entered_at timestamptz,
    left_at timestamptz,
    CONSTRAINT number_partitions_pkey PRIMARY KEY (parent, first_number),
    CONSTRAINT number_partitions_numbers CHECK (before_number > first_number),
    CONSTRAINT number_partitions_parent_known CHECK (parent IN ('sender_ledger', 'batch_rows'))
);
COMMENT ON TABLE number_partitions IS
    'A partition of sender_ledger or batch_rows. Written by the functions number_partitions_ahead, ledger_partition_drop and batch_partition_drop.';
COMMENT ON COLUMN number_partitions.first_number IS
    'the first lease_id or batch_id that it takes; 0: the table of before there were partitions, which also has the rows without lease_id';
COMMENT ON COLUMN number_partitions.before_number IS 'the first one that it does not take any more; null: it has no end';
COMMENT ON COLUMN number_partitions.entered_at IS 'when its first number was given out, or somewhat later; null: not yet';
COMMENT ON COLUMN number_partitions.left_at IS 'since when no more of its numbers are given out; null: they are, or will be';

CREATE TABLE sender_ledger (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    sender_id bigint NOT NULL,
    change bigint NOT NULL,
    balance bigint NOT NULL,
    lease_id bigint,
    remark text,
    username text,
    created_at timestamptz NOT NULL DEFAULT now(),
    low_warning bigint,
    low_switch bigint,
    company_id bigint,
    CONSTRAINT sender_ledger_remark_length CHECK (char_length(remark) <= 500)
) PARTITION BY RANGE (lease_id);
COMMENT ON TABLE sender_ledger IS
    'A change of the balance of a sender, or of its thresholds. Written by internal/dispatch/queue (charges, refunds) and internal/dispatch/sender (top-ups, corrections, thresholds). '
    'Partitioned by lease_id, see number_partitions; rows without one are in the default partition. No foreign keys: each charge would lock rows of senders and send_logs.';
COMMENT ON COLUMN sender_ledger.id IS 'unique, and the order of the list; no primary key, because the table is partitioned by lease_id';
COMMENT ON COLUMN sender_ledger.change IS 'segments added; negative: a charge; 0: changed thresholds';
COMMENT ON COLUMN sender_ledger.balance IS 'segments after the change';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the charged or refunded lease; null: top-up, correction, thresholds, or the sum of a day';
COMMENT ON COLUMN sender_ledger.username IS 'who changed the balance or the thresholds; null: an attempt';
COMMENT ON COLUMN sender_ledger.low_warning IS 'the new threshold, of changed thresholds and an opening balance; null otherwise';
COMMENT ON COLUMN sender_ledger.low_switch IS 'as low_warning';
COMMENT ON COLUMN sender_ledger.company_id IS 'whose tasks were charged or refunded; null: top-up, correction or thresholds';
CREATE UNIQUE INDEX sender_ledger_lease_key ON sender_ledger (lease_id, (change > 0)) WHERE lease_id IS NOT NULL;
CREATE INDEX sender_ledger_sender_id_idx ON sender_ledger (sender_id, id);

CREATE TABLE sender_ledger_default PARTITION OF sender_ledger (
    CONSTRAINT sender_ledger_default_leases CHECK (((lease_id IS NULL) OR (lease_id < 2000000000)))
) DEFAULT;
COMMENT ON TABLE sender_ledger_default IS 'Rows of sender_ledger without lease_id, and charges and refunds from before there were partitions.';

CREATE TABLE task_counts (
    company_id bigint NOT NULL,
    pending_new bigint NOT NULL,
    pending_retry bigint NOT NULL,
    processing bigint NOT NULL,
    success bigint NOT NULL,
    failed bigint NOT NULL,
    CONSTRAINT task_counts_pkey PRIMARY KEY (company_id)
) WITH (fillfactor=50);
COMMENT ON TABLE task_counts IS
    'The numbers of tasks of one company in each state, without what facts still holds. Written by internal/insight/history, which folds facts.';
COMMENT ON COLUMN task_counts.company_id IS 'no foreign key: a fold would lock all companies';
COMMENT ON COLUMN task_counts.pending_new IS 'PENDING with retry_count 0';
COMMENT ON COLUMN task_counts.pending_retry IS 'PENDING with retry_count above 0';

CREATE TABLE task_jobs (
    id bigint GENERATED ALWAYS AS IDENTITY,
    action text NOT NULL,
    filter jsonb NOT NULL,
    remark text,
    total integer NOT NULL,
    done integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'running',
    created_by text NOT NULL,
    stopped_by text,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT task_jobs_pkey PRIMARY KEY (id),
    CONSTRAINT task_jobs_action_known CHECK (action IN ('cancel', 'requeue')),
    CONSTRAINT task_jobs_finished_at_set CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT task_jobs_progress CHECK (
        total > 0 AND done >= 0 AND skipped >= 0 AND failed >= 0 AND done + skipped + failed <= total
        AND (status <> 'finished' OR done + skipped + failed = total)
    ),
    CONSTRAINT task_jobs_remark_length CHECK (char_length(remark) BETWEEN 1 AND 200),
    CONSTRAINT task_jobs_status_known CHECK (status IN ('running', 'finished', 'stopped'))
);
COMMENT ON TABLE task_jobs IS
    'A request to cancel or requeue all tasks of a filter, and how far it is. Written by internal/dispatch/job; a batch of tasks and the numbers that count '
    'it are changed in one transaction.';
COMMENT ON COLUMN task_jobs.filter IS 'as the request gave it; the tasks that it selected then are in task_job_parts';
COMMENT ON COLUMN task_jobs.total IS 'number of tasks that the filter selected when the job was created';
COMMENT ON COLUMN task_jobs.done IS 'number of tasks that the job cancelled or requeued';
COMMENT ON COLUMN task_jobs.skipped IS 'number of tasks whose state did not allow it any more';
COMMENT ON COLUMN task_jobs.failed IS 'number of tasks of which the database refused the change';
COMMENT ON COLUMN task_jobs.stopped_by IS 'the user who stopped the job; null: nobody did';
CREATE INDEX task_jobs_running_idx ON task_jobs (id) WHERE status = 'running';

CREATE TABLE task_job_parts (
    job_id bigint NOT NULL,
    part integer NOT NULL,
    task_ids text[] NOT NULL,
    CONSTRAINT task_job_parts_pkey PRIMARY KEY (job_id, part),
    CONSTRAINT task_job_parts_job_id_fkey FOREIGN KEY (job_id) REFERENCES task_jobs(id) ON DELETE CASCADE
);
COMMENT ON TABLE task_job_parts IS
    'Tasks that a job has not changed yet, some hundred in the order of their ids. Written by internal/dispatch/job, which deletes a part in the transaction '
    'that changes its tasks.';

CREATE FUNCTION task_day_id(day date) RETURNS text LANGUAGE sql IMMUTABLE
RETURN 'task_' || lpad(extract(year FROM day)::text, 4, '0') || lpad(extract(month FROM day)::text, 2, '0')
    || lpad(extract(day FROM day)::text, 2, '0');

CREATE TABLE task_partitions (
    first_day date NOT NULL,
    last_day date NOT NULL,
    first_id text GENERATED ALWAYS AS (task_day_id(first_day)) STORED COLLATE "C" NOT NULL,
    before_id text GENERATED ALWAYS AS (task_day_id(last_day)) STORED COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    dropped_at timestamptz,
    history_at timestamptz,
    exported_at timestamptz,
    exported_to text,
    exported_messages bigint,
    exported_reports bigint,
    imported_at timestamptz,
    exported_late text[],
    late_tasks bigint,
    held_by text,
    CONSTRAINT task_partitions_pkey PRIMARY KEY (first_day),
    CONSTRAINT task_partitions_days CHECK (last_day > first_day)
);
COMMENT ON TABLE task_partitions IS
    'The days that have a partition of messages and one of report_logs, or had them. Written by the functions task_partition_make and '
    'task_partition_drop, in the transaction that makes or drops the partitions.';
COMMENT ON COLUMN task_partitions.last_day IS 'the day after its last one';
COMMENT ON COLUMN task_partitions.first_id IS 'the first task_id that the partitions take';
COMMENT ON COLUMN task_partitions.before_id IS 'the first task_id that they do not take any more';
COMMENT ON COLUMN task_partitions.dropped_at IS 'null: the partitions exist';
COMMENT ON COLUMN task_partitions.history_at IS 'since when it is history: its tasks are settled, and it is where the setting history.tablespace says; null: not yet';
COMMENT ON COLUMN task_partitions.exported_at IS 'when its last export was complete; null: never';
COMMENT ON COLUMN task_partitions.exported_to IS 'the name of the folder of its last export, in the HISTORY_DIR of the server that wrote it';
COMMENT ON COLUMN task_partitions.exported_messages IS 'number of rows of messages in the last export';
COMMENT ON COLUMN task_partitions.exported_reports IS 'number of rows of report_logs in the last export';
COMMENT ON COLUMN task_partitions.imported_at IS
    'when it was imported from an export, or made again for the tasks that its drop had left behind: its time to be kept begins anew; null: neither';
COMMENT ON COLUMN task_partitions.exported_late IS 'the ids, in order, of the tasks that the last export left out because they were not over; null: none';
COMMENT ON COLUMN task_partitions.late_tasks IS 'number of tasks that the drop left behind in the default partition; null: it was not dropped, or by a server that did not know the column';
COMMENT ON COLUMN task_partitions.held_by IS 'why the last run of the sweep could not make it history or drop it: no_folder, too_many_late, locked or failed; null: it could, or did not try';

-- What an attempt costs a sender: by its provider's own size of a segment; or with its signature before a text that has none,
-- whose brackets are not in GSM 03.38; or what was counted when the task was submitted.
CREATE FUNCTION attempt_segments(text_sent text, counted smallint, segment_size bigint, signs boolean) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN segment_size IS NOT NULL THEN greatest(1, ceil(char_length(text_sent)::numeric / segment_size))
    WHEN NOT signs THEN counted
    WHEN char_length(text_sent) + char_length(regexp_replace(text_sent, '[^\U00010000-\U0010FFFF]', '', 'g')) <= 70 THEN 1
    ELSE ceil((char_length(text_sent) + char_length(regexp_replace(text_sent, '[^\U00010000-\U0010FFFF]', '', 'g'))) / 67.0)
END;

-- pool_waits reads the first task that is not queued and the first 100 that are: nobody takes a task of a pool in which these wait too long. The
-- settings keep the planner to queue_due_idx and queue_order_idx, whatever statistics say.
CREATE FUNCTION pool_waits(of_pool bigint, since timestamptz) RETURNS boolean LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NULL ORDER BY t.due_at LIMIT 1
        ) d
        WHERE d.due_at <= since
    ) OR EXISTS (
        SELECT FROM (
            SELECT t.due_at FROM queue t
            WHERE t.pool_id = of_pool AND t.lease_until IS NULL AND t.lane IS NOT NULL
            ORDER BY t.lane, t.rank
            LIMIT 100
        ) q
        WHERE q.due_at <= since
    )
$$;
COMMENT ON FUNCTION pool_waits(bigint, timestamptz) IS 'Whether a task of the pool has been due since then, among those that senders take first.';

-- One SELECT and no volatile function: the planner puts it in the place of the call.
CREATE FUNCTION channels_waiting(since timestamptz) RETURNS TABLE (channel_id bigint) LANGUAGE sql STABLE AS $$
    SELECT p.channel_id FROM pools p WHERE p.company_id IS NULL AND p.retired_at IS NULL AND pool_waits(p.id, since)
$$;
COMMENT ON FUNCTION channels_waiting(timestamptz) IS 'The channels in whose shared pool a task has been due since then.';

CREATE FUNCTION dedup_key_owner(biz_task_id bigint, submitted_by text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN biz_task_id IS NOT NULL THEN 'event' WHEN submitted_by LIKE 'system:%' THEN submitted_by ELSE '' END;
COMMENT ON FUNCTION dedup_key_owner(bigint, text) IS 'Whose the dedup_key of a notification is within its company: of business events, of the service itself (system:...), or of the callers (empty). Nobody can take the key of another owner.';

CREATE FUNCTION fact_outcome(success integer, failed integer, cancelled integer) RETURNS text LANGUAGE sql IMMUTABLE
RETURN CASE WHEN success > 0 THEN 'SUCCESS' WHEN failed > 0 THEN 'FAILED' WHEN cancelled > 0 THEN 'CANCELLED' ELSE '' END;
COMMENT ON FUNCTION fact_outcome(integer, integer, integer) IS 'The outcome of the tasks that a row of facts counts, as statistics_staged.outcome.';

CREATE FUNCTION facts_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('lksms.facts_version', true) IS DISTINCT FROM TG_ARGV[0] THEN
        RAISE EXCEPTION 'this server does not know all columns of facts: stop it, and start the version to which the database was upgraded'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION first_id_since(of_table regclass, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    low bigint;
    high bigint; -- rows before low are older than since, and rows from high on are not
    middle bigint;
    nearest record;
BEGIN
    EXECUTE format('SELECT min(id), max(id) + 1 FROM %s', of_table) INTO low, high;
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        EXECUTE format('SELECT id, created_at FROM %s WHERE id >= $1 ORDER BY id LIMIT 1', of_table) INTO nearest USING middle;
        IF nearest.created_at < since THEN
            low := nearest.id + 1;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    RETURN coalesce(low, 0);
END $$;
COMMENT ON FUNCTION first_id_since(regclass, timestamptz) IS
    'The first id from which on the rows of callbacks or receipts are not older than a time; about, because created_at is when a transaction began. Callers allow for that, and compare created_at too.';

CREATE FUNCTION handed_text(content text, sign text, sign_mode text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN sign IS NULL THEN content
    WHEN coalesce(sign_mode, 'in_text') = 'in_text' THEN
        CASE WHEN starts_with(content, '【' || sign || '】') THEN content ELSE '【' || sign || '】' || content END
    WHEN starts_with(content, '【' || sign || '】') THEN substr(content, char_length(sign) + 3)
    ELSE content
END;

CREATE FUNCTION held_due_at() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '9999-01-01 00:00:00+00'::timestamptz;
COMMENT ON FUNCTION held_due_at() IS
    'The due_at of a task that waits until its batch is resumed. It is the largest that queue allows, so no statement takes such a task for due.';

CREATE FUNCTION is_due(at timestamptz, longest_wait interval) RETURNS boolean LANGUAGE sql STABLE
RETURN at <= now() OR at > now() + longest_wait + interval '1 minute';
COMMENT ON FUNCTION is_due(timestamptz, interval) IS
    'Whether a time has come that was set at most longest_wait ahead. One that is further ahead was set before the clock was set back, and counts as come. '
    'The minute is for transactions that began at other times.';

-- ledger_partition_drop drops the first partition of the ledger whose leases all began longer than keep ago, and adds the sums of its charges and refunds by
-- sender, company and day (UTC), with remark and the last balance of the day. It returns how many partitions it dropped: 1 or 0. Nobody adds to such a
-- partition: a lease lasts a week at most, and its refund looks for its charge. Others wait while the table is dropped, not while it is read.
CREATE FUNCTION ledger_partition_drop(keep interval, remark text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    part text;
    first bigint;
    tries integer := 0;
BEGIN
    SELECT p.first_number INTO first FROM number_partitions p
    WHERE p.parent = 'sender_ledger' AND p.first_number > 0 AND p.left_at < now() - greatest(keep, interval '8 days')
    ORDER BY p.first_number
    LIMIT 1
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    part := 'sender_ledger_' || first;
    EXECUTE pg_catalog.format('LOCK TABLE %I IN SHARE MODE', part);
    EXECUTE pg_catalog.format(
        'INSERT INTO sender_ledger_default (id, sender_id, change, balance, company_id, remark, created_at) ' -- the id is the place in the list
        'SELECT max(r.id), r.sender_id, sum(r.change), (max(ARRAY[r.id, r.balance]))[2], r.company_id, $1, max(r.created_at) '
        'FROM %I r GROUP BY r.sender_id, r.company_id, date_trunc(''day'', r.created_at, ''UTC'')', part
    ) USING remark;
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOOP -- tried here, because reading the partition takes longer than the lock
        tries := tries + 1;
        BEGIN
            LOCK TABLE ONLY sender_ledger IN ACCESS EXCLUSIVE MODE; -- in the order of readers: before its partitions
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF tries = 20 THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_catalog.pg_sleep(1);
    END LOOP;
    EXECUTE pg_catalog.format('DROP TABLE %I', part);
    DELETE FROM number_partitions p WHERE p.parent = 'sender_ledger' AND p.first_number = first;
    RETURN 1;
END
$$;

-- number_partitions_ahead makes a partition that the sequence has not reached, if none is, or moves the sequence on to it, if the present partition was
-- entered longer than width ago. It returns what it changed: 1, or 0 if nothing was to do. The sequence moves only to a partition that another transaction
-- made, because no rollback moves it back.
CREATE FUNCTION number_partitions_ahead(of_parent text, width interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    numbers CONSTANT text := CASE of_parent WHEN 'sender_ledger' THEN 'lease_ids' ELSE 'batches_id_seq' END;
    step CONSTANT bigint := CASE of_parent WHEN 'sender_ledger' THEN 1000000000 ELSE 10000 END; -- numbers of a partition; one that gets more goes on in the next
    options CONSTANT text := CASE of_parent WHEN 'batch_rows' THEN 'WITH (fillfactor = 85)' ELSE '' END; -- those of the default partition
    part text;
    last bigint;
    present number_partitions%ROWTYPE;
    next number_partitions%ROWTYPE;
    endless number_partitions%ROWTYPE;
BEGIN
    LOCK TABLE number_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time
    EXECUTE pg_catalog.format('SELECT s.last_value FROM %I s', numbers) INTO STRICT last;
    UPDATE number_partitions p SET entered_at = clock_timestamp() WHERE p.parent = of_parent AND p.entered_at IS NULL AND p.first_number <= last;
    UPDATE number_partitions p SET left_at = clock_timestamp() WHERE p.parent = of_parent AND p.left_at IS NULL AND p.before_number <= last;
    SELECT * INTO STRICT present FROM number_partitions p
    WHERE p.parent = of_parent AND p.first_number <= last ORDER BY p.first_number DESC LIMIT 1;
    SELECT * INTO next FROM number_partitions p
    WHERE p.parent = of_parent AND p.first_number > last AND p.before_number IS NOT NULL ORDER BY p.first_number LIMIT 1;
    IF NOT FOUND THEN
        -- The partition without end gets one, behind all numbers that may be given out meanwhile. It is empty, or the sequence was moved into it: then
        -- attaching it reads its rows.
        PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
        SELECT * INTO endless FROM number_partitions p WHERE p.parent = of_parent AND p.before_number IS NULL;
        IF FOUND THEN
            endless.before_number := (greatest(endless.first_number, last) / step + 2) * step;
            UPDATE number_partitions p SET before_number = endless.before_number
            WHERE p.parent = of_parent AND p.first_number = endless.first_number;
            part := of_parent || '_' || endless.first_number;
            EXECUTE pg_catalog.format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', of_parent); -- in the order of readers: before its partitions
            EXECUTE pg_catalog.format('ALTER TABLE %I DETACH PARTITION %I', of_parent, part);
            EXECUTE pg_catalog.format(
                'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', of_parent, part, endless.first_number, endless.before_number
            );
        ELSE -- the first one
            SELECT p.before_number INTO STRICT endless.before_number FROM number_partitions p WHERE p.parent = of_parent AND p.first_number = 0;
        END IF;
        part := of_parent || '_' || endless.before_number;
        INSERT INTO number_partitions (parent, first_number) VALUES (of_parent, endless.before_number);
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s', part, of_parent, options);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (MAXVALUE)', of_parent, part, endless.before_number);
        RETURN 1;
    END IF;
    -- Near the end of a partition the sequence comes to the next one by itself: moved, it could give out a number twice that others take at this moment.
    IF present.entered_at < now() - width AND last > present.first_number AND next.first_number - last > step / 10 THEN
        PERFORM pg_catalog.setval(numbers::regclass, next.first_number, false);
        UPDATE number_partitions p SET left_at = clock_timestamp() WHERE p.parent = of_parent AND p.first_number = present.first_number;
        UPDATE number_partitions p SET entered_at = clock_timestamp() WHERE p.parent = of_parent AND p.first_number = next.first_number;
        RETURN 1;
    END IF;
    RETURN 0;
END
$$;

-- The tasks of a pool of one sender stay in it. No other task comes to it.
CREATE FUNCTION pool_serving(of_pool bigint, of_company bigint, of_type smallint, of_country text)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT p.id
        FROM pools here
        CROSS JOIN LATERAL (VALUES
            (1, of_company, of_type::integer, (SELECT c.id FROM countries c WHERE c.country_no = of_country)),
            (2, of_company, of_type::integer, 0),
            (3, 0, -1, 0)
        ) AS k (step, company_id, message_type, country_id)
        JOIN pools p ON p.channel_id = here.channel_id AND coalesce(p.company_id, 0) = k.company_id
            AND coalesce(p.message_type, -1) = k.message_type AND coalesce(p.country_id, 0) = k.country_id AND coalesce(p.sender_id, 0) = 0
            AND p.retired_at IS NULL
        WHERE here.id = of_pool AND here.sender_id IS NULL
            AND (k.step = 3 OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
        ORDER BY k.step
        LIMIT 1
    ), of_pool)
$$;

-- queue_facts counts what a statement changed in the queue. The task of a row 'simulated' or 'unreachable' of report_logs never was in it.
CREATE FUNCTION queue_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, submitted, requeued
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at),
            count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            count(lease_until), count(*) FILTER (WHERE NOT was_claimed), count(*) FILTER (WHERE was_claimed)
        FROM added
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing, leases, waits
        )
        SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.processing_app_id, coalesce(c.at, clock_timestamp()),
            c.pending_new, c.pending_retry, c.processing, greatest(0, c.processing), CASE WHEN c.processing > 0 THEN c.waits END
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, max(updated_at) FILTER (WHERE n = 1) AS at,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count = 0), 0) AS pending_new,
                coalesce(sum(n) FILTER (WHERE lease_until IS NULL AND retry_count > 0), 0) AS pending_retry,
                coalesce(sum(n) FILTER (WHERE lease_until IS NOT NULL), 0) AS processing,
                string_agg(wait_bucket(updated_at - entered_at), '')
                    FILTER (WHERE n = 1 AND lease_until IS NOT NULL AND retry_count = 0 AND NOT was_claimed) AS waits
            FROM (
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, 1 AS n
                FROM added
                UNION ALL
                SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, lease_until, retry_count, updated_at,
                    entered_at, was_claimed, -1
                FROM removed
            ) x
            GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id
        ) c
        WHERE (c.pending_new, c.pending_retry, c.processing) <> (0, 0, 0);
    ELSE
        INSERT INTO facts (
            company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, pending_new, pending_retry, processing
        )
        SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id, clock_timestamp(),
            -count(*) FILTER (WHERE lease_until IS NULL AND retry_count = 0), -count(*) FILTER (WHERE lease_until IS NULL AND retry_count > 0),
            -count(lease_until)
        FROM removed
        GROUP BY company_id, pool_id, message_type, country_no, batch_id, is_test, processing_app_id;
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION queue_transactions() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
    WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.relation = 'queue'::regclass
        AND l.mode = 'RowShareLock' AND l.granted AND l.pid <> pg_backend_pid()
$$;
COMMENT ON FUNCTION queue_transactions() IS
    'The open transactions that lock rows of queue, as claims do. A claim that began before a change of the directory may hand out what the change holds; one that begins later does not.';

CREATE FUNCTION report_logs_facts() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

-- A row that loses its outcome takes it from all that counted it, also from its sender.
CREATE FUNCTION report_logs_outcome_facts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO facts (company_id, pool_id, message_type, country_no, batch_id, is_test, sender_no, at, success, failed)
    SELECT c.company_id, c.pool_id, c.message_type, c.country_no, c.batch_id, c.is_test, c.app_id, clock_timestamp(), c.success, c.failed
    FROM (
        SELECT x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id,
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 2), 0) AS success, -- SUCCESS
            coalesce(sum(x.n) FILTER (WHERE x.outcome = 3), 0) AS failed -- FAILED
        FROM (
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, 1 AS n FROM added
            UNION ALL
            SELECT company_id, pool_id, message_type, country_no, batch_id, is_test, app_id, outcome, -1 FROM removed
        ) x
        GROUP BY x.company_id, x.pool_id, x.message_type, x.country_no, x.batch_id, x.is_test, x.app_id
    ) c
    WHERE (c.success, c.failed) <> (0, 0);
    RETURN NULL;
END
$$;

-- segments_as_sent counts where a sender has a segment size or a signature, or forbids that of the message: sent_segments asks it only then. It is plpgsql, because
-- an SQL function would be copied into each place of the claim that counts, and each claim would prepare it.
CREATE FUNCTION segments_as_sent(
    content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint
) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF segment_size IS NOT NULL THEN
        RETURN attempt_segments(
            handed_text(content, coalesce(sign, sender_sign), CASE sign_mode WHEN 'none' THEN 'none' ELSE 'in_text' END), counted, segment_size, true
        );
    ELSIF sign_mode = 'none' THEN
        RETURN unsigned_segments(handed_text(content, sign, 'none'));
    ELSIF starts_with(content, '【' || sender_sign || '】') THEN
        RETURN counted;
    END IF;
    RETURN attempt_segments('【' || sender_sign || '】' || content, counted, NULL, true);
END
$$;

CREATE FUNCTION sender_serves(of_sender bigint, of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM senders s
        WHERE s.id = of_sender AND s.status <> 'retired' AND (
            EXISTS (
                SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
                WHERE r.sender_id = s.id AND r.status = 'on' AND p.company_id = of_company AND p.sender_id IS NULL
            )
            OR (
                s.is_shared AND EXISTS (SELECT FROM companies c WHERE c.id = of_company AND c.uses_shared_senders)
                AND NOT EXISTS (SELECT FROM routes r JOIN pools p ON p.id = r.pool_id WHERE r.sender_id = s.id AND p.sender_id IS NULL)
            )
        )
    )
$$;
COMMENT ON FUNCTION sender_serves(bigint, bigint) IS
    'Whether a company may name a sender for its tasks, and the sender may take them: a route of the company that is on names the sender; or the sender is shared, no route names it, and the company uses shared senders. A sender that is off serves, one that is retired does not.';

CREATE FUNCTION sender_silences(silent_after interval, noted_apart interval)
RETURNS TABLE (sender_id bigint, is_silent boolean, slack interval) LANGUAGE sql STABLE AS $$
    SELECT s.id, s.kind = 'app' AND coalesce(st.seen_at <= now() - silent_after - l.slack, true), l.slack
    FROM senders s
    JOIN sender_states st ON st.sender_id = s.id
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN EXISTS (SELECT FROM routes r WHERE r.sender_id = s.id AND r.status = 'on') THEN interval '0'
            -- The sweep stores polls every five seconds.
            WHEN s.is_shared AND st.next_available_at <= now() - silent_after AND s.channel_id IN (
                SELECT w.channel_id FROM channels_waiting(now() - greatest(silent_after, interval '20 seconds')) w
            ) THEN greatest(interval '0', interval '20 seconds' - silent_after)
            ELSE noted_apart
        END AS slack
    ) l
$$;
COMMENT ON FUNCTION sender_silences(interval, interval) IS
    'The rule by which an app is silent: it has not polled for silent_after and slack. slack is how much later its polls are stored: not at all if a route names it, and hardly if work waits in its shared pool for longer than silent_after; else every noted_apart. The sweep of internal/dispatch/sender stores them so.';

-- sent_segments is what an attempt of a task costs a sender. counted are the segments with the message's own signature. A signature counts once, whoever
-- adds it, and not at a sender that forbids it.
CREATE FUNCTION sent_segments(
    content text, sign text, counted smallint, sender_sign text, sign_mode text, segment_size bigint, counts_segments boolean
) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT counts_segments THEN 1
    WHEN segment_size IS NULL AND CASE WHEN sign IS NULL THEN sender_sign IS NULL ELSE sign_mode <> 'none' END THEN counted
    ELSE segments_as_sent(content, sign, counted, sender_sign, sign_mode, segment_size)
END;

CREATE FUNCTION task_flow_start(of_pool bigint, of_priority smallint, of_company bigint, of_flow text, gap double precision) RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
BEGIN
    -- VOLATILE: it sees what was committed until the caller got the lock of the company's fair_ranks.
    RETURN greatest(
        least(
            (
                SELECT q.flow_rank FROM queue q
                WHERE q.pool_id = of_pool AND q.lane = 32 * of_priority AND q.company_id = of_company
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.flow_rank
                LIMIT 1
            ),
            task_queue_front(of_pool, of_priority)
        ),
        (
            -- The last entry of queue_flows_idx that is not behind the flow. The order names all columns of the index, so that no other one serves.
            SELECT CASE WHEN (l.pool_id, l.lane, l.company_id, l.flow) = (of_pool, 32 * of_priority, of_company, of_flow) THEN l.flow_rank + gap END
            FROM (
                SELECT q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by) AS flow, q.flow_rank FROM queue q
                WHERE (q.pool_id, q.lane, q.company_id, task_flow(q.batch_id, q.submitted_by)) <= (of_pool, 32 * of_priority, of_company, of_flow)
                    AND q.lease_until IS NULL AND q.lane IS NOT NULL AND q.flow_rank IS NOT NULL
                ORDER BY q.pool_id DESC, q.lane DESC, q.company_id DESC, task_flow(q.batch_id, q.submitted_by) DESC, q.flow_rank DESC
                LIMIT 1
            ) l
        )
    );
END
$$;
COMMENT ON FUNCTION task_flow_start(bigint, smallint, bigint, text, double precision) IS
    'The smallest flow_rank of a new task of a flow: behind the tasks of the flow that have a flow_rank, and not before the first waiting task of its company. gap is 1 / weight of the company; a null flow has no tasks.';

CREATE FUNCTION task_is_withdrawn(of_task text, of_company bigint, of_rendering bigint, of_user text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    notification bigint;
    of_batch boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM companies c WHERE c.id = of_company) THEN
        RETURN true;
    END IF;
    IF of_rendering IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.notification_id, r.channel_id IS NOT NULL INTO notification, of_batch FROM renderings r WHERE r.id = of_rendering;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    IF of_batch THEN
        RETURN false;
    END IF;
    IF notification IS NULL THEN
        RETURN NOT EXISTS (SELECT FROM subscribe_messages s WHERE s.task_id = of_task);
    END IF;
    RETURN NOT EXISTS (
            SELECT FROM notifications n
            WHERE n.id = notification AND n.ended_as IS NULL AND n.deleted_at IS NULL AND n.replaced_at IS NULL AND n.forgotten_at IS NULL
        )
        OR EXISTS (
            SELECT FROM renderings l
            JOIN messages m ON m.rendering_id = l.id
            WHERE l.notification_id = notification AND l.id > of_rendering AND m.user_id = of_user
        );
END
$$;

-- task_partition_attach makes partitions of the tables of task_partition_stage. Rows of these days in the default partitions, such as a receipt
-- that met the drop, move to them; those of a task that its drop left behind take the place of what the export says of the task. Everybody waits
-- meanwhile, because a statement that finds one of the two partitions must find the other. So it gives up when it does not get its locks at once.
CREATE FUNCTION task_partition_attach(of_first_day date, of_last_day date) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    LOCK TABLE messages_default, report_logs_default IN ACCESS EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['report_logs', 'messages'] LOOP -- messages_default last: it says which tasks were left behind
        part := parent || substr(first_id, 5);
        EXECUTE pg_catalog.format(
            'DELETE FROM %I p USING messages_default d WHERE p.task_id = d.task_id AND d.task_id >= %L AND d.task_id < %L', part, first_id, before_id
        );
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
        EXECUTE pg_catalog.format('ALTER TABLE %I DROP CONSTRAINT days', part);
    END LOOP;
    INSERT INTO task_partitions AS p (first_day, last_day, history_at, imported_at) VALUES (of_first_day, of_last_day, now(), now())
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = excluded.history_at, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, exported_late = NULL, late_tasks = NULL, imported_at = excluded.imported_at, dropped_at = NULL;
END
$$;

CREATE FUNCTION task_partition_drop(of_first_day date, only_exported boolean DEFAULT false, late text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    p task_partitions%ROWTYPE;
    part_of_messages text;
    part_of_reports text;
    is_exported boolean;
    late_messages messages[];
    late_reports report_logs[];
BEGIN
    late := coalesce(late, '{}'); -- with null, no task would wait
    SELECT * INTO p FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'absent';
    END IF;
    IF p.last_day >= (now() AT TIME ZONE 'UTC')::date THEN
        RETURN 'open';
    END IF;
    part_of_messages := 'messages' || substr(p.first_id, 5);
    part_of_reports := 'report_logs' || substr(p.first_id, 5);
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', part_of_messages, part_of_reports);
    PERFORM pg_catalog.set_config('lock_timeout', '500ms', true);
    -- No row can be added from here on. A submission that has stored its message, and not yet its row of the queue, holds a lock of the partition.
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE MODE', part_of_messages, part_of_reports);
    IF EXISTS (SELECT FROM queue q WHERE q.task_id >= p.first_id AND q.task_id < p.before_id AND q.task_id <> ALL (late)) THEN
        RETURN 'unsettled';
    END IF;
    IF only_exported THEN
        -- An export that left out others has as many rows by chance only, but a row of it may be missing then.
        IF late <> '{}' AND late IS DISTINCT FROM p.exported_late THEN
            RETURN 'unexported';
        END IF;
        EXECUTE pg_catalog.format(
            'SELECT (SELECT count(*) FROM %1$I) - (SELECT count(*) FROM %1$I WHERE task_id = ANY ($3)) = $1 '
            'AND (SELECT count(*) FROM %2$I) - (SELECT count(*) FROM %2$I WHERE task_id = ANY ($3)) = $2', part_of_messages, part_of_reports
        )
        INTO is_exported USING p.exported_messages, p.exported_reports, late;
        IF is_exported IS NOT TRUE THEN
            RETURN 'unexported';
        END IF;
    END IF;
    SELECT array_agg(m) INTO late_messages FROM messages m WHERE m.task_id = ANY (late) AND m.task_id >= p.first_id AND m.task_id < p.before_id;
    SELECT array_agg(r) INTO late_reports FROM report_logs r WHERE r.task_id = ANY (late) AND r.task_id >= p.first_id AND r.task_id < p.before_id;
    -- In the order of readers: the table before its partitions. Only now everybody waits.
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_messages);
    EXECUTE pg_catalog.format('DROP TABLE %I', part_of_reports);
    -- into the default partitions themselves: through the tables, triggers would count the rows once more
    INSERT INTO messages_default SELECT m.* FROM unnest(late_messages) m;
    INSERT INTO report_logs_default SELECT r.* FROM unnest(late_reports) r;
    UPDATE task_partitions t SET dropped_at = clock_timestamp(), late_tasks = coalesce(cardinality(late_messages), 0), held_by = NULL
    WHERE t.first_day = p.first_day;
    RETURN 'dropped';
END
$$;

-- task_partition_gather makes the partition that begins at of_first_day, and was dropped, again for the tasks that the drop left behind. They are kept
-- from now on as those of other days.
CREATE FUNCTION task_partition_gather(of_first_day date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    of_last_day date;
BEGIN
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time, see task_partitions_ahead
    SELECT t.last_day INTO of_last_day FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NOT NULL;
    IF FOUND THEN
        PERFORM task_partition_make(of_first_day, of_last_day);
        UPDATE task_partitions t SET imported_at = now(), exported_late = NULL, late_tasks = NULL WHERE t.first_day = of_first_day;
    END IF;
END
$$;

-- task_partition_index builds the indexes of the tables of task_partition_stage, and checks their ids. Nobody else sees these tables.
CREATE FUNCTION task_partition_index(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    part text;
    made record;
BEGIN
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(task_day_id(of_first_day), 5);
        FOR made IN
            SELECT i.indexrelid, i.indisprimary, c.oid AS constraint_id
            FROM pg_index i
            LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype = 'p'
            WHERE i.indrelid = parent::regclass
            ORDER BY i.indexrelid
        LOOP
            IF made.indisprimary THEN
                EXECUTE pg_catalog.format('ALTER TABLE %I ADD %s', part, pg_get_constraintdef(made.constraint_id));
            ELSE
                EXECUTE regexp_replace(
                    pg_get_indexdef(made.indexrelid), '^CREATE (UNIQUE )?INDEX \S+ ON (ONLY )?\S+', pg_catalog.format('CREATE \1INDEX ON %I', part)
                );
            END IF;
        END LOOP;
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I ADD CONSTRAINT days CHECK (task_id >= %L AND task_id < %L)', part, task_day_id(of_first_day), task_day_id(of_last_day)
        );
        EXECUTE pg_catalog.format('ANALYZE %I', part);
    END LOOP;
END
$$;

CREATE FUNCTION task_partition_make(of_first_day date, of_last_day date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    parent text;
    part text;
    first_id CONSTANT text := task_day_id(of_first_day);
    before_id CONSTANT text := task_day_id(of_last_day);
BEGIN
    LOCK TABLE messages_default, report_logs_default IN SHARE UPDATE EXCLUSIVE MODE; -- see task_partition_move
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    IF EXISTS (SELECT FROM messages_default m WHERE m.task_id >= first_id AND m.task_id < before_id)
        OR EXISTS (SELECT FROM report_logs_default r WHERE r.task_id >= first_id AND r.task_id < before_id) THEN
        LOCK TABLE ONLY messages, ONLY report_logs IN ACCESS EXCLUSIVE MODE;
    END IF;
    INSERT INTO task_partitions AS p (first_day, last_day) VALUES (of_first_day, of_last_day)
    ON CONFLICT (first_day) DO UPDATE
    SET last_day = excluded.last_day, created_at = excluded.created_at, history_at = NULL, exported_at = NULL, exported_to = NULL,
        exported_messages = NULL, exported_reports = NULL, imported_at = NULL, dropped_at = NULL
    WHERE p.dropped_at IS NOT NULL;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        part := parent || substr(first_id, 5);
        -- Nobody may add rows of these days to the default partition until the new one is attached.
        EXECUTE pg_catalog.format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
        EXECUTE pg_catalog.format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
        EXECUTE pg_catalog.format('WITH moved AS (DELETE FROM %I WHERE task_id >= %L AND task_id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
            parent || '_default', first_id, before_id, part);
        EXECUTE pg_catalog.format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first_id, before_id);
    END LOOP;
END
$$;

-- task_partition_move moves one table or index of the partitions that begin at of_first_day to a tablespace, and returns whether one was left to
-- move. A partition is moved by one transaction for each of its tables and indexes, so that readers of these days wait for one only. It gives up
-- when it does not get its lock at once, because others wait behind it. Before, it waits longer for the mode that conflicts with vacuum and analyze
-- only: PostgreSQL ends those of autovacuum for somebody who waits a second.
CREATE FUNCTION task_partition_move(of_first_day date, to_tablespace text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '3s' AS $$
DECLARE
    suffix text;
    relation regclass;
    kind "char";
BEGIN
    SELECT substr(t.first_id, 5) INTO STRICT suffix FROM task_partitions t WHERE t.first_day = of_first_day AND t.dropped_at IS NULL;
    SELECT r.oid, r.relkind INTO relation, kind
    FROM pg_class t
    CROSS JOIN LATERAL (
        SELECT t.oid UNION ALL SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = t.oid
    ) x (oid)
    JOIN pg_class r ON r.oid = x.oid
    WHERE t.oid IN (to_regclass('messages' || suffix), to_regclass('report_logs' || suffix))
        -- the tablespace of the database is 0 here
        AND coalesce(nullif(r.reltablespace, 0), (SELECT d.dattablespace FROM pg_database d WHERE d.datname = current_database()))
            <> (SELECT s.oid FROM pg_tablespace s WHERE s.spcname = to_tablespace)
    ORDER BY r.oid
    LIMIT 1;
    IF relation IS NULL THEN
        PERFORM FROM pg_tablespace s WHERE s.spcname = to_tablespace;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'tablespace "%" does not exist', to_tablespace USING ERRCODE = 'undefined_object';
        END IF;
        RETURN false;
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %I, %I IN SHARE UPDATE EXCLUSIVE MODE', 'messages' || suffix, 'report_logs' || suffix);
    PERFORM pg_catalog.set_config('lock_timeout', '100ms', true);
    EXECUTE pg_catalog.format(
        'ALTER %s %s SET TABLESPACE %I', CASE kind WHEN 'i' THEN 'INDEX' ELSE 'TABLE' END, relation::regclass, to_tablespace
    );
    RETURN true;
END
$$;

-- task_partition_stage makes tables for the rows of the days from of_first_day to the one before of_last_day. When they are filled,
-- task_partition_index and task_partition_attach make partitions of them, in the same transaction. It fails if a partition has some of these days.
-- The tables belong to the owner of the others. What is left of dropped tasks of these days stays until the end of the transaction, because the
-- sweeps that delete it skip a locked row.
CREATE FUNCTION task_partition_stage(of_first_day date, of_last_day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent text;
BEGIN
    IF EXISTS (SELECT FROM task_partitions t WHERE t.dropped_at IS NULL AND t.first_day < of_last_day AND t.last_day > of_first_day) THEN
        RAISE EXCEPTION 'there are partitions for % to %', of_first_day, of_last_day - 1 USING ERRCODE = 'duplicate_table';
    END IF;
    PERFORM FROM task_partitions t WHERE t.first_day < of_last_day AND t.last_day > of_first_day ORDER BY t.first_day FOR UPDATE;
    FOREACH parent IN ARRAY ARRAY['messages', 'report_logs'] LOOP
        EXECUTE pg_catalog.format(
            'CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', parent || substr(task_day_id(of_first_day), 5), parent
        );
        EXECUTE pg_catalog.format(
            'ALTER TABLE %I OWNER TO %I', parent || substr(task_day_id(of_first_day), 5),
            (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = parent::regclass)
        );
    END LOOP;
END
$$;

-- task_partitions_ahead makes the partitions that are missing from the day of first_at until the one of last_at, each of a day, week or month,
-- and returns how many. Days that have a partition already are left as they are, and so are days before first_at that were dropped.
CREATE FUNCTION task_partitions_ahead(width text, first_at timestamptz, last_at timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    day date := greatest(
        date_trunc(width, first_at AT TIME ZONE 'UTC')::date,
        (SELECT max(p.last_day) FROM task_partitions p WHERE p.dropped_at IS NOT NULL AND p.last_day <= (first_at AT TIME ZONE 'UTC')::date)
    );
    until CONSTANT date := date_trunc('day', last_at AT TIME ZONE 'UTC');
    after date;
    made integer := 0;
BEGIN
    IF width NOT IN ('day', 'week', 'month') THEN
        RAISE EXCEPTION 'partitions are a day, week or month wide, not %', width;
    END IF;
    LOCK TABLE task_partitions IN SHARE ROW EXCLUSIVE MODE; -- one caller at a time
    WHILE day <= until LOOP
        SELECT p.last_day INTO after FROM task_partitions p WHERE p.first_day <= day AND p.last_day > day AND p.dropped_at IS NULL;
        IF after IS NULL THEN
            after := least(
                (date_trunc(width, day::timestamp) + ('1 ' || width)::interval)::date,
                (SELECT min(p.first_day) FROM task_partitions p WHERE p.first_day > day)
            );
            PERFORM task_partition_make(day, after);
            made := made + 1;
        END IF;
        day := after;
    END LOOP;
    RETURN made;
END
$$;

CREATE FUNCTION task_queue_front(of_pool bigint, of_priority smallint) RETURNS double precision
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

-- task_segments is what an attempt of a task costs a sender, in segments, for servers of before 1.0. Off SMS a message is one, whatever its length.
CREATE FUNCTION task_segments(
    content text, sign text, counted smallint, sender_sign text, segment_size bigint, counts_segments boolean
) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN NOT counts_segments THEN 1
    WHEN segment_size IS NULL AND (sender_sign IS NULL OR sign IS NOT NULL) THEN counted
    ELSE attempt_segments(
        coalesce('【' || coalesce(sign, sender_sign) || '】', '') || content, counted, segment_size,
        sender_sign IS NOT NULL AND sign IS NULL
    )
END;

-- task_submitter is the user whose task it is. Dynamic SQL, so that the planner opens one partition of messages.
CREATE FUNCTION task_submitter(of_task text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    submitter text;
BEGIN
    EXECUTE format('SELECT m.submitted_by FROM messages m WHERE m.task_id = %L', of_task) INTO submitter;
    RETURN submitter;
END
$$;
COMMENT ON FUNCTION task_submitter(text) IS
    'The user whose task it is, of a task that was stored by a server that did not know queue.submitted_by.';

-- task_switches has one SELECT and no volatile function: the planner puts it in the place of its call.
CREATE FUNCTION task_switches(of_pool bigint, of_company bigint, of_country text, of_submitter text)
RETURNS TABLE (switch text, name text) LANGUAGE sql STABLE AS $$
    SELECT 'company', c.company_no FROM companies c WHERE c.id = of_company AND c.status = 'off'
    UNION ALL
    SELECT 'user', u.username FROM users u WHERE u.username = of_submitter AND u.is_disabled
    UNION ALL
    SELECT 'channel', k.channel FROM pools p JOIN channels k ON k.id = p.channel_id WHERE p.id = of_pool AND k.status = 'off'
    UNION ALL
    SELECT 'country', n.country_no FROM countries n WHERE n.country_no = of_country AND n.status = 'off'
    UNION ALL
    SELECT 'company_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms' -- only its recipients have countries
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM company_countries x WHERE x.company_id = of_company AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'on'
        )
        WHEN c.any_country THEN EXISTS (
            SELECT FROM countries n JOIN company_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.company_id = of_company AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'channel_country', coalesce(of_country, '')
    FROM pools p
    JOIN channels k ON k.id = p.channel_id AND k.channel = 'sms'
    WHERE p.id = of_pool AND CASE
        WHEN EXISTS (SELECT FROM channel_countries x WHERE x.channel_id = k.id AND x.status = 'on') THEN NOT EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'on'
        )
        WHEN k.any_country THEN EXISTS (
            SELECT FROM countries n JOIN channel_countries x ON x.country_id = n.id
            WHERE n.country_no = of_country AND x.channel_id = k.id AND x.status = 'off'
        )
        ELSE true
    END
    UNION ALL
    SELECT 'shared_senders', c.company_no
    FROM pools p
    JOIN companies c ON c.id = of_company
    WHERE p.id = of_pool AND p.company_id IS NULL AND p.retired_at IS NULL AND NOT c.uses_shared_senders
$$;
COMMENT ON FUNCTION task_switches(bigint, bigint, text, text) IS
    'The switches that hold a task of a pool, company, country (null: that of the number is not known) and submitter: what is off, and its name. shared_senders: no route of the company serves the task, and shared senders may not. No row: nothing holds it.';

CREATE VIEW tasks AS
SELECT m.task_id, m.phone_number, m.recipient, m.content,
    CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
    m.source, m.submitted_by, m.dedup_key,
    coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
    nullif(coalesce(q.due_at, e.due_at, m.created_at), held_due_at())::timestamptz AS due_at,
    coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
    coalesce(q.lease_id, e.lease_id) AS lease_id,
    q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
    coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
    CASE WHEN e.outcome = 2 AND e.event = 'reported' THEN e.created_at END AS sent_at,
    CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
    m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
    m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
    m.rendering_id, m.user_id,
    CASE WHEN d.task_id IS NOT NULL THEN 1 WHEN u.task_id IS NOT NULL THEN 2 END::smallint AS delivery,
    CASE WHEN d.task_id IS NOT NULL THEN d.result ELSE u.result END AS delivery_code, d.created_at AS delivered_at, m.on_unclear,
    m.batch_id, m.sender_no
-- Joins by the key only: with a task_id that is known, the planner finds the partition of each table.
FROM messages m
LEFT JOIN queue q ON q.task_id = m.task_id
LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.outcome IS NOT NULL
LEFT JOIN report_logs d ON d.task_id = m.task_id AND d.event = 'receipt' AND d.effect = 'delivered'
LEFT JOIN report_logs u ON u.task_id = m.task_id AND u.event = 'receipt' AND u.effect = 'undelivered';
COMMENT ON VIEW tasks IS
    'The state of each task: what was submitted, from messages; what is waiting or leased, from queue; how it ended, from report_logs. Read it by '
    'task_id or rendering_id; nothing else is indexed. Of a settled task, pool_id and expires_at are those of its submission, and failed_app_id is '
    'null. due_at is null while the task is held, and of a task that ended while it was.';

CREATE FUNCTION tasks_between(from_id text, to_id text) RETURNS SETOF tasks
LANGUAGE sql STABLE AS $$
    SELECT m.task_id, m.phone_number, m.recipient, m.content,
        CASE WHEN q.task_id IS NULL THEN coalesce(e.outcome, 3) WHEN q.lease_until IS NULL THEN 0 ELSE 1 END::smallint AS status,
        m.source, m.submitted_by, m.dedup_key,
        coalesce(q.retry_count, e.retry_count, 0)::smallint AS retry_count,
        nullif(coalesce(q.due_at, e.due_at, m.created_at), held_due_at())::timestamptz AS due_at,
        coalesce(q.processing_app_id, CASE WHEN e.event = 'reported' AND e.effect <> 'exhausted' THEN e.app_id END) AS processing_app_id,
        coalesce(q.lease_id, e.lease_id) AS lease_id,
        q.lease_until, coalesce(q.result, e.result) AS result, m.created_at,
        coalesce(q.updated_at, e.created_at, m.created_at)::timestamptz AS updated_at,
        CASE WHEN e.outcome = 2 AND e.event = 'reported' THEN e.created_at END AS sent_at,
        CASE WHEN e.outcome IN (2, 3) THEN e.created_at END AS reported_at,
        m.company_id, coalesce(q.pool_id, m.pool_id)::bigint AS pool_id, m.message_type, m.country_no, m.priority, m.segments, m.sign,
        m.is_test, m.expect_send_time, coalesce(q.expires_at, m.expires_at) AS expires_at, q.failed_app_id, q.lane, q.rank,
        m.rendering_id, m.user_id,
        CASE r.effect WHEN 'delivered' THEN 1 WHEN 'undelivered' THEN 2 END::smallint AS delivery,
        r.result AS delivery_code, CASE r.effect WHEN 'delivered' THEN r.created_at END AS delivered_at, m.on_unclear,
        m.batch_id, m.sender_no
    FROM messages m
    LEFT JOIN queue q ON q.task_id = m.task_id
    LEFT JOIN report_logs e ON e.task_id = m.task_id AND e.task_id BETWEEN from_id AND to_id AND e.outcome IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT d.effect, d.result, d.created_at FROM report_logs d
        WHERE d.task_id = m.task_id AND d.task_id BETWEEN from_id AND to_id AND d.event = 'receipt' AND d.effect IN ('delivered', 'undelivered')
        ORDER BY d.effect -- delivered before undelivered
        LIMIT 1
    ) r ON true
    WHERE m.task_id BETWEEN from_id AND to_id
$$;
COMMENT ON FUNCTION tasks_between(text, text) IS
    'The rows of the view tasks with task_id from from_id to to_id, both included. It opens only the partitions of this range. It and the '
    'view say the same in two ways: change both together.';

-- unsigned_segments counts a text that is sent without signature: GSM 03.38 in septets, of which a character of the extension takes two; any other text as
-- attempt_segments does.
CREATE FUNCTION unsigned_segments(content text) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN content !~ '[^@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&''()*+,\-./0-9:;<=>?¡A-ZÄÖÑÜ§¿a-zäöñüà\f^{}\\[~\]|€]' THEN CASE
        WHEN char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]', '', 'g')) <= 160 THEN 1
        ELSE ceil((char_length(content) + char_length(regexp_replace(content, '[^\f^{}\\[~\]|€]', '', 'g'))) / 153.0)
    END
    ELSE attempt_segments(content, NULL, NULL, true)
END;

CREATE VIEW send_logs AS
SELECT l.lease_id AS id, l.task_id, l.app_id, m.phone_number, handed_text(m.content, coalesce(m.sign, l.lease_sign), l.lease_sign_mode) AS content,
    (l.retry_count + 1)::smallint AS attempt, l.lease_until,
    jsonb_build_object('app_id', l.app_id, 'limit', l.lease_limit) AS request_data,
    jsonb_build_object('lease_id', l.lease_id, 'attempt', l.retry_count + 1, 'lease_until', l.lease_until) AS response_data,
    l.leased_at AS created_at, l.lease_segments AS segments
FROM (
    SELECT task_id, app_id, lease_id, retry_count, leased_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit
    FROM report_logs
    WHERE leased_at IS NOT NULL
    UNION ALL
    SELECT task_id, processing_app_id, lease_id, retry_count, updated_at, lease_until, lease_segments, lease_sign, lease_sign_mode, lease_limit
    FROM queue
    WHERE lease_until IS NOT NULL
) l
JOIN messages m ON m.task_id = l.task_id;
COMMENT ON VIEW send_logs IS 'Each lease, with the columns of the documented log: those that have ended, and those of queue.';

CREATE VIEW sender_standings AS
SELECT s.id AS sender_id, s.sender_no, s.channel_id, s.kind, s.status, s.is_shared, s.sort,
    st.next_available_at, st.seen_at, st.balance, u.minute_used, u.hour_used, u.day_used, u.month_used,
    s.status = 'on' AS is_on,
    st.next_available_at <= now() AS is_rested,
    q.has_quota, f.has_funds,
    coalesce(u.day_used::double precision / nullif(s.per_day, 0), 0) AS day_share,
    coalesce(st.response_ms / nullif(st.succeeded + st.failed, 0), 0) AS response_ms,
    s.status = 'on' AND q.has_quota AND f.has_funds AND st.rest_until IS NULL AS is_available,
    l.segments_left,
    CASE WHEN l.segments_left IS NULL THEN 1000000000
        ELSE greatest(0, l.segments_left / ceil(160.0 / coalesce(s.segment_size, 160))::bigint - CASE WHEN s.sign IS NULL THEN 0 ELSE 1 END)
    END AS room
FROM senders s
JOIN sender_states st ON st.sender_id = s.id
CROSS JOIN LATERAL (
    SELECT
        used_in_window('minute', now(), s.time_zone, st.minute_used, st.last_taken_at) AS minute_used,
        used_in_window('hour', now(), s.time_zone, st.hour_used, st.last_taken_at) AS hour_used,
        used_in_window('day', now(), s.time_zone, st.day_used, st.last_taken_at) AS day_used,
        used_in_window('month', now(), s.time_zone, st.month_used, st.last_taken_at) AS month_used
) u
CROSS JOIN LATERAL (
    SELECT coalesce(s.per_minute > u.minute_used, true) AND coalesce(s.per_hour > u.hour_used, true)
        AND coalesce(s.per_day > u.day_used, true) AND coalesce(s.per_month > u.month_used, true) AS has_quota
) q
CROSS JOIN LATERAL (
    SELECT NOT s.has_balance OR coalesce(st.balance, 0) > coalesce(s.low_switch, 0) AS has_funds
) f
CROSS JOIN LATERAL (
    SELECT least(
        s.per_minute - u.minute_used, s.per_hour - u.hour_used, s.per_day - u.day_used, s.per_month - u.month_used,
        CASE WHEN s.has_balance THEN coalesce(st.balance, 0) END
    ) AS segments_left
) l;
COMMENT ON VIEW sender_standings IS 'View: each sender with what others need to know about it now. A claim reads it by sender_id.';
COMMENT ON COLUMN sender_standings.is_rested IS 'next_available_at has passed';
COMMENT ON COLUMN sender_standings.has_quota IS 'each limit has segments left';
COMMENT ON COLUMN sender_standings.has_funds IS 'it has no balance, or one above low_switch';
COMMENT ON COLUMN sender_standings.day_share IS 'used part of the daily limit; 0 without a limit';
COMMENT ON COLUMN sender_standings.response_ms IS 'average milliseconds from claim to report';
COMMENT ON COLUMN sender_standings.is_available IS
    'on, with quota and funds, and with a closed circuit breaker; sort and shares compare only available senders';
COMMENT ON COLUMN sender_standings.segments_left IS 'segments that its limits and balance leave; null: no limit';
COMMENT ON COLUMN sender_standings.room IS
    'the most segments, as counted at the submission, of a task that it can surely still send; its own segment size or signature may '
    'allow more';

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
COMMENT ON VIEW sender_totals IS
    'What each sender did so far: the totals of sender_states, and what facts still holds. Both are read at one moment.';
COMMENT ON COLUMN sender_totals.attempts IS 'number of leases';
COMMENT ON COLUMN sender_totals.seen_at IS 'the last poll, claim or report; null: none';
COMMENT ON COLUMN sender_totals.sent_at IS 'the last reported SUCCESS; null: none';
COMMENT ON COLUMN sender_totals.failed_tasks IS 'tasks that became FAILED with the sender';

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

INSERT INTO number_partitions (parent, first_number, before_number, entered_at) VALUES ('sender_ledger', 0, 2000000000, now());
SELECT number_partitions_ahead('sender_ledger', '1 year'); -- makes the partition without end

CREATE TRIGGER queue_facts_deleted AFTER DELETE ON queue
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();
CREATE TRIGGER queue_facts_inserted AFTER INSERT ON queue
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();
CREATE TRIGGER queue_facts_updated AFTER UPDATE ON queue
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION queue_facts();
CREATE TRIGGER report_logs_facts_inserted AFTER INSERT ON report_logs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION report_logs_facts();
CREATE TRIGGER report_logs_facts_updated AFTER UPDATE ON report_logs
    REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION report_logs_outcome_facts();
CREATE TRIGGER facts_guard BEFORE DELETE ON facts FOR EACH STATEMENT EXECUTE FUNCTION facts_guard('3');
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF stopped_by ON task_jobs
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'task_job', 'id', 'done,skipped,failed,status,finished_at,created_by', 'filter.*',
    'status,phone_number,source,message_type,sender_no,delivery,company_no,result,created_from,created_to,batch_id,test'
);
CREATE TRIGGER audited AFTER INSERT OR UPDATE ON task_partitions
FOR EACH ROW WHEN (current_setting('lksms.actor', true) <> '')
EXECUTE FUNCTION audit_change('partition', 'first_day', 'first_id,before_id');

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
