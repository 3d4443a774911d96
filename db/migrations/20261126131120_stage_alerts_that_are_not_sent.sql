-- migrate:up
-- The event alert.not_sent is staged for the feed as those of alerts that begin and end.
SET LOCAL lock_timeout = '5s';
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
