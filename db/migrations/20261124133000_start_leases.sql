-- migrate:up
-- A sender may claim tasks for a shorter time, in which it must say that it starts to send them. Adding a column without a default rewrites no row.
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue ADD COLUMN start_until timestamptz;
COMMENT ON COLUMN queue.start_until IS
    'equal to lease_until: the sender must start the lease until then, and has not; any other value, or null: the lease is started, or needs no start. A server that does not know this column leaves old values in it, which are never those of its leases';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE queue DROP COLUMN start_until;
