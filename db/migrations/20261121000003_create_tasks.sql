-- migrate:up
CREATE TABLE tasks (
    task_id text COLLATE "C" NOT NULL,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    source text,
    submitted_by text,
    dedup_key text,
    retry_count smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    processing_app_id text,
    lease_id bigint,
    lease_until timestamptz,
    result text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    reported_at timestamptz,
    CONSTRAINT tasks_pkey PRIMARY KEY (task_id),
    CONSTRAINT tasks_task_id_length CHECK (char_length(task_id) BETWEEN 1 AND 50),
    CONSTRAINT tasks_content_length CHECK (char_length(content) BETWEEN 1 AND 200),
    CONSTRAINT tasks_source_length CHECK (char_length(source) BETWEEN 1 AND 50),
    CONSTRAINT tasks_dedup_key_length CHECK (char_length(dedup_key) BETWEEN 1 AND 100),
    CONSTRAINT tasks_result_length CHECK (char_length(result) <= 500),
    CONSTRAINT tasks_status_known CHECK (status BETWEEN 0 AND 4),
    -- The claim looks for due retries under each of these counts in turn; MAX_RETRY_COUNT is refused above it.
    CONSTRAINT tasks_retry_count_range CHECK (retry_count BETWEEN 0 AND 20),
    CONSTRAINT tasks_lease_while_processing CHECK (
        (status = 1) = (lease_until IS NOT NULL)
        AND (status <> 1 OR (processing_app_id IS NOT NULL AND lease_id IS NOT NULL))
    )
);
COMMENT ON COLUMN tasks.status IS '0 PENDING, 1 PROCESSING, 2 SUCCESS, 3 FAILED, 4 CANCELLED';
COMMENT ON COLUMN tasks.phone_number IS 'as it was sent';
COMMENT ON COLUMN tasks.recipient IS 'the same number normalised to E.164';
COMMENT ON COLUMN tasks.submitted_by IS 'the user that submitted it, who may look at it with the role submit';
COMMENT ON COLUMN tasks.dedup_key IS 'what the submitter calls the message: there is one task of a name';
COMMENT ON COLUMN tasks.lease_id IS 'send_logs.id of the live lease, of the one that ran out unreported, or of the one that settled the task; null after a retry that was asked for';

-- The two phases of the claim, each in the order in which it walks.
CREATE INDEX tasks_new_idx ON tasks (created_at, task_id) WHERE status = 0 AND retry_count = 0;
-- By due time within a count: retries that are not due lie behind those that are, and cost the claim nothing.
CREATE INDEX tasks_retry_idx ON tasks (retry_count, due_at) WHERE status = 0 AND retry_count > 0;
-- The recovery of leases that ran out.
CREATE INDEX tasks_lease_idx ON tasks (lease_until) WHERE status = 1;
-- "Was this phone sent its message?"
CREATE INDEX tasks_recipient_idx ON tasks (recipient, task_id);
-- Two submissions of one message at once: the second waits here for the first.
CREATE UNIQUE INDEX tasks_dedup_key_idx ON tasks (dedup_key) WHERE dedup_key IS NOT NULL;

-- migrate:down
DROP TABLE tasks;
