-- migrate:up
-- Events of the service itself are staged with the operator events from which they follow. No company hears them.
SET LOCAL lock_timeout = '5s';
COMMENT ON COLUMN feed.company_id IS '0: of the service itself, only for those who hear every company. No foreign key: the row outlives the company';
COMMENT ON COLUMN feed_staged.company_id IS '0: of the service itself';

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
COMMENT ON FUNCTION events_feed() IS
    'Trigger of events: stages what the feed tells of alerts and senders, if somebody listens to every company. A sender is silent from when an alert of '
    'the kind sender_silent fires until that alert ends because the sender polled.';

CREATE TRIGGER events_feed_inserted AFTER INSERT ON events
    FOR EACH ROW WHEN (NEW.event IN ('alert.firing', 'alert.resolved', 'sender.low_warning', 'sender.low_switch'))
    EXECUTE FUNCTION events_feed();

-- migrate:down
SET LOCAL lock_timeout = '5s';
DROP TRIGGER events_feed_inserted ON events;
DROP FUNCTION events_feed();
-- A version without these types would tell them to nobody.
DELETE FROM feed_staged WHERE company_id = 0;
COMMENT ON COLUMN feed.company_id IS 'no foreign key: the row outlives the company';
COMMENT ON COLUMN feed_staged.company_id IS NULL;
