-- Statements that erase a person. A message contains what the person wrote, so the whole row is deleted.

-- ErasureReceived deletes up to `most` messages that a company received from any of the given numbers, and returns how many.
-- name: ErasureReceived :execrows
DELETE FROM received_messages r
WHERE r.company_id = @company_id AND r.id = ANY (ARRAY(
    SELECT o.id FROM received_messages o
    WHERE o.phone_number = ANY (@phone_numbers::text[]) AND o.company_id = @company_id
    ORDER BY o.id
    LIMIT @most::integer
    FOR UPDATE
));
