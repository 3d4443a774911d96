-- migrate:up
-- Adds columns without values, or with one that PostgreSQL does not write into the rows: locks each table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages ADD COLUMN contact_values jsonb;
COMMENT ON COLUMN messages.contact_values IS 'the values of the placeholders ${contact.…} for this person: the rendering is then a template, which is filled with its params and these; null: the rendering is filled';
ALTER TABLE queue ADD COLUMN contact_values jsonb;
COMMENT ON COLUMN queue.contact_values IS 'as messages.contact_values';
ALTER TABLE renderings ADD COLUMN is_template boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN renderings.is_template IS 'each recipient fills its placeholders, with messages.contact_values: a run that goes on knows it from here, because none of its messages may be left to show it';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP COLUMN contact_values;
ALTER TABLE queue DROP COLUMN contact_values;
ALTER TABLE renderings DROP COLUMN is_template;
