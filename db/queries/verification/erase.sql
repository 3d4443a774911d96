-- ErasureVerifications deletes the verifications of a person.
-- name: ErasureVerifications :exec
DELETE FROM verifications v WHERE v.company_id = @company_id AND v.recipient = ANY (@recipients::text[]);
