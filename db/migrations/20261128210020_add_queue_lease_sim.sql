-- migrate:up
ALTER TABLE queue ADD COLUMN lease_sim smallint;
COMMENT ON COLUMN queue.lease_sim IS 'the slot of the SIM through which the sender must send the message; null: the sender has no SIMs, or chooses one itself';

-- migrate:down
ALTER TABLE queue DROP COLUMN lease_sim;
