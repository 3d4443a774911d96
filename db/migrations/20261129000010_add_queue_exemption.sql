-- migrate:up
ALTER TABLE queue ADD COLUMN exemption text;
COMMENT ON COLUMN queue.exemption IS 'see messages.exemption';

-- migrate:down
ALTER TABLE queue DROP COLUMN exemption;
