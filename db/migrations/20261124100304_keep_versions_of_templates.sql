-- migrate:up
-- What was sent can be compared with the text of that time. Adding the column holds the table for a moment.
ALTER TABLE templates ADD COLUMN version integer NOT NULL DEFAULT 1;
COMMENT ON COLUMN templates.version IS 'counts the changes of template_content, language, translations and sign; 1: as it was created';

CREATE TABLE template_versions (
    template_id bigint NOT NULL REFERENCES templates (id) ON DELETE CASCADE,
    version integer NOT NULL,
    template_content text NOT NULL,
    language text,
    translations jsonb NOT NULL,
    sign text,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- internal/postgres sets the actor for the transaction of a change that somebody asked for.
    created_by text DEFAULT nullif(current_setting('lksms.actor', true), ''),
    PRIMARY KEY (template_id, version)
);
COMMENT ON TABLE template_versions IS
    'One row is the texts of a template at one time; the one with the greatest version is current. Written by internal/template; deleted with the template.';
COMMENT ON COLUMN template_versions.created_by IS 'name of the user who set these texts; null: nobody did through the service, or before versions were kept';
CREATE TRIGGER template_versions_rows_bound AFTER INSERT ON template_versions
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000, template_id);

INSERT INTO template_versions (template_id, version, template_content, language, translations, sign, created_at, created_by)
SELECT t.id, 1, t.template_content, t.language, t.translations, t.sign, t.updated_at, NULL
FROM templates t;

-- migrate:down
DROP TABLE template_versions;
ALTER TABLE templates DROP COLUMN version;
