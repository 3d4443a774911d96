-- migrate:up
-- A claim by a shared sender asks whether a driven one shares its tasks. Without this index it reads all shared senders, of which there
-- may be thousands that poll. Locks this small table for a moment.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX senders_shared_driven_idx ON senders (channel_id) WHERE is_shared AND status = 'on' AND kind <> 'app';

-- migrate:down
DROP INDEX senders_shared_driven_idx;
