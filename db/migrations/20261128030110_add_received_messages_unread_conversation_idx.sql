-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY IF NOT EXISTS received_messages_unread_conversation_idx ON received_messages (company_id, phone_number, id) WHERE read_at IS NULL;

-- migrate:down transaction:false
DROP INDEX CONCURRENTLY IF EXISTS received_messages_unread_conversation_idx;
