-- name: TemplateCreate :one
INSERT INTO templates (template_name, template_content, is_active, send_type, companies)
VALUES (@template_name, @template_content, @is_active, @send_type, @companies)
RETURNING *;

-- name: TemplateGet :one
SELECT * FROM templates WHERE id = @id;

-- TemplateFirstActive returns the active template with the smallest id that the company may use.
-- name: TemplateFirstActive :one
SELECT t.*
FROM templates t
WHERE t.is_active AND (
    t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = @company_id) = ANY (t.companies)
)
ORDER BY t.id
LIMIT 1;

-- name: TemplateList :many
SELECT * FROM templates WHERE id < @before_id ORDER BY id DESC LIMIT @page_limit::integer;

-- name: TemplateUpdate :one
UPDATE templates
SET template_name = coalesce(sqlc.narg(template_name), template_name),
    template_content = coalesce(sqlc.narg(template_content), template_content),
    is_active = coalesce(sqlc.narg(is_active), is_active),
    send_type = coalesce(sqlc.narg(send_type), send_type),
    companies = coalesce(sqlc.narg(companies)::text[], companies),
    updated_at = now()
WHERE id = @id
RETURNING *;

-- TemplateCompaniesUnknown returns the company numbers that do not exist.
-- name: TemplateCompaniesUnknown :many
SELECT n.company_no::text AS company_no
FROM unnest(@companies::text[]) AS n (company_no)
LEFT JOIN companies c ON c.company_no = n.company_no
WHERE c.id IS NULL
ORDER BY n.company_no;

-- name: TemplateDelete :execrows
DELETE FROM templates WHERE id = @id;

-- name: DefaultContentCreate :one
INSERT INTO default_contents (company_id, phone_number, recipient, content, use_template)
VALUES (@company_id, @phone_number, @recipient, @content, @use_template)
RETURNING *;

-- name: DefaultContentGet :one
SELECT * FROM default_contents WHERE id = @id;

-- name: DefaultContentList :many
SELECT * FROM default_contents
WHERE id < @before_id AND (sqlc.narg(recipient)::text IS NULL OR recipient = sqlc.narg(recipient)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR company_id = sqlc.narg(company_id)::bigint)
ORDER BY id DESC
LIMIT @page_limit::integer;

-- name: DefaultContentUpdate :one
UPDATE default_contents
SET content = coalesce(sqlc.narg(content), content),
    use_template = coalesce(sqlc.narg(use_template), use_template),
    updated_at = now()
WHERE id = @id
RETURNING *;

-- name: DefaultContentReset :one
UPDATE default_contents SET is_sent = false, updated_at = now() WHERE id = @id RETURNING *;

-- name: DefaultContentDelete :execrows
DELETE FROM default_contents WHERE id = @id;

-- DefaultContentConsume marks a company's default content as sent and returns its text (S0.9). A concurrent caller waits here for the
-- first transaction: if that commits, the content is sent; if it rolls back, the second caller gets the content. No row: no default
-- content, or it was sent before.
-- name: DefaultContentConsume :one
UPDATE default_contents SET is_sent = true, updated_at = now()
WHERE company_id = @company_id AND recipient = @recipient AND NOT is_sent
RETURNING content, use_template;

-- DefaultContentReturn undoes DefaultContentConsume in the same transaction.
-- name: DefaultContentReturn :exec
UPDATE default_contents SET is_sent = false WHERE company_id = @company_id AND recipient = @recipient;

-- name: DefaultContentExists :one
SELECT EXISTS (SELECT FROM default_contents WHERE company_id = @company_id AND recipient = @recipient);
