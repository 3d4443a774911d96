-- Statements on contacts: people and their addresses. Every change of contacts and tags begins with ContactsHold.

-- ContactsHold locks the contacts and tags of a company against other changes until the end of the transaction. It returns the number of contacts of the
-- company.
-- name: ContactsHold :one
INSERT INTO contact_counts AS c (company_id, contacts) VALUES (@company_id, 0)
ON CONFLICT (company_id) DO UPDATE SET contacts = c.contacts
RETURNING c.contacts;

-- ContactAdd creates contacts, and skips contacts that exist already. An empty text is stored as NULL.
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

-- ContactChange sets the given fields of contacts. A field is set if its entry in ..._given is true. An empty text sets the field to NULL.
-- name: ContactChange :execrows
WITH input AS MATERIALIZED (
    SELECT unnest(@user_ids::text[]) AS user_id,
        unnest(@names::text[]) AS name, unnest(@names_given::boolean[]) AS gives_name,
        unnest(@phones::text[]) AS phone, unnest(@phones_given::boolean[]) AS gives_phone,
        unnest(@dingtalk_names::text[]) AS dingtalk_name, unnest(@dingtalk_names_given::boolean[]) AS gives_dingtalk_name,
        unnest(@wechat_openids::text[]) AS wechat_openid, unnest(@wechat_openids_given::boolean[]) AS gives_wechat_openid,
        unnest(@emails::text[]) AS email, unnest(@emails_given::boolean[]) AS gives_email,
        unnest(@attributes::jsonb[]) AS attributes, unnest(@attributes_given::boolean[]) AS gives_attributes
)
UPDATE contacts c
SET name = CASE WHEN i.gives_name THEN nullif(i.name, '') ELSE c.name END,
    phone = CASE WHEN i.gives_phone THEN nullif(i.phone, '') ELSE c.phone END,
    dingtalk_name = CASE WHEN i.gives_dingtalk_name THEN nullif(i.dingtalk_name, '') ELSE c.dingtalk_name END,
    wechat_openid = CASE WHEN i.gives_wechat_openid THEN nullif(i.wechat_openid, '') ELSE c.wechat_openid END,
    email = CASE WHEN i.gives_email THEN nullif(i.email, '') ELSE c.email END,
    attributes = CASE WHEN i.gives_attributes THEN i.attributes ELSE c.attributes END,
    updated_at = now()
FROM input i
WHERE c.company_id = @company_id AND c.user_id = i.user_id;

-- name: ContactList :many
SELECT * FROM contacts WHERE company_id = @company_id AND user_id > @after_id ORDER BY user_id LIMIT @page_limit::integer;

-- ContactsNamed returns the contacts with user ids. It is apart from ContactList: a plan for both would read all contacts of the company.
-- name: ContactsNamed :many
SELECT * FROM contacts WHERE company_id = @company_id AND user_id = ANY (@user_ids::text[]) ORDER BY user_id;

-- ContactSearch returns the contacts that match a search. A contact matches if its user_id, email or dingtalk_name begins with prefix, or its phone begins with
-- one of numbers. The matching text is the term. A contact has one row for each matching term. is_first marks the first of these rows. The rows are sorted by term
-- and user_id, and begin after a position (term, user_id). Each number has a separate position: an entry of numbers_after and of numbers_after_id.
--
-- The caller passes a position that is never before the first match, because the position is the only lower bound of each scan. With two lower bounds,
-- PostgreSQL could begin the scan at the smaller bound. chr(1114111) is greater than any character. Each branch reads at most max_rows entries of its index. The
-- indexes are partial, so that lookups of contacts by their keys do not use them.
-- name: ContactSearch :many
WITH found AS (
    (SELECT lower(c.user_id COLLATE "C") AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (lower(c.user_id COLLATE "C"), c.user_id) > (@after_term::text, @after_id::text)
        AND lower(c.user_id COLLATE "C") < @prefix::text || chr(1114111)
    ORDER BY 1, 2
    LIMIT @max_rows::integer)
    UNION
    SELECT p.term, p.user_id
    FROM (
        SELECT unnest(@numbers::text[]) AS number, unnest(@numbers_after::text[]) AS after_term, unnest(@numbers_after_id::text[]) AS after_id
    ) n
    CROSS JOIN LATERAL (
        SELECT c.phone COLLATE "C" AS term, c.user_id FROM contacts c
        WHERE c.company_id = @company_id AND (c.phone COLLATE "C", c.user_id) > (n.after_term, n.after_id)
            AND c.phone COLLATE "C" < n.number || chr(1114111) AND c.phone IS NOT NULL
        ORDER BY 1, 2
        LIMIT @max_rows::integer
    ) p
    UNION
    (SELECT fold_case(c.email) COLLATE "C" AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (fold_case(c.email) COLLATE "C", c.user_id) > (@after_term::text, @after_id::text)
        AND fold_case(c.email) COLLATE "C" < @prefix::text || chr(1114111) AND c.email IS NOT NULL
    ORDER BY 1, 2
    LIMIT @max_rows::integer)
    UNION
    (SELECT fold_case(c.dingtalk_name) COLLATE "C" AS term, c.user_id FROM contacts c
    WHERE c.company_id = @company_id AND (fold_case(c.dingtalk_name) COLLATE "C", c.user_id) > (@after_term::text, @after_id::text)
        AND fold_case(c.dingtalk_name) COLLATE "C" < @prefix::text || chr(1114111) AND c.dingtalk_name IS NOT NULL
    ORDER BY 1, 2
    LIMIT @max_rows::integer)
)
SELECT sqlc.embed(c), f.term::text AS term,
    (f.term = least(
        CASE WHEN starts_with(lower(c.user_id COLLATE "C"), @prefix::text) THEN lower(c.user_id COLLATE "C") END,
        CASE WHEN c.phone COLLATE "C" ^@ ANY (@numbers::text[]) THEN c.phone COLLATE "C" END,
        CASE WHEN starts_with(fold_case(c.email) COLLATE "C", @prefix::text) THEN fold_case(c.email) COLLATE "C" END,
        CASE WHEN starts_with(fold_case(c.dingtalk_name) COLLATE "C", @prefix::text) THEN fold_case(c.dingtalk_name) COLLATE "C" END
    ))::boolean AS is_first
FROM (SELECT d.term, d.user_id FROM found d ORDER BY d.term, d.user_id LIMIT @max_rows::integer) f
JOIN contacts c ON c.company_id = @company_id AND c.user_id = f.user_id
ORDER BY f.term, f.user_id;

-- ContactScanEnd returns the last user id among the next scan_limit user ids after after_id in a tag. It returns no row if fewer user ids are left. tag_id 0:
-- all contacts of the company.
-- name: ContactScanEnd :one
SELECT s.user_id FROM (
    (
        SELECT m.user_id FROM tag_contacts m
        WHERE m.tag_id = @tag_id::bigint AND m.user_id > @after_id::text
        ORDER BY m.user_id
        OFFSET sqlc.arg(scan_limit)::integer - 1 LIMIT 1
    )
    UNION ALL
    (
        SELECT c.user_id FROM contacts c
        WHERE @tag_id::bigint = 0 AND c.company_id = @company_id AND c.user_id > @after_id::text
        ORDER BY c.user_id
        OFFSET sqlc.arg(scan_limit)::integer - 1 LIMIT 1
    )
) s;

-- ContactListTagged reads the next scan_limit contacts after after_id in a tag. tag_id 0: all contacts of the company. It returns the contacts that match three
-- conditions:
--   tag_ids      the contact has all of these tags
--   any_tag_ids  the contact has at least one of these tags; empty: no condition
--   not_tag_ids  the contact has no tag of this list
-- name: ContactListTagged :many
SELECT c.*
FROM (
    (
        SELECT m.user_id FROM tag_contacts m
        WHERE m.tag_id = @tag_id::bigint AND m.user_id > @after_id::text
        ORDER BY m.user_id
        LIMIT @scan_limit::integer
    )
    UNION ALL
    (
        SELECT o.user_id FROM contacts o
        WHERE @tag_id::bigint = 0 AND o.company_id = @company_id AND o.user_id > @after_id::text
        ORDER BY o.user_id
        LIMIT @scan_limit::integer
    )
) s
JOIN contacts c ON c.company_id = @company_id AND c.user_id = s.user_id
WHERE NOT EXISTS (
        SELECT FROM unnest(@tag_ids::bigint[]) AS a (tag_id)
        WHERE NOT EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = a.tag_id AND m.user_id = s.user_id)
    )
    AND (
        cardinality(@any_tag_ids::bigint[]) = 0
        OR EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = ANY (@any_tag_ids::bigint[]) AND m.user_id = s.user_id)
    )
    AND NOT EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = ANY (@not_tag_ids::bigint[]) AND m.user_id = s.user_id)
ORDER BY s.user_id
LIMIT @page_limit::integer;

-- ContactCountTagged reads scan_limit contacts, and counts the contacts that match the conditions of ContactListTagged.
-- name: ContactCountTagged :one
SELECT count(*)
FROM (
    SELECT m.user_id FROM tag_contacts m WHERE m.tag_id = @tag_id::bigint
    UNION ALL
    SELECT o.user_id FROM contacts o WHERE @tag_id::bigint = 0 AND o.company_id = @company_id
    LIMIT @scan_limit::integer
) s
WHERE NOT EXISTS (
        SELECT FROM unnest(@tag_ids::bigint[]) AS a (tag_id)
        WHERE NOT EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = a.tag_id AND m.user_id = s.user_id)
    )
    AND (
        cardinality(@any_tag_ids::bigint[]) = 0
        OR EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = ANY (@any_tag_ids::bigint[]) AND m.user_id = s.user_id)
    )
    AND NOT EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = ANY (@not_tag_ids::bigint[]) AND m.user_id = s.user_id);

-- ContactAttributes returns up to max_rows names of attributes of the contacts of a company.
-- name: ContactAttributes :many
SELECT DISTINCT k.attribute::text AS attribute
FROM contacts c
CROSS JOIN LATERAL jsonb_object_keys(c.attributes) AS k (attribute)
WHERE c.company_id = @company_id
ORDER BY attribute
LIMIT @max_rows::integer;

-- ContactCount returns the number of contacts of a company.
-- name: ContactCount :one
SELECT coalesce((SELECT c.contacts FROM contact_counts c WHERE c.company_id = @company_id), 0)::bigint AS contacts;

-- name: ContactDelete :execrows
DELETE FROM contacts WHERE company_id = @company_id AND user_id = @user_id;

-- ContactsOfPhones returns the first contact, by user_id, for each pair of company_ids and phones. nth is the index of the pair, from 1. A pair without a
-- contact is not returned. tags contains up to max_tags tags of the contact, by name.
-- name: ContactsOfPhones :many
SELECT n.nth::integer AS nth, c.user_id, c.name, coalesce(g.tags, '{}')::text[] AS tags
FROM (
    SELECT unnest(@company_ids::bigint[]) AS company_id, unnest(@phones::text[]) COLLATE "C" AS phone, generate_series(1, cardinality(@company_ids::bigint[])) AS nth
) n
CROSS JOIN LATERAL (
    SELECT o.user_id, o.name FROM contacts o
    WHERE o.company_id = n.company_id AND o.phone COLLATE "C" = n.phone
    ORDER BY o.user_id
    LIMIT 1
) c
LEFT JOIN LATERAL (
    SELECT array_agg(l.tag ORDER BY l.tag) AS tags
    FROM (
        SELECT t.tag FROM tag_contacts m JOIN tags t ON t.id = m.tag_id
        WHERE m.company_id = n.company_id AND m.user_id = c.user_id
        ORDER BY t.tag
        LIMIT @max_tags::integer
    ) l
) g ON true
ORDER BY n.nth;

-- TagPut creates a tag if it does not exist.
-- name: TagPut :exec
INSERT INTO tags (company_id, tag) VALUES (@company_id, @tag) ON CONFLICT (company_id, tag) DO NOTHING;

-- name: TagDelete :execrows
DELETE FROM tags t WHERE t.company_id = @company_id AND t.tag = @tag;

-- TagList returns tags, newest first. user_id: only the tags of this contact.
-- name: TagList :many
SELECT t.* FROM tags t
WHERE t.company_id = @company_id AND t.id < @before_id
    AND (sqlc.narg(tags)::text[] IS NULL OR t.tag = ANY (sqlc.narg(tags)::text[]))
    AND (sqlc.narg(user_id)::text IS NULL OR t.id IN (
        SELECT m.tag_id FROM tag_contacts m WHERE m.company_id = @company_id AND m.user_id = sqlc.narg(user_id)::text
    ))
ORDER BY t.id DESC
LIMIT @page_limit::integer;

-- TagAdd adds the contacts of user_ids to a tag, and skips user ids without a contact. It returns how many contacts were not in the tag before.
-- name: TagAdd :execrows
INSERT INTO tag_contacts (tag_id, company_id, user_id)
SELECT @tag_id::bigint, c.company_id, c.user_id
FROM unnest(@user_ids::text[]) AS i (user_id)
CROSS JOIN LATERAL ( -- LIMIT: with any statistics, the plan finds each contact by its key
    SELECT o.company_id, o.user_id FROM contacts o WHERE o.company_id = @company_id AND o.user_id = i.user_id LIMIT 1
) c
ON CONFLICT (tag_id, user_id) DO NOTHING;

-- TagRemove removes contacts from a tag, and returns how many were in the tag.
-- name: TagRemove :execrows
DELETE FROM tag_contacts m WHERE m.tag_id = @tag_id::bigint AND m.user_id = ANY (@user_ids::text[]);

-- TagRecord records in the audit that the actor of the transaction changed the contacts of a tag.
-- name: TagRecord :exec
INSERT INTO audit (action, entity, entity_key, company_no, before, after)
SELECT 'changed', 'tag', t.tag, c.company_no, jsonb_build_object('contacts', t.contacts - sqlc.arg(added)::bigint + sqlc.arg(removed)::bigint),
    jsonb_build_object('contacts', t.contacts, 'added', sqlc.arg(added)::bigint, 'removed', sqlc.arg(removed)::bigint)
FROM tags t
JOIN companies c ON c.id = t.company_id
WHERE t.id = @tag_id;

-- ContactsUnknown returns the user ids of user_ids that have no contact in a company.
-- name: ContactsUnknown :many
SELECT i.user_id::text AS user_id
FROM unnest(@user_ids::text[]) AS i (user_id)
WHERE NOT EXISTS (SELECT FROM contacts c WHERE c.company_id = @company_id AND c.user_id = i.user_id)
ORDER BY i.user_id;

-- DeletedTags returns the deleted tags from which contacts are still being removed.
-- name: DeletedTags :many
SELECT d.tag_id FROM deleted_tags d ORDER BY d.tag_id;

-- DeletedTagEmpty removes up to batch_size contacts from a deleted tag. It skips a contact that is being deleted concurrently, because the deletion of the
-- contact also removes the contact from the tag.
-- name: DeletedTagEmpty :execrows
DELETE FROM tag_contacts m
USING (SELECT o.tag_id, o.user_id FROM tag_contacts o WHERE o.tag_id = @tag_id::bigint LIMIT @batch_size::integer FOR UPDATE SKIP LOCKED) old
WHERE m.tag_id = old.tag_id AND m.user_id = old.user_id;

-- DeletedTagDelete deletes the record of a deleted tag that has no contacts any more.
-- name: DeletedTagDelete :exec
DELETE FROM deleted_tags d WHERE d.tag_id = @tag_id::bigint AND NOT EXISTS (SELECT FROM tag_contacts m WHERE m.tag_id = d.tag_id);
