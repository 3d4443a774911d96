-- migrate:up
-- A message may have 1,024 characters; settings say how many are accepted. The new constraint allows more than the one before, so no row can break it:
-- it is validated by validate_contents, which blocks no writes. This locks messages for a moment. See add_dimensions_to_facts.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP CONSTRAINT messages_content_length;
ALTER TABLE messages ADD CONSTRAINT messages_content_length CHECK (char_length(content) BETWEEN 1 AND 1024) NOT VALID;

-- migrate:down
-- Longer messages stay: the constraint holds for new ones.
SET LOCAL lock_timeout = '5s';
ALTER TABLE messages DROP CONSTRAINT messages_content_length;
ALTER TABLE messages ADD CONSTRAINT messages_content_length CHECK (char_length(content) BETWEEN 1 AND 200) NOT VALID;
