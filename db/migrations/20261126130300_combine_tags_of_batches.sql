-- migrate:up
-- A batch can go to the contacts that several tags select. Adds columns with a value that PostgreSQL does not write into the rows: locks batches for a
-- moment. Such a batch has an empty tag, which no contact has: a server of the version before cancels it, and sends it to nobody.
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches
    ADD COLUMN tags_all text[] NOT NULL DEFAULT '{}',
    ADD COLUMN tags_any text[] NOT NULL DEFAULT '{}',
    ADD COLUMN tags_none text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN batches.tag IS 'whose contacts are the rows; empty: those that several tags select; null: a list';
COMMENT ON COLUMN batches.tags_all IS 'the rows are contacts that each of these tags holds';
COMMENT ON COLUMN batches.tags_any IS 'and at least one of these; none: whichever';
COMMENT ON COLUMN batches.tags_none IS 'and none of these';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches
    DROP COLUMN tags_none,
    DROP COLUMN tags_any,
    DROP COLUMN tags_all;
COMMENT ON COLUMN batches.tag IS 'whose contacts are the rows; null: a list';
