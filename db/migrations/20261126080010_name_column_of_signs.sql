-- migrate:up
-- The list of a batch names the column of its signatures. Adding a column without a default rewrites no row.
ALTER TABLE batches ADD COLUMN sign_column text;
COMMENT ON COLUMN batches.sign_column IS 'the column with the signatures of the rows; null: every row has that of the batch';

-- migrate:down
ALTER TABLE batches DROP COLUMN sign_column;
