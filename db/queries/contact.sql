-- Contacts: people and their addresses.

-- ContactAdd creates the contacts that do not exist yet. An empty text is none.
-- name: ContactAdd :exec
INSERT INTO contacts (company_id, user_id, name, phone, dingtalk_name, wechat_openid, email, attributes)
SELECT @company_id, i.user_id, nullif(i.name, ''), nullif(i.phone, ''), nullif(i.dingtalk_name, ''), nullif(i.wechat_openid, ''),
    nullif(i.email, ''), i.attributes
FROM (
    SELECT unnest(@user_ids::text[]) AS user_id, unnest(@names::text[]) AS name, unnest(@phones::text[]) AS phone,
        unnest(@dingtalk_names::text[]) AS dingtalk_name, unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@emails::text[]) AS email,
        unnest(@attributes::jsonb[]) AS attributes
) i
ORDER BY i.user_id
ON CONFLICT (company_id, user_id) DO NOTHING;

-- ContactChange sets the given fields of contacts: a field is set if its entry in ..._given is true, and an empty text clears it.
-- Contacts are locked in the order of user_id, so that two calls for the same people cannot deadlock.
-- name: ContactChange :execrows
WITH input AS MATERIALIZED (
    SELECT unnest(@user_ids::text[]) AS user_id,
        unnest(@names::text[]) AS name, unnest(@names_given::boolean[]) AS gives_name,
        unnest(@phones::text[]) AS phone, unnest(@phones_given::boolean[]) AS gives_phone,
        unnest(@dingtalk_names::text[]) AS dingtalk_name, unnest(@dingtalk_names_given::boolean[]) AS gives_dingtalk_name,
        unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@wechat_openids_given::boolean[]) AS gives_wechat_openid,
        unnest(@emails::text[]) AS email, unnest(@emails_given::boolean[]) AS gives_email,
        unnest(@attributes::jsonb[]) AS attributes, unnest(@attributes_given::boolean[]) AS gives_attributes
),
held AS MATERIALIZED (
    SELECT o.company_id, o.user_id FROM contacts o
    WHERE o.company_id = @company_id AND o.user_id = ANY (@user_ids::text[])
    ORDER BY o.user_id
    FOR NO KEY UPDATE
)
UPDATE contacts c
SET name = CASE WHEN i.gives_name THEN nullif(i.name, '') ELSE c.name END,
    phone = CASE WHEN i.gives_phone THEN nullif(i.phone, '') ELSE c.phone END,
    dingtalk_name = CASE WHEN i.gives_dingtalk_name THEN nullif(i.dingtalk_name, '') ELSE c.dingtalk_name END,
    wechat_openid = CASE WHEN i.gives_wechat_openid THEN nullif(i.wechat_openid, '') ELSE c.wechat_openid END,
    email = CASE WHEN i.gives_email THEN nullif(i.email, '') ELSE c.email END,
    attributes = CASE WHEN i.gives_attributes THEN i.attributes ELSE c.attributes END,
    updated_at = now()
FROM held h
JOIN input i ON i.user_id = h.user_id
WHERE c.company_id = h.company_id AND c.user_id = h.user_id;

-- name: ContactList :many
SELECT * FROM contacts
WHERE company_id = @company_id AND user_id > @after_id
    AND (sqlc.narg(user_ids)::text[] IS NULL OR user_id = ANY (sqlc.narg(user_ids)::text[]))
ORDER BY user_id
LIMIT @page_limit::integer;

-- name: ContactDelete :execrows
DELETE FROM contacts WHERE company_id = @company_id AND user_id = @user_id;
