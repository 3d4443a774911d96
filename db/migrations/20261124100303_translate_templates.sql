-- migrate:up
-- Texts of up to 1,024 characters, in several languages, with a signature. Checking at most 10,000 rows takes a moment.
ALTER TABLE templates ADD COLUMN language text;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_language_length CHECK (char_length(language) BETWEEN 2 AND 35);
ALTER TABLE templates ADD COLUMN translations jsonb NOT NULL DEFAULT '{}';
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_translations_object CHECK (jsonb_typeof(translations) = 'object');
ALTER TABLE templates ADD COLUMN sign text;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_sign_length CHECK (char_length(sign) BETWEEN 1 AND 20);
ALTER TABLE templates DROP CONSTRAINT templates_template_content_length;
-- squawk-ignore constraint-missing-not-valid
ALTER TABLE templates ADD CONSTRAINT templates_template_content_length CHECK (char_length(template_content) BETWEEN 1 AND 1024);
COMMENT ON COLUMN templates.language IS 'language of template_content (BCP 47); null: not known';
COMMENT ON COLUMN templates.translations IS 'texts with the same placeholders, by language';
COMMENT ON COLUMN templates.sign IS 'signature of a message whose submission has none; null: that of the sender';

-- migrate:down
UPDATE templates SET template_content = left(template_content, 200);
ALTER TABLE templates DROP CONSTRAINT templates_template_content_length;
ALTER TABLE templates ADD CONSTRAINT templates_template_content_length CHECK (char_length(template_content) BETWEEN 1 AND 200);
ALTER TABLE templates DROP COLUMN sign;
ALTER TABLE templates DROP COLUMN translations;
ALTER TABLE templates DROP COLUMN language;
