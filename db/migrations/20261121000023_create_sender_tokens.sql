-- migrate:up
-- What opens a provider's interface for a while, sealed. Whoever has the row locked fetches it for all.
CREATE TABLE sender_tokens (
    sender_id bigint PRIMARY KEY REFERENCES senders (id) ON DELETE CASCADE,
    token text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- migrate:down
DROP TABLE sender_tokens;
