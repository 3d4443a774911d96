-- Adds a column with a constant default: no row is rewritten. Locks statistics_staged (ACCESS EXCLUSIVE) for an instant. A server of the previous version that
-- rolls up minutes after this migration drops their numbers of unreported leases, until all servers have this version. The totals of senders keep them.
-- migrate:up
ALTER TABLE statistics_staged ADD COLUMN unreported bigint NOT NULL DEFAULT 0;

-- migrate:down
ALTER TABLE statistics_staged DROP COLUMN unreported;
