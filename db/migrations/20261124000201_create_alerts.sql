-- migrate:up
-- Alerts: the rules by which the service is watched, one row for each incident, and to whom incidents are told.
CREATE TABLE alert_receivers (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT alert_receivers_pkey PRIMARY KEY,
    name text NOT NULL,
    kind text NOT NULL,
    language text NOT NULL DEFAULT 'zh',
    company_id bigint CONSTRAINT alert_receivers_company_id_fkey REFERENCES companies (id),
    channels text[],
    user_ids text[],
    url text,
    sealed_authorization text,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_receivers_name_length CHECK (char_length(name) BETWEEN 1 AND 100),
    CONSTRAINT alert_receivers_language_known CHECK (language IN ('zh', 'en')),
    CONSTRAINT alert_receivers_kind_complete CHECK (
        CASE kind
            WHEN 'notification' THEN company_id IS NOT NULL AND cardinality(channels) > 0 AND cardinality(user_ids) > 0 AND url IS NULL
                AND sealed_authorization IS NULL
            WHEN 'alertmanager' THEN url IS NOT NULL AND company_id IS NULL AND channels IS NULL AND user_ids IS NULL
            ELSE false
        END
    )
);
COMMENT ON TABLE alert_receivers IS 'People, or a program, to whom alerts are told. Written by internal/alert.';
COMMENT ON COLUMN alert_receivers.kind IS 'notification: to users, through channels; alertmanager: to a program with the API of Alertmanager, at url';
COMMENT ON COLUMN alert_receivers.channels IS 'no foreign keys: a channel that was deleted is an error of each delivery, beside the other channels';
COMMENT ON COLUMN alert_receivers.sealed_authorization IS 'the header Authorization, sealed; null: none';
CREATE TRIGGER alert_receivers_rows_bound AFTER INSERT ON alert_receivers
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100);

CREATE TABLE alert_receiver_states (
    receiver_id bigint CONSTRAINT alert_receiver_states_pkey PRIMARY KEY
        CONSTRAINT alert_receiver_states_receiver_id_fkey REFERENCES alert_receivers (id) ON DELETE CASCADE,
    failing_since timestamptz,
    failures bigint NOT NULL DEFAULT 0,
    error text,
    next_call_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE alert_receiver_states IS 'How the last calls of a receiver of the kind alertmanager went, one row for each. Written by internal/alert. Apart from alert_receivers, because no admin changes it.';
COMMENT ON COLUMN alert_receiver_states.failing_since IS 'when the first of the failed calls failed; null: the last call succeeded';
COMMENT ON COLUMN alert_receiver_states.failures IS 'number of failed calls since the last that succeeded';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS 'it is not called before';

CREATE TABLE alert_rules (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT alert_rules_pkey PRIMARY KEY,
    name text,
    kind text NOT NULL,
    level text NOT NULL,
    threshold double precision,
    window_seconds bigint,
    for_seconds bigint NOT NULL,
    resolve_seconds bigint NOT NULL,
    repeat_seconds bigint NOT NULL,
    silenced_until timestamptz,
    company_id bigint CONSTRAINT alert_rules_company_id_fkey REFERENCES companies (id),
    channel_id bigint CONSTRAINT alert_rules_channel_id_fkey REFERENCES channels (id),
    sender_id bigint CONSTRAINT alert_rules_sender_id_fkey REFERENCES senders (id),
    receivers bigint[],
    is_enabled boolean NOT NULL DEFAULT true,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_rules_name_length CHECK (char_length(name) BETWEEN 1 AND 100),
    CONSTRAINT alert_rules_kind_known CHECK (
        kind IN (
            'wait_time', 'queue_depth', 'failure_rate', 'pool_unserved', 'sender_silent', 'balance_low', 'provider_trouble', 'receipts_missing',
            'disk_low', 'partition_missing', 'webhook_failing'
        )
    ),
    CONSTRAINT alert_rules_level_known CHECK (level IN ('warning', 'critical', 'emergency')),
    CONSTRAINT alert_rules_seconds_range CHECK (for_seconds >= 0 AND resolve_seconds >= 0 AND repeat_seconds >= 0 AND window_seconds > 0)
);
COMMENT ON TABLE alert_rules IS 'A condition that is watched. Written by internal/alert. Companies, channels and senders that a rule names cannot be deleted.';
COMMENT ON COLUMN alert_rules.name IS 'null: it is called by its kind and level, in the language of the reader';
COMMENT ON COLUMN alert_rules.threshold IS 'unit and direction depend on the kind; null: of wait_time the setting of its level, of balance_low the low_warning of each sender, of pool_unserved and provider_trouble none';
COMMENT ON COLUMN alert_rules.window_seconds IS 'null: the kind has no window';
COMMENT ON COLUMN alert_rules.for_seconds IS 'for how long the condition must hold before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS 'for how long the condition must not hold before the alert is resolved';
COMMENT ON COLUMN alert_rules.repeat_seconds IS 'after how long an alert that still fires is told again; 0: never';
COMMENT ON COLUMN alert_rules.receivers IS 'ids of alert_receivers, which cannot be deleted then; null: all';
CREATE TRIGGER alert_rules_rows_bound AFTER INSERT ON alert_rules
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);

CREATE TABLE alerts (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT alerts_pkey PRIMARY KEY,
    rule_id bigint NOT NULL,
    kind text NOT NULL,
    level text NOT NULL,
    subject text NOT NULL,
    company_no text,
    channel text,
    sender_no text,
    value double precision NOT NULL,
    threshold double precision,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    fired_at timestamptz,
    cleared_at timestamptz,
    resolved_at timestamptz,
    ended_by text,
    acknowledged_at timestamptz,
    acknowledged_by text,
    remark text,
    only_own_channel boolean NOT NULL DEFAULT false,
    CONSTRAINT alerts_subject_length CHECK (char_length(subject) BETWEEN 1 AND 300),
    CONSTRAINT alerts_times_order CHECK (fired_at >= started_at AND resolved_at >= fired_at),
    CONSTRAINT alerts_resolved_have_fired CHECK (resolved_at IS NULL OR fired_at IS NOT NULL),
    CONSTRAINT alerts_ended_by_known CHECK (
        (resolved_at IS NULL) = (ended_by IS NULL) AND ended_by IN ('condition', 'rule_changed', 'rule_disabled', 'rule_deleted')
    )
);
COMMENT ON TABLE alerts IS 'One incident: a condition of a rule about one subject, from its start to its end. Written by internal/alert, which deletes old rows. No foreign keys: an alert outlives its rule and its subject, whose names it keeps.';
COMMENT ON COLUMN alerts.subject IS 'what the condition is about, in the words of the kind: a sender_no, a channel, a pool, a file system';
COMMENT ON COLUMN alerts.value IS 'what was measured when the condition was last found';
COMMENT ON COLUMN alerts.threshold IS 'with what the value is compared; null: the kind has none';
COMMENT ON COLUMN alerts.started_at IS 'when the condition began to hold';
COMMENT ON COLUMN alerts.seen_at IS 'when the condition was last found to hold';
COMMENT ON COLUMN alerts.fired_at IS 'null: pending, because the condition has not held for long enough; such a row is deleted when the condition ends';
COMMENT ON COLUMN alerts.cleared_at IS 'since when the condition does not hold; null: it holds';
COMMENT ON COLUMN alerts.only_own_channel IS 'whether the only ways to its receivers are the channel that it is about';
CREATE UNIQUE INDEX alerts_open_key ON alerts (rule_id, subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_rule_idx ON alerts (rule_id, id);
CREATE INDEX alerts_level_idx ON alerts (level, id);
CREATE INDEX alerts_resolved_idx ON alerts (resolved_at);

CREATE FUNCTION alert_rank(level text) RETURNS integer LANGUAGE sql IMMUTABLE
RETURN array_position(ARRAY['warning', 'critical', 'emergency'], level);
COMMENT ON FUNCTION alert_rank(text) IS 'The rank of alerts.level: the worse, the larger.';

CREATE TABLE alert_deliveries (
    alert_id bigint NOT NULL CONSTRAINT alert_deliveries_alert_id_fkey REFERENCES alerts (id) ON DELETE CASCADE,
    receiver_id bigint NOT NULL,
    told_at timestamptz,
    end_told_at timestamptz,
    tries bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    error text,
    next_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_deliveries_pkey PRIMARY KEY (alert_id, receiver_id)
);
COMMENT ON TABLE alert_deliveries IS 'What one receiver was told of one alert. Written by internal/alert. receiver_id has no foreign key: it stays when the receiver is deleted.';
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS 'when the receiver was told that the alert is resolved; null: not yet, or it was never told that it fires';
COMMENT ON COLUMN alert_deliveries.tries IS 'number of tries that have an outcome; part of the dedup key of the next one';
COMMENT ON COLUMN alert_deliveries.failures IS 'number of failed tries since the last that succeeded';
COMMENT ON COLUMN alert_deliveries.error IS 'why the last try failed, in part or as a whole; null: it succeeded, or none was made';
COMMENT ON COLUMN alert_deliveries.next_at IS 'it is not tried before';
CREATE INDEX alert_deliveries_end_idx ON alert_deliveries (next_at) WHERE told_at IS NOT NULL AND end_told_at IS NULL;

-- The rules that every installation begins with. None of them says anything about an installation without tasks, senders and providers.
INSERT INTO alert_rules (kind, level, threshold, window_seconds, for_seconds, resolve_seconds, repeat_seconds)
VALUES
('wait_time', 'warning', NULL, NULL, 0, 60, 21600), -- 300 s by the settings
('wait_time', 'critical', NULL, NULL, 0, 60, 3600), -- 600 s
('wait_time', 'emergency', NULL, NULL, 0, 60, 1800), -- 1,800 s
('queue_depth', 'warning', 100000, NULL, 300, 300, 21600), -- tasks
('failure_rate', 'warning', 0.2, 900, 120, 300, 21600), -- a fifth of the tasks that ended
('pool_unserved', 'critical', NULL, NULL, 300, 60, 3600),
('sender_silent', 'warning', 600, NULL, 60, 60, 21600), -- seconds
('balance_low', 'warning', NULL, NULL, 0, 60, 86400),
('provider_trouble', 'warning', NULL, NULL, 60, 60, 21600),
('receipts_missing', 'warning', 20, 3600, 900, 60, 21600), -- accepted messages
('disk_low', 'critical', 0.1, NULL, 60, 300, 3600), -- a tenth is free
('partition_missing', 'critical', 2, NULL, 1800, 60, 3600), -- days
('webhook_failing', 'warning', 300, NULL, 0, 60, 21600); -- seconds

-- The template of the notifications that tell an alert. The texts come from the service, in the language of the receiver.
INSERT INTO notification_templates (biz_type, channel_id, title, content)
SELECT 32767, c.id, '${title}', '${text}' FROM channels c
WHERE c.channel IN ('sms', 'oa', 'dingtalk', 'wechat', 'email')
ORDER BY c.id
ON CONFLICT DO NOTHING;
COMMENT ON COLUMN notification_templates.biz_type IS 'see notifications.biz_type; 32767: an alert';

-- migrate:down
COMMENT ON COLUMN notification_templates.biz_type IS 'see notifications.biz_type';
DELETE FROM notification_templates WHERE biz_type = 32767;
DROP TABLE alert_deliveries;
DROP FUNCTION alert_rank(text);
DROP TABLE alerts;
DROP TABLE alert_rules;
DROP TABLE alert_receiver_states;
DROP TABLE alert_receivers;
