-- migrate:up
CREATE TABLE user_addresses (
    network text NOT NULL,
    username text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT user_addresses_pkey PRIMARY KEY (network, username)
);
COMMENT ON TABLE user_addresses IS 'Where users have proved their passwords. One row per user and address, written when a password is verified, at most once a day; rows older than 30 days count no more, and go when the user proves its password again.';
COMMENT ON COLUMN user_addresses.network IS 'an IPv4 address, or the /64 network of an IPv6 address';
COMMENT ON COLUMN user_addresses.username IS 'no foreign key: the configured user stands in no table';
CREATE INDEX user_addresses_username_idx ON user_addresses (username);

-- migrate:down
DROP TABLE user_addresses;
