-- ErasureVerificationsCancel cancels the pending verifications of a person, so that each has an event of its end.
-- name: ErasureVerificationsCancel :execrows
UPDATE verifications v
SET status = 'cancelled', ended_at = clock_timestamp(), digest = NULL, sealed = NULL
WHERE v.company_id = @company_id AND v.recipient = ANY (@recipients::text[]) AND v.status = 'pending';

-- ErasureVerifications deletes the verifications of a person.
-- name: ErasureVerifications :exec
DELETE FROM verifications v WHERE v.company_id = @company_id AND v.recipient = ANY (@recipients::text[]);
