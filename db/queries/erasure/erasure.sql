-- Statements on erasures, the requests to erase people. The rooms that keep data about people erase it: db/queries/*/erase.sql.

-- ErasureCreate creates an erasure. It returns no row if the company already runs max_running erasures.
-- name: ErasureCreate :one
INSERT INTO erasures (company_id, user_ids, recipients, asked_recipients, created_by)
SELECT @company_id, @user_ids::text[], @recipients::text[], @asked_recipients::text[], @created_by
WHERE (SELECT count(*) FROM erasures e WHERE e.company_id = @company_id AND e.status = 'running') < sqlc.arg(max_running)::bigint
RETURNING id;

-- ErasureList returns erasures of a company with ids smaller than before_id, newest first.
-- name: ErasureList :many
SELECT * FROM erasures e
WHERE e.company_id = @company_id AND e.id < @before_id AND (sqlc.narg(id)::bigint IS NULL OR e.id = sqlc.narg(id)::bigint)
ORDER BY e.id DESC
LIMIT @page_limit::integer;

-- ErasuresDue returns the running erasures that can continue now. The erasure that has waited longest is first.
-- name: ErasuresDue :many
SELECT * FROM erasures e
WHERE e.status = 'running' AND e.next_at <= now()
ORDER BY e.next_at, e.id
LIMIT @page_limit::integer;

-- ErasureCount adds counts to the counts of an erasure. It also adds the exports that contain one of task_ids.
-- name: ErasureCount :exec
UPDATE erasures e
SET counts = (
        SELECT coalesce(jsonb_object_agg(k.name, coalesce((e.counts ->> k.name)::bigint, 0) + coalesce((sqlc.arg(counts)::jsonb ->> k.name)::bigint, 0)), '{}')
        FROM jsonb_object_keys(e.counts || sqlc.arg(counts)::jsonb) AS k (name)
    ),
    exports = ARRAY(
        SELECT x.folder FROM unnest(e.exports) AS x (folder)
        UNION
        SELECT p.exported_to FROM task_partitions p
        WHERE p.exported_to IS NOT NULL
            AND EXISTS (SELECT FROM unnest(@task_ids::text[]) AS t (id) WHERE t.id COLLATE "C" >= p.first_id AND t.id COLLATE "C" < p.before_id)
        ORDER BY folder
    )
WHERE e.id = @id AND e.status = 'running';

-- ErasureUsers stores the user ids that an erasure has found.
-- name: ErasureUsers :exec
UPDATE erasures e SET user_ids = @user_ids::text[] WHERE e.id = @id AND e.status = 'running';

-- ErasureWait postpones an erasure by `seconds`.
-- name: ErasureWait :exec
UPDATE erasures e SET held = @held, next_at = now() + make_interval(secs => @seconds::double precision) WHERE e.id = @id AND e.status = 'running';

-- ErasureEnd ends an erasure, and deletes the user ids and addresses of its person.
-- name: ErasureEnd :exec
UPDATE erasures e SET status = 'finished', held = 0, user_ids = '{}', recipients = '{}', asked_recipients = '{}', finished_at = now()
WHERE e.id = @id AND e.status = 'running';

-- ErasuresDeleteExpired deletes erasures that ended longer ago than `keep`. It checks only the batch_size oldest erasures.
-- name: ErasuresDeleteExpired :execrows
DELETE FROM erasures e
USING (SELECT o.id FROM erasures o ORDER BY o.id LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE e.id = old.id AND e.finished_at < now() - @keep::interval;

-- ExportsDropped returns the folders of exports whose partitions were dropped. It is unknown whether these exports contain data about a person.
-- name: ExportsDropped :many
SELECT p.exported_to::text AS folder FROM task_partitions p WHERE p.exported_to IS NOT NULL AND p.dropped_at IS NOT NULL ORDER BY p.first_day;

-- ErasureRecipientsOfCodes returns the addresses that got codes for users. The addresses of a contact can have changed since then.
-- name: ErasureRecipientsOfCodes :many
SELECT DISTINCT v.recipient FROM verifications v
WHERE v.company_id = @company_id AND v.options ->> 'user_id' = ANY (@user_ids::text[])
ORDER BY v.recipient;
