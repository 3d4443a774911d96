-- Adds columns with a constant default: no row is rewritten. Locks statistics_staged and statistics (ACCESS EXCLUSIVE) for an instant, in the order of the sweep
-- roll-up-statistics.
-- migrate:up
ALTER TABLE statistics_staged ADD COLUMN unreported bigint NOT NULL DEFAULT 0;
ALTER TABLE statistics ADD COLUMN unreported bigint NOT NULL DEFAULT 0;

-- migrate:down
ALTER TABLE statistics_staged DROP COLUMN unreported;
ALTER TABLE statistics DROP COLUMN unreported;
