-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS callbacks_take_idx ON callbacks (take_at, id) WHERE take_at IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS callbacks_take_idx;
