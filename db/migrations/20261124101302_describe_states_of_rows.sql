-- migrate:up
COMMENT ON COLUMN reconciliation_rows.status IS 'as in all of these rows; null: not compared, or they differ';

-- migrate:down
COMMENT ON COLUMN reconciliation_rows.status IS 'as in the last of these rows; null: not compared';
