-- migrate:up
-- What programs hear of: the feed, from which events are made, and the webhooks that get them.

CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY,
    event text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (id)
);
COMMENT ON TABLE events IS
    'Something that operators should know: a changed setting, a sender with a low balance, an open circuit breaker, a slow queue. '
    'Written by internal/insight/alert, internal/dispatch/push, internal/dispatch/queue and internal/platform/setting in the transaction of the change.';
COMMENT ON COLUMN events.event IS 'the kind, such as sender.low_warning';
COMMENT ON COLUMN events.subject IS 'the sender_no, the category and name of a setting, or queue';
COMMENT ON COLUMN events.detail IS 'values that depend on the kind';

CREATE SEQUENCE feed_ids;

CREATE TABLE feed (
    id bigint NOT NULL DEFAULT nextval('feed_ids'::regclass),
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
COMMENT ON TABLE feed IS
    'Something that happened and of which submitters are told, kept for a week. Written by internal/events/feed from feed_staged, by one transaction at a time: ids '
    'ascend in the order in which the rows can be seen, so that a reader who goes on behind the last id misses nothing. No personal data: the content '
    'of an event of a task is read from messages and report_logs when it is told.';
COMMENT ON COLUMN feed.company_id IS '0: of the service itself, only for those who hear every company. No foreign key: the row outlives the company';
COMMENT ON COLUMN feed.submitted_by IS 'the user who submitted the task or the batch; empty: not known any more';
COMMENT ON COLUMN feed.type IS 'as in the contract, such as message.sent';
COMMENT ON COLUMN feed.task_id IS 'null: not about a task';
COMMENT ON COLUMN feed.log_id IS 'the row of report_logs that says it; null: not about a task';
COMMENT ON COLUMN feed.at IS 'when it happened';
COMMENT ON COLUMN feed.data IS 'what is told of it; null: it is read from the task';
CREATE INDEX feed_at_idx ON feed (at, id);
CREATE INDEX feed_company_idx ON feed (company_id, id);
CREATE INDEX feed_submitter_idx ON feed (company_id, submitted_by, id);

CREATE TABLE feed_listeners (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    since_id bigint NOT NULL,
    is_pushed boolean NOT NULL,
    listens_until timestamptz NOT NULL,
    CONSTRAINT feed_listeners_pkey PRIMARY KEY (id),
    CONSTRAINT feed_listeners_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id) ON DELETE CASCADE
);
COMMENT ON TABLE feed_listeners IS
    'A company whose events are recorded: it has webhooks, or somebody pulled its events within a week. Written by internal/events/feed and internal/events/webhook. '
    'Nothing is recorded for a company without a row here.';
COMMENT ON COLUMN feed_listeners.company_id IS 'null: every company';
COMMENT ON COLUMN feed_listeners.since_id IS 'the id of feed behind which all events of the company were recorded';
COMMENT ON COLUMN feed_listeners.is_pushed IS 'it has a webhook that is on';
COMMENT ON COLUMN feed_listeners.listens_until IS 'it listens until then, with or without a webhook';
CREATE UNIQUE INDEX feed_listeners_company_idx ON feed_listeners (coalesce(company_id, 0));

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
    'A row of feed to be, in the transaction in which it happened. Written by triggers of report_logs, batches, notifications and events, only if somebody '
    'listens. internal/events/feed moves it to feed within a second. Of one task, a later event has a larger id.';
COMMENT ON COLUMN feed_staged.company_id IS '0: of the service itself';
COMMENT ON COLUMN feed_staged.submitted_by IS 'null: of a task, whose message says it';
CREATE INDEX feed_staged_notification_idx ON feed_staged ((data ->> 'notification_id')) WHERE type = 'notification.finished';
CREATE INDEX feed_staged_task_idx ON feed_staged (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE feed_state (
    is_only boolean NOT NULL DEFAULT true,
    pruned_id bigint NOT NULL DEFAULT 0,
    CONSTRAINT feed_state_pkey PRIMARY KEY (is_only),
    CONSTRAINT feed_state_one_row CHECK (is_only)
);
COMMENT ON TABLE feed_state IS 'One row: how much of feed is deleted. Written by internal/events/feed in the transaction of the deletion.';
COMMENT ON COLUMN feed_state.pruned_id IS 'the largest id that was deleted';

CREATE TABLE webhooks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint,
    user_id bigint,
    owner text GENERATED ALWAYS AS ( CASE WHEN (user_id IS NOT NULL) THEN ('user ' || (user_id)::text) WHEN (company_id IS NOT NULL) THEN ('company ' || (company_id)::text) ELSE 'all' END) STORED NOT NULL,
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
    form text NOT NULL DEFAULT 'standard',
    external_id text COLLATE "C",
    CONSTRAINT webhooks_pkey PRIMARY KEY (id),
    CONSTRAINT webhooks_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT webhooks_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE,
    CONSTRAINT webhooks_description_length CHECK (char_length(description) <= 200),
    CONSTRAINT webhooks_external_id_length CHECK (char_length(external_id) BETWEEN 1 AND 36),
    CONSTRAINT webhooks_external_id_of_form CHECK ((external_id IS NOT NULL) = (form = 'smsgate')),
    CONSTRAINT webhooks_form_known CHECK (form IN ('standard', 'smsgate')),
    CONSTRAINT webhooks_off_reason_known CHECK (off_reason IS NULL OR off_reason IN ('gone', 'failing') AND status = 'off'),
    CONSTRAINT webhooks_status_known CHECK (status IN ('on', 'off')),
    CONSTRAINT webhooks_url_length CHECK (char_length(url) BETWEEN 1 AND 2000),
    CONSTRAINT webhooks_user_has_company CHECK (user_id IS NULL OR company_id IS NOT NULL)
);
COMMENT ON TABLE webhooks IS
    'An address to which events of the feed are posted, and how far. Written by internal/events/webhook. A run reads events behind after_id, posts them, and '
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
COMMENT ON COLUMN webhooks.form IS 'how posts are written and signed: standard (Standard Webhooks), or smsgate (as the app of SMSGate does)';
COMMENT ON COLUMN webhooks.external_id IS 'of the form smsgate: the id that the program gave, or one that was made; of one user. Null: another form';
CREATE INDEX webhooks_company_id_idx ON webhooks (company_id);
CREATE UNIQUE INDEX webhooks_external_id_key ON webhooks (user_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX webhooks_owner_idx ON webhooks (owner, id);
CREATE INDEX webhooks_user_id_idx ON webhooks (user_id);

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
    CONSTRAINT webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_error_known CHECK (error IN ('refused_address', 'not_connected', 'timeout', 'status', 'no_secret')),
    CONSTRAINT webhook_deliveries_response_length CHECK (char_length(response) <= 1024)
);
COMMENT ON TABLE webhook_deliveries IS
    'One post of an event: the last hundred of each webhook, and the last one of each event that waits for another. Written by internal/events/webhook in the '
    'transaction that moves the webhook on. The body of the post is not stored: it is made of feed again.';
COMMENT ON COLUMN webhook_deliveries.feed_id IS 'no foreign key: it may outlive the event, and a webhook.test is in no feed';
COMMENT ON COLUMN webhook_deliveries.attempt IS 'from 1';
COMMENT ON COLUMN webhook_deliveries.status_code IS 'null: no answer came';
COMMENT ON COLUMN webhook_deliveries.error IS 'null: it was taken';
COMMENT ON COLUMN webhook_deliveries.response IS 'the first KB of the answer; null: none, or the person of the task was erased';
CREATE INDEX webhook_deliveries_task_idx ON webhook_deliveries (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX webhook_deliveries_webhook_idx ON webhook_deliveries (webhook_id, id);

CREATE TABLE webhook_retries (
    webhook_id bigint NOT NULL,
    feed_id bigint NOT NULL,
    task_id text COLLATE "C",
    tries bigint NOT NULL DEFAULT 0,
    due_at timestamptz,
    delivery_id bigint,
    CONSTRAINT webhook_retries_pkey PRIMARY KEY (webhook_id, feed_id),
    CONSTRAINT webhook_retries_feed_id_fkey FOREIGN KEY (feed_id) REFERENCES feed(id) ON DELETE CASCADE,
    CONSTRAINT webhook_retries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);
COMMENT ON TABLE webhook_retries IS
    'An event that a webhook has left behind its after_id and must still post: it failed, it waits for an earlier one of its task, or it is replayed. '
    'Written by internal/events/webhook; deleted when the event is taken, and with the event.';
COMMENT ON COLUMN webhook_retries.task_id IS 'as feed.task_id: events of one task are posted in their order';
COMMENT ON COLUMN webhook_retries.tries IS 'posts that failed';
COMMENT ON COLUMN webhook_retries.due_at IS 'null: it waits for an earlier event of its task';
COMMENT ON COLUMN webhook_retries.delivery_id IS 'the row of webhook_deliveries of the last post; no foreign key: both go together. Null: none';
CREATE INDEX webhook_retries_due_idx ON webhook_retries (webhook_id, due_at);
CREATE INDEX webhook_retries_feed_idx ON webhook_retries (feed_id);
CREATE INDEX webhook_retries_task_idx ON webhook_retries (webhook_id, task_id, feed_id) WHERE task_id IS NOT NULL;

CREATE TABLE webhook_secrets (
    id bigint GENERATED ALWAYS AS IDENTITY,
    webhook_id bigint NOT NULL,
    sealed text NOT NULL,
    valid_until timestamptz,
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (id),
    CONSTRAINT webhook_secrets_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);
COMMENT ON TABLE webhook_secrets IS 'A secret with which the posts of a webhook are signed, sealed. Written by internal/events/webhook.';
COMMENT ON COLUMN webhook_secrets.valid_until IS 'it was replaced, and still signs until then; null: the current one';
CREATE UNIQUE INDEX webhook_secrets_current_idx ON webhook_secrets (webhook_id) WHERE valid_until IS NULL;
CREATE INDEX webhook_secrets_webhook_idx ON webhook_secrets (webhook_id, id);

CREATE FUNCTION batches_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT NEW.company_id, NEW.submitted_by, 'batch.finished', now(), jsonb_build_object(
            'batch_id', NEW.id, 'company_no', (SELECT c.company_no FROM companies c WHERE c.id = NEW.company_id), 'name', NEW.name,
            'status', NEW.status, 'test', NEW.is_test, 'created_at', to_jsonb(NEW.created_at), 'ended_at', to_jsonb(NEW.ended_at),
            'counts', jsonb_build_object(
                'rows', NEW.rows, 'valid', NEW.valid, 'invalid', NEW.invalid, 'duplicate', NEW.duplicate, 'blocked', NEW.blocked,
                'success', coalesce(t.success, 0), 'failed', coalesce(t.failed, 0),
                'cancelled', greatest(0, NEW.valid - coalesce(t.success, 0) - coalesce(t.failed, 0)),
                'delivered', coalesce(t.delivered, 0), 'undelivered', coalesce(t.undelivered, 0)
            )
        )
        FROM (
            SELECT sum(x.success)::bigint AS success, sum(x.failed)::bigint AS failed, sum(x.delivered)::bigint AS delivered,
                sum(x.undelivered)::bigint AS undelivered
            FROM batch_totals x
            WHERE x.batch_id = NEW.id
        ) t;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION batches_feed() IS 'Trigger of batches: stages the event that nothing is left to do of a batch, if its company listens.';

CREATE FUNCTION events_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT feed_is_heard(0) THEN
        RETURN NULL;
    END IF;
    IF NEW.event IN ('sender.low_warning', 'sender.low_switch') THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT 0, '', 'sender.low_balance', NEW.created_at, jsonb_build_object(
            'sender_no', s.sender_no, 'channel', h.channel, 'balance', NEW.detail -> 'balance', 'mark', x.mark, 'threshold', NEW.detail -> x.mark
        )
        FROM senders s
        JOIN channels h ON h.id = s.channel_id
        CROSS JOIN (SELECT substr(NEW.event, length('sender.') + 1) AS mark) x
        WHERE s.sender_no = NEW.subject;
        RETURN NULL;
    END IF;
    INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
    SELECT 0, '', NEW.event, NEW.created_at, jsonb_strip_nulls(jsonb_build_object(
        'alert_id', a.id, 'rule_no', a.rule_id, 'kind', a.kind, 'level', a.level, 'subject', a.subject, 'company_no', a.company_no,
        'channel', a.channel, 'sender_no', a.sender_no, 'value', a.value, 'threshold', a.threshold, 'started_at', a.started_at,
        'fired_at', a.fired_at, 'resolved_at', a.resolved_at, 'ended_by', a.ended_by, 'receiver_no', NEW.detail -> 'receiver_no',
        'escalated_channels', NEW.detail -> 'escalated_channels', 'escalated_receivers', NEW.detail -> 'escalated_receivers'
    ))
    FROM alerts a
    WHERE a.id = (NEW.detail ->> 'alert_id')::bigint;
    IF NEW.detail ->> 'kind' = 'sender_silent' AND NEW.event <> 'alert.not_sent' THEN
        -- The alert also ends when the app is switched off, is gone for good, or the rule changes: only a poll says that it is there again.
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        SELECT 0, '', CASE NEW.event WHEN 'alert.firing' THEN 'sender.silent' ELSE 'sender.recovered' END, NEW.created_at, jsonb_strip_nulls(jsonb_build_object(
            'sender_no', s.sender_no, 'channel', h.channel, 'alert_id', a.id, 'seen_at', t.seen_at
        ))
        FROM alerts a
        JOIN senders s ON s.sender_no = a.sender_no
        JOIN sender_states t ON t.sender_id = s.id
        JOIN channels h ON h.id = s.channel_id
        WHERE a.id = (NEW.detail ->> 'alert_id')::bigint AND (NEW.event = 'alert.firing' OR a.ended_by = 'condition' AND t.seen_at > a.started_at);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION events_feed() IS
    'Trigger of events: stages what the feed tells of alerts and senders, if somebody listens to every company. A sender is silent from when an alert of '
    'the kind sender_silent fires until that alert ends because the sender polled.';

CREATE FUNCTION feed_is_heard(of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM feed_listeners l WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = of_company)
    )
$$;
COMMENT ON FUNCTION feed_is_heard(bigint) IS 'Whether somebody listens to the events of a company; 0: of the service itself.';

CREATE FUNCTION notifications_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, 'notification.finished', now(), jsonb_build_object('notification_id', NEW.id));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION notifications_feed() IS 'Trigger of notifications: stages that a notification may be over, if its company listens.';

-- Its webhooks say what a user may see: it may see other things in another company, and nothing with another role.
CREATE FUNCTION users_end_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM webhooks w WHERE w.user_id = NEW.id;
    RETURN NULL;
END
$$;

CREATE FUNCTION users_forgive_webhooks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhooks w SET failing_since = NULL, failed_runs = 0, rest_until = NULL WHERE w.user_id = NEW.id AND w.failing_since IS NOT NULL;
    RETURN NULL;
END
$$;

INSERT INTO feed_state DEFAULT VALUES;

CREATE TRIGGER users_end_webhooks AFTER UPDATE ON users
FOR EACH ROW WHEN (NEW.company_id <> OLD.company_id OR NEW.role <> OLD.role) EXECUTE FUNCTION users_end_webhooks();
CREATE TRIGGER users_forgive_webhooks AFTER UPDATE ON users
FOR EACH ROW WHEN (OLD.is_disabled AND NOT NEW.is_disabled) EXECUTE FUNCTION users_forgive_webhooks();
CREATE TRIGGER batches_feed_updated AFTER UPDATE OF status, is_settled ON batches
    FOR EACH ROW WHEN (
        NEW.is_settled AND NEW.status IN ('finished', 'cancelled') AND NOT (OLD.is_settled AND OLD.status IN ('finished', 'cancelled'))
    )
    EXECUTE FUNCTION batches_feed();
CREATE TRIGGER events_feed_inserted AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.event IN ('alert.firing', 'alert.resolved', 'alert.not_sent', 'sender.low_warning', 'sender.low_switch'))
    EXECUTE FUNCTION events_feed();
CREATE TRIGGER notifications_feed_inserted AFTER INSERT ON notifications
    FOR EACH ROW WHEN (NEW.ended_as IS NOT NULL) EXECUTE FUNCTION notifications_feed();
CREATE TRIGGER notifications_feed_updated AFTER UPDATE OF ended_as, next_run_at ON notifications
    FOR EACH ROW WHEN (
        NEW.deleted_at IS NULL AND NEW.forgotten_at IS NULL AND (
            NEW.ended_as IS NOT NULL AND NEW.ended_as IS DISTINCT FROM OLD.ended_as
            OR NEW.ended_as IS NULL AND NEW.next_run_at IS NULL AND OLD.next_run_at IS NOT NULL
        )
    )
    EXECUTE FUNCTION notifications_feed();
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF url, events, description, status, rotated_at ON webhooks
FOR EACH ROW EXECUTE FUNCTION audit_change('webhook', 'id', 'owner,off_reason,created_by,after_id,failing_since,failed_runs,rest_until');
CREATE TRIGGER webhooks_rows_bound AFTER INSERT ON webhooks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound('20', 'owner');

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
