-- migrate:up
-- A batch that is cancelled before it is confirmed has ended, as one whose list cannot be read has: each has its batch.finished. Replacing the trigger
-- locks batches for a moment, against changes.
DROP TRIGGER batches_feed_updated ON batches;
CREATE TRIGGER batches_feed_updated AFTER UPDATE OF status, is_settled ON batches
    FOR EACH ROW WHEN (
        NEW.is_settled AND NEW.status IN ('finished', 'cancelled') AND NOT (OLD.is_settled AND OLD.status IN ('finished', 'cancelled'))
    )
    EXECUTE FUNCTION batches_feed();

-- migrate:down
DROP TRIGGER batches_feed_updated ON batches;
CREATE TRIGGER batches_feed_updated AFTER UPDATE OF is_settled ON batches
    FOR EACH ROW WHEN (NEW.is_settled AND NOT OLD.is_settled AND (OLD.status <> 'checking' OR OLD.is_confirmed) AND NEW.status IN ('finished', 'cancelled'))
    EXECUTE FUNCTION batches_feed();
