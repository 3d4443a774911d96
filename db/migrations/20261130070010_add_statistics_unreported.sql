-- Adds a column with a constant default: no row is rewritten. Locks statistics (ACCESS EXCLUSIVE) for an instant.
-- migrate:up
ALTER TABLE statistics ADD COLUMN unreported bigint NOT NULL DEFAULT 0;

-- migrate:down
ALTER TABLE statistics DROP COLUMN unreported;
