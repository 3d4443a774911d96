-- migrate:up
-- Reads all rows; meanwhile others read and write.
ALTER TABLE sender_ledger VALIDATE CONSTRAINT sender_ledger_default_leases;

-- migrate:down
