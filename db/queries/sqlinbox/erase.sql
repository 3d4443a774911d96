-- Statements for erasures. An erasure waits until the SQL inbox contains no earlier message of its company.

-- SqlInboxHas returns whether the SQL inbox contains messages of a company that were submitted before `before`.
-- name: SqlInboxHas :one
SELECT EXISTS (SELECT FROM sql_inbox i WHERE i.company_id = @company_id AND i.created_at < @before::timestamptz);
