-- migrate:up
-- Adds columns without values, or with one that PostgreSQL does not write into the rows: locks the table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE webhooks
    ADD COLUMN form text NOT NULL DEFAULT 'standard',
    ADD COLUMN external_id text COLLATE "C";
ALTER TABLE webhooks ADD CONSTRAINT webhooks_form_known CHECK (form IN ('standard', 'smsgate')) NOT VALID;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_external_id_of_form CHECK ((external_id IS NOT NULL) = (form = 'smsgate')) NOT VALID;
ALTER TABLE webhooks ADD CONSTRAINT webhooks_external_id_length CHECK (char_length(external_id) BETWEEN 1 AND 36) NOT VALID;
COMMENT ON COLUMN webhooks.form IS 'how posts are written and signed: standard (Standard Webhooks), or smsgate (as the app of SMSGate does)';
COMMENT ON COLUMN webhooks.external_id IS 'of the form smsgate: the id that the program gave, or one that was made; of one user. Null: another form';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE webhooks DROP COLUMN external_id, DROP COLUMN form;
