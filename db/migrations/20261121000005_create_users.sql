-- migrate:up
CREATE TABLE users (
    id bigint GENERATED ALWAYS AS IDENTITY,
    username text NOT NULL,
    role text NOT NULL,
    app_id text,
    password_hash text,
    is_disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_username_key UNIQUE (username),
    -- Basic credentials are split at the first colon.
    CONSTRAINT users_username_form CHECK (char_length(username) BETWEEN 1 AND 50 AND strpos(username, ':') = 0),
    CONSTRAINT users_role_known CHECK (role IN ('submit', 'send', 'read', 'admin')),
    CONSTRAINT users_app_id_of_senders CHECK (app_id IS NULL OR (role = 'send' AND char_length(app_id) BETWEEN 1 AND 50))
);
COMMENT ON COLUMN users.app_id IS 'a send user with one can claim and report only as this app';
COMMENT ON COLUMN users.password_hash IS 'argon2id; null: only API keys';

CREATE TABLE api_keys (
    id bigint GENERATED ALWAYS AS IDENTITY,
    user_id bigint NOT NULL,
    key_hash bytea NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_keys_pkey PRIMARY KEY (id),
    CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash),
    CONSTRAINT api_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE,
    CONSTRAINT api_keys_name_length CHECK (char_length(name) BETWEEN 1 AND 100)
);
COMMENT ON COLUMN api_keys.key_hash IS 'SHA-256: a key is 256 random bits, which need no slow hash';
CREATE INDEX api_keys_user_id_idx ON api_keys (user_id);

-- migrate:down
DROP TABLE api_keys;
DROP TABLE users;
