-- migrate:up
-- A session is a proved password that a browser need not send again. Creating the trigger locks users against writes for a moment.
CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT sessions_pkey PRIMARY KEY,
    token_hash bytea NOT NULL CONSTRAINT sessions_token_hash_key UNIQUE,
    username text NOT NULL,
    password_proof bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    source_ip text NOT NULL,
    user_agent text NOT NULL,
    CONSTRAINT sessions_token_hash_length CHECK (octet_length(token_hash) = 32),
    CONSTRAINT sessions_password_proof_length CHECK (octet_length(password_proof) = 32)
);
COMMENT ON TABLE sessions IS
    'One session of a web page. Written by internal/access. username has no foreign key: the configured user is in no table. A trigger of '
    'users ends the sessions of a user that is disabled or gets another password.';
COMMENT ON COLUMN sessions.token_hash IS 'SHA-256 of the token in the cookie. A token is 256 random bits, so it needs no slow hash.';
COMMENT ON COLUMN sessions.password_proof IS
    'HMAC-SHA-256, with the token as its key, of the stored password that was proved: with another password the session is over. The token is '
    'stored nowhere, so this says nothing about the password.';
COMMENT ON COLUMN sessions.last_seen_at IS 'the last request, at most a minute earlier';
COMMENT ON COLUMN sessions.source_ip IS 'where the user signed in';
COMMENT ON COLUMN sessions.user_agent IS 'the browser in which the user signed in, as it names itself';
-- The sessions of a user, of which the oldest one ends.
CREATE INDEX sessions_username_idx ON sessions (username, id);

CREATE FUNCTION users_end_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sessions s WHERE s.username = old.username;
    RETURN NULL;
END
$$;
CREATE TRIGGER users_end_sessions AFTER UPDATE ON users FOR EACH ROW
WHEN (new.is_disabled OR new.password_hash IS DISTINCT FROM old.password_hash OR new.username <> old.username)
EXECUTE FUNCTION users_end_sessions();
CREATE TRIGGER users_end_sessions_of_deleted AFTER DELETE ON users FOR EACH ROW EXECUTE FUNCTION users_end_sessions();

-- migrate:down
DROP TRIGGER users_end_sessions_of_deleted ON users;
DROP TRIGGER users_end_sessions ON users;
DROP FUNCTION users_end_sessions;
DROP TABLE sessions;
