-- migrate:up
CREATE TABLE phones (
    sender_id bigint NOT NULL CONSTRAINT phones_pkey PRIMARY KEY CONSTRAINT phones_sender_id_fkey REFERENCES senders (id) ON DELETE CASCADE,
    code_hash bytea CONSTRAINT phones_code_hash_key UNIQUE,
    code_until timestamptz,
    code_sim_number smallint,
    sim_number smallint,
    device_no text CONSTRAINT phones_device_no_key UNIQUE,
    user_id bigint CONSTRAINT phones_user_id_key UNIQUE CONSTRAINT phones_user_id_fkey REFERENCES users (id) ON DELETE SET NULL,
    model text,
    registered_at timestamptz,
    claimed_at timestamptz,
    troubles smallint NOT NULL DEFAULT 0,
    rest_until timestamptz,
    pull_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT phones_code_complete CHECK ((code_hash IS NULL) = (code_until IS NULL)),
    CONSTRAINT phones_code_sim_number_range CHECK (code_sim_number BETWEEN 1 AND 3),
    CONSTRAINT phones_sim_number_range CHECK (sim_number BETWEEN 1 AND 3),
    CONSTRAINT phones_device_no_length CHECK (char_length(device_no) BETWEEN 1 AND 50),
    CONSTRAINT phones_model_length CHECK (char_length(model) <= 128)
);
COMMENT ON TABLE phones IS 'A phone with the app of SMSGate that is a sender, or shall become one. Written by internal/smsgate.';
COMMENT ON COLUMN phones.code_hash IS 'SHA-256 of the code with which one phone can register; null: none is open';
COMMENT ON COLUMN phones.code_until IS 'until when the code can be used';
COMMENT ON COLUMN phones.code_sim_number IS 'the sim_number of the phone that registers with the code';
COMMENT ON COLUMN phones.sim_number IS 'the SIM that sends, counted from 1; null: the phone chooses';
COMMENT ON COLUMN phones.device_no IS 'under which name the phone knows itself; null: no phone has registered';
COMMENT ON COLUMN phones.user_id IS 'the user of the phone, whose API key is its token; null: no phone has registered, or its user was deleted';
COMMENT ON COLUMN phones.claimed_at IS 'when the phone last got new messages; null: never';
COMMENT ON COLUMN phones.troubles IS 'how often the phone was made to rest since it last sent a message, at most 20';
COMMENT ON COLUMN phones.rest_until IS 'until when the phone gets no new messages, because it could not send; null: it can';
COMMENT ON COLUMN phones.pull_until IS 'until when one pull of the phone keeps out others; null: none is underway';
COMMENT ON COLUMN phones.model IS 'what the phone says of itself; null: nothing';

CREATE TABLE phone_leases (
    sender_id bigint NOT NULL CONSTRAINT phone_leases_sender_id_fkey REFERENCES phones (sender_id) ON DELETE CASCADE,
    lease_id bigint NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    CONSTRAINT phone_leases_pkey PRIMARY KEY (sender_id, lease_id)
);
COMMENT ON TABLE phone_leases IS 'A lease that a phone took and has not ended yet, or had when it pulled last: a phone that lost the answer gets these messages again. An index of queue by holder would cost each claim of every sender. Written by internal/smsgate.';
COMMENT ON COLUMN phone_leases.task_id IS 'no foreign key: it would lock rows of queue';

-- The user of a phone is of no use without the phone, and its key must end with it.
CREATE FUNCTION phones_end_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM users u WHERE u.id = OLD.user_id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION phones_end_user() IS 'Trigger of phones: deletes the user of a phone that is deleted.';
CREATE TRIGGER phones_end_user AFTER DELETE ON phones FOR EACH ROW EXECUTE FUNCTION phones_end_user();

-- audit names a phone by its sender, which must still exist then: the cascade would come after it.
CREATE FUNCTION phones_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM phones p WHERE p.sender_id = OLD.id;
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION phones_end() IS 'Trigger of senders: deletes the phone of a sender that is deleted.';
CREATE TRIGGER phones_end BEFORE DELETE ON senders FOR EACH ROW EXECUTE FUNCTION phones_end();

CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE OF code_hash, code_sim_number, sim_number, device_no, user_id ON phones
FOR EACH ROW EXECUTE FUNCTION audit_change('phone', 'sender_no', 'claimed_at,troubles,rest_until,pull_until', 'code_hash');

-- migrate:down
DELETE FROM users u USING phones p WHERE u.id = p.user_id;
DROP TRIGGER phones_end ON senders;
DROP TABLE phone_leases, phones;
DROP FUNCTION phones_end(), phones_end_user();
