-- name: InboundCreate :one
INSERT INTO inbounds (
    inbound_no, company_id, preset, description, phone_numbers, message_type, priority, template_no, sign, repeat_seconds, is_test, status
)
VALUES (
    @inbound_no, @company_id, @preset, sqlc.narg(description), sqlc.narg(phone_numbers)::text[], @message_type, sqlc.narg(priority),
    sqlc.narg(template_no), sqlc.narg(sign), sqlc.narg(repeat_seconds), @is_test, @status
)
RETURNING id;

-- InboundList returns inbounds, newest first. company_id null: inbounds of all companies.
-- name: InboundList :many
SELECT i.*, c.company_no
FROM inbounds i
JOIN companies c ON c.id = i.company_id
WHERE i.id < @before_id AND (sqlc.narg(inbound_no)::text IS NULL OR i.inbound_no = sqlc.narg(inbound_no)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR i.company_id = sqlc.narg(company_id)::bigint)
ORDER BY i.id DESC
LIMIT @page_limit::integer;

-- InboundFind returns an inbound of a company if the inbound is on.
-- name: InboundFind :one
SELECT i.* FROM inbounds i WHERE i.inbound_no = @inbound_no AND i.company_id = @company_id AND i.status = 'on';

-- InboundUpdate changes an inbound if its version is still `version`.
-- name: InboundUpdate :execrows
UPDATE inbounds
SET preset = @preset, description = sqlc.narg(description), phone_numbers = sqlc.narg(phone_numbers)::text[], message_type = @message_type,
    priority = sqlc.narg(priority), template_no = sqlc.narg(template_no), sign = sqlc.narg(sign), repeat_seconds = sqlc.narg(repeat_seconds),
    is_test = @is_test, status = @status, version = version + 1, updated_at = now()
WHERE inbound_no = @inbound_no AND version = @version;

-- name: InboundDelete :execrows
DELETE FROM inbounds WHERE inbound_no = @inbound_no;

-- name: InboundCompany :one
SELECT id FROM companies WHERE company_no = @company_no;
