-- migrate:up
-- A batch can be of another channel than short messages: its rows fill a rendering. Adds columns without values, or with one that PostgreSQL does not
-- write into the rows, and widens a constraint: locks the table for a moment. A later migration validates the constraints.
-- A server of the version before reads the addresses of such a batch as phone numbers, and sends none of its rows.
ALTER TABLE batches
    ADD COLUMN channel text NOT NULL DEFAULT 'sms',
    ADD COLUMN subject text,
    ADD COLUMN biz_type smallint,
    ADD COLUMN rendering_id bigint,
    DROP CONSTRAINT batches_content_length,
    ADD CONSTRAINT batches_content_length CHECK (char_length(content) BETWEEN 1 AND 20000) NOT VALID,
    ADD CONSTRAINT batches_rendering_of_channel CHECK ((rendering_id IS NULL) = (channel = 'sms')) NOT VALID;
COMMENT ON COLUMN batches.channel IS 'the name of the channel; no foreign key: a batch may outlive its channel';
COMMENT ON COLUMN batches.subject IS 'the title with its placeholders; null: a short message, or none';
COMMENT ON COLUMN batches.biz_type IS 'of the notification template whose text it has; null: another text';
COMMENT ON COLUMN batches.rendering_id IS 'the text that its rows fill; null: short messages, whose texts are in batch_rows';
COMMENT ON COLUMN batches.phone_column IS 'the column with the addresses';

-- migrate:down
UPDATE batches SET content = left(content, 1024) WHERE char_length(content) > 1024;
ALTER TABLE batches
    DROP COLUMN rendering_id, -- and its constraint
    DROP COLUMN biz_type,
    DROP COLUMN subject,
    DROP COLUMN channel,
    DROP CONSTRAINT batches_content_length,
    ADD CONSTRAINT batches_content_length CHECK (char_length(content) BETWEEN 1 AND 1024);
COMMENT ON COLUMN batches.phone_column IS 'the column with the phone numbers';
