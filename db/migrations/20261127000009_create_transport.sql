-- migrate:up
-- Other ways in: webhooks of other systems, and the phones and callers of SMSGate.

CREATE TABLE inbounds (
    id bigint GENERATED ALWAYS AS IDENTITY,
    inbound_no text NOT NULL,
    company_id bigint NOT NULL,
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
    CONSTRAINT inbounds_pkey PRIMARY KEY (id),
    CONSTRAINT inbounds_inbound_no_key UNIQUE (inbound_no),
    CONSTRAINT inbounds_company_id_fkey FOREIGN KEY (company_id) REFERENCES companies(id),
    CONSTRAINT inbounds_description_is_object CHECK (jsonb_typeof(description) = 'object'),
    CONSTRAINT inbounds_inbound_no_length CHECK (char_length(inbound_no) BETWEEN 1 AND 50),
    CONSTRAINT inbounds_message_type_range CHECK (message_type BETWEEN 0 AND 2),
    CONSTRAINT inbounds_phone_numbers_size CHECK (cardinality(phone_numbers) <= 100),
    CONSTRAINT inbounds_preset_length CHECK (char_length(preset) BETWEEN 1 AND 50),
    CONSTRAINT inbounds_priority_range CHECK (priority BETWEEN 0 AND 9),
    CONSTRAINT inbounds_repeat_seconds_range CHECK (repeat_seconds > 0),
    CONSTRAINT inbounds_status_known CHECK (status IN ('on', 'off'))
);
COMMENT ON TABLE inbounds IS 'How the posts of one other program become messages of a company. Written by internal/transport/inbound; the erasure of a person takes a number out of phone_numbers.';
COMMENT ON COLUMN inbounds.preset IS 'name of the description that internal/transport/inbound has for a program; custom: none';
COMMENT ON COLUMN inbounds.description IS 'members that replace those of the preset; null: the preset as it is';
COMMENT ON COLUMN inbounds.phone_numbers IS 'recipients of every post, in E.164; null: the body of the post names them; empty: an erasure took the last one, and posts are refused';
COMMENT ON COLUMN inbounds.message_type IS 'as messages.message_type';
COMMENT ON COLUMN inbounds.priority IS 'null: that of the message type';
COMMENT ON COLUMN inbounds.template_no IS 'template of the messages; null: the description has their text. No foreign key: a template that was deleted is an error of each post';
COMMENT ON COLUMN inbounds.sign IS 'null: that of the template or the sender';
COMMENT ON COLUMN inbounds.repeat_seconds IS 'after how long a post that says the same as before is sent again; null: never';
CREATE INDEX inbounds_company_idx ON inbounds (company_id, id);

CREATE TABLE phones (
    sender_id bigint NOT NULL,
    code_hash bytea,
    code_until timestamptz,
    code_sim_number smallint,
    sim_number smallint,
    device_no text,
    user_id bigint,
    model text,
    registered_at timestamptz,
    claimed_at timestamptz,
    troubles smallint NOT NULL DEFAULT 0,
    rest_until timestamptz,
    pull_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT phones_pkey PRIMARY KEY (sender_id),
    CONSTRAINT phones_code_hash_key UNIQUE (code_hash),
    CONSTRAINT phones_device_no_key UNIQUE (device_no),
    CONSTRAINT phones_user_id_key UNIQUE (user_id),
    CONSTRAINT phones_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES senders(id) ON DELETE CASCADE,
    CONSTRAINT phones_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE SET NULL,
    CONSTRAINT phones_code_complete CHECK ((code_hash IS NULL) = (code_until IS NULL)),
    CONSTRAINT phones_code_sim_number_range CHECK (code_sim_number BETWEEN 1 AND 3),
    CONSTRAINT phones_device_no_length CHECK (char_length(device_no) BETWEEN 1 AND 50),
    CONSTRAINT phones_model_length CHECK (char_length(model) <= 128),
    CONSTRAINT phones_sim_number_range CHECK (sim_number BETWEEN 1 AND 3)
);
COMMENT ON TABLE phones IS 'A phone with the app of SMSGate that is a sender, or shall become one. Written by internal/transport/smsgate.';
COMMENT ON COLUMN phones.code_hash IS 'SHA-256 of the code with which one phone can register; null: none is open';
COMMENT ON COLUMN phones.code_until IS 'until when the code can be used';
COMMENT ON COLUMN phones.code_sim_number IS 'the sim_number of the phone that registers with the code';
COMMENT ON COLUMN phones.sim_number IS 'the SIM that sends, counted from 1; null: the phone chooses';
COMMENT ON COLUMN phones.device_no IS 'under which name the phone knows itself; null: no phone has registered';
COMMENT ON COLUMN phones.user_id IS 'the user of the phone, whose API key is its token; null: no phone has registered, or its user was deleted';
COMMENT ON COLUMN phones.model IS 'what the phone says of itself; null: nothing';
COMMENT ON COLUMN phones.claimed_at IS 'when the phone last got new messages; null: never';
COMMENT ON COLUMN phones.troubles IS 'how often the phone was made to rest since it last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS 'until when the phone gets no new messages, because it could not send; null: it can';
COMMENT ON COLUMN phones.pull_until IS 'until when one pull of the phone keeps out others; null: none is underway';

CREATE TABLE phone_leases (
    sender_id bigint NOT NULL,
    lease_id bigint NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    CONSTRAINT phone_leases_pkey PRIMARY KEY (sender_id, lease_id),
    CONSTRAINT phone_leases_sender_id_fkey FOREIGN KEY (sender_id) REFERENCES phones(sender_id) ON DELETE CASCADE
);
COMMENT ON TABLE phone_leases IS 'A lease that a phone took and has not ended yet, or had when it pulled last: a phone that lost the answer gets these messages again. An index of queue by holder would cost each claim of every sender. Written by internal/transport/smsgate.';
COMMENT ON COLUMN phone_leases.task_id IS 'no foreign key: it would lock rows of queue';

CREATE TABLE smsgate_messages (
    company_id bigint NOT NULL,
    submitted_by text NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    task_ids text[] COLLATE "C" NOT NULL,
    sender_no text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT smsgate_messages_pkey PRIMARY KEY (company_id, submitted_by, message_id),
    CONSTRAINT smsgate_messages_message_id_length CHECK (char_length(message_id) BETWEEN 1 AND 36),
    CONSTRAINT smsgate_messages_task_ids_size CHECK (cardinality(task_ids) BETWEEN 1 AND 100)
);
COMMENT ON TABLE smsgate_messages IS
    'A message that a program submitted through the third-party API of SMSGate: one task for each recipient. Written by internal/transport/smsgateclient in the '
    'transaction that submits the tasks, so that a message_id exists once; deleted when the days of its tasks are dropped.';
COMMENT ON COLUMN smsgate_messages.submitted_by IS 'as messages.submitted_by: the user name, which no foreign key keeps';
COMMENT ON COLUMN smsgate_messages.message_id IS 'the id that the program gave, or one that was made; of one user of a company';
COMMENT ON COLUMN smsgate_messages.task_ids IS 'in the order of the recipients; no foreign key: messages are partitioned';
COMMENT ON COLUMN smsgate_messages.sender_no IS 'the only sender that may send it, as it was asked for; null: any';
CREATE INDEX smsgate_messages_created_idx ON smsgate_messages (created_at);
CREATE INDEX smsgate_messages_list_idx ON smsgate_messages (company_id, submitted_by, created_at, message_id) INCLUDE (sender_no);

-- audit names a phone by its sender, which must still exist then: the cascade would come after it.
CREATE FUNCTION phones_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM phones p WHERE p.sender_id = OLD.id;
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION phones_end() IS 'Trigger of senders: deletes the phone of a sender that is deleted.';

-- The user of a phone is of no use without the phone, and its key must end with it.
CREATE FUNCTION phones_end_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM users u WHERE u.id = OLD.user_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION phones_end_user() IS 'Trigger of phones: deletes the user of a phone that is deleted.';

CREATE TRIGGER audited AFTER INSERT OR UPDATE OR DELETE ON inbounds
FOR EACH ROW EXECUTE FUNCTION audit_change('inbound', 'inbound_no', '', 'phone_numbers');
CREATE TRIGGER inbounds_rows_bound AFTER INSERT ON inbounds
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION rows_bound(1000);
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF code_hash, code_sim_number, sim_number, device_no, user_id ON phones
FOR EACH ROW EXECUTE FUNCTION audit_change('phone', 'sender_no', 'claimed_at,troubles,rest_until,pull_until', 'code_hash');
CREATE TRIGGER phones_end_user AFTER DELETE ON phones FOR EACH ROW EXECUTE FUNCTION phones_end_user();
CREATE TRIGGER phones_end BEFORE DELETE ON senders FOR EACH ROW EXECUTE FUNCTION phones_end();

-- migrate:down
-- Nothing: before version 1.0 there is no version to go back to.
