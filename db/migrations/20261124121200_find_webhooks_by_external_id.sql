-- migrate:up
-- An id that a program gave exists once for a user. No row is in the index yet: building it reads the table, of 20 rows for each owner at most.
SET LOCAL lock_timeout = '5s';
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX webhooks_external_id_key ON webhooks (user_id, external_id) WHERE external_id IS NOT NULL;

-- migrate:down
DROP INDEX webhooks_external_id_key;
