-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureDefaults deletes the default contents of a company for the given recipients, and returns their ids.
-- name: ErasureDefaults :many
WITH deleted AS (
    DELETE FROM default_contents d WHERE d.company_id = @company_id AND d.recipient = ANY (@recipients::text[]) RETURNING d.id
)
SELECT g.id FROM deleted g ORDER BY g.id;
