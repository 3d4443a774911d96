-- migrate:up
CREATE TABLE inbounds (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT inbounds_pkey PRIMARY KEY,
    inbound_no text NOT NULL CONSTRAINT inbounds_inbound_no_key UNIQUE,
    company_id bigint NOT NULL CONSTRAINT inbounds_company_id_fkey REFERENCES companies (id),
    preset text NOT NULL,
    description jsonb,
    phone_numbers text[],
    message_type smallint NOT NULL,
    priority smallint,
    template_no text,
    sign text,
    repeat_seconds bigint,
    is_test boolean NOT NULL DEFAULT false,
    status text NOT NULL DEFAULT 'on',
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT inbounds_inbound_no_length CHECK (char_length(inbound_no) BETWEEN 1 AND 50),
    CONSTRAINT inbounds_preset_length CHECK (char_length(preset) BETWEEN 1 AND 50),
    CONSTRAINT inbounds_description_is_object CHECK (jsonb_typeof(description) = 'object'),
    CONSTRAINT inbounds_phone_numbers_size CHECK (cardinality(phone_numbers) <= 100),
    CONSTRAINT inbounds_message_type_range CHECK (message_type BETWEEN 0 AND 2),
    CONSTRAINT inbounds_priority_range CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT inbounds_repeat_seconds_range CHECK (repeat_seconds > 0),
    CONSTRAINT inbounds_status_known CHECK (status IN ('on', 'off'))
);
COMMENT ON TABLE inbounds IS 'How the posts of one other program become messages of a company. Written by internal/inbound; the erasure of a person takes a number out of phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS 'name of the description that internal/inbound has for a program; custom: none';
COMMENT ON COLUMN inbounds.description IS 'members that replace those of the preset; null: the preset as it is';
COMMENT ON COLUMN inbounds.phone_numbers IS 'recipients of every post, in E.164; null: the body of the post names them; empty: an erasure took the last one, and posts are refused';
COMMENT ON COLUMN inbounds.message_type IS 'as messages.message_type';
COMMENT ON COLUMN inbounds.priority IS 'null: that of the message type';
COMMENT ON COLUMN inbounds.template_no IS 'template of the messages; null: the description has their text. No foreign key: a template that was deleted is an error of each post';
COMMENT ON COLUMN inbounds.sign IS 'null: that of the template or the sender';
COMMENT ON COLUMN inbounds.repeat_seconds IS 'after how long a post that says the same as before is sent again; null: never';
CREATE INDEX inbounds_company_idx ON inbounds (company_id, id);
CREATE TRIGGER inbounds_rows_bound AFTER INSERT ON inbounds
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);
-- The numbers are of people, who may ask for their erasure.
CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON inbounds
FOR EACH ROW EXECUTE FUNCTION audit_change('inbound', 'inbound_no', '', 'phone_numbers');

-- migrate:down
DROP TABLE inbounds;
