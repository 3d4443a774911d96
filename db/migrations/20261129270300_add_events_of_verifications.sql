-- migrate:up
CREATE FUNCTION verifications_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, CASE NEW.status WHEN 'approved' THEN 'verification.approved' ELSE 'verification.failed' END, NEW.ended_at,
            jsonb_strip_nulls(jsonb_build_object('verification_id', NEW.verification_id, 'reason', CASE
                WHEN NEW.status = 'approved' THEN NULL
                -- A pending verification exists only if the same statement started it. Its unique index makes other transactions wait.
                WHEN NEW.status = 'cancelled' AND EXISTS (
                    SELECT FROM verifications v
                    WHERE v.company_id = NEW.company_id AND v.channel = NEW.channel AND v.recipient = NEW.recipient AND v.purpose = NEW.purpose AND v.status = 'pending'
                ) THEN 'replaced'
                ELSE NEW.status
            END)));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION verifications_feed() IS
    'Trigger of verifications: stages the event verification.approved or verification.failed, if the events of the company are recorded.';
CREATE TRIGGER verifications_feed AFTER UPDATE OF status ON verifications
    FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION verifications_feed();
COMMENT ON TABLE feed_staged IS
    'An event that becomes a row of feed. Triggers of report_logs, batches, notifications, events, received_messages and verifications store it in the transaction that causes the event, only if the events are recorded. internal/events/feed moves the row to feed within a second. Of two events of a task, the later event has the larger id.';

-- migrate:down
COMMENT ON TABLE feed_staged IS
    'An event that becomes a row of feed. Triggers of report_logs, batches, notifications, events and received_messages store it in the transaction that causes the event, only if the events are recorded. internal/events/feed moves the row to feed within a second. Of two events of a task, the later event has the larger id.';
DROP TRIGGER verifications_feed ON verifications;
DROP FUNCTION verifications_feed();
