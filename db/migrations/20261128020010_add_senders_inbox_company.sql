-- migrate:up
-- Locks senders for a moment: a column without default is added without rewriting the table.
ALTER TABLE senders ADD COLUMN inbox_company_id bigint;
COMMENT ON COLUMN senders.inbox_company_id IS 'the company that gets the messages to this sender that answer no task; null, or a company that was deleted: the company default. No foreign key: adding it would lock companies';

-- migrate:down
ALTER TABLE senders DROP COLUMN inbox_company_id;
