-- migrate:up
-- Attempts that reached nobody give their segments back. New columns without a value to compute: the tables are locked for a moment
-- only. The index is built under a lock that makes claims of senders with a balance wait.
-- squawk-ignore-file require-concurrent-index-creation
ALTER TABLE send_logs ADD COLUMN segments bigint;
COMMENT ON COLUMN send_logs.segments IS 'what the attempt took from the limits of its sender; null: its sender had nothing to count';
ALTER TABLE sender_ledger ADD COLUMN low_warning bigint;
ALTER TABLE sender_ledger ADD COLUMN low_switch bigint;
COMMENT ON COLUMN sender_ledger.low_warning IS 'where the thresholds were changed (change is 0): what they are since; else null';
COMMENT ON COLUMN sender_ledger.lease_id IS 'the attempt that took it, or to which it was given back; null for a top-up, a correction and thresholds';
-- An attempt is charged once and refunded once.
CREATE UNIQUE INDEX sender_ledger_lease_key ON sender_ledger (lease_id, (change > 0)) WHERE lease_id IS NOT NULL;
ALTER TABLE sender_states ADD COLUMN granted bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN sender_states.granted IS 'sum of the top-ups and corrections of the balance; what the balance lacks of it was consumed';
UPDATE sender_states st
SET granted = coalesce((SELECT sum(l.change) FROM sender_ledger l WHERE l.sender_id = st.sender_id AND l.lease_id IS NULL), 0);

-- migrate:down
ALTER TABLE sender_states DROP COLUMN granted;
DROP INDEX sender_ledger_lease_key;
COMMENT ON COLUMN sender_ledger.lease_id IS 'the attempt that took it; null for a top-up or a correction';
ALTER TABLE sender_ledger DROP COLUMN low_warning, DROP COLUMN low_switch;
ALTER TABLE send_logs DROP COLUMN segments;
