-- migrate:up
-- A pool may be of one sender: its tasks are for this sender alone, whatever the routes are. It has one route, to this sender, which is made and
-- deleted with the pool and is not shown as a route. This locks pools for a moment, and building the index reads it: the table is small.
SET LOCAL lock_timeout = '5s';
ALTER TABLE pools ADD COLUMN sender_id bigint;
-- squawk-ignore adding-foreign-key-constraint, constraint-missing-not-valid
ALTER TABLE pools ADD CONSTRAINT pools_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES senders (id); -- all rows are null
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE pools ADD CONSTRAINT pools_of_sender_have_company CHECK (sender_id IS NULL OR (company_id IS NOT NULL AND country_id IS NULL));
COMMENT ON TABLE pools IS
    'A set of waiting tasks that the same routes serve: those of a company, message type and country. A pool without company is the shared pool of a '
    'channel, for tasks without a route. A pool with a sender has the tasks that only this sender may send. Written by internal/directory; '
    'unsettled_since also by internal/queue.';
COMMENT ON COLUMN pools.sender_id IS 'the only sender; such a pool has one route, to it, and is deleted when it is empty and unused; null: any';
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX pools_key_idx;
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX pools_key_idx ON pools (
    channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0), coalesce(sender_id, 0)
) WHERE retired_at IS NULL;

-- The tasks of a pool of one sender stay in it. No other task comes to it.
CREATE OR REPLACE FUNCTION pool_serving(of_pool bigint, of_company bigint, of_type smallint, of_country text)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT p.id
        FROM pools here
        CROSS JOIN LATERAL (VALUES
            (1, of_company, of_type::integer, (SELECT c.id FROM countries c WHERE c.country_no = of_country)),
            (2, of_company, of_type::integer, 0),
            (3, 0, -1, 0)
        ) AS k (step, company_id, message_type, country_id)
        JOIN pools p ON p.channel_id = here.channel_id AND coalesce(p.company_id, 0) = k.company_id
            AND coalesce(p.message_type, -1) = k.message_type AND coalesce(p.country_id, 0) = k.country_id AND coalesce(p.sender_id, 0) = 0
            AND p.retired_at IS NULL
        WHERE here.id = of_pool AND here.sender_id IS NULL
            AND (k.step = 3 OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
        ORDER BY k.step
        LIMIT 1
    ), of_pool)
$$;

CREATE FUNCTION sender_serves(of_sender bigint, of_company bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
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
    'Whether a company may name a sender for its tasks: a route of the company names the sender, or the sender is shared and no route names it. A '
    'sender that is off serves, one that is retired does not.';

-- migrate:down
-- Tasks of a pool of one sender move to the pools of the routes: the pool is retired.
SET LOCAL lock_timeout = '5s';
CREATE OR REPLACE FUNCTION pool_serving(of_pool bigint, of_company bigint, of_type smallint, of_country text)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT p.id
        FROM pools here
        CROSS JOIN LATERAL (VALUES
            (1, of_company, of_type::integer, (SELECT c.id FROM countries c WHERE c.country_no = of_country)),
            (2, of_company, of_type::integer, 0),
            (3, 0, -1, 0)
        ) AS k (step, company_id, message_type, country_id)
        JOIN pools p ON p.channel_id = here.channel_id AND coalesce(p.company_id, 0) = k.company_id
            AND coalesce(p.message_type, -1) = k.message_type AND coalesce(p.country_id, 0) = k.country_id AND p.retired_at IS NULL
        WHERE here.id = of_pool AND (k.step = 3 OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
        ORDER BY k.step
        LIMIT 1
    ), of_pool)
$$;
DROP FUNCTION sender_serves(bigint, bigint);
DELETE FROM routes r USING pools p WHERE p.id = r.pool_id AND p.sender_id IS NOT NULL;
ALTER TABLE pools DROP CONSTRAINT pools_of_sender_have_company;
UPDATE pools SET company_id = NULL, message_type = NULL, sender_id = NULL, retired_at = now() WHERE sender_id IS NOT NULL;
DROP INDEX pools_key_idx;
ALTER TABLE pools DROP COLUMN sender_id;
CREATE UNIQUE INDEX pools_key_idx ON pools (channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0))
WHERE retired_at IS NULL;
COMMENT ON TABLE pools IS
    'A set of waiting tasks that the same routes serve: those of a company, message type and country. A pool without company is the shared pool of a '
    'channel, for tasks without a route. Written by internal/directory; unsettled_since also by internal/queue.';
