-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureReplyActions deletes the stored actions of rules on messages from `recipients`, and the messages to which rules are still to be applied. A message
-- that is stored after the erasure is a new message.
-- name: ErasureReplyActions :exec
DELETE FROM reply_actions a WHERE a.company_id = @company_id AND a.phone_number = ANY (@recipients::text[]);

-- ErasureReplyActionsRefused removes recipients from the refused receivers of a company's forwards.
-- name: ErasureReplyActionsRefused :exec
UPDATE reply_actions a
SET refused = ARRAY(
    SELECT n.number FROM unnest(a.refused) WITH ORDINALITY AS n (number, place)
    WHERE n.number <> ALL (@recipients::text[])
    ORDER BY n.place
)
WHERE a.company_id = @company_id AND a.refused IS NOT NULL AND a.refused && @recipients::text[];

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
