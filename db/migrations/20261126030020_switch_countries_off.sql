-- migrate:up
-- Adds columns, which rewrites nothing: locks the table for a moment.
ALTER TABLE countries ADD COLUMN status text NOT NULL DEFAULT 'on';
ALTER TABLE countries ADD CONSTRAINT countries_status_known CHECK (status IN ('on', 'off')) NOT VALID;
COMMENT ON COLUMN countries.status IS 'on or off; off: tasks to the country are held';

-- migrate:down
ALTER TABLE countries DROP COLUMN status;
