-- migrate:up
-- A row of a batch can have a signature of its own. Adding a column without a default rewrites no row. A server that does not know these columns sends
-- such a row with the signature of its batch.
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches ADD COLUMN sign_column text;
ALTER TABLE batch_rows ADD COLUMN sign text;
COMMENT ON COLUMN batches.sign_column IS 'the column with the signatures of the rows; null: every row has that of the batch';
COMMENT ON COLUMN batch_rows.sign IS 'the signature of the row; null: that of the batch';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches DROP COLUMN sign_column;
ALTER TABLE batch_rows DROP COLUMN sign;
