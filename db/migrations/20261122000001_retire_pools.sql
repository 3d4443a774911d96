-- migrate:up
-- A pool without a route no longer serves anybody. Its waiting tasks move to the pool of the routes that exist, and a pool that
-- lost its last route no longer refers to its company and country, so that they can be deleted. pools, routes and countries are
-- small; the update locks the rows of pools without routes, and the index is built while pools is locked.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion
ALTER TABLE pools ADD COLUMN retired_at timestamptz;
ALTER TABLE pools ADD COLUMN unsettled_since timestamptz;
COMMENT ON COLUMN pools.unsettled_since IS
    'when the pool began to serve: since then tasks of it may wait in broader pools, from which a sweep moves them; null: none do';
COMMENT ON TABLE pools IS
    'the tasks that one set of routes serves: those of a company, message type and country; with no company, the shared pool of a channel, for tasks that no route names';
COMMENT ON COLUMN pools.retired_at IS
    'when the last route of the pool was deleted; only the channel is kept, to move the tasks that still come back to it';
COMMENT ON COLUMN tasks.pool_id IS 'whose routes may take it; no foreign key, because every submission would lock the pool';
DROP INDEX pools_key_idx;
UPDATE pools p
SET company_id = NULL, message_type = NULL, country_id = NULL, retired_at = now()
WHERE p.company_id IS NOT NULL AND NOT EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id);
UPDATE pools SET unsettled_since = now() WHERE company_id IS NOT NULL;
CREATE UNIQUE INDEX pools_key_idx ON pools (channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0))
WHERE retired_at IS NULL;

-- pool_serving is where a task of a company, message type and country waits now: the pool of the country's routes, else that
-- of the routes for any country, else the shared pool. The channel is that of of_pool, in which the task waited before.
CREATE FUNCTION pool_serving(of_pool bigint, of_company bigint, of_type smallint, of_country text) RETURNS bigint
LANGUAGE sql STABLE
AS $$
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

-- migrate:down
DROP FUNCTION pool_serving;
DROP INDEX pools_key_idx;
DELETE FROM pools WHERE retired_at IS NOT NULL;
ALTER TABLE pools DROP COLUMN retired_at, DROP COLUMN unsettled_since;
CREATE UNIQUE INDEX pools_key_idx ON pools (channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0));
COMMENT ON TABLE pools IS NULL;
COMMENT ON COLUMN tasks.pool_id IS 'whose routes may take it, as they were when it was submitted; any sender until it is claimed';
