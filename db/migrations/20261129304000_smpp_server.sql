-- migrate:up
CREATE TABLE smpp_passwords (
    user_id bigint PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    password_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE smpp_passwords IS 'The password with which a user binds over SMPP, whose specification allows only eight characters. The server chooses the password. Written by internal/platform/access';
COMMENT ON COLUMN smpp_passwords.password_hash IS 'the argon2id hash of the password';
CREATE TRIGGER audited AFTER INSERT OR DELETE OR UPDATE ON smpp_passwords FOR EACH ROW EXECUTE FUNCTION audit_change('smpp_password', 'username', '', 'password_hash');
CREATE CONSTRAINT TRIGGER credentials_changed AFTER INSERT OR DELETE OR UPDATE ON smpp_passwords DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION credentials_version_change();

CREATE TABLE smpp_receivers (
    company_id bigint NOT NULL REFERENCES companies (id) ON DELETE CASCADE,
    username text NOT NULL,
    after_id bigint NOT NULL,
    waiting bigint[] NOT NULL DEFAULT '{}',
    held_by text NOT NULL DEFAULT '',
    held_until timestamptz NOT NULL DEFAULT '-infinity',
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (company_id, username)
);
COMMENT ON TABLE smpp_receivers IS 'A user that has bound over SMPP. Only the server that holds the row sends receipts and messages to the programs of the user. Written by internal/transport/smppserver';
COMMENT ON COLUMN smpp_receivers.username IS 'the name of the user. There is no foreign key, because the configured admin is in no table';
COMMENT ON COLUMN smpp_receivers.after_id IS 'the last event of the feed that was read';
COMMENT ON COLUMN smpp_receivers.waiting IS 'earlier events that the programs did not take, and that are sent again';
COMMENT ON COLUMN smpp_receivers.held_by IS 'the process that sends';
COMMENT ON COLUMN smpp_receivers.held_until IS 'after this time, another process can take over, unless held_by renews the time';
COMMENT ON COLUMN smpp_receivers.seen_at IS 'the last bind, or the last renewal';

CREATE TABLE smpp_long_messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    company_id bigint NOT NULL REFERENCES companies (id) ON DELETE CASCADE,
    username text NOT NULL,
    source text NOT NULL,
    recipient text NOT NULL,
    reference bigint NOT NULL,
    total smallint NOT NULL,
    task_id text NOT NULL,
    parts bytea[] NOT NULL,
    message jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT smpp_long_messages_key UNIQUE (company_id, username, source, recipient, reference, total),
    CONSTRAINT smpp_long_messages_total_range CHECK (total BETWEEN 1 AND 255)
);
CREATE INDEX smpp_long_messages_created_at_idx ON smpp_long_messages (created_at);
COMMENT ON TABLE smpp_long_messages IS 'A long message that a program submits over SMPP in parts. When all parts are there, it becomes a task. Written by internal/transport/smppserver';
COMMENT ON COLUMN smpp_long_messages.source IS 'the source address of the program';
COMMENT ON COLUMN smpp_long_messages.recipient IS 'the recipient, in E.164';
COMMENT ON COLUMN smpp_long_messages.reference IS 'the number that the program gave to all parts of the message. Programs repeat numbers';
COMMENT ON COLUMN smpp_long_messages.task_id IS 'the id of the future task, which is in the answers to all parts';
COMMENT ON COLUMN smpp_long_messages.parts IS 'the texts of the parts in the encoding of the message; null: the part is missing. A character can begin in one part and end in the next';
COMMENT ON COLUMN smpp_long_messages.message IS 'the other fields of the part that came first';

CREATE TABLE smpp_numbers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX smpp_numbers_created_at_idx ON smpp_numbers (created_at);
COMMENT ON TABLE smpp_numbers IS 'A short message id, for programs that do not accept the id of a task. Written by internal/transport/smppserver';

CREATE TABLE lock_end_smpp_messages ();
COMMENT ON TABLE lock_end_smpp_messages IS 'Has no rows. The server that runs the sweep end-smpp-messages locks this table.';
CREATE TABLE lock_delete_expired_smpp ();
COMMENT ON TABLE lock_delete_expired_smpp IS 'Has no rows. The server that runs the sweep delete-expired-smpp locks this table.';

-- migrate:down
DROP TABLE lock_delete_expired_smpp, lock_end_smpp_messages, smpp_numbers, smpp_long_messages, smpp_receivers, smpp_passwords;
