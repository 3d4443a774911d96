-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasedContacts returns up to max_rows contacts of a company whose user id is in user_ids, or whose phone number or e-mail address is in recipients.
-- name: ErasedContacts :many
SELECT c.user_id, c.phone, c.email, c.dingtalk_name, c.wechat_openid FROM contacts c
WHERE c.company_id = @company_id
    AND (
        c.user_id = ANY (@user_ids::text[]) OR c.phone COLLATE "C" = ANY (@recipients::text[])
        OR fold_case(c.email) COLLATE "C" IN (SELECT fold_case(x.address) COLLATE "C" FROM unnest(@recipients::text[]) AS x (address))
    )
ORDER BY c.user_id
LIMIT sqlc.arg(max_rows)::integer;

-- ErasureContacts deletes contacts, which also removes them from their tags. It returns the numbers of contacts and of tag entries. The caller has locked the
-- contacts of the company.
-- name: ErasureContacts :one
WITH held AS (
    SELECT count(*) AS tags FROM tag_contacts m WHERE m.company_id = @company_id AND m.user_id = ANY (@user_ids::text[])
),
deleted AS (
    DELETE FROM contacts c WHERE c.company_id = @company_id AND c.user_id = ANY (@user_ids::text[]) RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) AS contacts, h.tags FROM held h;

-- ErasureImports counts the imports of a company that are running now and were created at `before` or earlier.
-- name: ErasureImports :one
SELECT count(*) FROM contact_imports i WHERE i.company_id = @company_id AND i.status = 'running' AND i.created_at <= @before;
