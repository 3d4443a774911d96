-- Statements on the directory: companies, channels, countries, pools and routes. Administrators change these small tables. An update changes a row only if its
-- version is still the version that the caller read.

-- name: CompanyCreate :one
WITH made AS (
    INSERT INTO companies (company_no, name, weight, default_region, status, any_country, uses_shared_senders, recipient)
    VALUES (@company_no, @name, @weight, @default_region, @status, @any_country, @uses_shared_senders, @recipient)
    RETURNING *
),
listed AS (
    INSERT INTO company_countries (company_id, country_id, status)
    SELECT made.id, c.id, CASE WHEN c.country_no = ANY (@countries_off::text[]) THEN 'off' ELSE 'on' END
    FROM made CROSS JOIN countries c
    WHERE c.country_no = ANY (@countries::text[] || @countries_off::text[])
)
SELECT made.id FROM made;

-- name: CompanyList :many
SELECT c.*, ARRAY(
    SELECT o.country_no FROM company_countries x JOIN countries o ON o.id = x.country_id
    WHERE x.company_id = c.id AND x.status = 'on' ORDER BY o.country_no
)::text[] AS countries, ARRAY(
    SELECT o.country_no FROM company_countries x JOIN countries o ON o.id = x.country_id
    WHERE x.company_id = c.id AND x.status = 'off' ORDER BY o.country_no
)::text[] AS countries_off
FROM companies c
WHERE c.id < @before_id AND (sqlc.narg(company_no)::text IS NULL OR c.company_no = sqlc.narg(company_no)::text)
    AND (sqlc.narg(id)::bigint IS NULL OR c.id = sqlc.narg(id)::bigint)
ORDER BY c.id DESC
LIMIT @page_limit::integer;

-- name: CompanyUpdate :execrows
UPDATE companies
SET name = @name, weight = @weight, default_region = @default_region, status = @status, any_country = @any_country, uses_shared_senders = @uses_shared_senders,
    recipient = @recipient, version = version + 1, updated_at = now()
WHERE company_no = @company_no AND version = @version;

-- CompanyUnlist removes from a company the countries that are no longer listed, and the countries whose status changes. CompanyAllow then adds the missing
-- countries. With two statements, the audit shows a change of a status as a removal and an addition.
-- name: CompanyUnlist :exec
DELETE FROM company_countries x
USING companies o, countries c
WHERE o.company_no = @company_no AND x.company_id = o.id AND c.id = x.country_id
    AND NOT (x.status = 'on' AND c.country_no = ANY (@countries::text[]) OR x.status = 'off' AND c.country_no = ANY (@countries_off::text[]));

-- name: CompanyAllow :exec
INSERT INTO company_countries (company_id, country_id, status)
SELECT o.id, c.id, CASE WHEN c.country_no = ANY (@countries_off::text[]) THEN 'off' ELSE 'on' END
FROM companies o CROSS JOIN countries c
WHERE o.company_no = @company_no AND c.country_no = ANY (@countries::text[] || @countries_off::text[])
ON CONFLICT DO NOTHING;

-- CompanyHold locks a company, so that CompanyDelete sees all templates that name the company.
-- name: CompanyHold :execrows
SELECT FROM companies c WHERE c.company_no = @company_no FOR UPDATE;

-- name: CompanyDelete :execrows
DELETE FROM companies c
WHERE c.company_no = @company_no AND (SELECT count(*) FROM templates t WHERE c.company_no = ANY (t.companies)) = 0;

-- name: ChannelCreate :one
WITH made AS (
    INSERT INTO channels (channel, name, signature_required, retry_minutes, status, any_country)
    VALUES (@channel, @name, @signature_required, sqlc.narg(retry_minutes)::bigint[], @status, @any_country)
    RETURNING *
),
pool AS (
    INSERT INTO pools (channel_id) SELECT made.id FROM made
),
served AS (
    INSERT INTO channel_countries (channel_id, country_id, status)
    SELECT made.id, c.id, CASE WHEN c.country_no = ANY (@countries_off::text[]) THEN 'off' ELSE 'on' END
    FROM made CROSS JOIN countries c
    WHERE c.country_no = ANY (@countries::text[] || @countries_off::text[])
)
SELECT made.id FROM made;

-- name: ChannelList :many
SELECT c.*, ARRAY(
    SELECT o.country_no FROM channel_countries x JOIN countries o ON o.id = x.country_id
    WHERE x.channel_id = c.id AND x.status = 'on' ORDER BY o.country_no
)::text[] AS countries, ARRAY(
    SELECT o.country_no FROM channel_countries x JOIN countries o ON o.id = x.country_id
    WHERE x.channel_id = c.id AND x.status = 'off' ORDER BY o.country_no
)::text[] AS countries_off
FROM channels c
WHERE c.id < @before_id AND (sqlc.narg(channel)::text IS NULL OR c.channel = sqlc.narg(channel)::text)
ORDER BY c.id DESC
LIMIT @page_limit::integer;

-- name: ChannelUpdate :execrows
UPDATE channels
SET name = @name, signature_required = @signature_required, retry_minutes = sqlc.narg(retry_minutes)::bigint[], status = @status,
    any_country = @any_country, version = version + 1, updated_at = now()
WHERE channel = @channel AND version = @version;

-- ChannelUnlist removes the countries of a channel, as CompanyUnlist does for a company. ChannelServe then adds the missing countries, as CompanyAllow does.
-- name: ChannelUnlist :exec
DELETE FROM channel_countries x
USING channels k, countries c
WHERE k.channel = @channel AND x.channel_id = k.id AND c.id = x.country_id
    AND NOT (x.status = 'on' AND c.country_no = ANY (@countries::text[]) OR x.status = 'off' AND c.country_no = ANY (@countries_off::text[]));

-- name: ChannelServe :exec
INSERT INTO channel_countries (channel_id, country_id, status)
SELECT k.id, c.id, CASE WHEN c.country_no = ANY (@countries_off::text[]) THEN 'off' ELSE 'on' END
FROM channels k CROSS JOIN countries c
WHERE k.channel = @channel AND c.country_no = ANY (@countries::text[] || @countries_off::text[])
ON CONFLICT DO NOTHING;

-- ChannelDelete deletes a channel, its shared pool and the ranks of this pool. It returns 0 if the channel does not exist, or if the pool contains a waiting or
-- leased task.
-- name: ChannelDelete :execrows
WITH shared AS MATERIALIZED (
    SELECT p.id FROM pools p JOIN channels c ON c.id = p.channel_id WHERE c.channel = @channel AND p.company_id IS NULL
),
busy AS MATERIALIZED (
    SELECT count(*) AS pools -- pools with PENDING (0) or PROCESSING (1) tasks
    FROM shared s
    WHERE EXISTS (SELECT FROM queue q WHERE q.pool_id = s.id AND q.lease_until IS NULL AND q.lane IS NOT NULL) -- by queue_order_idx
        OR EXISTS (SELECT FROM queue q WHERE q.pool_id = s.id AND q.lease_until IS NULL AND q.lane IS NULL) -- by queue_unqueued_idx
        OR EXISTS (SELECT FROM queue q WHERE q.pool_id = s.id AND q.lease_until IS NOT NULL)
),
deleted AS (
    DELETE FROM pools p USING shared s, busy b WHERE p.id = s.id AND b.pools = 0
    RETURNING p.id
),
ranks AS (
    DELETE FROM fair_ranks f USING deleted d WHERE f.pool_id = d.id
)
DELETE FROM channels k USING busy b WHERE k.channel = @channel AND b.pools = 0;

-- name: CountryCreate :exec
INSERT INTO countries (country_no, name, dial_prefix, region, signature_required, status)
VALUES (@country_no, @name, @dial_prefix, sqlc.narg(region), @signature_required, @status);

-- name: CountryList :many
SELECT * FROM countries
WHERE id < @before_id AND (sqlc.narg(country_no)::text IS NULL OR country_no = sqlc.narg(country_no)::text)
ORDER BY id DESC
LIMIT @page_limit::integer;

-- name: CountryUpdate :execrows
UPDATE countries
SET name = @name, dial_prefix = @dial_prefix, region = sqlc.narg(region), signature_required = @signature_required, status = @status,
    version = version + 1, updated_at = now()
WHERE country_no = @country_no AND version = @version;

-- CountryDelete deletes a country that is on. A country that is off is not deleted, because tasks are held only while the row of their switched-off country
-- exists.
-- name: CountryDelete :execrows
DELETE FROM countries WHERE country_no = @country_no AND status = 'on';

-- CountriesUnknown returns the country numbers of `countries` that do not exist.
-- name: CountriesUnknown :many
SELECT n.country_no::text AS country_no
FROM unnest(@countries::text[]) AS n (country_no)
LEFT JOIN countries c ON c.country_no = n.country_no
WHERE c.id IS NULL
ORDER BY n.country_no;

-- RouteCreate adds a sender to the pool of a company, message type and country. It creates the pool if the pool does not exist. The insert or the update locks
-- the row of the pool, and RoutePoolLock waits for this lock.
-- name: RouteCreate :one
WITH made AS (
    INSERT INTO pools AS p (channel_id, company_id, message_type, country_id, unsettled_since)
    VALUES (@channel_id, @company_id, @message_type, sqlc.narg(country_id), now())
    -- These are the columns of pools_key_idx, in which 0 and -1 replace NULL.
    ON CONFLICT (channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0), coalesce(sender_id, 0))
    WHERE retired_at IS NULL
    DO UPDATE
    SET unsettled_since = CASE WHEN EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on')
        THEN p.unsettled_since ELSE excluded.unsettled_since END
    RETURNING id
)
INSERT INTO routes (pool_id, sender_id, weight, sort, status)
SELECT made.id, @sender_id, @weight, @sort::double precision, @status
FROM made
RETURNING id, pool_id;

-- RouteList returns routes, newest first. It does not return the routes of pools of one sender.
-- name: RouteList :many
SELECT r.id, co.company_no, p.message_type::smallint AS message_type, cn.country_no, s.sender_no, r.weight,
    r.sort::double precision AS sort, r.status, r.version, r.created_at, r.updated_at
FROM routes r
JOIN pools p ON p.id = r.pool_id
JOIN companies co ON co.id = p.company_id
LEFT JOIN countries cn ON cn.id = p.country_id
JOIN senders s ON s.id = r.sender_id
WHERE r.id < @before_id AND p.sender_id IS NULL AND (sqlc.narg(route_no)::bigint IS NULL OR r.id = sqlc.narg(route_no)::bigint)
    AND (sqlc.narg(company_no)::text IS NULL OR co.company_no = sqlc.narg(company_no)::text)
    AND (sqlc.narg(sender_no)::text IS NULL OR s.sender_no = sqlc.narg(sender_no)::text)
    AND (sqlc.narg(company_id)::bigint IS NULL OR p.company_id = sqlc.narg(company_id)::bigint)
ORDER BY r.id DESC
LIMIT @page_limit::integer;

-- RouteUpdate changes a route if its version is still `version`. If the route becomes the only active route of its pool, the statement sets unsettled_since of
-- the pool. TaskMove then searches the broader pools for tasks that belong to this pool.
-- name: RouteUpdate :execrows
WITH begun AS (
    UPDATE pools p
    SET unsettled_since = now()
    FROM routes r
    WHERE r.id = @route_no AND r.version = @version AND p.id = r.pool_id AND @status = 'on'
        AND NOT EXISTS (SELECT FROM routes o WHERE o.pool_id = p.id AND o.status = 'on')
)
UPDATE routes t
SET weight = @weight, sort = @sort::double precision, status = @status, version = t.version + 1, updated_at = now()
WHERE t.id = @route_no AND t.version = @version;

-- RoutePoolLock locks the pool of a route before the route is changed or deleted. A concurrent RouteCreate waits for the lock, and then sees the changed pool.
-- The statement returns no row if the route does not exist, or if its pool is the pool of one sender.
-- name: RoutePoolLock :one
SELECT p.id FROM pools p WHERE p.id = (SELECT r.pool_id FROM routes r WHERE r.id = @route_no) AND p.sender_id IS NULL FOR UPDATE;

-- name: RouteDelete :execrows
DELETE FROM routes WHERE id = @route_no;

-- PoolRetire retires a pool without routes, so that the pool no longer refers to its company and country.
-- name: PoolRetire :exec
UPDATE pools p
SET company_id = NULL, message_type = NULL, country_id = NULL, retired_at = now()
WHERE p.id = @pool_id AND p.retired_at IS NULL AND p.company_id IS NOT NULL
    AND NOT EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id);

-- PoolDeleteRetired deletes the retired pools without waiting tasks, and their ranks. It returns the number of deleted pools. A pool must be retired for 30
-- days, because a leased task can return to the pool within this time.
-- name: PoolDeleteRetired :one
WITH deleted AS (
    DELETE FROM pools p
    WHERE p.retired_at < now() - interval '30 days'
        AND NOT EXISTS (SELECT FROM queue q WHERE q.pool_id = p.id AND q.lease_until IS NULL AND q.lane IS NOT NULL) -- by queue_order_idx
        AND NOT EXISTS (SELECT FROM queue q WHERE q.pool_id = p.id AND q.lease_until IS NULL AND q.lane IS NULL) -- by queue_unqueued_idx
    RETURNING p.id
),
ranks AS (
    DELETE FROM fair_ranks f USING deleted d WHERE f.pool_id = d.id
)
SELECT count(*) FROM deleted;

-- SenderPoolFind returns a sender, its channel, and its pool for the messages of a company and type. pool_id is null if the pool does not exist. The statement
-- returns no row if the sender does not exist, belongs to another channel, or does not serve the company.
-- name: SenderPoolFind :one
SELECT s.id AS sender_id, s.channel_id, p.id AS pool_id
FROM senders s
JOIN channels c ON c.id = s.channel_id AND c.channel = @channel::text
LEFT JOIN pools p ON p.channel_id = s.channel_id AND coalesce(p.company_id, 0) = @company_id::bigint -- by pools_key_idx
    AND coalesce(p.message_type, -1) = @message_type::smallint AND coalesce(p.country_id, 0) = 0 AND coalesce(p.sender_id, 0) = s.id
    AND p.retired_at IS NULL
WHERE s.sender_no = @sender_no::text AND sender_serves(s.id, @company_id::bigint);

-- SenderPoolMake returns the pool of a sender for the messages of a company and type. It creates the pool if the pool does not exist.
-- name: SenderPoolMake :one
INSERT INTO pools (channel_id, company_id, message_type, sender_id) VALUES (@channel_id, @company_id::bigint, @message_type::smallint, @sender_id::bigint)
-- These are the columns of pools_key_idx, in which 0 and -1 replace NULL.
ON CONFLICT (channel_id, coalesce(company_id, 0), coalesce(message_type, -1), coalesce(country_id, 0), coalesce(sender_id, 0))
WHERE retired_at IS NULL
DO UPDATE SET sender_id = excluded.sender_id -- changes no value, but makes RETURNING return the existing pool
RETURNING id;

-- SenderPoolRoute creates the route of a pool of one sender. The audit of the route reads the pool, so the pool must be created by an earlier statement.
-- name: SenderPoolRoute :exec
INSERT INTO routes (pool_id, sender_id) VALUES (@pool_id, @sender_id) ON CONFLICT (pool_id, sender_id) DO NOTHING;

-- SenderPoolsHold protects pools of one sender from deletion until the end of the transaction. It returns the ids of `ids` whose pools exist.
-- name: SenderPoolsHold :many
SELECT p.id FROM pools p WHERE p.id = ANY (@ids::bigint[]) ORDER BY p.id FOR KEY SHARE;

-- SenderPoolsLock locks the pools of single senders that were created longer ago than `older`. sender_no and company_no select the pools of one sender or one
-- company; null means all. The statement skips pools to which tasks are being added. The later statement SenderPoolsDelete of the same transaction therefore
-- sees all tasks of the locked pools.
-- name: SenderPoolsLock :many
SELECT p.id FROM pools p
JOIN routes r ON r.pool_id = p.id
WHERE p.sender_id IS NOT NULL AND r.created_at <= now() - @older::interval
    AND (sqlc.narg(sender_no)::text IS NULL OR p.sender_id = (SELECT s.id FROM senders s WHERE s.sender_no = sqlc.narg(sender_no)::text))
    AND (sqlc.narg(company_no)::text IS NULL OR p.company_id = (SELECT c.id FROM companies c WHERE c.company_no = sqlc.narg(company_no)::text))
ORDER BY p.id
FOR UPDATE OF p SKIP LOCKED;

-- SenderPoolsDelete deletes the pools of single senders that have no tasks, and their routes and ranks. It returns the number of deleted pools.
-- name: SenderPoolsDelete :one
WITH empty AS MATERIALIZED (
    SELECT p.id FROM pools p
    WHERE p.id = ANY (@ids::bigint[]) AND p.sender_id IS NOT NULL
        AND NOT EXISTS (SELECT FROM queue q WHERE q.pool_id = p.id AND q.lease_until IS NULL AND q.lane IS NOT NULL) -- by queue_order_idx
        AND NOT EXISTS (SELECT FROM queue q WHERE q.pool_id = p.id AND q.lease_until IS NULL AND q.lane IS NULL) -- by queue_unqueued_idx
        AND NOT EXISTS (SELECT FROM queue q WHERE q.pool_id = p.id AND q.lease_until IS NOT NULL)
),
unrouted AS (
    DELETE FROM routes r USING empty e WHERE r.pool_id = e.id
),
unranked AS (
    DELETE FROM fair_ranks f USING empty e WHERE f.pool_id = e.id
),
deleted AS (
    DELETE FROM pools p USING empty e WHERE p.id = e.id RETURNING p.id
)
SELECT count(*) FROM deleted;

-- DirectoryVersion returns the number of the last transaction that changed the directory. It returns 0 if the directory never changed.
-- name: DirectoryVersion :one
SELECT coalesce((SELECT v.version::text::bigint FROM directory_version v), 0)::bigint AS version;

-- name: DirectoryCompanies :many
SELECT c.id, c.company_no, c.weight, c.default_region, c.status, c.any_country, c.recipient, ARRAY(
    SELECT x.country_id FROM company_countries x WHERE x.company_id = c.id AND x.status = 'on' ORDER BY x.country_id
)::bigint[] AS countries, ARRAY(
    SELECT x.country_id FROM company_countries x WHERE x.company_id = c.id AND x.status = 'off' ORDER BY x.country_id
)::bigint[] AS countries_off
FROM companies c
ORDER BY c.id;

-- name: DirectoryCountries :many
SELECT c.id, c.country_no, c.dial_prefix, c.region, c.signature_required FROM countries c ORDER BY c.id;

-- name: DirectoryChannels :many
SELECT c.id, c.channel, c.signature_required, c.any_country, ARRAY(
    SELECT x.country_id FROM channel_countries x WHERE x.channel_id = c.id AND x.status = 'on' ORDER BY x.country_id
)::bigint[] AS countries, ARRAY(
    SELECT x.country_id FROM channel_countries x WHERE x.channel_id = c.id AND x.status = 'off' ORDER BY x.country_id
)::bigint[] AS countries_off
FROM channels c
ORDER BY c.id;

-- DirectoryPools returns the shared pools, and the pools with an active route. It does not return pools of single senders.
-- name: DirectoryPools :many
SELECT p.id, p.channel_id, p.company_id, p.message_type, p.country_id
FROM pools p
WHERE p.retired_at IS NULL AND p.sender_id IS NULL AND (p.company_id IS NULL OR EXISTS (SELECT FROM routes r WHERE r.pool_id = p.id AND r.status = 'on'))
ORDER BY p.id;

-- DirectoryDriven returns the driven senders: the server pushes messages through them.
-- name: DirectoryDriven :many
SELECT s.sender_no FROM senders s WHERE s.kind <> 'app' ORDER BY s.sender_no;

-- RouteSender returns the id and the channel of a sender.
-- name: RouteSender :one
SELECT id, channel_id FROM senders WHERE sender_no = @sender_no;
