-- migrate:up
-- Batches are checked, confirmed and fed to the queue by any server, so everything about them is in these tables.
CREATE TABLE batches (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT batches_pkey PRIMARY KEY,
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    name text NOT NULL,
    message_type smallint NOT NULL,
    priority smallint,
    upload_id bigint,
    tag text,
    phone_column text NOT NULL,
    template_no text,
    template_id bigint,
    template_version bigint,
    template_language text,
    is_deferred boolean NOT NULL DEFAULT false,
    content text NOT NULL,
    sign text,
    sender_no text,
    dedup text NOT NULL,
    is_test boolean NOT NULL DEFAULT false,
    is_confirmed boolean NOT NULL DEFAULT false,
    confirmed_by text,
    expect_send_time timestamptz,
    expires_at timestamptz,
    status text NOT NULL DEFAULT 'checking',
    is_held boolean NOT NULL DEFAULT false,
    is_settled boolean NOT NULL DEFAULT false,
    is_read boolean NOT NULL DEFAULT false,
    last_row bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    valid bigint NOT NULL DEFAULT 0,
    invalid bigint NOT NULL DEFAULT 0,
    duplicate bigint NOT NULL DEFAULT 0,
    blocked bigint NOT NULL DEFAULT 0,
    segments bigint NOT NULL DEFAULT 0,
    fed_row bigint NOT NULL DEFAULT 0,
    fed bigint NOT NULL DEFAULT 0,
    fault jsonb,
    request_id text NOT NULL,
    source_ip text NOT NULL,
    user_agent text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    checked_at timestamptz,
    confirmed_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    CONSTRAINT batches_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id),
    CONSTRAINT batches_name_length CHECK (char_length(name) BETWEEN 1 AND 100),
    CONSTRAINT batches_message_type_known CHECK (message_type BETWEEN 0 AND 2),
    CONSTRAINT batches_priority_range CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT batches_content_length CHECK (char_length(content) BETWEEN 1 AND 1024),
    CONSTRAINT batches_sign_length CHECK (char_length(sign) BETWEEN 1 AND 20),
    CONSTRAINT batches_dedup_known CHECK (dedup IN ('none', 'phone', 'row')),
    CONSTRAINT batches_status_known CHECK (status IN ('checking', 'ready', 'running', 'paused', 'finished', 'cancelled')),
    CONSTRAINT batches_ended_at_set CHECK ((status IN ('finished', 'cancelled')) = (ended_at IS NOT NULL)),
    CONSTRAINT batches_template_complete CHECK (num_nulls(template_no, template_id, template_version) IN (0, 3)),
    CONSTRAINT batches_source_known CHECK (upload_id IS NULL OR tag IS NULL),
    CONSTRAINT batches_rows_counted CHECK (rows = valid + invalid + duplicate + blocked AND fed <= valid)
);
CREATE TRIGGER batches_rows_bound AFTER INSERT ON batches REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION rows_bound('10000', 'company_id');
CREATE INDEX batches_company_idx ON batches (company_id, id);
-- Those that a sweep has something to do for.
CREATE INDEX batches_unsettled_idx ON batches (id) WHERE NOT is_settled;
COMMENT ON TABLE batches IS
    'A list of messages that a company uploaded, and how far it is: checked, confirmed, fed to the queue. Written by internal/batch. Every change of '
    'status is guarded by the status that it expects.';
COMMENT ON COLUMN batches.submitted_by IS 'the username; no foreign key: the configured user is in no table';
COMMENT ON COLUMN batches.priority IS 'as messages.priority; null: that of the message type';
COMMENT ON COLUMN batches.upload_id IS 'the list; null: it is checked, or the rows come from a tag';
COMMENT ON COLUMN batches.tag IS 'whose contacts are the rows; null: a list';
COMMENT ON COLUMN batches.phone_column IS 'the column with the phone numbers';
COMMENT ON COLUMN batches.template_no IS 'where content is from; null: it was in the request';
COMMENT ON COLUMN batches.template_id IS 'no foreign key: the template may be deleted';
COMMENT ON COLUMN batches.template_language IS 'the language of content; null: not known';
COMMENT ON COLUMN batches.is_deferred IS 'it gets the next full interval as its time when it is confirmed, as the template says';
COMMENT ON COLUMN batches.content IS 'the text, with the names of columns in braces';
COMMENT ON COLUMN batches.sender_no IS 'the only sender that may send it; null: any by the routes';
COMMENT ON COLUMN batches.dedup IS 'which rows are duplicates: none; those with a phone number of a row before; those with its text, too';
COMMENT ON COLUMN batches.is_confirmed IS 'it starts when it is checked; until then nothing is sent';
COMMENT ON COLUMN batches.confirmed_by IS 'null: it was not confirmed, or its request confirmed it (auto_confirm)';
COMMENT ON COLUMN batches.status IS 'checking, ready, running, paused; finished and cancelled are ends, but a requeue of failed tasks lets a finished one run again';
COMMENT ON COLUMN batches.is_held IS 'tasks of it may be held, because it is or was paused';
COMMENT ON COLUMN batches.is_settled IS 'a sweep has nothing to do: it waits to be confirmed, or has ended and none of its tasks waits or is leased';
COMMENT ON COLUMN batches.is_read IS 'of a tag: the rows are those of the contacts when it began to send';
COMMENT ON COLUMN batches.last_row IS 'the last row of the list that is in batch_rows';
COMMENT ON COLUMN batches.rows IS 'number of rows in batch_rows: the sum of valid, invalid, duplicate and blocked';
COMMENT ON COLUMN batches.segments IS 'short messages of the valid rows';
COMMENT ON COLUMN batches.fed_row IS 'the last row that became a task or was refused then: no row up to it is looked at again';
COMMENT ON COLUMN batches.fed IS 'number of rows that became tasks';
COMMENT ON COLUMN batches.fault IS 'why it was cancelled by itself, as batch_rows.fault; null: it was not';
COMMENT ON COLUMN batches.checked_at IS 'when the check was complete';
COMMENT ON COLUMN batches.started_at IS 'when the first row became a task';

CREATE TABLE batch_rows (
    batch_id bigint NOT NULL,
    row_no bigint NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    segments smallint NOT NULL,
    country_no text,
    code smallint,
    fault jsonb,
    task_id text COLLATE "C",
    CONSTRAINT batch_rows_pkey PRIMARY KEY (batch_id, row_no),
    CONSTRAINT batch_rows_code_known CHECK (code BETWEEN 1 AND 7),
    CONSTRAINT batch_rows_fault_set CHECK (code IS NOT NULL OR fault IS NULL),
    CONSTRAINT batch_rows_tasks_are_valid CHECK (code IS NULL OR task_id IS NULL)
) WITH (fillfactor = 85);
CREATE INDEX batch_rows_wrong_idx ON batch_rows (batch_id, row_no) WHERE code IS NOT NULL;
COMMENT ON TABLE batch_rows IS
    'A row of a batch, as it was checked. Written by internal/batch: added once, and changed once, when it becomes a task or is refused then.';
COMMENT ON COLUMN batch_rows.batch_id IS
    'no foreign key: its check took two thirds of the time in which a million rows are added. Who adds or deletes rows has locked the batch.';
COMMENT ON COLUMN batch_rows.row_no IS 'the number of the row in the list, as a spreadsheet program shows it; of a tag the position of the contact';
COMMENT ON COLUMN batch_rows.recipient IS 'the phone number in E.164; as it is in the list if it is not valid';
COMMENT ON COLUMN batch_rows.content IS 'the text without signature; empty: it could not be made';
COMMENT ON COLUMN batch_rows.code IS
    'why it is not sent: 1 phone number, 2 content, 3 segments, 4 signature, 5 duplicate, 6 blocked, 7 refused when it was to become a task; null: it is valid';
COMMENT ON COLUMN batch_rows.fault IS 'the field, the rule that it broke, and the limit of the rule; null: code says everything';
COMMENT ON COLUMN batch_rows.task_id IS 'null: the row has not become a task';

-- The figures of each batch and sender. A state is a difference, so that a requeue takes back what it changes.
CREATE TABLE batch_counts (
    batch_id bigint NOT NULL,
    sender_no text NOT NULL,
    waiting bigint NOT NULL DEFAULT 0,
    processing bigint NOT NULL DEFAULT 0,
    success bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    undelivered bigint NOT NULL DEFAULT 0,
    segments bigint NOT NULL DEFAULT 0,
    CONSTRAINT batch_counts_pkey PRIMARY KEY (batch_id, sender_no),
    CONSTRAINT batch_counts_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES batches (id) ON DELETE CASCADE
) WITH (fillfactor = 50);
COMMENT ON TABLE batch_counts IS
    'The numbers of tasks of a batch in each state, by the sender that facts name, without what facts still holds. Written by internal/batch, which consumes facts.';
COMMENT ON COLUMN batch_counts.sender_no IS 'empty: no sender';
COMMENT ON COLUMN batch_counts.segments IS 'short messages of the leases that were reported SUCCESS';

CREATE VIEW batch_totals AS
SELECT c.batch_id, c.sender_no, sum(c.waiting)::bigint AS waiting, sum(c.processing)::bigint AS processing, sum(c.success)::bigint AS success,
    sum(c.failed)::bigint AS failed, sum(c.delivered)::bigint AS delivered, sum(c.undelivered)::bigint AS undelivered,
    sum(c.segments)::bigint AS segments
FROM (
    SELECT * FROM batch_counts
    UNION ALL
    SELECT f.batch_id, coalesce(f.sender_no, ''), f.pending_new + f.pending_retry, f.processing, f.success, f.failed, f.delivered, f.undelivered, f.segments
    FROM facts f
    WHERE f.batch_id IS NOT NULL
) c
GROUP BY c.batch_id, c.sender_no;
COMMENT ON VIEW batch_totals IS 'The exact figures of each batch and sender: batch_counts, and what facts still holds. Both are read at one moment.';

-- migrate:down
DROP VIEW batch_totals;
DROP TABLE batch_counts;
DROP TABLE batch_rows;
DROP TABLE batches;
