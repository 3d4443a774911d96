-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureReplyActions deletes what rules did with messages from recipients, and are still to do. A message from a recipient that is stored later is a new one.
-- name: ErasureReplyActions :exec
DELETE FROM reply_actions a WHERE a.company_id = @company_id AND a.phone_number = ANY (@recipients::text[]);

-- ErasureReplyRules removes recipients from the phone_numbers of a company's rules. If no number remains, the list becomes empty: the rule stays, and forwards
-- nothing.
-- name: ErasureReplyRules :exec
UPDATE reply_rules r
SET phone_numbers = ARRAY(
        SELECT n.number FROM unnest(r.phone_numbers) WITH ORDINALITY AS n (number, place)
        WHERE n.number <> ALL (@recipients::text[])
        ORDER BY n.place
    ),
    version = r.version + 1, updated_at = now()
WHERE r.company_id = @company_id AND r.phone_numbers && @recipients::text[];
