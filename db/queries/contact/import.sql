-- Statements on imports of contacts. An import reads an uploaded list, and stores its rows in portions.

-- ImportCreate creates an import. It returns no row if the company already runs max_running imports.
-- name: ImportCreate :one
INSERT INTO contact_imports (company_id, file_name, upload_id, sheet, tag, default_region, created_by)
SELECT @company_id, @file_name, @upload_id::bigint, @sheet, sqlc.narg(tag)::text, @default_region::text, @created_by
WHERE (SELECT count(*) FROM contact_imports i WHERE i.company_id = @company_id AND i.status = 'running') < sqlc.arg(max_running)::bigint
RETURNING id;

-- ImportList returns the imports of a company with ids smaller than before_id, newest first.
-- name: ImportList :many
SELECT * FROM contact_imports i
WHERE i.company_id = @company_id AND i.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR i.id = sqlc.narg(id)::bigint)
ORDER BY i.id DESC
LIMIT @page_limit::integer;

-- ImportErrorList returns the rows of an import that were not stored, in the order of their numbers.
-- name: ImportErrorList :many
SELECT e.row_no, e.failure FROM contact_import_errors e
WHERE e.import_id = @import_id AND e.row_no > @after_row
ORDER BY e.row_no
LIMIT @page_limit::integer;

-- ImportIDsRunning returns the running imports, the oldest first.
-- name: ImportIDsRunning :many
SELECT i.id, i.company_id FROM contact_imports i WHERE i.status = 'running' ORDER BY i.id;

-- ImportGet returns a running import. It returns no row if the import has ended.
-- name: ImportGet :one
SELECT * FROM contact_imports i WHERE i.id = @id AND i.status = 'running';

-- ImportHold locks a running import, and turns off the audit of single contacts in this transaction. It returns no row if the import has ended, or if another
-- server has changed its position row_no.
-- name: ImportHold :one
SELECT i.tag, set_config('lksms.contact_import', i.id::text, true)::text AS setting
FROM contact_imports i
WHERE i.id = @id AND i.status = 'running' AND i.row_no = @row_no
FOR UPDATE;

-- ImportOverfull returns the contacts that would have more than max_attributes attributes after the import.
-- name: ImportOverfull :many
SELECT i.user_id::text AS user_id
FROM (SELECT unnest(@user_ids::text[]) AS user_id, unnest(@attributes::jsonb[]) AS attributes) i
CROSS JOIN LATERAL ( -- LIMIT: with any statistics, the plan finds each contact by its key
    SELECT o.attributes FROM contacts o WHERE o.company_id = @company_id AND o.user_id = i.user_id LIMIT 1
) c
WHERE (SELECT count(*) FROM jsonb_object_keys(c.attributes || i.attributes)) > sqlc.arg(max_attributes)::bigint
ORDER BY i.user_id;

-- ImportStore adds contacts, and changes contacts that exist. An empty text does not change a field. Attributes that are not given do not change. The statement
-- returns the numbers of added and changed contacts.
-- name: ImportStore :one
WITH stored AS (
    INSERT INTO contacts AS c (company_id, user_id, name, phone, dingtalk_name, wechat_openid, email, attributes)
    SELECT @company_id, i.user_id, nullif(i.name, ''), nullif(i.phone, ''), nullif(i.dingtalk_name, ''), nullif(i.wechat_openid, ''),
        nullif(i.email, ''), i.attributes
    FROM (
        SELECT unnest(@user_ids::text[]) AS user_id, unnest(@names::text[]) AS name, unnest(@phones::text[]) AS phone,
            unnest(@dingtalk_names::text[]) AS dingtalk_name, unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@emails::text[]) AS email,
            unnest(@attributes::jsonb[]) AS attributes
    ) i
    ORDER BY i.user_id
    ON CONFLICT (company_id, user_id) DO UPDATE
    SET name = coalesce(excluded.name, c.name), phone = coalesce(excluded.phone, c.phone),
        dingtalk_name = coalesce(excluded.dingtalk_name, c.dingtalk_name), wechat_openid = coalesce(excluded.wechat_openid, c.wechat_openid),
        email = coalesce(excluded.email, c.email), attributes = c.attributes || excluded.attributes, updated_at = now()
    WHERE excluded.name IS NOT NULL AND excluded.name IS DISTINCT FROM c.name
        OR excluded.phone IS NOT NULL AND excluded.phone IS DISTINCT FROM c.phone
        OR excluded.dingtalk_name IS NOT NULL AND excluded.dingtalk_name IS DISTINCT FROM c.dingtalk_name
        OR excluded.wechat_openid IS NOT NULL AND excluded.wechat_openid IS DISTINCT FROM c.wechat_openid
        OR excluded.email IS NOT NULL AND excluded.email IS DISTINCT FROM c.email
        OR NOT c.attributes @> excluded.attributes
    RETURNING c.xmax = 0 AS is_new -- xmax is 0 in a row that this statement inserted
)
SELECT count(*) FILTER (WHERE s.is_new) AS added, count(*) FILTER (WHERE NOT s.is_new) AS changed FROM stored s;

-- ImportAdvance adds a processed portion to the counts of an import. It also stores the rows that failed, up to max_errors for the whole import.
-- name: ImportAdvance :exec
WITH kept AS (
    INSERT INTO contact_import_errors (import_id, row_no, failure)
    SELECT sqlc.arg(id), e.row_no, e.failure
    FROM (
        SELECT unnest(sqlc.arg(error_rows)::bigint[]) AS row_no, unnest(sqlc.arg(failures)::jsonb[]) AS failure
    ) e
    ORDER BY e.row_no
    LIMIT greatest(0, sqlc.arg(max_errors)::bigint - (SELECT o.invalid FROM contact_imports o WHERE o.id = sqlc.arg(id)))
)
UPDATE contact_imports i
SET row_no = sqlc.arg(row_no), rows = i.rows + sqlc.arg(rows), added = i.added + sqlc.arg(added), changed = i.changed + sqlc.arg(changed),
    invalid = i.invalid + cardinality(sqlc.arg(error_rows)::bigint[])
WHERE i.id = sqlc.arg(id);

-- ImportEnd ends an import. The status becomes finished, or failed if failure is given.
-- name: ImportEnd :exec
UPDATE contact_imports i
SET status = CASE WHEN sqlc.narg(failure)::jsonb IS NULL THEN 'finished' ELSE 'failed' END, failure = sqlc.narg(failure)::jsonb, upload_id = NULL,
    finished_at = clock_timestamp()
WHERE i.id = @id AND i.status = 'running';

-- ImportsDeleteExpired deletes imports that ended longer ago than `keep`. It checks only the batch_size oldest imports.
-- name: ImportsDeleteExpired :execrows
DELETE FROM contact_imports i
USING (SELECT o.id FROM contact_imports o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE i.id = old.id AND i.finished_at < now() - @keep::interval;
