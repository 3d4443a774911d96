-- migrate:up
-- A company may have a notification template of its own in place of the platform's. It has a table of its own: a server of the version before reads
-- notification_templates, and finds one template there. New tables: adding the foreign keys locks companies and channels against writes for a moment.
SET LOCAL lock_timeout = '5s';
CREATE TABLE company_notification_templates (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    biz_type smallint NOT NULL,
    channel_id bigint NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    html text,
    external_id text NOT NULL DEFAULT '',
    sign text,
    is_enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT company_notification_templates_pkey PRIMARY KEY (id),
    CONSTRAINT company_notification_templates_key UNIQUE (company_id, biz_type, channel_id),
    CONSTRAINT company_notification_templates_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies (id) ON DELETE CASCADE,
    CONSTRAINT company_notification_templates_channel_id_fkey FOREIGN KEY (channel_id) REFERENCES channels (id),
    CONSTRAINT company_notification_templates_lengths CHECK (
        char_length(title) BETWEEN 1 AND 200 AND char_length(content) BETWEEN 1 AND 20000 AND char_length(external_id) <= 64
        AND char_length(html) BETWEEN 1 AND 100000 AND char_length(sign) BETWEEN 1 AND 20
    )
);
CREATE INDEX company_notification_templates_channel_idx ON company_notification_templates (channel_id);
COMMENT ON TABLE company_notification_templates IS 'The title and text of a business type on a channel, of one company, in place of that in notification_templates. Written by internal/notification.';
COMMENT ON COLUMN company_notification_templates.biz_type IS 'see notifications.biz_type';
COMMENT ON COLUMN company_notification_templates.external_id IS 'template of the provider; empty: none';
COMMENT ON COLUMN company_notification_templates.sign IS 'signature before the text if the notification has none; null: that of the sender';
COMMENT ON COLUMN company_notification_templates.html IS 'the content as HTML, for e-mail; null: none';
COMMENT ON COLUMN company_notification_templates.is_enabled IS 'false: that of the platform counts';
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON company_notification_templates
FOR EACH ROW EXECUTE FUNCTION audit_change('notification_template', 'company_no,biz_type,channel');
CREATE TRIGGER company_notification_templates_rows_bound AFTER INSERT ON company_notification_templates
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound('1000', 'company_id');

-- The templates that count for each company.
CREATE VIEW effective_notification_templates AS
SELECT c.id AS company_id, t.biz_type, t.channel_id, t.title, t.content, t.html, t.external_id, t.sign
FROM companies c
CROSS JOIN notification_templates t
WHERE t.is_enabled AND NOT EXISTS (
    SELECT FROM company_notification_templates o
    WHERE o.company_id = c.id AND o.biz_type = t.biz_type AND o.channel_id = t.channel_id AND o.is_enabled
)
UNION ALL
SELECT o.company_id, o.biz_type, o.channel_id, o.title, o.content, o.html, o.external_id, o.sign
FROM company_notification_templates o
WHERE o.is_enabled;
COMMENT ON VIEW effective_notification_templates IS 'The notification template that a company uses, its own or the platform''s, by business type and channel.';

-- migrate:down
DROP VIEW effective_notification_templates;
DROP TABLE company_notification_templates;
