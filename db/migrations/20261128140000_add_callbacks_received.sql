-- migrate:up
-- Locks callbacks for a moment: columns with constant defaults are added without rewriting the table.
ALTER TABLE callbacks ADD COLUMN take_at timestamptz, ADD COLUMN received_ids bigint[], ADD COLUMN mask_when_taken boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN callbacks.take_at IS 'the time from which the messages of the callback are to be stored in received_messages; null: it has no such messages, or they are stored';
COMMENT ON COLUMN callbacks.received_ids IS 'the received_messages of the callback; null: none are stored';
COMMENT ON COLUMN callbacks.mask_when_taken IS 'the body contains an erased person, and is masked when its messages are stored';
COMMENT ON COLUMN callbacks.body IS 'the body in UTF-8, without characters that PostgreSQL cannot store; ********: it contained messages of people that are erased or deleted';

CREATE TABLE lock_take_received ();
COMMENT ON TABLE lock_take_received IS 'no rows: the server that does take-received locks the table, so that only one does it';

-- migrate:down
DROP TABLE lock_take_received;
COMMENT ON COLUMN callbacks.body IS 'the body, without characters that PostgreSQL cannot store';
ALTER TABLE callbacks DROP COLUMN mask_when_taken, DROP COLUMN received_ids, DROP COLUMN take_at;
