-- migrate:up
-- A callback is kept before it is read. Columns without a volatile default: the table is held for a moment.
ALTER TABLE callbacks ADD COLUMN refused text;
COMMENT ON COLUMN callbacks.refused IS 'the reason that the provider was answered; null: it was taken, or the server stopped while it read';
ALTER TABLE callbacks ADD COLUMN left_out bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN callbacks.left_out IS 'items that could not be read, among others that could';

-- migrate:down
ALTER TABLE callbacks DROP COLUMN left_out;
ALTER TABLE callbacks DROP COLUMN refused;
