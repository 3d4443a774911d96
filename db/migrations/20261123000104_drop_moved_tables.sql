-- migrate:up
-- Their rows were moved by the migration before.
-- squawk-ignore ban-drop-table
DROP TABLE old_tasks;
-- squawk-ignore ban-drop-table
DROP TABLE old_receive_logs;
-- squawk-ignore ban-drop-table
DROP TABLE old_send_logs;
-- squawk-ignore ban-drop-table
DROP TABLE old_report_logs;

-- migrate:down
CREATE TABLE old_tasks (
    task_id text NOT NULL COLLATE "C",
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    source text,
    submitted_by text,
    dedup_key text,
    retry_count smallint DEFAULT 0 NOT NULL,
    due_at timestamptz DEFAULT now() NOT NULL,
    processing_app_id text,
    lease_id bigint,
    lease_until timestamptz,
    result text,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    sent_at timestamptz,
    reported_at timestamptz,
    company_id bigint DEFAULT 1 NOT NULL,
    pool_id bigint DEFAULT 1 NOT NULL,
    message_type smallint DEFAULT 1 NOT NULL,
    country_no text,
    priority smallint DEFAULT 5 NOT NULL,
    segments smallint DEFAULT 1 NOT NULL,
    sign text,
    is_test boolean DEFAULT false NOT NULL,
    expect_send_time timestamptz,
    expires_at timestamptz,
    failed_app_id text,
    lane smallint,
    rank double precision,
    rendering_id bigint,
    user_id text,
    delivery smallint,
    delivery_code text,
    delivered_at timestamptz,
    on_unclear text,
    CONSTRAINT tasks_content_length CHECK (((char_length(content) >= 1) AND (char_length(content) <= 200))),
    CONSTRAINT tasks_dedup_key_length CHECK (((char_length(dedup_key) >= 1) AND (char_length(dedup_key) <= 100))),
    CONSTRAINT tasks_lease_while_processing CHECK ((((status = 1) = (lease_until IS NOT NULL))
        AND ((status <> 1) OR ((processing_app_id IS NOT NULL) AND (lease_id IS NOT NULL))))),
    CONSTRAINT tasks_message_type_known CHECK (((message_type >= 0) AND (message_type <= 2))),
    CONSTRAINT tasks_priority_range CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT tasks_result_length CHECK ((char_length(result) <= 500)),
    CONSTRAINT tasks_retry_count_range CHECK (((retry_count >= 0) AND (retry_count <= 20))),
    CONSTRAINT tasks_segments_range CHECK (((segments >= 1) AND (segments <= 100))),
    CONSTRAINT tasks_source_length CHECK (((char_length(source) >= 1) AND (char_length(source) <= 50))),
    CONSTRAINT tasks_status_known CHECK (((status >= 0) AND (status <= 4))),
    CONSTRAINT tasks_task_id_length CHECK (((char_length(task_id) >= 1) AND (char_length(task_id) <= 50))),
    CONSTRAINT tasks_times_range CHECK ((((due_at >= '1970-01-01 00:00:00+00') AND (due_at <= '9999-01-01 00:00:00+00'))
        AND ((lease_until >= '1970-01-01 00:00:00+00') AND (lease_until <= '9999-01-01 00:00:00+00'))
        AND ((created_at >= '1970-01-01 00:00:00+00') AND (created_at <= '9999-01-01 00:00:00+00'))
        AND ((updated_at >= '1970-01-01 00:00:00+00') AND (updated_at <= '9999-01-01 00:00:00+00'))
        AND ((sent_at >= '1970-01-01 00:00:00+00') AND (sent_at <= '9999-01-01 00:00:00+00'))
        AND ((reported_at >= '1970-01-01 00:00:00+00') AND (reported_at <= '9999-01-01 00:00:00+00')))),
    CONSTRAINT tasks_pkey PRIMARY KEY (task_id)
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.05');
CREATE INDEX tasks_due_idx ON old_tasks (pool_id, due_at) WHERE ((status = 0) AND (lane IS NULL));
CREATE INDEX tasks_expiry_idx ON old_tasks (expires_at) WHERE ((status = 0) AND (expires_at IS NOT NULL));
CREATE INDEX tasks_lease_idx ON old_tasks (lease_until) WHERE (status = 1);
CREATE INDEX tasks_queue_idx ON old_tasks (pool_id, lane, rank) WHERE ((status = 0) AND (lane IS NOT NULL));
CREATE INDEX tasks_queued_low_idx ON old_tasks (due_at) WHERE ((status = 0) AND (lane >= 32));
CREATE INDEX tasks_queued_retry_idx ON old_tasks (due_at) WHERE ((status = 0) AND (((lane)::integer % 32) > 0));
CREATE INDEX tasks_queued_top_idx ON old_tasks (due_at) WHERE ((status = 0) AND (lane < 32));
CREATE INDEX tasks_rendering_idx ON old_tasks (rendering_id) WHERE (rendering_id IS NOT NULL);
CREATE UNIQUE INDEX tasks_submitter_dedup_key_idx ON old_tasks (company_id, submitted_by, dedup_key) WHERE (dedup_key IS NOT NULL);

CREATE TABLE old_receive_logs (
    id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME receive_logs_id_seq),
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
    created_at timestamptz DEFAULT now() NOT NULL,
    recipient text,
    CONSTRAINT receive_logs_pkey PRIMARY KEY (id)
);
CREATE INDEX receive_logs_created_at_idx ON old_receive_logs (created_at);
CREATE INDEX receive_logs_recipient_idx ON old_receive_logs (recipient, task_id) WHERE (recipient IS NOT NULL);
CREATE INDEX receive_logs_repeats_idx ON old_receive_logs (task_id) WHERE ((task_id IS NOT NULL)
        AND ((response_data #> '{data,deduplicated}') = 'true'::jsonb));

CREATE TABLE old_send_logs (
    id bigint GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME send_logs_id_seq),
    task_id text NOT NULL COLLATE "C",
    app_id text NOT NULL,
    phone_number text NOT NULL,
    content text NOT NULL,
    attempt smallint NOT NULL,
    lease_until timestamptz NOT NULL,
    request_data jsonb,
    response_data jsonb,
    created_at timestamptz DEFAULT now() NOT NULL,
    segments bigint,
    CONSTRAINT send_logs_app_id_length CHECK (((char_length(app_id) >= 1) AND (char_length(app_id) <= 50))),
    CONSTRAINT send_logs_pkey PRIMARY KEY (id)
);
CREATE INDEX send_logs_task_id_idx ON old_send_logs (task_id);

CREATE TABLE old_report_logs (
    id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME report_logs_id_seq),
    task_id text NOT NULL COLLATE "C",
    app_id text,
    lease_id bigint,
    event text NOT NULL,
    status smallint,
    effect text NOT NULL,
    error_message text,
    request_data jsonb,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT report_logs_error_message_length CHECK ((char_length(error_message) <= 500)),
    CONSTRAINT old_report_logs_pkey PRIMARY KEY (id)
);
CREATE INDEX old_report_logs_task_id_idx ON old_report_logs (task_id);
ALTER TABLE old_report_logs
    ADD CONSTRAINT report_logs_effect_known CHECK ((effect = ANY (ARRAY['success', 'failed', 'retry', 
        'exhausted', 'unclear', 'untried', 'troubled', 'ignored', 'refused', 
        'cancelled', 'expired', 'delivered', 'undelivered']))) NOT VALID;
ALTER TABLE old_report_logs
    ADD CONSTRAINT report_logs_event_known CHECK ((event = ANY (ARRAY['reported', 'recovered', 'released', 
        'cancelled', 'expired', 
        'receipt']))) NOT VALID;
ALTER TABLE old_tasks
    ADD CONSTRAINT tasks_on_unclear_known CHECK ((on_unclear = ANY (ARRAY['retry', 'fail']))) NOT VALID;
