-- Statements that erase a person.

-- ErasureSmppMessages deletes the long messages to a person whose parts did not all arrive.
-- name: ErasureSmppMessages :execrows
DELETE FROM smpp_long_messages m WHERE m.company_id = @company_id AND m.recipient = ANY (@recipients::text[]);
