-- migrate:up
-- Whoever uploads a list may say how its text is encoded. A server of the version before guesses, as before. The table is small; it is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE uploads ADD COLUMN encoding text;
COMMENT ON COLUMN uploads.encoding IS 'of the text, as its owner says: a name of sheet.Encodings; null: it is found';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE uploads DROP COLUMN encoding;
