-- migrate:up
-- A batch says how its list was read, also after the list is deleted. Batches of before say nothing. The table is locked for a moment.
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches ADD COLUMN encoding text;
ALTER TABLE batches ADD COLUMN is_encoding_doubtful boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN batches.encoding IS 'as which the text of the list is read; null: a workbook, a tag, or not known';
COMMENT ON COLUMN batches.is_encoding_doubtful IS 'encoding is a guess, and the list looks like one of Latin letters in another encoding (internal/sheet)';

-- migrate:down
SET LOCAL lock_timeout = '5s';
ALTER TABLE batches DROP COLUMN is_encoding_doubtful;
ALTER TABLE batches DROP COLUMN encoding;
