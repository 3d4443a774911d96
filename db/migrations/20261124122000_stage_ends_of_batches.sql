-- migrate:up
-- The end of a batch is staged where it happens, as the ends of tasks are, and not by the server that ends it. A server of the version before would stage it once more, and publish causes as they are: stop all of them.
SET LOCAL lock_timeout = '5s';
CREATE FUNCTION feed_is_heard(of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM feed_listeners l WHERE (l.is_pushed OR l.listens_until > now()) AND (l.company_id IS NULL OR l.company_id = of_company)
    )
$$;
COMMENT ON FUNCTION feed_is_heard(bigint) IS 'Whether somebody listens to the events of a company; 0: of the service itself.';

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

-- A batch whose list could not be read never began, so it does not end.
CREATE TRIGGER batches_feed_updated AFTER UPDATE OF is_settled ON batches
    FOR EACH ROW WHEN (NEW.is_settled AND NOT OLD.is_settled AND (OLD.status <> 'checking' OR OLD.is_confirmed) AND NEW.status IN ('finished', 'cancelled'))
    EXECUTE FUNCTION batches_feed();

COMMENT ON TABLE feed_staged IS
    'A row of feed to be, in the transaction in which it happened. Written by triggers of report_logs, batches, notifications and events, only if somebody '
    'listens. internal/feed moves it to feed within a second. Of one task, a later event has a larger id.';

-- migrate:down
SET LOCAL lock_timeout = '5s';
COMMENT ON TABLE feed_staged IS
    'A row of feed to be, in the transaction in which it happened. Written by the trigger of report_logs and by internal/batch, only for companies that '
    'listen. internal/feed moves it to feed within a second. Of one task, a later event has a larger id.';
DROP TRIGGER batches_feed_updated ON batches;
DROP FUNCTION batches_feed();
DROP FUNCTION feed_is_heard(bigint);
