-- migrate:up transaction:false
-- TaskReport looks for apps whose circuit breaker is not closed. These are few, or none.
CREATE INDEX CONCURRENTLY IF NOT EXISTS sender_states_open_idx ON sender_states (sender_id) WHERE openings > 0;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS sender_states_open_idx;
