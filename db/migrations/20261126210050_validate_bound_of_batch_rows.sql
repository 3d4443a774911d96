-- migrate:up
-- Reads all rows; meanwhile others read and write.
ALTER TABLE batch_rows VALIDATE CONSTRAINT batch_rows_default_batches;

-- migrate:down
