-- migrate:up
-- A run that goes on must know whether its text is a template, also if none of its messages is left to show it.
ALTER TABLE renderings ADD COLUMN is_template boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN renderings.is_template IS 'each recipient fills its placeholders, with messages.contact_values';

-- migrate:down
ALTER TABLE renderings DROP COLUMN is_template;
