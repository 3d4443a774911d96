-- name: TemplateCreate :one
INSERT INTO templates (
    given_no, template_name, template_content, scene, purpose, language, translations, sign, status, send_type, companies
)
VALUES (
    @given_no, @template_name, @template_content, @scene, @purpose, @language, @translations, @sign, @status, @send_type, @companies
)
RETURNING *;

-- name: TemplateGet :one
SELECT * FROM templates WHERE id = @id;

-- TemplateLock locks a template until the end of the transaction. The caller compares the texts of the template before it stores them, so the texts must not
-- change meanwhile.
-- name: TemplateLock :one
SELECT * FROM templates WHERE id = @id FOR UPDATE;

-- TemplateFirstActive returns the active template with the smallest id that a company is allowed to use.
-- name: TemplateFirstActive :one
SELECT t.*
FROM templates t
WHERE t.is_active AND (
    t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = @company_id) = ANY (t.companies)
)
ORDER BY t.id
LIMIT 1;

-- TemplateFind returns the template with a number if a company is allowed to use it. The state of the template is not checked.
-- name: TemplateFind :one
SELECT t.*
FROM templates t
WHERE t.template_no = @template_no AND (
    t.companies = '{}' OR (SELECT c.company_no FROM companies c WHERE c.id = @company_id) = ANY (t.companies)
);

-- TemplateList returns templates, newest first. company_no: only templates that this company is allowed to use.
-- name: TemplateList :many
SELECT *
FROM templates
WHERE id < @before_id
    AND (sqlc.narg(template_no)::text IS NULL OR template_no = sqlc.narg(template_no)::text)
    AND (sqlc.narg(scene)::text IS NULL OR scene = sqlc.narg(scene)::text)
    AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status)::text)
    AND (sqlc.narg(company_no)::text IS NULL OR companies = '{}' OR sqlc.narg(company_no)::text = ANY (companies))
    AND (is_active OR NOT @only_active::boolean)
ORDER BY id DESC
LIMIT @page_limit::integer;

-- TemplateUpdate changes a template whose state is in from_statuses. If the texts change, the version increases.
-- name: TemplateUpdate :one
UPDATE templates
SET template_name = @template_name,
    template_content = @template_content,
    scene = @scene,
    purpose = @purpose,
    language = @language,
    translations = @translations,
    sign = @sign,
    status = @status,
    send_type = @send_type,
    companies = @companies,
    version = version + CASE
        WHEN (template_content, language, translations, sign)
            IS DISTINCT FROM (@template_content::text, @language::text, @translations::jsonb, @sign::text) THEN 1
        ELSE 0
    END,
    updated_at = now()
WHERE id = @id AND status = ANY (@from_statuses::text[])
RETURNING *;

-- TemplateVersionKeep stores the current texts of a template as a version. It changes nothing if this version is already stored.
-- name: TemplateVersionKeep :exec
INSERT INTO template_versions (template_id, version, template_content, language, translations, sign)
SELECT t.id, t.version, t.template_content, t.language, t.translations, t.sign
FROM templates t
WHERE t.id = @id
ON CONFLICT (template_id, version) DO NOTHING;

-- TemplateVersionList returns the versions of a template, newest first.
-- name: TemplateVersionList :many
SELECT *
FROM template_versions
WHERE template_id = @template_id AND version < @before_version::bigint
ORDER BY version DESC
LIMIT @page_limit::integer;

-- TemplateCompanies returns the companies of `companies` that exist. It protects these companies from deletion until the end of the transaction.
-- name: TemplateCompanies :many
SELECT c.company_no FROM companies c WHERE c.company_no = ANY (@companies::text[]) ORDER BY c.company_no FOR KEY SHARE;

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

-- DefaultContentConsume marks the default content of a company for a recipient as sent, and returns its text (S0.9). It returns no row if no default content
-- exists, or if the content was sent before. A concurrent caller waits for the first transaction. If the first transaction commits, the concurrent caller
-- receives no row. If the first transaction rolls back, the concurrent caller receives the content.
-- name: DefaultContentConsume :one
UPDATE default_contents SET is_sent = true, updated_at = now()
WHERE company_id = @company_id AND recipient = @recipient AND NOT is_sent
RETURNING content, use_template;

-- DefaultContentPeek returns the text that DefaultContentConsume would return, and changes nothing.
-- name: DefaultContentPeek :one
SELECT d.content, d.use_template FROM default_contents d WHERE d.company_id = @company_id AND d.recipient = @recipient AND NOT d.is_sent;

-- DefaultContentReturn reverts DefaultContentConsume in the same transaction.
-- name: DefaultContentReturn :exec
UPDATE default_contents SET is_sent = false WHERE company_id = @company_id AND recipient = @recipient;

-- name: DefaultContentExists :one
SELECT EXISTS (SELECT FROM default_contents WHERE company_id = @company_id AND recipient = @recipient);
