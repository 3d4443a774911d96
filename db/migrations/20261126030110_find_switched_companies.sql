-- migrate:up
-- Indexes a small table: locks it against changes for a moment.
--
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion
CREATE INDEX companies_switched_idx ON companies (id) WHERE status = 'off' OR NOT uses_shared_senders OR NOT any_country;

-- migrate:down
DROP INDEX companies_switched_idx;
