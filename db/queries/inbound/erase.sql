-- Statements that erase a person. Each statement skips data that is already erased. Therefore a statement can be repeated, and counts each row once.

-- ErasureInbounds removes recipients from the phone_numbers of a company's inbounds. If no number remains, the list becomes empty and not null, because null
-- means that the body of each post names the recipients.
-- name: ErasureInbounds :exec
UPDATE inbounds i
SET phone_numbers = ARRAY(
        SELECT n.number FROM unnest(i.phone_numbers) WITH ORDINALITY AS n (number, place)
        WHERE n.number <> ALL (@recipients::text[])
        ORDER BY n.place
    ),
    version = i.version + 1, updated_at = now()
WHERE i.company_id = @company_id AND i.phone_numbers && @recipients::text[];
