-- Statements on blocks: phone numbers to which messages of a company, or of all companies, are not sent.

-- BlockPut adds blocks of one company (null: all companies), or changes the reason and the expiry of blocks that exist, and returns the ids of the new and the
-- changed blocks. A new or changed block is not enforced yet. The recipients are distinct. received_id and asked_at are null if a user adds the blocks. A
-- number can have two blocks with the same company and scope: one that a user added, and one for which the person asked. Therefore the end of one block does
-- not end the other block. If the person asks again, received_id and asked_at of the block are those of the new request, unless the request of an imported block
-- is newer.
-- name: BlockPut :many
WITH put AS (
    INSERT INTO blocks (company_id, recipient, recipient_hash, scope, reason, received_id, asked_at, created_by, expires_at)
    SELECT sqlc.narg(company_id)::bigint, r.recipient, sha256(convert_to(r.recipient, 'UTF8')), @scope::text, sqlc.narg(reason)::text,
        sqlc.narg(received_id)::bigint, sqlc.narg(asked_at)::timestamptz, @created_by::text, sqlc.narg(expires_at)::timestamptz
    FROM unnest(@recipients::text[]) AS r (recipient)
    ORDER BY r.recipient
    ON CONFLICT (recipient_hash, scope, coalesce(company_id, 0), (asked_at IS NULL)) DO UPDATE
    SET recipient = excluded.recipient, reason = excluded.reason, expires_at = excluded.expires_at, is_enforced = false,
        received_id = CASE WHEN blocks.received_id IS NULL AND excluded.asked_at < blocks.asked_at THEN NULL ELSE excluded.received_id END,
        asked_at = CASE WHEN blocks.received_id IS NULL THEN greatest(blocks.asked_at, excluded.asked_at) ELSE excluded.asked_at END
    RETURNING id
)
SELECT p.id FROM put p ORDER BY p.id;

-- BlockRequestPut records that a person asked for a block in a received message (is_opt_out), or for the end of its blocks. It returns the company and the number of
-- the person, and when the person asked. It returns no row if another request of the person is later, or is the same request. A rule can change the request of a
-- message: the text "yes" is an opt-in, unless a rule of the company makes it an opt-out.
-- name: BlockRequestPut :one
WITH message AS (
    SELECT r.id, r.company_id, r.phone_number, r.created_at, network_time(r.received_at, r.created_at) AS network_at
    FROM received_messages r
    WHERE r.id = @received_id AND r.phone_number <> ''
),
put AS (
    INSERT INTO block_requests (company_id, recipient_hash, received_id, network_at, is_opt_out)
    SELECT m.company_id, sha256(convert_to(m.phone_number, 'UTF8')), m.id, m.network_at, @is_opt_out::boolean
    FROM message m
    ON CONFLICT (company_id, recipient_hash) DO UPDATE
    SET received_id = excluded.received_id, network_at = excluded.network_at, is_opt_out = excluded.is_opt_out
    WHERE is_later_request(excluded.network_at, excluded.received_id, block_requests.network_at, block_requests.received_id)
        OR (excluded.received_id = block_requests.received_id AND excluded.is_opt_out <> block_requests.is_opt_out)
    RETURNING received_id, network_at
)
SELECT m.company_id, m.phone_number, p.network_at, coalesce(m.network_at, m.created_at)::timestamptz AS asked_at
FROM put p
JOIN message m ON m.id = p.received_id;

-- The statements BlocksImport… change, add and find the blocks of a list, for one company (null: all companies). Entry n of each array belongs to the same
-- block. An empty text of reasons, expiries and asked_ats means null. A recipient and scope occurs at most twice in a list: once with and once without an entry
-- in asked_ats. The present time replaces an entry of asked_ats that is more than a day in the future, see network_time.

-- BlocksImportUnrecorded turns off the trigger that records each block in the audit, in this transaction. The trigger needs seven seconds for 5,000 blocks, and an
-- import needs one second without it.
-- name: BlocksImportUnrecorded :exec
SELECT set_config('lksms.block_import', 'on', true);

-- BlocksImportChange changes the reason, the expiry and the time of the request of blocks that exist, records their former and new values in the audit, and
-- returns how many it changed. These blocks are not enforced yet. If the list contains a newer request of the person, received_id becomes null, because the
-- message with this request was not received here.
-- name: BlocksImportChange :one
WITH former AS MATERIALIZED (
    SELECT b.id, b.company_id, b.reason, b.expires_at, b.asked_at, e.recipient, e.reason AS new_reason, e.expires_at AS new_expires_at,
        greatest(b.asked_at, e.asked_at) AS new_asked_at
    FROM (
        SELECT r.recipient, r.scope, nullif(r.reason, '') AS reason, nullif(r.expiry, '')::timestamptz AS expires_at,
            CASE WHEN r.asked <> '' THEN coalesce(network_time(r.asked::timestamptz, now()), now()) END AS asked_at
        FROM (
            SELECT unnest(@recipients::text[]) AS recipient, unnest(@scopes::text[]) AS scope, unnest(@reasons::text[]) AS reason,
                unnest(@expiries::text[]) AS expiry, unnest(@asked_ats::text[]) AS asked
        ) r
    ) e
    JOIN blocks b ON b.recipient_hash = sha256(convert_to(e.recipient, 'UTF8')) AND b.scope = e.scope
        AND coalesce(b.company_id, 0) = coalesce(sqlc.narg(company_id)::bigint, 0) AND (b.asked_at IS NULL) = (e.asked_at IS NULL)
    WHERE b.recipient IS DISTINCT FROM e.recipient OR b.reason IS DISTINCT FROM e.reason OR b.expires_at IS DISTINCT FROM e.expires_at OR e.asked_at > b.asked_at
    ORDER BY b.id
    FOR UPDATE OF b
),
changed AS (
    UPDATE blocks b
    SET recipient = f.recipient, reason = f.new_reason, expires_at = f.new_expires_at, asked_at = f.new_asked_at, is_enforced = false,
        received_id = CASE WHEN f.new_asked_at > f.asked_at THEN NULL ELSE b.received_id END
    FROM former f
    WHERE b.id = f.id
    RETURNING b.id
),
recorded AS (
    INSERT INTO audit (action, entity, entity_key, company_no, before, after)
    SELECT 'changed', 'block', f.id::text, c.company_no, jsonb_build_object('reason', f.reason, 'expires_at', f.expires_at, 'asked_at', f.asked_at),
        jsonb_build_object('reason', f.new_reason, 'expires_at', f.new_expires_at, 'asked_at', f.new_asked_at)
    FROM former f
    LEFT JOIN companies c ON c.id = f.company_id
    ORDER BY f.id
)
SELECT count(*) FROM changed;

-- BlocksImportAdd adds the blocks that do not exist, and returns how many it added. These blocks are not enforced yet.
-- name: BlocksImportAdd :execrows
INSERT INTO blocks (company_id, recipient, recipient_hash, scope, reason, created_by, expires_at, asked_at)
SELECT sqlc.narg(company_id)::bigint, r.recipient, sha256(convert_to(r.recipient, 'UTF8')), r.scope, nullif(r.reason, ''), @created_by::text,
    nullif(r.expiry, '')::timestamptz, CASE WHEN r.asked <> '' THEN coalesce(network_time(r.asked::timestamptz, now()), now()) END
FROM (
    SELECT unnest(@recipients::text[]) AS recipient, unnest(@scopes::text[]) AS scope, unnest(@reasons::text[]) AS reason,
        unnest(@expiries::text[]) AS expiry, unnest(@asked_ats::text[]) AS asked
) r
ORDER BY r.recipient, r.scope
ON CONFLICT (recipient_hash, scope, coalesce(company_id, 0), (asked_at IS NULL)) DO NOTHING;

-- BlocksImportRecord records an import in the audit. The block of each number names the user and the time, so the audit contains only the counts.
-- name: BlocksImportRecord :exec
INSERT INTO audit (action, entity, entity_key, company_no, after)
SELECT 'created', 'block_import', coalesce(c.company_no, '*'), c.company_no,
    jsonb_build_object('file_name', sqlc.arg(file_name)::text, 'added', sqlc.arg(added)::bigint, 'changed', sqlc.arg(changed)::bigint)
FROM (SELECT sqlc.narg(company_id)::bigint AS id) i
LEFT JOIN companies c ON c.id = i.id;

-- BlocksImportUnenforced returns the ids of the blocks of the list that are not enforced.
-- name: BlocksImportUnenforced :many
SELECT DISTINCT b.id
FROM (SELECT unnest(@recipients::text[]) AS recipient, unnest(@scopes::text[]) AS scope) e
JOIN blocks b ON b.recipient_hash = sha256(convert_to(e.recipient, 'UTF8')) AND b.scope = e.scope
WHERE coalesce(b.company_id, 0) = coalesce(sqlc.narg(company_id)::bigint, 0) AND NOT b.is_enforced
ORDER BY b.id;

-- BlockDelete deletes the blocks that forbid one company (null: the blocks that forbid all companies) to send to a number. It returns how many blocks it
-- deleted. scope null: every scope.
-- name: BlockDelete :execrows
DELETE FROM blocks b
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id IS NOT DISTINCT FROM sqlc.narg(company_id)::bigint
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text);

-- BlockConfirmed records that a block was confirmed to the person.
-- name: BlockConfirmed :exec
UPDATE blocks b SET is_confirmed = true WHERE b.id = @id AND NOT b.is_confirmed;

-- BlockDeleteOfPerson deletes the blocks of one company for which the person with this number asked, because the latest received request of the person asks for
-- it. It returns how many blocks it deleted. network_at is the time of this request; null: unknown. An imported block for which the person asked after network_at
-- stays.
-- name: BlockDeleteOfPerson :execrows
DELETE FROM blocks b
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8')) AND b.company_id = @company_id::bigint AND b.asked_at IS NOT NULL
    AND (b.received_id IS NOT NULL OR sqlc.narg(network_at)::timestamptz IS NULL OR b.asked_at <= sqlc.narg(network_at)::timestamptz);

-- BlockList returns up to max_rows blocks before before_id, newest first. Blocks of deleted companies are omitted.
-- name: BlockList :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.id < @before_id::bigint AND (b.company_id IS NULL OR c.id IS NOT NULL) AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC
LIMIT @max_rows::integer;

-- BlockListOfCompany returns up to max_rows blocks of a company before before_id, newest first.
-- name: BlockListOfCompany :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.company_id = @company_id::bigint AND b.id < @before_id::bigint AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC
LIMIT @max_rows::integer;

-- BlocksOfNumber returns the blocks of one number, newest first: those of company_id (null: of every company) and those of all companies.
-- name: BlocksOfNumber :many
SELECT b.*, c.company_no FROM blocks b
LEFT JOIN companies c ON c.id = b.company_id
WHERE b.recipient_hash = sha256(convert_to(@recipient::text, 'UTF8'))
    AND (b.company_id IS NULL OR c.id IS NOT NULL) -- null: all companies; a deleted company has no row in companies
    AND (sqlc.narg(company_id)::bigint IS NULL OR b.company_id IS NULL OR b.company_id = sqlc.narg(company_id)::bigint)
    AND (sqlc.narg(scope)::text IS NULL OR b.scope = sqlc.narg(scope)::text)
ORDER BY b.id DESC;

-- BlocksOfPeople returns the blocks for which people asked and that are not enforced. Entry n of recipients and entry n of company_ids are the number and the
-- company of one block.
-- name: BlocksOfPeople :many
SELECT DISTINCT b.id
FROM (SELECT unnest(@recipients::text[]) AS recipient, unnest(@company_ids::bigint[]) AS company_id) p
JOIN blocks b ON b.recipient_hash = sha256(convert_to(p.recipient, 'UTF8')) AND b.company_id = p.company_id
WHERE NOT b.is_enforced AND b.asked_at IS NOT NULL
ORDER BY b.id;

-- BlocksToEnforce returns the blocks of ids, or, if ids is null, up to max_rows blocks that are not enforced. A block that has expired is not returned.
-- name: BlocksToEnforce :many
SELECT b.id, b.company_id, coalesce(b.recipient, '')::text AS recipient, b.scope, b.created_by FROM blocks b
WHERE ((sqlc.narg(ids)::bigint[] IS NULL AND NOT b.is_enforced) OR b.id = ANY (sqlc.narg(ids)::bigint[]))
    AND (b.expires_at IS NULL OR b.expires_at > now())
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
