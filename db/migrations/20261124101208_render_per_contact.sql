-- migrate:up
-- Adds columns without values: locks each table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages ADD COLUMN contact_values jsonb;
COMMENT ON COLUMN messages.contact_values IS 'the values of the placeholders ${contact.…} for this person: the rendering is then a template, which is filled with its params and these; null: the rendering is filled';
ALTER TABLE queue ADD COLUMN contact_values jsonb;
COMMENT ON COLUMN queue.contact_values IS 'as messages.contact_values';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP COLUMN contact_values;
ALTER TABLE queue DROP COLUMN contact_values;
