-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS received_messages_own_number_idx ON received_messages (right(number_digits(own_number), 8)) WHERE own_number IS NOT NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS received_messages_own_number_idx;
