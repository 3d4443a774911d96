-- migrate:up
-- Adds a column with a constant default: PostgreSQL locks deliveries (ACCESS EXCLUSIVE) only for a moment, and rewrites no rows.
ALTER TABLE deliveries ADD COLUMN in_part boolean DEFAULT false NOT NULL;
COMMENT ON COLUMN deliveries.in_part IS 'the provider took only some parts of the message: the receipts of these parts do not change its outcome';

-- migrate:down
ALTER TABLE deliveries DROP COLUMN in_part;
