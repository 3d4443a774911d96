-- migrate:up
CREATE TABLE webhooks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    user_id bigint,
    owner text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN user_id IS NOT NULL THEN 'user ' || user_id::text WHEN company_id IS NOT NULL THEN 'company ' || company_id::text ELSE 'all' END
    ) STORED,
    url text NOT NULL,
    events text[] NOT NULL,
    description text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'on',
    off_reason text,
    created_by text NOT NULL,
    rotated_at timestamptz,
    after_id bigint NOT NULL,
    failing_since timestamptz,
    failed_runs bigint NOT NULL DEFAULT 0,
    rest_until timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT webhooks_pkey PRIMARY KEY (id),
    CONSTRAINT webhooks_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id),
    CONSTRAINT webhooks_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT webhooks_user_has_company CHECK (user_id IS NULL OR company_id IS NOT NULL),
    CONSTRAINT webhooks_status_known CHECK (status IN ('on', 'off')),
    CONSTRAINT webhooks_off_reason_known CHECK (off_reason IS NULL OR off_reason IN ('gone', 'failing') AND status = 'off'),
    CONSTRAINT webhooks_url_length CHECK (char_length(url) BETWEEN 1 AND 2000),
    CONSTRAINT webhooks_description_length CHECK (char_length(description) <= 200)
);
CREATE INDEX webhooks_owner_idx ON webhooks (owner, id);
CREATE INDEX webhooks_company_id_idx ON webhooks (company_id);
CREATE INDEX webhooks_user_id_idx ON webhooks (user_id);
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and how far. Written by internal/webhook. A run reads events behind after_id, posts them, and '
    'moves after_id in one transaction with what failed, guarded by the after_id that it read: whatever is killed, each event is posted at least once.';
COMMENT ON COLUMN webhooks.company_id IS 'whose events; null: those of every company';
COMMENT ON COLUMN webhooks.user_id IS 'only what this user submitted; it leaves with the user. Null: everything of the company';
COMMENT ON COLUMN webhooks.owner IS 'among whose webhooks it is counted';
COMMENT ON COLUMN webhooks.events IS 'the types of events that are posted';
COMMENT ON COLUMN webhooks.status IS 'off: nothing is posted';
COMMENT ON COLUMN webhooks.off_reason IS 'why it was switched off by itself: the receiver answered 410 (gone), or failed for five days (failing); null: it was not';
COMMENT ON COLUMN webhooks.rotated_at IS 'when it last got another secret; null: never';
COMMENT ON COLUMN webhooks.after_id IS 'the last id of feed that was posted, left out, or is in webhook_retries';
COMMENT ON COLUMN webhooks.failing_since IS 'the first failed post since the last one that was taken; null: the last one was taken';
COMMENT ON COLUMN webhooks.failed_runs IS 'runs in a row in which no post was taken';
COMMENT ON COLUMN webhooks.rest_until IS 'nothing is posted before; null: no rest';

CREATE TABLE webhook_secrets (
    id bigint GENERATED ALWAYS AS IDENTITY,
    webhook_id bigint NOT NULL,
    sealed text NOT NULL,
    valid_until timestamptz,
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_secrets_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX webhook_secrets_current_idx ON webhook_secrets (webhook_id) WHERE valid_until IS NULL;
CREATE INDEX webhook_secrets_webhook_idx ON webhook_secrets (webhook_id, id);
COMMENT ON TABLE webhook_secrets IS 'A secret with which the posts of a webhook are signed, sealed. Written by internal/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS 'it was replaced, and still signs until then; null: the current one';

CREATE TABLE webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY,
    webhook_id bigint NOT NULL,
    feed_id bigint NOT NULL,
    type text NOT NULL,
    task_id text COLLATE "C",
    at timestamptz NOT NULL,
    attempt bigint NOT NULL,
    status_code bigint,
    duration_ms bigint NOT NULL,
    error text,
    response text,
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_error_known CHECK (error IN ('refused_address', 'not_connected', 'timeout', 'status', 'no_secret')),
    CONSTRAINT webhook_deliveries_response_length CHECK (char_length(response) <= 1024)
);
CREATE INDEX webhook_deliveries_webhook_idx ON webhook_deliveries (webhook_id, id);
CREATE INDEX webhook_deliveries_task_idx ON webhook_deliveries (task_id) WHERE task_id IS NOT NULL;
COMMENT ON TABLE webhook_deliveries IS
    'One post of an event: the last hundred of each webhook, and the last one of each event that waits for another. Written by internal/webhook in the '
    'transaction that moves the webhook on. The body of the post is not stored: it is made of feed again.';
COMMENT ON COLUMN webhook_deliveries.feed_id IS 'no foreign key: it may outlive the event, and a webhook.test is in no feed';
COMMENT ON COLUMN webhook_deliveries.attempt IS 'from 1';
COMMENT ON COLUMN webhook_deliveries.status_code IS 'null: no answer came';
COMMENT ON COLUMN webhook_deliveries.error IS 'null: it was taken';
COMMENT ON COLUMN webhook_deliveries.response IS 'the first KB of the answer; null: none, or the person of the task was erased';

CREATE TABLE webhook_retries (
    webhook_id bigint NOT NULL,
    feed_id bigint NOT NULL,
    task_id text COLLATE "C",
    tries bigint NOT NULL DEFAULT 0,
    due_at timestamptz,
    delivery_id bigint,
    CONSTRAINT webhook_retries_pkey PRIMARY KEY (webhook_id, feed_id),
    CONSTRAINT webhook_retries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE,
    CONSTRAINT webhook_retries_feed_id_fkey FOREIGN KEY (feed_id) REFERENCES feed (id) ON DELETE CASCADE
);
CREATE INDEX webhook_retries_feed_idx ON webhook_retries (feed_id);
CREATE INDEX webhook_retries_due_idx ON webhook_retries (webhook_id, due_at);
CREATE INDEX webhook_retries_task_idx ON webhook_retries (webhook_id, task_id, feed_id) WHERE task_id IS NOT NULL;
COMMENT ON TABLE webhook_retries IS
    'An event that a webhook has left behind its after_id and must still post: it failed, it waits for an earlier one of its task, or it is replayed. '
    'Written by internal/webhook; deleted when the event is taken, and with the event.';
COMMENT ON COLUMN webhook_retries.task_id IS 'as feed.task_id: events of one task are posted in their order';
COMMENT ON COLUMN webhook_retries.tries IS 'posts that failed';
COMMENT ON COLUMN webhook_retries.due_at IS 'null: it waits for an earlier event of its task';
COMMENT ON COLUMN webhook_retries.delivery_id IS 'the row of webhook_deliveries of the last post; no foreign key: both go together. Null: none';

CREATE TRIGGER webhooks_rows_bound AFTER INSERT ON webhooks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound('20', 'owner');

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF url, events, description, status, rotated_at ON webhooks
FOR EACH ROW EXECUTE FUNCTION audit_change('webhook', 'id', 'owner,off_reason,created_by,after_id,failing_since,failed_runs,rest_until');

-- Its webhooks say what a user may see: it may see other things in another company, and nothing with another role.
CREATE FUNCTION users_end_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM webhooks w WHERE w.user_id = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER users_end_webhooks AFTER UPDATE ON users
FOR EACH ROW WHEN (NEW.company_id <> OLD.company_id OR NEW.role <> OLD.role) EXECUTE FUNCTION users_end_webhooks();

-- migrate:down
DROP TRIGGER users_end_webhooks ON users;
DROP FUNCTION users_end_webhooks();
DROP TABLE webhook_retries;
DROP TABLE webhook_deliveries;
DROP TABLE webhook_secrets;
DROP TABLE webhooks;
