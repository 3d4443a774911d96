-- migrate:up
-- What the server sends to providers itself, and what providers report afterwards.

CREATE TABLE callbacks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    sender_no text NOT NULL,
    source_ip text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    refused text,
    left_out bigint NOT NULL DEFAULT 0,
    body_hash bytea,
    repeats bigint NOT NULL DEFAULT 0,
    CONSTRAINT callbacks_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE callbacks IS
    'An HTTP callback of a provider, as it came. Written by internal/dispatch/receipt, which deletes old rows. sender_no has no foreign key: a callback does not stop the deletion of its sender.';
COMMENT ON COLUMN callbacks.body IS 'as it came, without characters that PostgreSQL cannot store';
COMMENT ON COLUMN callbacks.refused IS 'the error reason that the provider got; null: the callback was accepted';
COMMENT ON COLUMN callbacks.left_out IS 'number of unreadable items among readable ones';
COMMENT ON COLUMN callbacks.body_hash IS 'SHA-256 of the body; null: the row is older than this column';
COMMENT ON COLUMN callbacks.repeats IS 'how often the same body came again';
CREATE UNIQUE INDEX callbacks_once_idx ON callbacks (sender_no, body_hash) WHERE body_hash IS NOT NULL;
CREATE INDEX callbacks_sender_idx ON callbacks (sender_no, id);
CREATE INDEX callbacks_unreadable_idx ON callbacks (sender_no, id) WHERE refused IS NOT NULL OR left_out > 0;

CREATE TABLE deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY,
    task_id text COLLATE "C" NOT NULL,
    lease_id bigint NOT NULL,
    sender_no text NOT NULL,
    recipient text NOT NULL,
    provider_no text,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    answer text,
    CONSTRAINT deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT deliveries_error_length CHECK (char_length(error) <= 500),
    CONSTRAINT deliveries_provider_no_length CHECK (char_length(provider_no) BETWEEN 1 AND 200)
);
COMMENT ON TABLE deliveries IS
    'An attempt to send a task through a provider: what a report said (the number of the provider), or why the outcome is unclear. Written by '
    'internal/dispatch/queue (reports) and internal/dispatch/push (unclear outcomes). No foreign keys: each insert would lock rows of other tables.';
COMMENT ON COLUMN deliveries.lease_id IS 'the lease of the attempt';
COMMENT ON COLUMN deliveries.recipient IS 'of the task, to match receipts';
COMMENT ON COLUMN deliveries.provider_no IS
    'the number that the provider gave the message; null: it is unknown whether the message was sent';
COMMENT ON COLUMN deliveries.error IS 'why it is unknown whether the message was sent; null: the provider accepted it';
COMMENT ON COLUMN deliveries.answer IS 'the answer of the provider as it came, without secrets, at most 2,000 characters; null: none came, or a report has it';
CREATE INDEX deliveries_created_at_idx ON deliveries USING brin (created_at) WITH (pages_per_range = 32, autosummarize = true);
CREATE INDEX deliveries_provider_no_idx ON deliveries (sender_no, provider_no) WHERE provider_no IS NOT NULL;
CREATE INDEX deliveries_task_idx ON deliveries (task_id);

CREATE TABLE fruitless_submissions (
    id bigint NOT NULL DEFAULT nextval('submission_ids'::regclass),
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
    company_id bigint,
    CONSTRAINT fruitless_submissions_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE fruitless_submissions IS
    'A submission that created no task: it was refused, or it repeated a dedup_key. Written by internal/dispatch/queue.';
COMMENT ON COLUMN fruitless_submissions.task_id IS 'the task that was repeated; null: refused';
COMMENT ON COLUMN fruitless_submissions.phone_number IS 'as the caller wrote it; null: not given or unreadable';
COMMENT ON COLUMN fruitless_submissions.response_data IS 'the answer; data.deduplicated is true if the submission repeated a dedup_key';
COMMENT ON COLUMN fruitless_submissions.status_code IS 'HTTP status of the answer';
COMMENT ON COLUMN fruitless_submissions.company_id IS 'the company of the submitter; no foreign key, as in messages; null: stored before this column existed';
CREATE INDEX fruitless_submissions_digits_idx ON fruitless_submissions (company_id, right(number_digits(phone_number), 8))
WHERE company_id IS NOT NULL AND phone_number IS NOT NULL;
CREATE INDEX fruitless_submissions_task_id_idx ON fruitless_submissions (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE renderings (
    id bigint GENERATED ALWAYS AS IDENTITY,
    title text NOT NULL,
    content text NOT NULL,
    template_id text NOT NULL DEFAULT '',
    params jsonb NOT NULL DEFAULT '{}',
    page text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    notification_id bigint,
    html text NOT NULL DEFAULT '',
    is_template boolean NOT NULL DEFAULT false,
    channel_id bigint,
    CONSTRAINT renderings_pkey PRIMARY KEY (id),
    CONSTRAINT renderings_content_length CHECK (char_length(content) <= 100000),
    CONSTRAINT renderings_title_length CHECK (char_length(title) <= 1000)
);
COMMENT ON TABLE renderings IS 'The text of one run of a notification, of one send-once message, or of one batch, which its tasks share. Written by internal/audience/notification. notification_id has no foreign key: rows of notifications are never deleted.';
COMMENT ON COLUMN renderings.template_id IS 'template of the provider; empty: none';
COMMENT ON COLUMN renderings.params IS 'values for the template of the provider';
COMMENT ON COLUMN renderings.page IS 'page that a WeChat message opens; empty: none';
COMMENT ON COLUMN renderings.notification_id IS 'null: a send-once message, or a batch';
COMMENT ON COLUMN renderings.html IS 'the content as HTML; empty: none';
COMMENT ON COLUMN renderings.is_template IS 'each recipient fills its placeholders, with messages.contact_values: a run that goes on knows it from here, because none of its messages may be left to show it';
COMMENT ON COLUMN renderings.channel_id IS 'of a batch: its channel; null: of a notification, or of a send-once message';
CREATE INDEX renderings_created_at_idx ON renderings USING brin (created_at);
CREATE INDEX renderings_notification_idx ON renderings (notification_id) WHERE notification_id IS NOT NULL;

CREATE TABLE receipts (
    id bigint GENERATED ALWAYS AS IDENTITY,
    callback_id bigint NOT NULL,
    sender_no text NOT NULL,
    provider_no text NOT NULL,
    recipient text NOT NULL DEFAULT '',
    state smallint NOT NULL,
    code text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    matched_at timestamptz,
    look_at timestamptz DEFAULT now(),
    CONSTRAINT receipts_pkey PRIMARY KEY (id),
    CONSTRAINT receipts_once_key UNIQUE (sender_no, provider_no, recipient, state, code),
    CONSTRAINT receipts_lengths CHECK (
        char_length(provider_no) BETWEEN 1 AND 200 AND char_length(recipient) <= 100 AND char_length(code) <= 100
    ),
    CONSTRAINT receipts_state_known CHECK (state IN (0, 1, 2))
);
COMMENT ON TABLE receipts IS
    'What a provider reported later about one accepted message. Written by internal/dispatch/receipt, which deletes old rows. callback_id and '
    'sender_no have no foreign keys: a receipt may outlive its callback, and does not stop the deletion of its sender.';
COMMENT ON COLUMN receipts.provider_no IS 'the number that the provider gave the message, as deliveries.provider_no';
COMMENT ON COLUMN receipts.recipient IS 'as the provider wrote it; empty: not given';
COMMENT ON COLUMN receipts.state IS '0 on its way, 1 delivered, 2 undelivered';
COMMENT ON COLUMN receipts.code IS 'status code of the provider; empty: none';
COMMENT ON COLUMN receipts.matched_at IS 'when the task of the message was found; null: not yet';
COMMENT ON COLUMN receipts.look_at IS 'when the task is searched next; null: it was found, or the search was given up';
CREATE INDEX receipts_look_at_idx ON receipts (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX receipts_sender_idx ON receipts (sender_no, id);
CREATE INDEX receipts_unmatched_idx ON receipts (sender_no, id) WHERE matched_at IS NULL;

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
COMMENT ON VIEW receive_logs IS 'Each submission, with the columns of the documented log: those that created a task, and the others.';

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
