-- migrate:up
-- Indexes a small table: locks it against changes for a moment.
--
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion
CREATE INDEX countries_off_idx ON countries (country_no) WHERE status = 'off';

-- migrate:down
DROP INDEX countries_off_idx;
