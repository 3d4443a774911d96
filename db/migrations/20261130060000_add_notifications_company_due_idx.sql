-- Locks no table: writers of notifications continue.
-- migrate:up transaction:false
-- NotificationDueIDs finds the oldest due notifications of each company.
CREATE INDEX CONCURRENTLY IF NOT EXISTS notifications_company_due_idx ON notifications (company_id, next_run_at) WHERE next_run_at IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS notifications_company_due_idx;
