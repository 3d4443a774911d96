-- migrate:up
-- What operators see: statistics, alerts, and the statements of providers.

CREATE TABLE alerts (
    id bigint GENERATED ALWAYS AS IDENTITY,
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
    CONSTRAINT alerts_pkey PRIMARY KEY (id),
    CONSTRAINT alerts_ended_by_known CHECK (
        (resolved_at IS NULL) = (ended_by IS NULL) AND ended_by IN ('condition', 'rule_changed', 'rule_disabled', 'rule_deleted')
    ),
    CONSTRAINT alerts_resolved_have_fired CHECK (resolved_at IS NULL OR fired_at IS NOT NULL),
    CONSTRAINT alerts_subject_length CHECK (char_length(subject) BETWEEN 1 AND 300),
    CONSTRAINT alerts_times_order CHECK (fired_at >= started_at AND resolved_at >= fired_at)
);
COMMENT ON TABLE alerts IS 'One incident: a condition of a rule about one subject, from its start to its end. Written by internal/insight/alert, which deletes old rows. No foreign keys: an alert outlives its rule and its subject, whose names it keeps.';
COMMENT ON COLUMN alerts.subject IS 'what the condition is about, in the words of the kind: a sender_no, a channel, a pool, a file system';
COMMENT ON COLUMN alerts.value IS 'what was measured when the condition was last found';
COMMENT ON COLUMN alerts.threshold IS 'with what the value is compared; null: the kind has none';
COMMENT ON COLUMN alerts.started_at IS 'when the condition began to hold';
COMMENT ON COLUMN alerts.seen_at IS 'when the condition was last found to hold';
COMMENT ON COLUMN alerts.fired_at IS 'null: pending, because the condition has not held for long enough; such a row is deleted when the condition ends';
COMMENT ON COLUMN alerts.cleared_at IS 'since when the condition does not hold; null: it holds';
COMMENT ON COLUMN alerts.only_own_channel IS 'whether people can be told only through the channel that it is about, or of an alert about all channels, only through one';
CREATE INDEX alerts_level_idx ON alerts (level, id);
CREATE UNIQUE INDEX alerts_open_key ON alerts (rule_id, subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_resolved_idx ON alerts (resolved_at);
CREATE INDEX alerts_rule_idx ON alerts (rule_id, id);

CREATE TABLE alert_deliveries (
    alert_id bigint NOT NULL,
    receiver_id bigint NOT NULL,
    told_at timestamptz,
    end_told_at timestamptz,
    tries bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    error text,
    next_at timestamptz NOT NULL DEFAULT now(),
    awaits bigint[],
    sent_at timestamptz,
    end_awaits bigint[],
    end_sent_at timestamptz,
    escalate_at timestamptz,
    escalated_at timestamptz,
    escalated_from bigint,
    CONSTRAINT alert_deliveries_pkey PRIMARY KEY (alert_id, receiver_id),
    CONSTRAINT alert_deliveries_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
);
COMMENT ON TABLE alert_deliveries IS 'What one receiver was told of one alert. Written by internal/insight/alert. receiver_id has no foreign key: it stays when the receiver is deleted.';
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires: a program; or the queue took the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.end_told_at IS 'when the receiver was told that the alert is resolved; null: not yet, or it was never told that it fires';
COMMENT ON COLUMN alert_deliveries.tries IS 'number of tries that have an outcome; part of the dedup key of the next one';
COMMENT ON COLUMN alert_deliveries.failures IS 'number of failed tries since the last that succeeded';
COMMENT ON COLUMN alert_deliveries.error IS 'why the last try failed, in part or as a whole; null: it succeeded, or none was made';
COMMENT ON COLUMN alert_deliveries.next_at IS 'it is not tried before';
COMMENT ON COLUMN alert_deliveries.awaits IS 'notifications that tell that the alert fires and of which a message may still be sent; empty: none any more; null: told_at is the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS 'when the first message of the last notifications that tell that the alert fires was sent; null: none was';
COMMENT ON COLUMN alert_deliveries.end_awaits IS 'as awaits, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS 'as sent_at, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS 'when the delivery escalates, unless a message is sent before; null: never, or not any more';
COMMENT ON COLUMN alert_deliveries.escalated_at IS 'when it escalated to other channels of the receiver, or to other receivers; null: it did not';
COMMENT ON COLUMN alert_deliveries.escalated_from IS 'receiver whose delivery escalated to this one, which does not escalate; no foreign key, as receiver_id; null: the rule names the receiver';

CREATE TABLE alert_receivers (
    id bigint GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL,
    kind text NOT NULL,
    language text NOT NULL DEFAULT 'zh',
    company_id bigint,
    channels text[],
    user_ids text[],
    url text,
    sealed_authorization text,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    escalate_seconds bigint NOT NULL DEFAULT 300,
    CONSTRAINT alert_receivers_pkey PRIMARY KEY (id),
    CONSTRAINT alert_receivers_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT alert_receivers_escalate_seconds_range CHECK (escalate_seconds BETWEEN 0 AND 86400),
    CONSTRAINT alert_receivers_kind_complete CHECK (
        CASE kind
            WHEN 'notification' THEN company_id IS NOT NULL AND cardinality(channels) > 0 AND cardinality(user_ids) > 0 AND url IS NULL
                AND sealed_authorization IS NULL
            WHEN 'alertmanager' THEN url IS NOT NULL AND company_id IS NULL AND channels IS NULL AND user_ids IS NULL
            ELSE false
        END
    ),
    CONSTRAINT alert_receivers_language_known CHECK (language IN ('zh', 'en')),
    CONSTRAINT alert_receivers_name_length CHECK (char_length(name) BETWEEN 1 AND 100)
);
COMMENT ON TABLE alert_receivers IS 'People, or a program, to whom alerts are told. Written by internal/insight/alert.';
COMMENT ON COLUMN alert_receivers.kind IS 'notification: to users, through channels; alertmanager: to a program with the API of Alertmanager, at url';
COMMENT ON COLUMN alert_receivers.channels IS 'no foreign keys: a channel that was deleted is an error of each delivery, beside the other channels';
COMMENT ON COLUMN alert_receivers.sealed_authorization IS 'the header Authorization, sealed; null: none';
COMMENT ON COLUMN alert_receivers.escalate_seconds IS 'after how many seconds an alert escalates that was not sent to the receiver; 0: never';

CREATE TABLE alert_receiver_states (
    receiver_id bigint NOT NULL,
    failing_since timestamptz,
    failures bigint NOT NULL DEFAULT 0,
    error text,
    next_call_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_receiver_states_pkey PRIMARY KEY (receiver_id),
    CONSTRAINT alert_receiver_states_receiver_id_fkey FOREIGN KEY (receiver_id) REFERENCES alert_receivers(id) ON DELETE CASCADE
);
COMMENT ON TABLE alert_receiver_states IS 'How the last calls of a receiver of the kind alertmanager went, one row for each. Written by internal/insight/alert. Apart from alert_receivers, because no admin changes it.';
COMMENT ON COLUMN alert_receiver_states.failing_since IS 'when the first of the failed calls failed; null: the last call succeeded';
COMMENT ON COLUMN alert_receiver_states.failures IS 'number of failed calls since the last that succeeded';
COMMENT ON COLUMN alert_receiver_states.next_call_at IS 'it is not called before: a call failed, or a server is calling';

CREATE TABLE alert_rules (
    id bigint GENERATED ALWAYS AS IDENTITY,
    name text,
    kind text NOT NULL,
    level text NOT NULL,
    threshold double precision,
    window_seconds bigint,
    for_seconds bigint NOT NULL,
    resolve_seconds bigint NOT NULL,
    repeat_seconds bigint NOT NULL,
    silenced_until timestamptz,
    company_id bigint,
    channel_id bigint,
    sender_id bigint,
    receivers bigint[],
    is_enabled boolean NOT NULL DEFAULT true,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_rules_pkey PRIMARY KEY (id),
    CONSTRAINT alert_rules_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES channels(id),
    CONSTRAINT alert_rules_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT alert_rules_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES senders(id),
    CONSTRAINT alert_rules_kind_known CHECK (kind ~ '^[a-z]+(_[a-z]+)*$'),
    CONSTRAINT alert_rules_level_known CHECK (level IN ('warning', 'critical', 'emergency')),
    CONSTRAINT alert_rules_name_length CHECK (char_length(name) BETWEEN 1 AND 100),
    CONSTRAINT alert_rules_seconds_range CHECK (for_seconds >= 0 AND resolve_seconds >= 0 AND repeat_seconds >= 0 AND window_seconds > 0)
);
COMMENT ON TABLE alert_rules IS 'A condition that is watched. Written by internal/insight/alert. Companies, channels and senders that a rule names cannot be deleted.';
COMMENT ON COLUMN alert_rules.name IS 'null: it is called by its kind and level, in the language of the reader';
COMMENT ON COLUMN alert_rules.threshold IS 'unit and direction depend on the kind; null: of wait_time the setting of its level, of balance_low the low_warning of each sender, of pool_unserved and provider_trouble none';
COMMENT ON COLUMN alert_rules.window_seconds IS 'null: the kind has no window';
COMMENT ON COLUMN alert_rules.for_seconds IS 'for how long the condition must hold before the alert fires';
COMMENT ON COLUMN alert_rules.resolve_seconds IS 'for how long the condition must not hold before the alert is resolved';
COMMENT ON COLUMN alert_rules.repeat_seconds IS 'after how long an alert that still fires is told again; 0: never';
COMMENT ON COLUMN alert_rules.receivers IS 'ids of alert_receivers, which cannot be deleted then; null: all';

CREATE TABLE daily_totals (
    id bigint GENERATED ALWAYS AS IDENTITY,
    day date NOT NULL,
    company_id bigint NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    country_no text NOT NULL,
    is_test boolean NOT NULL,
    attempted bigint NOT NULL,
    accepted bigint NOT NULL,
    delivered bigint NOT NULL,
    segments bigint NOT NULL,
    cost bigint NOT NULL,
    CONSTRAINT daily_totals_pkey PRIMARY KEY (id),
    CONSTRAINT daily_totals_key UNIQUE (company_id, day, sender_no, message_type, country_no, is_test)
);
COMMENT ON TABLE daily_totals IS
    'What a sender did for a company on one day of the setting monitoring.time_zone, in messages of one type to one country. Tests are apart: no company '
    'sees them, but a provider counts them. Written by internal/insight/reconcile alone, in the transaction that deletes the facts; kept for ever.';
COMMENT ON COLUMN daily_totals.day IS 'on which the attempts ended: the day on which the provider accepted them';
COMMENT ON COLUMN daily_totals.company_id IS 'no foreign key: the row outlives the company';
COMMENT ON COLUMN daily_totals.sender_no IS 'no foreign key, as facts.sender_no';
COMMENT ON COLUMN daily_totals.message_type IS 'as messages.message_type; empty: not known';
COMMENT ON COLUMN daily_totals.country_no IS 'empty: none, as outside of SMS';
COMMENT ON COLUMN daily_totals.attempted IS 'leases that the sender ended by a report';
COMMENT ON COLUMN daily_totals.accepted IS 'of these, reported SUCCESS';
COMMENT ON COLUMN daily_totals.delivered IS 'receipts that said so, on the day on which their message was accepted';
COMMENT ON COLUMN daily_totals.segments IS 'of the accepted messages';
COMMENT ON COLUMN daily_totals.cost IS 'of the segments, by the price that the sender had when they were counted; in 1/10000 of the currency';
CREATE INDEX daily_totals_day_idx ON daily_totals (day, id);

CREATE TABLE statistics_staged (
    at timestamptz NOT NULL,
    company_id bigint NOT NULL,
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    channel text NOT NULL,
    sender_no text NOT NULL,
    message_type text NOT NULL,
    outcome text NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL
);
COMMENT ON TABLE statistics_staged IS
    'What one fold found in a minute of one company, channel, sender, message type and outcome. Written by internal/insight/statistics in the transaction '
    'of the fold; a sweep moves the rows to statistics when their minute is over.';
COMMENT ON COLUMN statistics_staged.at IS 'the minute';
COMMENT ON COLUMN statistics_staged.company_id IS 'no foreign key: figures outlive their company';
COMMENT ON COLUMN statistics_staged.claimed IS 'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics_staged.channel IS 'channels.channel; empty: not known';
COMMENT ON COLUMN statistics_staged.sender_no IS 'empty: no sender';
COMMENT ON COLUMN statistics_staged.message_type IS 'as messages.message_type; test: tests of any type; empty: not known';
COMMENT ON COLUMN statistics_staged.outcome IS 'SUCCESS, FAILED or CANCELLED; empty: what is no end of a task';
COMMENT ON COLUMN statistics_staged.waits IS 'as facts.waits; empty: none';
COMMENT ON COLUMN statistics_staged.durations IS 'as facts.durations; empty: none';
CREATE INDEX statistics_staged_at_idx ON statistics_staged (at);

CREATE TABLE reconciliations (
    id bigint GENERATED ALWAYS AS IDENTITY,
    sender_no text NOT NULL,
    day date NOT NULL,
    from_at timestamptz NOT NULL,
    to_at timestamptz NOT NULL,
    unit text,
    ours bigint NOT NULL DEFAULT 0,
    theirs bigint NOT NULL DEFAULT 0,
    tests bigint NOT NULL DEFAULT 0,
    file_name text,
    upload_id bigint,
    sheet text NOT NULL DEFAULT '',
    number_column text NOT NULL DEFAULT '',
    status_column text NOT NULL DEFAULT '',
    segments_column text NOT NULL DEFAULT '',
    delivered_values text[] NOT NULL DEFAULT '{}',
    pending_values text[] NOT NULL DEFAULT '{}',
    status text NOT NULL,
    phase text,
    row_no bigint NOT NULL DEFAULT 0,
    after_no text COLLATE "C" NOT NULL DEFAULT '',
    after_at timestamptz,
    after_id bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    matched bigint NOT NULL DEFAULT 0,
    missing_here bigint NOT NULL DEFAULT 0,
    missing_there bigint NOT NULL DEFAULT 0,
    status_differs bigint NOT NULL DEFAULT 0,
    segments_differ bigint NOT NULL DEFAULT 0,
    repeated bigint NOT NULL DEFAULT 0,
    unreadable bigint NOT NULL DEFAULT 0,
    near_midnight bigint NOT NULL DEFAULT 0,
    differences bigint GENERATED ALWAYS AS ( CASE WHEN (unit IS NULL) THEN (((((missing_here + missing_there) + status_differs) + segments_differ) + repeated) + unreadable) ELSE abs((ours - theirs)) END) STORED NOT NULL,
    failure jsonb,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    CONSTRAINT reconciliations_pkey PRIMARY KEY (id),
    CONSTRAINT reconciliations_day_bounds CHECK (to_at > from_at),
    CONSTRAINT reconciliations_ended_has_time CHECK ((status = 'running') = (finished_at IS NULL)),
    CONSTRAINT reconciliations_failed_says_why CHECK (status <> 'failed' OR failure IS NOT NULL),
    CONSTRAINT reconciliations_phase_known CHECK (
        (status = 'running') = (phase IS NOT NULL) AND phase IN ('read', 'match', 'search', 'clear')
    ),
    CONSTRAINT reconciliations_reading_has_upload CHECK (coalesce(phase = 'read', false) = (upload_id IS NOT NULL)),
    CONSTRAINT reconciliations_status_known CHECK (status IN ('running', 'finished', 'failed')),
    CONSTRAINT reconciliations_unit_known CHECK (unit IN ('messages', 'segments') AND file_name IS NULL OR unit IS NULL AND file_name IS NOT NULL)
);
COMMENT ON TABLE reconciliations IS
    'What a provider says it accepted of a sender on one day, compared with what LKSMS has. Written by internal/insight/reconcile: a total in one statement, the '
    'rows of a file in portions, each in one transaction with the place behind it, so that any server can go on there.';
COMMENT ON COLUMN reconciliations.sender_no IS 'no foreign key: the row outlives the sender';
COMMENT ON COLUMN reconciliations.from_at IS 'the beginning of the day, by the setting monitoring.time_zone when it was created';
COMMENT ON COLUMN reconciliations.unit IS 'of ours and theirs, if the provider gave a total; null: it gave a file, of messages';
COMMENT ON COLUMN reconciliations.ours IS 'of a total daily_totals, tests included; of a file the messages with a number that it has, or should have';
COMMENT ON COLUMN reconciliations.theirs IS 'of a file its different numbers';
COMMENT ON COLUMN reconciliations.tests IS 'of ours, those of tests; 0 for a file';
COMMENT ON COLUMN reconciliations.upload_id IS 'the file; no foreign key: it is deleted when it was read; null: it was';
COMMENT ON COLUMN reconciliations.sheet IS 'of a workbook; empty: the first that is not hidden';
COMMENT ON COLUMN reconciliations.number_column IS 'the column with the provider''s numbers';
COMMENT ON COLUMN reconciliations.status_column IS 'empty: states are not compared';
COMMENT ON COLUMN reconciliations.segments_column IS 'empty: segments are not compared';
COMMENT ON COLUMN reconciliations.delivered_values IS 'values of status_column that mean delivered, in lower case';
COMMENT ON COLUMN reconciliations.pending_values IS 'values of status_column that are not final, in lower case; all others mean undelivered';
COMMENT ON COLUMN reconciliations.phase IS
    'read: the file goes to reconciliation_rows; match: the attempts of these rows are looked for; search: attempts of the day without a row are; '
    'clear: the rows are deleted; null: it has ended';
COMMENT ON COLUMN reconciliations.row_no IS 'read: the last row of the file that is stored';
COMMENT ON COLUMN reconciliations.after_no IS 'match: the last number that was looked for';
COMMENT ON COLUMN reconciliations.after_at IS 'search: with after_id the last attempt that was looked at; null: none';
COMMENT ON COLUMN reconciliations.rows IS 'rows of the file that were read, without empty ones';
COMMENT ON COLUMN reconciliations.near_midnight IS 'attempts within minutes of the day''s ends without a row: no difference, a neighbouring statement may have them';
COMMENT ON COLUMN reconciliations.differences IS 'by how much ours and theirs differ, or of a file how often; 0: the day matches';
COMMENT ON COLUMN reconciliations.failure IS 'why the file could not be read to its end: a fault.Field as JSON';
COMMENT ON COLUMN reconciliations.created_by IS 'the user; no foreign key: the configured user is in no table';
CREATE INDEX reconciliations_day_idx ON reconciliations (sender_no, day, id) WHERE status = 'finished';
CREATE INDEX reconciliations_finished_at_idx ON reconciliations (finished_at);
CREATE INDEX reconciliations_running_idx ON reconciliations (id) WHERE status = 'running';

CREATE TABLE reconciliation_differences (
    reconciliation_id bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    provider_no text,
    row_no bigint,
    task_id text COLLATE "C",
    accepted_at timestamptz,
    ours text,
    theirs text,
    CONSTRAINT reconciliation_differences_pkey PRIMARY KEY (reconciliation_id, id),
    CONSTRAINT reconciliation_differences_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES reconciliations(id) ON DELETE CASCADE,
    CONSTRAINT reconciliation_differences_kind_known CHECK (kind IN (
        'missing_here', 'missing_there', 'status_differs', 'segments_differ', 'repeated', 'unreadable', 'near_midnight'
    ))
);
COMMENT ON TABLE reconciliation_differences IS
    'A message about which a provider''s file and LKSMS differ; of each kind and reconciliation the first 10,000. Written by internal/insight/reconcile with its portion.';
COMMENT ON COLUMN reconciliation_differences.provider_no IS 'null: the row of the file has none that can be read';
COMMENT ON COLUMN reconciliation_differences.row_no IS 'of the file, as a spreadsheet program shows it; null: the file has no such row';
COMMENT ON COLUMN reconciliation_differences.task_id IS 'null: no attempt has the number. No foreign key: tasks leave with their partitions';
COMMENT ON COLUMN reconciliation_differences.accepted_at IS 'when the attempt was reported; of missing_here, on another day';
COMMENT ON COLUMN reconciliation_differences.ours IS 'the state, the segments or the number of messages that LKSMS has, by kind; null: none';
COMMENT ON COLUMN reconciliation_differences.theirs IS 'the same of the file; of unreadable why, a fault.Rule';
CREATE INDEX reconciliation_differences_kind_idx ON reconciliation_differences (reconciliation_id, kind, id);

CREATE TABLE reconciliation_rows (
    reconciliation_id bigint NOT NULL,
    provider_no text COLLATE "C" NOT NULL,
    row_no bigint NOT NULL,
    copies bigint NOT NULL,
    status text,
    segments bigint,
    CONSTRAINT reconciliation_rows_pkey PRIMARY KEY (reconciliation_id, provider_no),
    CONSTRAINT reconciliation_rows_reconciliation_id_fkey FOREIGN KEY (reconciliation_id) REFERENCES reconciliations(id) ON DELETE CASCADE
);
COMMENT ON TABLE reconciliation_rows IS 'A message of a provider''s file that is being compared. Written by internal/insight/reconcile, which deletes it when the file is compared.';
COMMENT ON COLUMN reconciliation_rows.row_no IS 'the first row that has the number, as a spreadsheet program shows it';
COMMENT ON COLUMN reconciliation_rows.copies IS 'how many rows have the number';
COMMENT ON COLUMN reconciliation_rows.status IS 'as in all of these rows; null: not compared, or they differ';
COMMENT ON COLUMN reconciliation_rows.segments IS 'sum of these rows; null: not compared';

CREATE TABLE statistics (
    step text NOT NULL,
    company_id bigint NOT NULL,
    dimension text NOT NULL,
    at timestamptz NOT NULL,
    key text COLLATE "C" NOT NULL,
    submitted bigint NOT NULL,
    requeued bigint NOT NULL,
    claimed bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    reported_failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    delivered bigint NOT NULL,
    undelivered bigint NOT NULL,
    segments bigint NOT NULL,
    waits bytea NOT NULL,
    durations bytea NOT NULL,
    CONSTRAINT statistics_pkey PRIMARY KEY (step, company_id, dimension, at, key),
    CONSTRAINT statistics_dimension_known CHECK (dimension IN ('total', 'company', 'channel', 'sender', 'message_type', 'outcome')),
    CONSTRAINT statistics_step_known CHECK (step IN ('minute', 'hour', 'day'))
) WITH (fillfactor=80);
COMMENT ON TABLE statistics IS
    'What happened in one minute, hour or day: to all tasks of a company, or to those of one key of a dimension. Written by internal/insight/statistics '
    'only, from statistics_staged; minutes and hours are deleted later.';
COMMENT ON COLUMN statistics.company_id IS '0: all companies. No foreign key: figures outlive their company';
COMMENT ON COLUMN statistics.dimension IS 'company: only of company_id 0';
COMMENT ON COLUMN statistics.at IS
    'when it begins: hours are those of UTC, days those of the setting monitoring.time_zone at the time of the sweep';
COMMENT ON COLUMN statistics.key IS
    'of the dimension company its id, of the others the column of statistics_staged that is named like the dimension (sender: sender_no); empty: as '
    'there, or the dimension is total. Tests are in no other row than that of the message type test';
COMMENT ON COLUMN statistics.claimed IS 'number of leases; all counts are as in facts';
COMMENT ON COLUMN statistics.waits IS
    'histogram of the times from entered_at to the first claim: for each bucket with tasks, ascending, its number (one byte, see wait_bucket), '
    'and how many tasks it has (varint of Go''s encoding/binary)';
COMMENT ON COLUMN statistics.durations IS 'histogram of the times from entered_at to SUCCESS or FAILED, written like waits';
CREATE INDEX statistics_key_idx ON statistics (step, company_id, dimension, key, at);
CREATE INDEX statistics_short_idx ON statistics (step, at) WHERE step <> 'day';

CREATE FUNCTION alert_rank(level text) RETURNS integer LANGUAGE sql IMMUTABLE
RETURN array_position(ARRAY['warning', 'critical', 'emergency'], level);
COMMENT ON FUNCTION alert_rank(text) IS 'The rank of alerts.level: the worse, the larger.';

-- A bucket is one byte, so that string_agg collects the buckets of many tasks. ln(1.1) = 0.0953101798043249. The clock may be set back.
CREATE FUNCTION wait_bucket(wait interval) RETURNS bytea LANGUAGE sql IMMUTABLE
RETURN CASE WHEN wait IS NOT NULL THEN -- greatest would take a null for 1 ms
    set_byte('\x00', 0, least(255, ceil(ln(greatest(1, date_part('epoch', wait) * 1000)) / 0.0953101798043249))::integer)
END;
COMMENT ON FUNCTION wait_bucket(interval) IS
    'The bucket of a time in a histogram, as one byte: 0 up to 1 ms; n above 1.1^(n-1) ms and up to 1.1^n ms; 255 also all above (416 days); null of null. '
    'internal/insight/statistics has the same bounds.';

CREATE VIEW recent_statistics AS
SELECT at, company_id, channel, sender_no, message_type, outcome, submitted, requeued, claimed, succeeded, failed, reported_failed, cancelled,
    delivered, undelivered, segments, waits, durations
FROM statistics_staged
UNION ALL
SELECT date_trunc('minute', f.at, 'UTC'), f.company_id, coalesce(p.channel, ''), coalesce(f.sender_no, ''), CASE WHEN f.is_test THEN 'test' ELSE coalesce(f.message_type::text, '') END,
    fact_outcome(f.success, f.failed, f.cancelled), f.submitted, f.requeued, f.leases, greatest(0, f.success), greatest(0, f.failed),
    f.reported_failed, f.cancelled, f.delivered, f.undelivered, f.segments, coalesce(f.waits, ''), coalesce(f.durations, '')
FROM facts f
LEFT JOIN pool_channels p ON p.pool_id = f.pool_id
WHERE f.submitted > 0 OR f.requeued > 0 OR f.leases > 0 OR f.success > 0 OR f.failed > 0 OR f.reported_failed > 0 OR f.cancelled > 0
    OR f.delivered > 0 OR f.undelivered > 0;
COMMENT ON VIEW recent_statistics IS
    'What is not in statistics yet: staged minutes, and the facts that are not folded. One statement that reads this view and statistics counts '
    'everything once.';

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
('webhook_failing', 'warning', 300, NULL, 0, 60, 21600), -- seconds
('statement_differs', 'warning', 0, NULL, 0, 0, 86400), -- differences
('receipts_unmatched', 'warning', 1, 3600, 300, 60, 86400), -- receipts
('sender_failing', 'warning', 0.3, 900, 120, 300, 21600), -- of the attempts
('history_overdue', 'warning', 1, NULL, 7200, 60, 86400); -- days

CREATE TRIGGER alert_receivers_rows_bound AFTER INSERT ON alert_receivers
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100);
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON alert_receivers
FOR EACH ROW EXECUTE FUNCTION audit_change('alert_receiver', 'id', '', 'sealed_authorization');
CREATE TRIGGER alert_rules_rows_bound AFTER INSERT ON alert_rules
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON alert_rules
FOR EACH ROW EXECUTE FUNCTION audit_change('alert_rule', 'id');
CREATE TRIGGER audited AFTER UPDATE OF acknowledged_at ON alerts
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'alert', 'id',
    'rule_id,kind,level,subject,company_no,channel,sender_no,value,threshold,started_at,seen_at,fired_at,cleared_at,resolved_at,ended_by,acknowledged_at,'
    'only_own_channel'
);
CREATE TRIGGER audited AFTER INSERT ON reconciliations
FOR EACH ROW EXECUTE FUNCTION audit_change(
    'reconciliation', 'id',
    'from_at,to_at,upload_id,sheet,number_column,status_column,segments_column,delivered_values,pending_values,status,phase,row_no,after_no,after_at,'
    'after_id,rows,matched,missing_here,missing_there,status_differs,segments_differ,repeated,unreadable,near_midnight,failure,created_by,finished_at'
);

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
