-- migrate:up
-- As for the ledger: the table of before becomes the default partition, and all its batches have smaller ids than those of partitions. Ten thousand batches are
-- more than are made until the next migrations are applied: rows of more are refused, and checked again afterwards. The table is locked for a moment.
SET LOCAL lock_timeout = '5s';
DO $$
DECLARE
    before bigint;
BEGIN
    SELECT (last_value / 10000 + 2) * 10000 INTO before FROM batches_id_seq;
    INSERT INTO number_partitions (parent, first_number, before_number, entered_at)
    VALUES ('batch_rows', 0, before, CASE WHEN EXISTS (SELECT FROM batch_rows) THEN '-infinity' ELSE now() END);
    EXECUTE format('ALTER TABLE batch_rows ADD CONSTRAINT batch_rows_default_batches CHECK (batch_id < %s) NOT VALID', before);
END
$$;

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE batch_rows DROP CONSTRAINT batch_rows_default_batches;
DELETE FROM number_partitions WHERE parent = 'batch_rows';
