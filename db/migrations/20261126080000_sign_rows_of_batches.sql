-- migrate:up
-- A row of a batch can have a signature of its own. Adding a column without a default rewrites no row. A server that does not know the column sends
-- such a row with the signature of its batch.
ALTER TABLE batch_rows ADD COLUMN sign text;
COMMENT ON COLUMN batch_rows.sign IS 'the signature of the row; null: that of the batch';

-- migrate:down
ALTER TABLE batch_rows DROP COLUMN sign;
