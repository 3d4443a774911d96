-- migrate:up
-- One server fetches a provider's token for all, without a transaction that stays open meanwhile: it leases the row. Constant
-- defaults: sender_tokens is locked for a moment only.
ALTER TABLE sender_tokens ADD COLUMN fetches bigint NOT NULL DEFAULT 0;
ALTER TABLE sender_tokens ADD COLUMN fetch_until timestamptz;
COMMENT ON COLUMN sender_tokens.fetches IS 'how often it was leased to be fetched; the last of them may write the token';
COMMENT ON COLUMN sender_tokens.fetch_until IS 'one server fetches the token until then; null: none does';

-- migrate:down
ALTER TABLE sender_tokens DROP COLUMN fetches, DROP COLUMN fetch_until;
