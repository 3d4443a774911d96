-- migrate:up
-- Reads the webhooks, and locks out nobody.
ALTER TABLE webhooks VALIDATE CONSTRAINT webhooks_form_known;
ALTER TABLE webhooks VALIDATE CONSTRAINT webhooks_external_id_of_form;
ALTER TABLE webhooks VALIDATE CONSTRAINT webhooks_external_id_length;

-- migrate:down
-- What holds for all rows holds for the new ones.
SELECT 1;
