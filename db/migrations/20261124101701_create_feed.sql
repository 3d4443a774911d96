-- migrate:up
CREATE SEQUENCE feed_ids;

CREATE TABLE feed (
    id bigint NOT NULL DEFAULT nextval('feed_ids'),
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    type text NOT NULL,
    task_id text COLLATE "C",
    log_id bigint,
    at timestamptz NOT NULL,
    data jsonb,
    CONSTRAINT feed_pkey PRIMARY KEY (id),
    CONSTRAINT feed_task_has_log CHECK ((task_id IS NULL) = (log_id IS NULL) AND (task_id IS NULL) = (data IS NOT NULL))
);
CREATE INDEX feed_company_idx ON feed (company_id, id);
CREATE INDEX feed_submitter_idx ON feed (company_id, submitted_by, id);
COMMENT ON TABLE feed IS
    'Something that happened and of which submitters are told, kept for a week. Written by internal/feed from feed_staged, by one transaction at a time: ids '
    'ascend in the order in which the rows can be seen, so that a reader who goes on behind the last id misses nothing. No personal data: the content '
    'of an event of a task is read from messages and report_logs when it is told.';
COMMENT ON COLUMN feed.company_id IS 'no foreign key: the row outlives the company';
COMMENT ON COLUMN feed.submitted_by IS 'the user who submitted the task or the batch; empty: not known any more';
COMMENT ON COLUMN feed.type IS 'as in the contract, such as message.sent';
COMMENT ON COLUMN feed.task_id IS 'null: not about a task';
COMMENT ON COLUMN feed.log_id IS 'the row of report_logs that says it; null: not about a task';
COMMENT ON COLUMN feed.at IS 'when it happened';
COMMENT ON COLUMN feed.data IS 'what is told of it; null: it is read from the task';

CREATE TABLE feed_staged (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    submitted_by text,
    type text NOT NULL,
    task_id text COLLATE "C",
    log_id bigint,
    at timestamptz NOT NULL,
    data jsonb,
    CONSTRAINT feed_staged_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE feed_staged IS
    'A row of feed to be, in the transaction in which it happened. Written by the trigger of report_logs and by internal/batch, only for companies that '
    'listen. internal/feed moves it to feed within a second. Of one task, a later event has a larger id.';
COMMENT ON COLUMN feed_staged.submitted_by IS 'null: of a task, whose message says it';

CREATE TABLE feed_listeners (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    since_id bigint NOT NULL,
    is_pushed boolean NOT NULL,
    listens_until timestamptz NOT NULL,
    CONSTRAINT feed_listeners_pkey PRIMARY KEY (id),
    CONSTRAINT feed_listeners_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX feed_listeners_company_idx ON feed_listeners (coalesce(company_id, 0));
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded: it has webhooks, or somebody pulled its events within a week. Written by internal/feed and internal/webhook. '
    'Nothing is recorded for a company without a row here.';
COMMENT ON COLUMN feed_listeners.company_id IS 'null: every company';
COMMENT ON COLUMN feed_listeners.since_id IS 'the id of feed behind which all events of the company were recorded';
COMMENT ON COLUMN feed_listeners.is_pushed IS 'it has a webhook that is on';
COMMENT ON COLUMN feed_listeners.listens_until IS 'it listens until then, with or without a webhook';

CREATE TABLE feed_state (
    is_only boolean NOT NULL DEFAULT true,
    pruned_id bigint NOT NULL DEFAULT 0,
    CONSTRAINT feed_state_pkey PRIMARY KEY (is_only),
    CONSTRAINT feed_state_one_row CHECK (is_only)
);
INSERT INTO feed_state DEFAULT VALUES;
COMMENT ON TABLE feed_state IS 'One row: how much of feed is deleted. Written by internal/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS 'the largest id that was deleted';

-- migrate:down
DROP TABLE feed_state;
DROP TABLE feed_listeners;
DROP TABLE feed_staged;
DROP TABLE feed;
DROP SEQUENCE feed_ids;
