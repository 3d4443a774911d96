-- Adds a column with a constant default: no row is rewritten. Locks sender_states (ACCESS EXCLUSIVE) for an instant.
-- migrate:up
ALTER TABLE sender_states ADD COLUMN unreported bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN sender_states.unreported IS 'number of leases that ended without a report, since the upgrade that added the column; see facts.unreported';

-- migrate:down
ALTER TABLE sender_states DROP COLUMN unreported;
