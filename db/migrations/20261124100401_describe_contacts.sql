-- migrate:up
-- A contact has a name, and attributes for the placeholders of templates. The columns rewrite nothing; the constraints are validated afterwards. Each
-- statement locks contacts for a moment.
ALTER TABLE contacts ADD COLUMN name text, ADD COLUMN attributes jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN contacts.name IS 'what messages call the person; null: not known';
COMMENT ON COLUMN contacts.attributes IS 'texts by name, for the placeholders of templates';

ALTER TABLE contacts
    ADD CONSTRAINT contacts_name_length CHECK (char_length(name) BETWEEN 1 AND 100) NOT VALID,
    -- 50 of 550 characters, each of which JSON may write with six. internal/contact bounds each of them: counting them here would double the cost of an import.
    ADD CONSTRAINT contacts_attributes_are_texts CHECK (
        jsonb_typeof(attributes) = 'object' AND NOT attributes @? '$.* ? (@.type() <> "string")' AND char_length(attributes::text) <= 200000
    ) NOT VALID;

-- Addresses, names and attributes of people are no secrets of the service, but nobody reads them in the audit.
DROP TRIGGER audited ON contacts;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, name, phone, dingtalk_name, wechat_openid, email, attributes OR DELETE ON contacts
FOR EACH ROW EXECUTE FUNCTION audit_change('contact', 'user_id', '', 'name,dingtalk_name,wechat_openid,email,attributes.*');

-- migrate:down
DROP TRIGGER audited ON contacts;
CREATE TRIGGER audited AFTER INSERT OR UPDATE OF user_id, phone, dingtalk_name, wechat_openid, email OR DELETE ON contacts
FOR EACH ROW EXECUTE FUNCTION audit_change('contact', 'user_id', '', 'dingtalk_name,wechat_openid,email');
ALTER TABLE contacts DROP COLUMN attributes, DROP COLUMN name;
