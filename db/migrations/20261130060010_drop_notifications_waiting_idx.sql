-- Locks no table. notifications_company_due_idx begins with the same column, and servers of the former version also use it.
-- migrate:up transaction:false
DROP INDEX CONCURRENTLY IF EXISTS notifications_waiting_idx;

-- migrate:down transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS notifications_waiting_idx ON notifications (company_id) WHERE next_run_at IS NOT NULL;
