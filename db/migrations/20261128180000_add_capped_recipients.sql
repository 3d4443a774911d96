-- migrate:up
CREATE TABLE capped_recipients (
    recipient_hash bytea NOT NULL,
    company_id bigint NOT NULL,
    message_type smallint NOT NULL,
    task_ids text[] COLLATE "C" DEFAULT '{}' NOT NULL,
    times timestamptz[] DEFAULT '{}' NOT NULL,
    last_on date NOT NULL,
    CONSTRAINT capped_recipients_pkey PRIMARY KEY (recipient_hash, company_id, message_type),
    CONSTRAINT capped_recipients_recipient_hash_length CHECK (octet_length(recipient_hash) = 32),
    CONSTRAINT capped_recipients_same_length CHECK (cardinality(task_ids) = cardinality(times))
) WITH (fillfactor = 80);

COMMENT ON TABLE capped_recipients IS
    'The recent messages to one phone number that a cap counts. Written by internal/dispatch/caps. A submission locks the row until its transaction ends, so no '
    'two submissions use the same free message of a cap. There are no foreign keys, because they would lock companies.';
COMMENT ON COLUMN capped_recipients.recipient_hash IS 'SHA-256 of the number in E.164';
COMMENT ON COLUMN capped_recipients.company_id IS '0: the row counts the messages of all companies and types';
COMMENT ON COLUMN capped_recipients.message_type IS '-1 in the rows with company_id 0';
COMMENT ON COLUMN capped_recipients.task_ids IS 'the tasks of the messages, in the order of times';
COMMENT ON COLUMN capped_recipients.times IS 'when the messages are due, ascending';
COMMENT ON COLUMN capped_recipients.last_on IS 'the day (UTC) of the last of times; a sweep deletes the row two days later';

CREATE INDEX capped_recipients_last_on_idx ON capped_recipients (last_on);
CREATE TABLE lock_delete_expired_caps ();
COMMENT ON TABLE lock_delete_expired_caps IS 'Has no rows. The server that runs the sweep delete-expired-caps locks this table.';

-- migrate:down
DROP TABLE lock_delete_expired_caps;
DROP TABLE capped_recipients;
