-- migrate:up
-- Locks callbacks for a moment: columns without defaults are added without rewriting the table.
ALTER TABLE callbacks ADD COLUMN take_at timestamptz, ADD COLUMN received_ids bigint[];
COMMENT ON COLUMN callbacks.take_at IS 'the time from which the messages of the callback are to be stored in received_messages; null: it has no such messages, or they are stored';
COMMENT ON COLUMN callbacks.received_ids IS 'the received_messages of the callback; null: none are stored';

CREATE TABLE lock_take_received ();
COMMENT ON TABLE lock_take_received IS 'no rows: the server that does take-received locks the table, so that only one does it';

-- migrate:down
DROP TABLE lock_take_received;
ALTER TABLE callbacks DROP COLUMN received_ids, DROP COLUMN take_at;
