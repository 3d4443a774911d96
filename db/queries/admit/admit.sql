-- Statements that decide about recipients.

-- RecipientsBlocked returns the indexes of the messages that a block forbids, from 0.
-- name: RecipientsBlocked :many
SELECT m.place::integer AS place
FROM (
    SELECT unnest(@recipients::text[]) AS recipient, unnest(@company_ids::bigint[]) AS company_id, unnest(@message_types::smallint[]) AS message_type,
        generate_series(0, cardinality(@recipients::text[]) - 1) AS place
) m
CROSS JOIN LATERAL (SELECT FROM blocks_of(m.recipient, m.company_id, m.message_type) LIMIT 1) b
ORDER BY m.place;
