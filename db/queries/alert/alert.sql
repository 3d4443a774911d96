-- Statements on operator events, in the table events.

-- name: EventList :many
SELECT * FROM events
WHERE id < @before_id AND (sqlc.narg(event)::text IS NULL OR event = sqlc.narg(event)::text)
    AND (sqlc.narg(subject)::text IS NULL OR subject = sqlc.narg(subject)::text)
ORDER BY id DESC
LIMIT @page_limit::integer;

-- EventsDeleteExpired deletes events that are older than `keep`. It checks only the batch_size oldest events.
-- name: EventsDeleteExpired :execrows
DELETE FROM events e
USING (SELECT o.id FROM events o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE e.id = old.id AND e.created_at < now() - @keep::interval;
