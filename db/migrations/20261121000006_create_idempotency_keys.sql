-- migrate:up
-- The answers to requests that carried an Idempotency-Key, kept for a day.
CREATE TABLE idempotency_keys (
    username text NOT NULL,
    operation text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    response bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (username, operation, key)
);
CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (created_at);

-- migrate:down
DROP TABLE idempotency_keys;
