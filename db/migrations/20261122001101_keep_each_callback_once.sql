-- migrate:up
-- The body of a callback is kept once for its sender, however often it comes. The columns are added without rewriting the table, which is
-- locked for a moment. Rows of before have no hash and are not in the index, so building it only reads the table, and keeps writers out
-- meanwhile.
ALTER TABLE callbacks ADD COLUMN body_hash bytea;
COMMENT ON COLUMN callbacks.body_hash IS 'SHA-256 of the body as it came; null: it came before bodies were compared';
ALTER TABLE callbacks ADD COLUMN repeats bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN callbacks.repeats IS 'how often the same body came again';
-- squawk-ignore require-concurrent-index-creation
CREATE UNIQUE INDEX callbacks_once_idx ON callbacks (sender_no, body_hash) WHERE body_hash IS NOT NULL;

-- migrate:down
DROP INDEX callbacks_once_idx;
ALTER TABLE callbacks DROP COLUMN repeats;
ALTER TABLE callbacks DROP COLUMN body_hash;
