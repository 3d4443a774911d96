-- migrate:up
CREATE TABLE received_messages (
    id bigint GENERATED ALWAYS AS IDENTITY,
    company_id bigint NOT NULL,
    sender_no text NOT NULL,
    sim smallint,
    phone_number text NOT NULL,
    own_number text,
    content text NOT NULL,
    kind text DEFAULT 'text' NOT NULL,
    received_at timestamptz,
    message_no text,
    identity bytea,
    message_identity bytea,
    task_id text COLLATE "C",
    submitted_by text DEFAULT '' NOT NULL,
    raw text,
    created_at timestamptz DEFAULT now() NOT NULL,
    read_at timestamptz,
    read_by text,
    CONSTRAINT received_messages_pkey PRIMARY KEY (id),
    CONSTRAINT received_messages_kind_known CHECK (kind IN ('text', 'opt_out', 'opt_in', 'keyword', 'auto_reply')),
    CONSTRAINT received_messages_phone_number_length CHECK (char_length(phone_number) <= 50),
    CONSTRAINT received_messages_own_number_length CHECK (char_length(own_number) BETWEEN 1 AND 50),
    CONSTRAINT received_messages_content_length CHECK (char_length(content) <= 20000),
    CONSTRAINT received_messages_message_no_length CHECK (char_length(message_no) BETWEEN 1 AND 200),
    CONSTRAINT received_messages_raw_length CHECK (char_length(raw) <= 20000),
    CONSTRAINT received_messages_sim_range CHECK (sim BETWEEN 1 AND 10)
);

COMMENT ON TABLE received_messages IS 'A message that a person sent to the number of a sender. Written by internal/dispatch/received; rows are deleted when they are older than history.received_days. The erasure of a person empties a row, so that a repeat of the message is not stored again. There are no foreign keys, because each insert would lock rows of other tables.';
COMMENT ON COLUMN received_messages.company_id IS 'the company that can read the message: that of task_id, or else senders.inbox_company_id, or else the company default';
COMMENT ON COLUMN received_messages.sender_no IS 'the sender that received the message';
COMMENT ON COLUMN received_messages.sim IS 'the slot of the SIM card, from 1; null: unknown';
COMMENT ON COLUMN received_messages.phone_number IS 'the number of the person in E.164; a number that could not be parsed, such as a short code or a name, as it was received; empty: erased';
COMMENT ON COLUMN received_messages.own_number IS 'the number of the sender; null: unknown';
COMMENT ON COLUMN received_messages.received_at IS 'the time that the network gave to the message, in whole seconds; null: unknown';
COMMENT ON COLUMN received_messages.message_no IS 'the id that the phone or the provider gave to the message; null: no id';
COMMENT ON COLUMN received_messages.identity IS 'SHA-256 of sender_no, sim, phone_number, content and received_at: a message with the same identity is the same message; null: received_at is unknown';
COMMENT ON COLUMN received_messages.message_identity IS 'SHA-256 of sender_no, phone_number, content and message_no: a message with the same value is the same message; null: no message_no';
COMMENT ON COLUMN received_messages.task_id IS 'the last task to the person that the sender had a lease for; null: no such task was submitted within recipient.reply_days';
COMMENT ON COLUMN received_messages.submitted_by IS 'the submitter of task_id; a user with the role submit reads only replies to its own tasks; empty: no task';
COMMENT ON COLUMN received_messages.raw IS 'the message as it was received, cut to 20,000 characters; null: it had no other fields';
COMMENT ON COLUMN received_messages.read_at IS 'the time at which a user marked the message as read; null: unread';

CREATE UNIQUE INDEX received_messages_identity_key ON received_messages (identity) WHERE identity IS NOT NULL;
CREATE UNIQUE INDEX received_messages_message_identity_key ON received_messages (message_identity) WHERE message_identity IS NOT NULL;
CREATE INDEX received_messages_company_idx ON received_messages (company_id, id);
CREATE INDEX received_messages_digits_idx ON received_messages (company_id, right(number_digits(phone_number), 8), id);
CREATE INDEX received_messages_phone_number_idx ON received_messages (phone_number, id);
CREATE INDEX received_messages_sender_idx ON received_messages (sender_no, id);
CREATE INDEX received_messages_unread_company_idx ON received_messages (company_id, id) WHERE read_at IS NULL;
CREATE INDEX received_messages_unread_idx ON received_messages (id) WHERE read_at IS NULL;

CREATE FUNCTION received_messages_feed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF feed_is_heard(NEW.company_id) THEN
        INSERT INTO feed_staged (company_id, submitted_by, type, at, data)
        VALUES (NEW.company_id, NEW.submitted_by, 'message.received', now(), jsonb_build_object('received_id', NEW.id));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION received_messages_feed() IS 'Trigger of received_messages: stages the event message.received, if the events of the company are recorded.';
CREATE TRIGGER received_messages_feed AFTER INSERT ON received_messages FOR EACH ROW EXECUTE FUNCTION received_messages_feed();

CREATE TABLE lock_delete_expired_received ();
COMMENT ON TABLE lock_delete_expired_received IS 'no rows: the server that does delete-expired-received locks the table, so that only one does it';

-- migrate:down
DROP TABLE lock_delete_expired_received;
DROP TABLE received_messages;
DROP FUNCTION received_messages_feed();
