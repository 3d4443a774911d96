-- Statements on suspected prefixes of numbers and networks of clients, and on safe ones.

-- SuspectList returns up to page_limit subjects that got at least suspected_from codes and are neither proven nor safe, those with the most codes first.
-- name: SuspectList :many
SELECT c.company_no, s.subject, s.started, s.approved, s.since
FROM verification_suspects s
JOIN companies c ON c.id = s.company_id
WHERE s.started >= @suspected_from::bigint AND (sqlc.narg(company_id)::bigint IS NULL OR s.company_id = sqlc.narg(company_id)::bigint)
ORDER BY s.started DESC, c.company_no, s.subject
LIMIT @page_limit::integer;

-- SafeStore adds a safe subject, or changes its end and its note.
-- name: SafeStore :one
INSERT INTO verification_safe AS s (company_id, subject, expires_at, note, created_by)
VALUES (sqlc.narg(company_id), @subject, sqlc.narg(expires_at), sqlc.narg(note), @created_by)
ON CONFLICT (subject, company_id) DO UPDATE SET expires_at = excluded.expires_at, note = excluded.note, created_by = excluded.created_by
RETURNING s.id;

-- SafeRelease makes a subject of a company safe until `ttl` has passed. A subject that is safe for longer remains so.
-- name: SafeRelease :one
INSERT INTO verification_safe AS s (company_id, subject, expires_at, created_by)
VALUES (@company_id::bigint, @subject, now() + @ttl::interval, @created_by)
ON CONFLICT (subject, company_id) DO UPDATE SET expires_at = CASE WHEN s.expires_at IS NOT NULL THEN greatest(s.expires_at, excluded.expires_at) END
RETURNING s.id;

-- SafeList returns up to page_limit safe subjects with smaller ids than before_id, newest first, or the one with an id. The list of a company
-- contains those of all companies, because they apply to it.
-- name: SafeList :many
SELECT s.id, c.company_no, s.subject, s.expires_at, s.note, s.created_by, s.created_at
FROM verification_safe s
LEFT JOIN companies c ON c.id = s.company_id
WHERE s.id < @before_id
    AND (sqlc.narg(company_id)::bigint IS NULL OR s.company_id IS NULL OR s.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(id)::bigint IS NULL OR s.id = sqlc.narg(id)::bigint)
ORDER BY s.id DESC
LIMIT @page_limit::integer;

-- SafeDelete deletes a safe subject.
-- name: SafeDelete :execrows
DELETE FROM verification_safe s WHERE s.id = @id;

-- SafeDeleteExpired deletes up to batch_size safe subjects that have ended.
-- name: SafeDeleteExpired :execrows
DELETE FROM verification_safe s
WHERE s.id = ANY (ARRAY(SELECT o.id FROM verification_safe o WHERE o.expires_at <= now() ORDER BY o.id LIMIT @batch_size::integer));
