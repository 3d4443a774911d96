-- migrate:up
-- Texts with names: templates with their versions, and the default contents of numbers.

CREATE TABLE default_contents (
    id bigint GENERATED ALWAYS AS IDENTITY,
    phone_number text NOT NULL,
    recipient text NOT NULL,
    content text NOT NULL,
    use_template boolean NOT NULL DEFAULT false,
    is_sent boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    company_id bigint NOT NULL DEFAULT 1,
    CONSTRAINT default_contents_pkey PRIMARY KEY (id),
    CONSTRAINT default_contents_company_id_recipient_key UNIQUE (company_id, recipient),
    CONSTRAINT default_contents_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT default_contents_content_length CHECK (char_length(content) BETWEEN 1 AND 1024)
);
COMMENT ON TABLE default_contents IS
    'The text that is sent once to a phone number when a submission has none. Written by internal/dispatch/template.';
COMMENT ON COLUMN default_contents.phone_number IS 'as the caller wrote it';
COMMENT ON COLUMN default_contents.recipient IS 'the same number in E.164, so that it is unique in every notation';
COMMENT ON COLUMN default_contents.use_template IS 'render the active template with the content as its parameters';
COMMENT ON COLUMN default_contents.is_sent IS 'a submission used it; reset by an administrator';
COMMENT ON COLUMN default_contents.company_id IS 'the company whose users send it; unique together with recipient';

CREATE TABLE templates (
    id bigint GENERATED ALWAYS AS IDENTITY,
    template_name text NOT NULL,
    template_content text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    send_type text NOT NULL DEFAULT 'realtime',
    companies text[] NOT NULL DEFAULT '{}',
    given_no text,
    template_no text GENERATED ALWAYS AS (COALESCE(given_no, ('template-' || (id)::text))) STORED NOT NULL,
    scene text NOT NULL DEFAULT '',
    purpose text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active',
    is_active boolean GENERATED ALWAYS AS ((status = 'active')) STORED NOT NULL,
    language text,
    translations jsonb NOT NULL DEFAULT '{}',
    sign text,
    version bigint NOT NULL DEFAULT 1,
    CONSTRAINT templates_pkey PRIMARY KEY (id),
    CONSTRAINT templates_template_no_key UNIQUE (template_no),
    CONSTRAINT templates_given_no_free CHECK (given_no !~ '^template-[0-9]+$'),
    CONSTRAINT templates_given_no_length CHECK (char_length(given_no) BETWEEN 1 AND 50),
    CONSTRAINT templates_language_length CHECK (char_length(language) BETWEEN 2 AND 35),
    CONSTRAINT templates_purpose_length CHECK (char_length(purpose) <= 200),
    CONSTRAINT templates_scene_length CHECK (char_length(scene) <= 64),
    CONSTRAINT templates_send_type_known CHECK (send_type IN ('realtime', 'scheduled')),
    CONSTRAINT templates_sign_length CHECK (char_length(sign) BETWEEN 1 AND 20),
    CONSTRAINT templates_status_known CHECK (status IN ('draft', 'in_review', 'active', 'disabled', 'voided')),
    CONSTRAINT templates_template_content_length CHECK (char_length(template_content) BETWEEN 1 AND 1024),
    CONSTRAINT templates_template_name_length CHECK (char_length(template_name) BETWEEN 1 AND 100),
    CONSTRAINT templates_translations_object CHECK (jsonb_typeof(translations) = 'object')
);
COMMENT ON TABLE templates IS 'A text for submissions. Written by internal/dispatch/template.';
COMMENT ON COLUMN templates.send_type IS
    'realtime: sent at once; scheduled: sent at the next full interval of the setting sms.scheduled_every_seconds, unless the '
    'submission names a time';
COMMENT ON COLUMN templates.companies IS
    'company_no of the companies that may use it; empty: all. An array cannot have a foreign key, so the deletion of a company checks '
    'it.';
COMMENT ON COLUMN templates.given_no IS 'template_no as an administrator chose it; null: it is made from the id';
COMMENT ON COLUMN templates.scene IS 'what the message is about, such as registration; for lists only';
COMMENT ON COLUMN templates.purpose IS 'explanation for administrators';
COMMENT ON COLUMN templates.status IS 'only active ones are sent; voided is final';
COMMENT ON COLUMN templates.language IS 'language of template_content (BCP 47); null: not known';
COMMENT ON COLUMN templates.translations IS 'texts with the same placeholders, by language';
COMMENT ON COLUMN templates.sign IS 'signature of a message whose submission has none; null: that of the sender';
COMMENT ON COLUMN templates.version IS 'counts the changes of template_content, language, translations and sign; 1: as it was created';

CREATE TABLE template_versions (
    template_id bigint NOT NULL,
    version bigint NOT NULL,
    template_content text NOT NULL,
    language text,
    translations jsonb NOT NULL,
    sign text,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text DEFAULT NULLIF(current_setting('lksms.actor', true), ''),
    CONSTRAINT template_versions_pkey PRIMARY KEY (template_id, version),
    CONSTRAINT template_versions_template_id_fkey FOREIGN KEY (template_id) REFERENCES templates(id) ON DELETE CASCADE
);
COMMENT ON TABLE template_versions IS
    'One row is the texts of a template at one time; the one with the greatest version is current. Written by internal/dispatch/template; deleted with the template.';
COMMENT ON COLUMN template_versions.created_by IS 'name of the user who set these texts; null: nobody did through the service, or before versions were kept';

CREATE TRIGGER audited AFTER INSERT OR UPDATE OF company_id, phone_number, recipient, content, use_template OR DELETE ON default_contents
FOR EACH ROW EXECUTE FUNCTION audit_change('default_content', 'id');
CREATE TRIGGER audited_reset AFTER UPDATE OF is_sent ON default_contents
FOR EACH ROW WHEN (OLD.is_sent AND NOT NEW.is_sent AND current_setting('lksms.actor', true) <> '')
EXECUTE FUNCTION audit_change('default_content', 'id');
CREATE TRIGGER default_contents_rows_bound AFTER INSERT ON default_contents
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(100000, company_id);
CREATE TRIGGER template_versions_rows_bound AFTER INSERT ON template_versions
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000, template_id);
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON templates
FOR EACH ROW EXECUTE FUNCTION audit_change('template', 'id', 'is_active,given_no');
CREATE TRIGGER templates_rows_bound AFTER INSERT ON templates
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(10000);

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
