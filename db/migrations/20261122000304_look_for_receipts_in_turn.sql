-- migrate:up
-- A receipt whose message is not known is looked for at times that lie further and further apart, and has an end. Existing rows do not
-- get the default: it is set after the column is added. Building the index holds writes to receipts.
ALTER TABLE receipts ADD COLUMN look_at timestamptz;
ALTER TABLE receipts ALTER COLUMN look_at SET DEFAULT now();
COMMENT ON COLUMN receipts.look_at IS 'when its message is looked for next; null: it was found, or is not looked for any more';
UPDATE receipts SET look_at = now() WHERE matched_at IS NULL AND created_at > now() - interval '3 days';
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX receipts_look_at_idx ON receipts (look_at) WHERE look_at IS NOT NULL;
-- squawk-ignore require-concurrent-index-deletion
DROP INDEX receipts_parked_idx;

-- migrate:down
CREATE INDEX receipts_parked_idx ON receipts (id) WHERE matched_at IS NULL;
DROP INDEX receipts_look_at_idx;
ALTER TABLE receipts DROP COLUMN look_at;
