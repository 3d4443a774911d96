-- migrate:up
-- Adds columns, which rewrites nothing: locks each table for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE notification_templates ADD COLUMN html text;
ALTER TABLE notification_templates ADD CONSTRAINT notification_templates_html_length CHECK (char_length(html) BETWEEN 1 AND 100000) NOT VALID;
COMMENT ON COLUMN notification_templates.html IS 'the content as HTML, for e-mail; null: none';
ALTER TABLE renderings ADD COLUMN html text NOT NULL DEFAULT '';
COMMENT ON COLUMN renderings.html IS 'the content as HTML; empty: none';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE renderings DROP COLUMN html;
ALTER TABLE notification_templates DROP COLUMN html;
