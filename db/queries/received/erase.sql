-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureReceivedCandidates returns messages of a company with ids greater than after_id whose phone numbers end with one of `digits`, in the order of their
-- ids. A number without a known region is stored as it was received, so the caller checks each returned number.
-- name: ErasureReceivedCandidates :many
SELECT r.id, r.phone_number FROM received_messages r
WHERE r.company_id = @company_id AND right(number_digits(r.phone_number), 8) = ANY (@digits::text[]) AND r.id > @after_id
ORDER BY r.id
LIMIT @portion::integer;

-- ErasureReceived removes the person and the text from messages. It does not delete the rows. If a phone hands over an erased message again, the identity of
-- the row shows that the message was already stored, so that the text is not stored again. An erased message is not listed any more, and counts as read. The
-- rows are locked in the order of CallbackMessagesHold.
-- name: ErasureReceived :execrows
UPDATE received_messages r
SET phone_number = '', content = '', message_no = NULL, raw = NULL, read_at = coalesce(r.read_at, now())
WHERE r.id = ANY (ARRAY(SELECT o.id FROM received_messages o WHERE o.id = ANY (@ids::bigint[]) ORDER BY o.id FOR UPDATE)) AND r.phone_number <> '';

-- ErasureReceivedParts returns the messages with stored parts from phone numbers that end with one of `digits`. The caller checks each returned number.
-- name: ErasureReceivedParts :many
SELECT p.sender_no, p.from_no, p.to_no, p.reference, p.total, min(p.created_at)::timestamptz AS began
FROM received_parts p
WHERE right(number_digits(p.from_no), 8) = ANY (@digits::text[])
GROUP BY p.sender_no, p.from_no, p.to_no, p.reference, p.total
ORDER BY p.sender_no, p.from_no, p.to_no, p.reference, p.total;

-- ErasureReceivedPartsDelete deletes the stored parts of messages to a sender. Entry n of the arrays belongs to message n.
-- name: ErasureReceivedPartsDelete :execrows
DELETE FROM received_parts p
USING (
    SELECT unnest(@from_nos::text[]) AS from_no, unnest(@to_nos::text[]) AS to_no, unnest(@references_of::bigint[]) AS reference,
        unnest(@totals::smallint[]) AS total
) m
WHERE p.sender_no = @sender_no AND p.from_no = m.from_no AND p.to_no = m.to_no AND p.reference = m.reference AND p.total = m.total;
