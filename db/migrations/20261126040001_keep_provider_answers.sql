-- migrate:up
-- The answer of a provider stands with its attempt: in the report of the attempt (request_data), and here if no report came. Adding a column without
-- a default changes no row.
ALTER TABLE deliveries ADD COLUMN answer text;
COMMENT ON COLUMN deliveries.answer IS 'the answer of the provider as it came, without secrets, at most 2,000 characters; null: none came, or a report has it';

-- migrate:down
ALTER TABLE deliveries DROP COLUMN answer;
