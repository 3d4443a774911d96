-- Statements on blocks: phone numbers to which messages of a company, or of all companies, are not sent.

-- BlockPut adds blocks of one company (null: all companies), or changes the reason and the expiry of blocks that exist, and returns the ids of the new and the
-- changed blocks. Such a block is not enforced yet. The recipients are distinct. `received_id` null: no received message asked for the blocks.
-- name: BlockPut :many
INSERT INTO blocks (company_id, recipient, recipient_hash, scope, reason, received_id, created_by, expires_at)
SELECT sqlc.narg(company_id)::bigint, r.recipient, sha256(convert_to(r.recipient, 'UTF8')), @scope::text, sqlc.narg(reason)::text,
    sqlc.narg(received_id)::bigint, @created_by::text, sqlc.narg(expires_at)::timestamptz
FROM unnest(@recipients::text[]) AS r (recipient)
ORDER BY r.recipient
ON CONFLICT (recipient_hash, scope, coalesce(company_id, 0)) DO UPDATE
SET recipient = excluded.recipient, reason = excluded.reason, received_id = excluded.received_id, expires_at = excluded.expires_at, is_enforced = false
RETURNING id;

-- BlockDelete deletes the blocks of a number with one company (null: blocks of all companies), and returns their number. scope null: every scope. by_person:
-- only blocks for which the person asked.
-- name: BlockDelete :execrows
DELETE FROM blocks b
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id IS NOT DISTINCT FROM sqlc.narg(company_id)::bigint
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
    AND (NOT @by_person::boolean OR b.received_id IS NOT NULL);

-- BlockList returns up to `most` blocks before before_id, newest first. all_companies: blocks of every company and those of all companies; otherwise only the
-- blocks of company_id, where null means the blocks of all companies.
-- name: BlockList :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.id < @before_id::bigint AND (@all_companies::boolean OR b.company_id IS NOT DISTINCT FROM sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC
LIMIT @most::integer;

-- BlocksOfNumber returns the blocks of one number, newest first: those of company_id (null: of every company) and those of all companies.
-- name: BlocksOfNumber :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8'))
    AND (sqlc.narg(company_id)::bigint IS NULL OR b.company_id IS NULL OR b.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC;

-- BlocksToEnforce returns the blocks of ids, or, if ids is null, up to `most` blocks that are not enforced.
-- name: BlocksToEnforce :many
SELECT b.id, b.company_id, coalesce(b.recipient, '')::text AS recipient, b.scope, b.created_by FROM blocks b
WHERE (sqlc.narg(ids)::bigint[] IS NULL AND NOT b.is_enforced) OR b.id = ANY (sqlc.narg(ids)::bigint[])
ORDER BY b.id
LIMIT @most::integer;

-- BlocksEnforced marks blocks as enforced.
-- name: BlocksEnforced :exec
UPDATE blocks b SET is_enforced = true WHERE b.id = ANY (@ids::bigint[]) AND NOT b.is_enforced;

-- BlocksDeleteExpired deletes up to batch_size blocks that have expired, and returns their number.
-- name: BlocksDeleteExpired :execrows
DELETE FROM blocks b
USING (SELECT o.id FROM blocks o WHERE o.expires_at <= now() ORDER BY o.expires_at LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE b.id = old.id;
