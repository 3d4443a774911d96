-- migrate:up
-- The row that ends a lease keeps how the sender signed. A server of the version before leaves it out: what it reports of such a lease is shown with the
-- signature in the text.
ALTER TABLE report_logs ADD COLUMN lease_sign_mode text;
COMMENT ON COLUMN report_logs.lease_sign_mode IS 'sign_mode of the sender when it took the task; null: in_text';

-- migrate:down
ALTER TABLE report_logs DROP COLUMN lease_sign_mode;
