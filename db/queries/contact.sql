-- Contacts: people and their addresses.

-- ContactAdd creates the contacts that do not exist yet. An empty address is none.
-- name: ContactAdd :exec
INSERT INTO contacts (company_id, user_id, phone, dingtalk_name, wechat_openid, email)
SELECT @company_id, i.user_id, nullif(i.phone, ''), nullif(i.dingtalk_name, ''), nullif(i.wechat_openid, ''), nullif(i.email, '')
FROM (
    SELECT unnest(@user_ids::text[]) AS user_id, unnest(@phones::text[]) AS phone, unnest(@dingtalk_names::text[]) AS dingtalk_name,
        unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@emails::text[]) AS email
) i
ORDER BY i.user_id
ON CONFLICT (company_id, user_id) DO NOTHING;

-- ContactChange sets the given addresses of contacts: a field is set if its entry in ..._given is true, and an empty text clears it.
-- Contacts are locked in the order of user_id, so that two calls for the same people cannot deadlock.
-- name: ContactChange :execrows
WITH input AS MATERIALIZED (
    SELECT unnest(@user_ids::text[]) AS user_id,
        unnest(@phones::text[]) AS phone, unnest(@phones_given::boolean[]) AS gives_phone,
        unnest(@dingtalk_names::text[]) AS dingtalk_name, unnest(@dingtalk_names_given::boolean[]) AS gives_dingtalk_name,
        unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@wechat_openids_given::boolean[]) AS gives_wechat_openid,
        unnest(@emails::text[]) AS email, unnest(@emails_given::boolean[]) AS gives_email
),
held AS MATERIALIZED (
    SELECT o.company_id, o.user_id FROM contacts o
    WHERE o.company_id = @company_id AND o.user_id = ANY (@user_ids::text[])
    ORDER BY o.user_id
    FOR UPDATE
)
UPDATE contacts c
SET phone = CASE WHEN i.gives_phone THEN nullif(i.phone, '') ELSE c.phone END,
    dingtalk_name = CASE WHEN i.gives_dingtalk_name THEN nullif(i.dingtalk_name, '') ELSE c.dingtalk_name END,
    wechat_openid = CASE WHEN i.gives_wechat_openid THEN nullif(i.wechat_openid, '') ELSE c.wechat_openid END,
    email = CASE WHEN i.gives_email THEN nullif(i.email, '') ELSE c.email END,
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

-- ContactSearch finds the contacts of which user_id, email or dingtalk_name (a term) begins with prefix, or phone with number; number is null if no
-- phone can. The rows are in the order of terms and of user_id, behind a place in this order: a term and a user_id, for phones a place of their own.
-- Neither is before what the terms begin with: the places are the only lower bounds, because of two PostgreSQL might begin at the lesser. chr(1114111)
-- is greater than any character. Each branch reads up to most entries of its index. A contact has a row for each term that is found; is_first marks
-- its first one.
-- name: ContactSearch :many
WITH found AS (
    (SELECT lower(c.user_id COLLATE "C") AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (lower(c.user_id COLLATE "C"), c.user_id) > (@after_term::text, @after_id::text)
        AND lower(c.user_id COLLATE "C") < @prefix::text || chr(1114111)
    ORDER BY 1, 2
    LIMIT @most::integer)
    UNION
    (SELECT c.phone COLLATE "C" AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (c.phone COLLATE "C", c.user_id) > (sqlc.narg(number_after)::text, @number_after_id::text)
        AND c.phone COLLATE "C" < sqlc.narg(number)::text || chr(1114111) AND c.phone IS NOT NULL
    ORDER BY 1, 2
    LIMIT @most::integer)
    UNION
    (SELECT lower(c.email COLLATE "C") AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (lower(c.email COLLATE "C"), c.user_id) > (@after_term::text, @after_id::text)
        AND lower(c.email COLLATE "C") < @prefix::text || chr(1114111) AND c.email IS NOT NULL
    ORDER BY 1, 2
    LIMIT @most::integer)
    UNION
    (SELECT lower(c.dingtalk_name COLLATE "C") AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (lower(c.dingtalk_name COLLATE "C"), c.user_id) > (@after_term::text, @after_id::text)
        AND lower(c.dingtalk_name COLLATE "C") < @prefix::text || chr(1114111) AND c.dingtalk_name IS NOT NULL
    ORDER BY 1, 2
    LIMIT @most::integer)
)
SELECT sqlc.embed(c), f.term::text AS term,
    (f.term = least(
        CASE WHEN starts_with(lower(c.user_id COLLATE "C"), @prefix::text) THEN lower(c.user_id COLLATE "C") END,
        CASE WHEN starts_with(c.phone COLLATE "C", sqlc.narg(number)::text) THEN c.phone COLLATE "C" END,
        CASE WHEN starts_with(lower(c.email COLLATE "C"), @prefix::text) THEN lower(c.email COLLATE "C") END,
        CASE WHEN starts_with(lower(c.dingtalk_name COLLATE "C"), @prefix::text) THEN lower(c.dingtalk_name COLLATE "C") END
    ))::boolean AS is_first
FROM (SELECT d.term, d.user_id FROM found d ORDER BY d.term, d.user_id LIMIT @most::integer) f
JOIN contacts c ON c.company_id = @company_id AND c.user_id = f.user_id
ORDER BY f.term, f.user_id;

-- name: ContactDelete :execrows
DELETE FROM contacts WHERE company_id = @company_id AND user_id = @user_id;
