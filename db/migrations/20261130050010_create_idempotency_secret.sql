-- Locks nothing: it creates one table.
-- migrate:up
CREATE TABLE idempotency_secret (
    is_only boolean NOT NULL DEFAULT true,
    secret bytea NOT NULL,
    CONSTRAINT idempotency_secret_pkey PRIMARY KEY (is_only),
    CONSTRAINT idempotency_secret_is_only CHECK (is_only)
);
COMMENT ON TABLE idempotency_secret IS
    'One row: the secret of the installation, which the migration generates and nobody changes. platform/idempotency hashes the keys of its advisory locks with it. Every database role can hold an advisory lock, but only roles that read this table can know the key of the lock.';
COMMENT ON COLUMN idempotency_secret.is_only IS 'Always true, so that the table has at most one row.';
INSERT INTO idempotency_secret (secret) VALUES (uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- migrate:down
DROP TABLE idempotency_secret;
