-- migrate:up
-- Changes a function only: no table is locked.
CREATE OR REPLACE FUNCTION sender_serves(of_sender bigint, of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM senders s
        WHERE s.id = of_sender AND s.status <> 'retired' AND (
            EXISTS (
                SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
                WHERE r.sender_id = s.id AND r.status = 'on' AND p.company_id = of_company AND p.sender_id IS NULL
            )
            OR (
                s.is_shared AND EXISTS (SELECT FROM companies c WHERE c.id = of_company AND c.uses_shared_senders)
                AND NOT EXISTS (SELECT FROM routes r JOIN pools p ON p.id = r.pool_id WHERE r.sender_id = s.id AND p.sender_id IS NULL)
            )
        )
    )
$$;
COMMENT ON FUNCTION sender_serves(bigint, bigint) IS
    'Whether a company may name a sender for its tasks, and the sender may take them: a route of the company that is on names the sender; or the sender is shared, no route names it, and the company uses shared senders. A sender that is off serves, one that is retired does not.';

-- migrate:down
CREATE OR REPLACE FUNCTION sender_serves(of_sender bigint, of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM senders s
        WHERE s.id = of_sender AND s.status <> 'retired' AND (
            EXISTS (
                SELECT FROM routes r JOIN pools p ON p.id = r.pool_id
                WHERE r.sender_id = s.id AND r.status = 'on' AND p.company_id = of_company AND p.sender_id IS NULL
            )
            OR (s.is_shared AND NOT EXISTS (
                SELECT FROM routes r JOIN pools p ON p.id = r.pool_id WHERE r.sender_id = s.id AND p.sender_id IS NULL
            ))
        )
    )
$$;
COMMENT ON FUNCTION sender_serves(bigint, bigint) IS
    'Whether a company may name a sender for its tasks: a route of the company names the sender, or the sender is shared and no route names it. A sender that is off serves, one that is retired does not.';
