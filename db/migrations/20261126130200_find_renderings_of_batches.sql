-- migrate:up
-- Reads the batches, which are few, and locks out writers of batches for that moment.
ALTER TABLE batches VALIDATE CONSTRAINT batches_content_length;
ALTER TABLE batches VALIDATE CONSTRAINT batches_rendering_of_channel;
-- A text of a batch is kept as long as the batch. A company has 10,000 batches at most.
-- squawk-ignore require-concurrent-index-creation
CREATE INDEX batches_rendering_idx ON batches (rendering_id) WHERE rendering_id IS NOT NULL;

-- migrate:down
DROP INDEX batches_rendering_idx;
