-- migrate:up
-- A contact has a name, and attributes for the placeholders of templates. The columns rewrite nothing; the constraints are validated afterwards. Each
-- statement locks contacts for a moment.
ALTER TABLE contacts ADD COLUMN name text, ADD COLUMN attributes jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN contacts.name IS 'what messages call the person; null: not known';
COMMENT ON COLUMN contacts.attributes IS 'texts by name, for the placeholders of templates';

-- contact_attributes_fit reports whether attributes are at most 50 texts of at most 500 characters, under names of 1 to 50.
CREATE FUNCTION contact_attributes_fit(attributes jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT count(*) <= 50 AND coalesce(bool_and(
        jsonb_typeof(a.value) = 'string' AND char_length(a.key) BETWEEN 1 AND 50 AND char_length(a.value #>> '{}') BETWEEN 1 AND 500
    ), true)
    FROM jsonb_each(attributes) a
$$;
ALTER TABLE contacts
    ADD CONSTRAINT contacts_name_length CHECK (char_length(name) BETWEEN 1 AND 100) NOT VALID,
    ADD CONSTRAINT contacts_attributes_fit CHECK (
        CASE WHEN jsonb_typeof(attributes) = 'object' THEN attributes = '{}' OR contact_attributes_fit(attributes) ELSE false END
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
DROP FUNCTION contact_attributes_fit;
