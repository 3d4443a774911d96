-- migrate:up
-- A lease keeps how its sender signs: the sender may be changed while it holds the task. Adding a column without a default rewrites no row.
ALTER TABLE queue ADD COLUMN lease_sign_mode text;
COMMENT ON COLUMN queue.lease_sign_mode IS 'sign_mode of the sender when it took the task; null: in_text';

-- migrate:down
ALTER TABLE queue DROP COLUMN lease_sign_mode;
