-- migrate:up
-- Submissions choose a template by its number. At most 10,000 rows are rewritten, under a lock that submissions with templates wait for.
ALTER TABLE templates ADD COLUMN given_no text;
-- squawk-ignore adding-required-field, adding-field-with-default
ALTER TABLE templates ADD COLUMN template_no text NOT NULL GENERATED ALWAYS AS (coalesce(given_no, 'template-' || id::text)) STORED;
-- squawk-ignore disallowed-unique-constraint
ALTER TABLE templates ADD CONSTRAINT templates_template_no_key UNIQUE (template_no);
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_given_no_length CHECK (char_length(given_no) BETWEEN 1 AND 50);
-- So a number that is made from an id is never taken.
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_given_no_free CHECK (given_no !~ '^template-[0-9]+$');
ALTER TABLE templates ADD COLUMN scene text NOT NULL DEFAULT '';
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_scene_length CHECK (char_length(scene) <= 64);
ALTER TABLE templates ADD COLUMN purpose text NOT NULL DEFAULT '';
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_purpose_length CHECK (char_length(purpose) <= 200);
COMMENT ON COLUMN templates.given_no IS 'template_no as an administrator chose it; null: it is made from the id';
COMMENT ON COLUMN templates.scene IS 'what the message is about, such as registration; for lists only';
COMMENT ON COLUMN templates.purpose IS 'explanation for administrators';

-- migrate:down
ALTER TABLE templates DROP COLUMN purpose;
ALTER TABLE templates DROP COLUMN scene;
ALTER TABLE templates DROP COLUMN template_no;
ALTER TABLE templates DROP COLUMN given_no;
