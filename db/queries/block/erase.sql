-- Statements that erase a person. A block stays, because the person must not get messages after the erasure.

-- ErasureBlocks removes the numbers from the blocks of a company, and returns the number of changed blocks.
-- name: ErasureBlocks :execrows
UPDATE blocks b
SET recipient = NULL, reason = NULL
WHERE b.recipient_hash = ANY (ARRAY(SELECT sha256(convert_to(r.recipient, 'UTF8')) FROM unnest(@recipients::text[]) AS r (recipient)))
    AND b.company_id = @company_id::bigint AND b.recipient IS NOT NULL;

-- ErasureBlockRequests deletes the latest requests of a person for messages of a company. A request for no more messages stays, as its block does.
-- name: ErasureBlockRequests :exec
DELETE FROM block_requests q
WHERE q.recipient_hash = ANY (ARRAY(SELECT sha256(convert_to(r.recipient, 'UTF8')) FROM unnest(@recipients::text[]) AS r (recipient)))
    AND q.company_id = @company_id::bigint AND NOT q.is_opt_out;
