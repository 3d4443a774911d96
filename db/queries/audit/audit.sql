-- Statements on the audit of administrative changes. The trigger function audit_change writes the table audit.

-- AuditRecord adds an audit entry for an action that changes no audited table. The trigger sets the actor of the transaction.
-- name: AuditRecord :exec
INSERT INTO audit (action, entity, entity_key, after) VALUES ('changed', @entity, @entity_key, @after);

-- AuditList returns changes before a position (before_at, before_id), newest first. The caller must not use a generic plan, because only a plan for the given
-- parameters uses the index of a filter.
-- name: AuditList :many
SELECT a.* FROM audit a
WHERE (a.at, a.id) < (@before_at::timestamptz, @before_id::bigint)
    AND (sqlc.narg(actor)::text IS NULL OR a.actor = sqlc.narg(actor)::text)
    AND (sqlc.narg(action)::text IS NULL OR a.action = sqlc.narg(action)::text)
    AND (sqlc.narg(entity)::text IS NULL OR a.entity = sqlc.narg(entity)::text)
    AND (sqlc.narg(entity_key)::text IS NULL OR a.entity_key = sqlc.narg(entity_key)::text)
    AND (sqlc.narg(from_at)::timestamptz IS NULL OR a.at >= sqlc.narg(from_at)::timestamptz)
    AND (sqlc.narg(to_at)::timestamptz IS NULL OR a.at < sqlc.narg(to_at)::timestamptz)
ORDER BY a.at DESC, a.id DESC
LIMIT @page_limit::integer;

-- AuditDeleteExpired deletes changes that are older than `keep`. It checks only the batch_size oldest changes.
-- name: AuditDeleteExpired :execrows
DELETE FROM audit a
USING (SELECT o.id FROM audit o ORDER BY o.at, o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE a.id = old.id AND a.at < now() - @keep::interval;
