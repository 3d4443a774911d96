-- Statements on uploads. An upload stores the file of a request in parts.

-- UploadAdd creates an upload. It returns no row if the uploads of the company already contain max_bytes bytes.
-- name: UploadAdd :one
INSERT INTO uploads (company_id, submitted_by, name)
SELECT @company_id, @submitted_by, @name
WHERE (SELECT coalesce(sum(u.size), 0) FROM uploads u WHERE u.company_id = @company_id) < @max_bytes::bigint
RETURNING id;

-- name: UploadPartAdd :exec
INSERT INTO upload_parts (upload_id, part, bytes) VALUES (@upload_id, @part, @bytes);

-- UploadComplete records that all parts of an upload are stored.
-- name: UploadComplete :execrows
UPDATE uploads u SET size = @size::bigint WHERE u.id = @id AND u.size IS NULL;

-- UploadSetEncoding stores the encoding that the owner of an upload selected.
-- name: UploadSetEncoding :exec
UPDATE uploads u SET encoding = @encoding WHERE u.id = @id;

-- UploadGet returns an upload if all its parts are stored.
-- name: UploadGet :one
SELECT u.name, u.size::bigint AS size, u.encoding FROM uploads u WHERE u.id = @id AND u.size IS NOT NULL;

-- name: UploadPartGet :one
SELECT p.bytes FROM upload_parts p WHERE p.upload_id = @upload_id AND p.part = @part;

-- UploadUse marks an upload as used, which protects the upload from deletion. It returns 0 if the upload is incomplete or already used.
-- name: UploadUse :execrows
UPDATE uploads u SET used_by = @used_by::text WHERE u.id = @id AND u.size IS NOT NULL AND u.used_by IS NULL;

-- name: UploadDelete :exec
DELETE FROM uploads u WHERE u.id = @id;

-- UploadDrop deletes an upload if it is not used.
-- name: UploadDrop :exec
DELETE FROM uploads u WHERE u.id = @id AND u.used_by IS NULL;

-- UploadsDeleteUnused deletes up to batch_size unused uploads that are older than `keep`.
-- name: UploadsDeleteUnused :execrows
DELETE FROM uploads u
USING (
    SELECT o.id FROM uploads o
    WHERE o.used_by IS NULL AND o.created_at < now() - @keep::interval
    ORDER BY o.created_at
    LIMIT @batch_size::integer
    FOR UPDATE SKIP LOCKED
) old
WHERE u.id = old.id;
