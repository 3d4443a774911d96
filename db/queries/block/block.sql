-- Statements on blocks: phone numbers to which messages of a company, or of all companies, are not sent.

-- BlockPut adds blocks of one company (null: all companies), or changes the reason and the expiry of blocks that exist, and returns the ids of the new and the
-- changed blocks. Such a block is not enforced yet. The recipients are distinct. received_id null: no received message asked for the blocks. If a person asks for
-- a block that a user added before, it stays the block of the user, so that the person cannot remove it.
-- name: BlockPut :many
WITH put AS (
    INSERT INTO blocks (company_id, recipient, recipient_hash, scope, reason, received_id, created_by, expires_at)
    SELECT sqlc.narg(company_id)::bigint, r.recipient, sha256(convert_to(r.recipient, 'UTF8')), @scope::text, sqlc.narg(reason)::text,
        sqlc.narg(received_id)::bigint, @created_by::text, sqlc.narg(expires_at)::timestamptz
    FROM unnest(@recipients::text[]) AS r (recipient)
    ORDER BY r.recipient
    ON CONFLICT (recipient_hash, scope, coalesce(company_id, 0)) DO UPDATE
    SET recipient = excluded.recipient, reason = coalesce(excluded.reason, blocks.reason), expires_at = excluded.expires_at, is_enforced = false,
        received_id = CASE WHEN blocks.received_id IS NOT NULL OR blocks.expires_at <= now() THEN excluded.received_id END
    RETURNING id
)
SELECT p.id FROM put p ORDER BY p.id;

-- BlockDelete deletes the blocks of a number with one company (null: blocks of all companies), and returns their number. scope null: every scope.
-- name: BlockDelete :execrows
DELETE FROM blocks b
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id IS NOT DISTINCT FROM sqlc.narg(company_id)::bigint
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text);

-- BlockDeleteOfPerson deletes the blocks of a number with one company for which the person asked, and returns their number. asked_at: only blocks for which the
-- person had asked by this time.
-- name: BlockDeleteOfPerson :execrows
DELETE FROM blocks b
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id = @company_id::bigint AND b.received_id IS NOT NULL
    AND (
        sqlc.narg(asked_at)::timestamptz IS NULL
        OR coalesce((SELECT r.received_at FROM received_messages r WHERE r.id = b.received_id), b.created_at) <= sqlc.narg(asked_at)::timestamptz
    );

-- BlockOfPersonExists returns whether a person has asked one company to block the number.
-- name: BlockOfPersonExists :one
SELECT EXISTS (
    SELECT FROM blocks b
    WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id = @company_id::bigint AND b.received_id IS NOT NULL
);

-- BlockList returns up to max_rows blocks before before_id, newest first. all_companies: blocks of every company and those of all companies; otherwise only the
-- blocks of company_id, where null means the blocks of all companies.
-- name: BlockList :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.id < @before_id::bigint AND (@all_companies::boolean OR b.company_id IS NOT DISTINCT FROM sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC
LIMIT @max_rows::integer;

-- BlocksOfNumber returns the blocks of one number, newest first: those of company_id (null: of every company) and those of all companies.
-- name: BlocksOfNumber :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8'))
    AND (sqlc.narg(company_id)::bigint IS NULL OR b.company_id IS NULL OR b.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC;

-- BlocksOfReceived returns the blocks that received messages added, and that are not enforced.
-- name: BlocksOfReceived :many
SELECT b.id FROM blocks b WHERE NOT b.is_enforced AND b.received_id = ANY (@received_ids::bigint[]) ORDER BY b.id;

-- BlocksToEnforce returns up to max_rows blocks: the blocks of `ids`, or the blocks that are not enforced if ids is null.
-- name: BlocksToEnforce :many
SELECT b.id, b.company_id, coalesce(b.recipient, '')::text AS recipient, b.scope, b.created_by FROM blocks b
WHERE (sqlc.narg(ids)::bigint[] IS NULL AND NOT b.is_enforced) OR b.id = ANY (sqlc.narg(ids)::bigint[])
ORDER BY b.id
LIMIT @max_rows::integer;

-- BlocksEnforced marks blocks as enforced.
-- name: BlocksEnforced :exec
UPDATE blocks b SET is_enforced = true WHERE b.id = ANY (@ids::bigint[]) AND NOT b.is_enforced;

-- BlocksDeleteExpired deletes up to batch_size blocks that have expired, and returns their number.
-- name: BlocksDeleteExpired :execrows
DELETE FROM blocks b
USING (SELECT o.id FROM blocks o WHERE o.expires_at <= now() ORDER BY o.expires_at LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE b.id = old.id;
