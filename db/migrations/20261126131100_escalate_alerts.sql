-- migrate:up
-- An alert is delivered when its message is sent, and escalates if it is not. The new columns are empty for deliveries of before, and for those of a
-- server of the version before: these count as delivered when they were handed over, and do not escalate. The three tables are small; each is locked
-- for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE alert_receivers ADD COLUMN escalate_seconds bigint NOT NULL DEFAULT 300;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE alert_receivers ADD CONSTRAINT alert_receivers_escalate_seconds_range CHECK (escalate_seconds BETWEEN 0 AND 86400);
COMMENT ON COLUMN alert_receivers.escalate_seconds IS 'after how many seconds an alert escalates that was not sent to the receiver; 0: never';
ALTER TABLE alert_deliveries ADD COLUMN awaits bigint[];
ALTER TABLE alert_deliveries ADD COLUMN sent_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN end_awaits bigint[];
ALTER TABLE alert_deliveries ADD COLUMN end_sent_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalate_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalated_at timestamptz;
ALTER TABLE alert_deliveries ADD COLUMN escalated_from bigint;
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires: a program; or the queue took the messages to people; null: not yet';
COMMENT ON COLUMN alert_deliveries.awaits IS 'notifications that tell that the alert fires and of which a message may still be sent; empty: none any more; null: told_at is the delivery';
COMMENT ON COLUMN alert_deliveries.sent_at IS 'when the first message of the last notifications that tell that the alert fires was sent; null: none was';
COMMENT ON COLUMN alert_deliveries.end_awaits IS 'as awaits, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.end_sent_at IS 'as sent_at, of the end of the alert';
COMMENT ON COLUMN alert_deliveries.escalate_at IS 'when the delivery escalates, unless a message is sent before; null: never, or not any more';
COMMENT ON COLUMN alert_deliveries.escalated_at IS 'when it escalated to other channels of the receiver, or to other receivers; null: it did not';
COMMENT ON COLUMN alert_deliveries.escalated_from IS 'receiver whose delivery escalated to this one, which does not escalate; no foreign key, as receiver_id; null: the rule names the receiver';

-- The event alert.not_sent is staged for the feed as those of alerts that begin and end.
CREATE OR REPLACE FUNCTION events_feed() RETURNS trigger LANGUAGE plpgsql AS $$
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
DROP TRIGGER events_feed_inserted ON events;
CREATE TRIGGER events_feed_inserted AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.event IN ('alert.firing', 'alert.resolved', 'alert.not_sent', 'sender.low_warning', 'sender.low_switch'))
    EXECUTE FUNCTION events_feed();

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER events_feed_inserted ON events;
CREATE TRIGGER events_feed_inserted AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.event IN ('alert.firing', 'alert.resolved', 'sender.low_warning', 'sender.low_switch'))
    EXECUTE FUNCTION events_feed();
CREATE OR REPLACE FUNCTION events_feed() RETURNS trigger LANGUAGE plpgsql AS $$
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
        'fired_at', a.fired_at, 'resolved_at', a.resolved_at, 'ended_by', a.ended_by
    ))
    FROM alerts a
    WHERE a.id = (NEW.detail ->> 'alert_id')::bigint;
    IF NEW.detail ->> 'kind' = 'sender_silent' THEN
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
-- A version without this type would tell it to nobody.
DELETE FROM feed_staged WHERE type = 'alert.not_sent';
COMMENT ON COLUMN alert_deliveries.told_at IS 'when the receiver was last told that the alert fires; null: not yet';
ALTER TABLE alert_deliveries DROP COLUMN escalated_from;
ALTER TABLE alert_deliveries DROP COLUMN escalated_at;
ALTER TABLE alert_deliveries DROP COLUMN escalate_at;
ALTER TABLE alert_deliveries DROP COLUMN end_sent_at;
ALTER TABLE alert_deliveries DROP COLUMN end_awaits;
ALTER TABLE alert_deliveries DROP COLUMN sent_at;
ALTER TABLE alert_deliveries DROP COLUMN awaits;
ALTER TABLE alert_receivers DROP COLUMN escalate_seconds;
